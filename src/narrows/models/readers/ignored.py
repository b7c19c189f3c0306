"""Config fields that change neither sizes nor work: readers may pass over them without a word."""

from __future__ import annotations

IGNORED = frozenset(
    """
    _name_or_path _attn_implementation _commit_hash _from_model_config activation_function architectures
    attention_dropout attn_implementation
    attn_logit_softcapping attn_pdrop auto_map aux_loss_alpha begin_suppress_tokens bos_token_id boi_token_index
    cache_implementation chunk_size_feed_forward conv1d cross_attention_hidden_size decoder_start_token_id do_sample
    embd_pdrop end_token_id eoi_token_index eos_token_id ep_size exponential_decay_length_penalty finetuning_task
    final_logit_softcapping forced_bos_token_id forced_eos_token_id hidden_act hidden_activation id2label
    image_token_index initial_context_length initializer_range is_decoder is_encoder_decoder label2id
    layer_norm_epsilon layer_norm_eps max_length max_window_layers min_length mm_tokens_per_image model_max_length
    moe_router_dtype n_ctx n_group norm_topk_prob num_return_sequences original_max_position_embeddings
    output_attentions output_hidden_states output_router_logits output_scores pad_token_id partial_rotary_factor
    prefix pretraining_tp problem_type pruned_heads query_pre_attn_scalar reorder_and_upcast_attn remove_invalid_values
    repetition_penalty resid_pdrop return_dict return_dict_in_generate rms_norm_eps rope_interleave
    rope_local_base_freq rope_parameters rope_scaling rope_theta routed_scaling_factor router_aux_loss_coef
    router_jitter_noise scale_attn_by_inverse_layer_idx scale_attn_weights scoring_func sep_token_id seq_aux
    sliding_window_size suppress_tokens summary_activation summary_first_dropout summary_proj_to_labels summary_type
    summary_use_proj swiglu_alpha swiglu_limit task_specific_params temperature tf_legacy_loss tokenizer_class top_k
    top_p topk_group topk_method torchscript transformers_version typical_p unsloth_fixed unsloth_version use_bfloat16
    use_bidirectional_attention use_cache use_associative_scan use_mamba_kernels use_mambapy vision_config
    calc_logits_for_entire_prompt num_logits_to_keep qk_head_dim mlp_bias head_dim rotary_dim
    tie_word_embeddings max_window_size cuda_disable_graph dtype_note attn_type rope_type
    logit_scale attention_multiplier embedding_multiplier logits_scaling residual_multiplier eod_token_id norm_eps
    norm_epsilon residual_dropout hidden_dropout embedding_dropout attention_softmax_in_fp32
    scale_attention_softmax_in_fp32 clip_qkv input_jitter_noise use_routing_bias qk_norm_type
     no_rope_layers no_rope_layer_interval ffn_dropout activation layerdrop init_std
    slow_but_exact apply_residual_connection_post_layernorm rotary_pct rotary_emb_base
    image_token_id video_token_id vision_start_token_id vision_end_token_id projector_hidden_act
    vision_feature_select_strategy attn_scale attn_temperature_tuning floor_scale
    attn_type_list layernorm_epsilon route_scale classifier_dropout dropout moe_norm_min
    dense_act_fn dropout_rate initializer_factor scale_embedding num_image_tokens
    activation_dropout attention_probs_dropout_prob bad_words_ids classif_dropout classifier_dropout_prob
    decoder_layerdrop diversity_penalty early_stopping encoder_layerdrop encoder_no_repeat_ngram_size
    forced_decoder_ids gradient_checkpointing hidden_dropout_prob layerdrop length_penalty
    no_repeat_ngram_size num_beam_groups num_beams output_past
    """.split()  # noqa: SIM905
)

"""Architectures of GGUF files, as data: which family's config each is, and which metadata its fields come from.

A source is written as it is read: `attention.key_length` is the value of that key of the architecture (`llama.…`);
`a|b` is the first of them that the file has; `a / b` is their quotient; `+attn_q.bias` is true where some layer has
that tensor, and `-output.weight` where none has; `=…` is a fixed value; `?` before a source leaves the field out where
the file has nothing. Lists by layer (0 where a layer has no such part) count as their one value. Sources: the package
gguf 0.19.0 (MIT), `gguf.constants`; llama.cpp's converter and its loading of parameters (MIT).
"""

from __future__ import annotations

from typing import Any

import msgspec


class Architecture(msgspec.Struct, frozen=True):
    """One value of `general.architecture`. by_layer: names a function of `gguf_config` for what lists of layers say."""

    model_type: str
    fields: dict[str, Any]
    by_layer: str = ""


_COMMON = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv|attention.head_count",
    "max_position_embeddings": "context_length",
}
_HEAD = {"head_dim": "attention.key_length|embedding_length / attention.head_count"}
_DENSE = {"intermediate_size": "feed_forward_length"}
_ANY_WIDTH = {"intermediate_size": "feed_forward_length|expert_feed_forward_length"}
_DECODER = {**_COMMON, **_HEAD, **_DENSE}
_BIAS = {"attention_bias": "+attn_q.bias"}
_MLP_BIAS = {"mlp_bias": "+ffn_up.bias"}
_USE_BIAS = {"use_bias": "+attn_q.bias"}
_WINDOW = {"sliding_window": "?attention.sliding_window"}
_EXPERT = "expert_feed_forward_length|feed_forward_length"
_LLAMA = {**_DECODER, **_BIAS, "mlp_bias": "+ffn_gate.bias"}
_TOP = {"num_experts_per_tok": "expert_used_count"}
_LOCAL = {"num_local_experts": "expert_count", **_TOP}
_EXPERTS = {"num_experts": "expert_count", **_TOP}
_MOE = {**_EXPERTS, "moe_intermediate_size": _EXPERT, "intermediate_size": "feed_forward_length|" + _EXPERT}
_SHARED = {"shared_expert_intermediate_size": "expert_shared_feed_forward_length|" + _EXPERT}
_DEEPSEEK_MOE = {
    "n_routed_experts": "expert_count",
    **_TOP,
    "moe_intermediate_size": _EXPERT,
    "n_shared_experts": "expert_shared_count|=0",
    "first_k_dense_replace": "leading_dense_block_count|=0",
}
_LATENT = {
    "attention_bias": "+attn_q_a.bias|+attn_kv_a_mqa.bias",
    "q_lora_rank": "attention.q_lora_rank|=None",
    "kv_lora_rank": "attention.kv_lora_rank",
    "qk_rope_head_dim": "rope.dimension_count",
    "qk_nope_head_dim": "attention.key_length_mla - rope.dimension_count|attention.key_length - rope.dimension_count",
    "v_head_dim": "attention.value_length_mla|attention.value_length|embedding_length / attention.head_count",
}
_DEEPSEEK = {**_COMMON, **_ANY_WIDTH, **_LATENT, **_DEEPSEEK_MOE, "mlp_bias": "+ffn_gate.bias|+ffn_gate_shexp.bias"}
_DELTA = {
    "linear_num_key_heads": "ssm.group_count",
    "linear_num_value_heads": "ssm.time_step_rank",
    "linear_key_head_dim": "ssm.state_size",
    "linear_value_head_dim": "ssm.inner_size / ssm.time_step_rank",
    "linear_conv_kernel_dim": "ssm.conv_kernel",
}
_MAMBA_OF = {
    "mamba_n_heads": "ssm.time_step_rank",
    "mamba_d_head": "ssm.inner_size / ssm.time_step_rank",
    "mamba_d_state": "ssm.state_size",
    "mamba_n_groups": "ssm.group_count|=1",
    "mamba_d_conv": "ssm.conv_kernel",
    "mamba_proj_bias": "+ssm_in.bias",
    "mamba_conv_bias": "+ssm_conv1d.bias",
}
_OLD = {"n_embd": "embedding_length", "n_head": "attention.head_count", "n_layer": "block_count"}
_GPT2 = {**_OLD, "n_inner": "feed_forward_length", "n_positions": "context_length"}
_GRANITE_MOE = {**_DECODER, **_BIAS, **_LOCAL, "intermediate_size": _EXPERT}
_NEMOTRON_H = {
    **_COMMON,
    **_HEAD,
    "use_bias": "+ssm_in.bias",
    "use_conv_bias": "+ssm_conv1d.bias",
    "mlp_bias": "+ffn_up.bias|+ffn_up_shexp.bias",
    "mamba_num_heads": "ssm.time_step_rank",
    "mamba_head_dim": "ssm.inner_size / ssm.time_step_rank",
    "ssm_state_size": "ssm.state_size",
    "n_groups": "ssm.group_count",
    "conv_kernel": "ssm.conv_kernel",
    "intermediate_size": "?feed_forward_length",
    "n_routed_experts": "?expert_count",
    "num_experts_per_tok": "?expert_used_count",
    "moe_intermediate_size": "?expert_feed_forward_length",
    "moe_shared_expert_intermediate_size": "?expert_shared_feed_forward_length",
    "moe_latent_size": "?moe_latent_size",
}
_LFM2 = {**_DECODER, "conv_L_cache": "shortconv.l_cache", "conv_bias": "+shortconv.conv.bias"}

ARCHITECTURES: dict[str, Architecture] = {
    # minicpm, internlm2, baichuan, exaone 3 and others differ from Llama in what changes no size
    **dict.fromkeys(
        ("llama", "mistral3", "minicpm", "internlm2", "baichuan", "xverse", "exaone", "llama-embed"),
        Architecture("llama", _LLAMA, "experts_or_not"),
    ),
    "llama4": Architecture(
        "llama4_text",
        {
            **_DECODER,
            **_BIAS,
            **_LOCAL,
            "intermediate_size": _EXPERT,
            "intermediate_size_mlp": "feed_forward_length",
            "interleave_moe_layer_step": "interleave_moe_layer_step|=1",
            "attention_chunk_size": "attention.chunk_size|=8192",
        },
    ),
    **dict.fromkeys(("qwen2", "qwen2vl"), Architecture("qwen2", _DECODER)),
    "qwen2moe": Architecture("qwen2_moe", {**_DECODER, **_MOE, **_SHARED, "qkv_bias": "+attn_q.bias"}),
    **dict.fromkeys(("qwen3", "qwen3vl"), Architecture("qwen3", {**_DECODER, **_BIAS})),
    **dict.fromkeys(("qwen3moe", "qwen3vlmoe"), Architecture("qwen3_moe", {**_DECODER, **_BIAS, **_MOE})),
    "qwen3next": Architecture(
        "qwen3_next", {**_COMMON, **_HEAD, **_BIAS, **_MOE, **_SHARED, **_DELTA}, "linear_layers"
    ),
    "qwen35": Architecture("qwen3_5_text", {**_DECODER, **_BIAS, **_DELTA}, "linear_layers"),
    "qwen35moe": Architecture(
        "qwen3_5_moe_text", {**_COMMON, **_HEAD, **_BIAS, **_MOE, **_SHARED, **_DELTA}, "linear_layers"
    ),
    "phi2": Architecture("phi", {**_COMMON, **_HEAD, **_DENSE, "qk_layernorm": "+attn_q_norm.weight"}),
    "phi3": Architecture("phi3", {**_DECODER, **_WINDOW}),
    "phimoe": Architecture(
        "phimoe",
        {**_DECODER, **_BIAS, **_LOCAL, **_WINDOW, "intermediate_size": _EXPERT, "lm_head_bias": "+output.bias"},
    ),
    "gemma": Architecture("gemma", {**_DECODER, **_BIAS}),
    "gemma2": Architecture("gemma2", {**_DECODER, **_BIAS, **_WINDOW}, "window_pattern"),
    "gemma3": Architecture("gemma3_text", {**_DECODER, **_BIAS, **_WINDOW}, "window_pattern"),
    "gemma4": Architecture(
        "gemma4_text",
        {
            **_COMMON,
            **_BIAS,
            **_WINDOW,
            "head_dim": "attention.key_length_swa|attention.key_length",
            "global_head_dim": "attention.key_length",
            "num_kv_shared_layers": "attention.shared_kv_layers|=0",
            "hidden_size_per_layer_input": "embedding_length_per_layer_input|=0",
            "enable_moe_block": "+ffn_gate_inp.weight",
            "num_experts": "?expert_count",
            "top_k_experts": "?expert_used_count",
            "moe_intermediate_size": "?expert_feed_forward_length",
        },
        "gemma4",
    ),
    "starcoder2": Architecture("starcoder2", {**_COMMON, **_DENSE, **_USE_BIAS, **_WINDOW}),
    "gpt2": Architecture("gpt2", _GPT2),
    "starcoder": Architecture("gpt_bigcode", _GPT2, "multi_query"),
    "gptneox": Architecture("gpt_neox", {**_COMMON, **_DENSE, "attention_bias": "+attn_qkv.bias"}),
    "mpt": Architecture(
        "mpt",
        {
            "d_model": "embedding_length",
            "n_heads": "attention.head_count",
            "n_layers": "block_count",
            "max_seq_len": "context_length",
        },
    ),
    "bloom": Architecture(
        "bloom",
        {
            "hidden_size": "embedding_length",
            "n_head": "attention.head_count",
            "n_layer": "block_count",
            "max_position_embeddings": "context_length",
        },
    ),
    "falcon": Architecture(
        "falcon",
        {
            "hidden_size": "embedding_length",
            "num_attention_heads": "attention.head_count",
            "num_hidden_layers": "block_count",
            "num_kv_heads": "attention.head_count_kv|attention.head_count",
            "ffn_hidden_size": "feed_forward_length",
            "max_position_embeddings": "context_length",
            "bias": "+attn_qkv.bias",
        },
        "falcon",
    ),
    "stablelm": Architecture(
        "stablelm",
        {
            **_COMMON,
            **_DENSE,
            "use_qkv_bias": "+attn_q.bias",
            "qk_layernorm": "+attn_q_norm.weight",
            "use_parallel_residual": "-ffn_norm.weight",
        },
    ),
    "command-r": Architecture("cohere", {**_COMMON, **_DENSE, **_BIAS, "use_qk_norm": "+attn_q_norm.weight"}),
    "cohere2": Architecture("cohere2", {**_DECODER, **_BIAS, **_WINDOW}, "window_pattern"),
    "olmo": Architecture("olmo", {**_COMMON, **_DENSE, **_BIAS}),
    "olmo2": Architecture("olmo2", {**_DECODER, **_BIAS, **_WINDOW}, "olmo3_or_not"),
    "olmoe": Architecture("olmoe", {**_COMMON, **_BIAS, **_EXPERTS, "intermediate_size": _EXPERT}),
    "deepseek2": Architecture("deepseek_v3", {**_DEEPSEEK}, "deepseek"),
    "glm-dsa": Architecture(
        "glm_moe_dsa",
        {
            **_DEEPSEEK,
            "index_n_heads": "attention.indexer.head_count",
            "index_head_dim": "attention.indexer.key_length",
            "index_topk": "attention.indexer.top_k",
        },
    ),
    "minicpm3": Architecture("minicpm3", {**_COMMON, **_DENSE, **_LATENT, "mlp_bias": "+ffn_gate.bias"}),
    "chatglm": Architecture("glm", {**_DECODER, "attention_bias": "+attn_q.bias|+attn_qkv.bias"}),
    "glm4": Architecture("glm4", {**_DECODER, **_BIAS}),
    "glm4moe": Architecture("glm4_moe", {**_DECODER, **_BIAS, **_DEEPSEEK_MOE, "use_qk_norm": "+attn_q_norm.weight"}),
    "granite": Architecture("granite", {**_COMMON, **_DENSE, **_BIAS, **_MLP_BIAS}),
    "granitemoe": Architecture(
        "granitemoeshared",
        {**_GRANITE_MOE, "shared_intermediate_size": "expert_shared_feed_forward_length|=0"},
        "shared_or_not",
    ),
    "granitehybrid": Architecture(
        "granitemoehybrid",
        {
            **_COMMON,
            **_BIAS,
            **_MAMBA_OF,
            "mamba_expand": "ssm.inner_size / embedding_length",
            "num_local_experts": "expert_count|=0",
            "num_experts_per_tok": "?expert_used_count",
            "intermediate_size": _EXPERT,
            "shared_intermediate_size": "expert_shared_feed_forward_length|feed_forward_length",
        },
        "linear_layers",
    ),
    "nemotron": Architecture("nemotron", {**_DECODER, **_BIAS, **_MLP_BIAS}),
    "nemotron_h": Architecture("nemotron_h", _NEMOTRON_H, "one_part_layers"),
    "nemotron_h_moe": Architecture("nemotron_h", _NEMOTRON_H, "one_part_layers"),
    "mamba": Architecture(
        "mamba",
        {
            "hidden_size": "embedding_length",
            "num_hidden_layers": "block_count",
            "intermediate_size": "ssm.inner_size",
            "state_size": "ssm.state_size",
            "conv_kernel": "ssm.conv_kernel",
            "time_step_rank": "ssm.time_step_rank",
            "use_bias": "+ssm_in.bias",
            "use_conv_bias": "+ssm_conv1d.bias",
            "max_position_embeddings": "context_length",
        },
    ),
    "mamba2": Architecture(
        "mamba2",
        {
            "hidden_size": "embedding_length",
            "num_hidden_layers": "block_count",
            "num_heads": "ssm.time_step_rank",
            "head_dim": "ssm.inner_size / ssm.time_step_rank",
            "state_size": "ssm.state_size",
            "n_groups": "ssm.group_count",
            "conv_kernel": "ssm.conv_kernel",
            "use_bias": "+ssm_in.bias",
            "use_conv_bias": "+ssm_conv1d.bias",
            "max_position_embeddings": "context_length",
        },
    ),
    "falcon-h1": Architecture(
        "falcon_h1",
        {
            **_DECODER,
            **_BIAS,
            **_MLP_BIAS,
            **_MAMBA_OF,
            "mamba_d_ssm": "ssm.inner_size",
            "mamba_rms_norm": "+ssm_norm.weight",
            "projectors_bias": "+ssm_out.bias",
        },
    ),
    "jamba": Architecture(
        "jamba",
        {
            **_COMMON,
            **_DENSE,
            "num_experts": "expert_count|=1",
            "num_experts_per_tok": "?expert_used_count",
            "mamba_d_state": "ssm.state_size",
            "mamba_d_conv": "ssm.conv_kernel",
            "mamba_expand": "ssm.inner_size / embedding_length",
            "mamba_dt_rank": "ssm.time_step_rank",
            "mamba_proj_bias": "+ssm_in.bias",
            "mamba_conv_bias": "+ssm_conv1d.bias",
        },
        "jamba",
    ),
    "kimi-linear": Architecture(
        "kimi_linear",
        {
            **_COMMON,
            **_ANY_WIDTH,
            **_LATENT,
            **_EXPERTS,
            "moe_intermediate_size": _EXPERT,
            "num_shared_experts": "expert_shared_count|=1",
            "first_k_dense_replace": "leading_dense_block_count|=1",
            "linear_num_heads": "attention.head_count",
            "linear_head_dim": "kda.head_dim",
            "linear_conv_kernel_dim": "ssm.conv_kernel",
        },
        "latent_layers",
    ),
    "lfm2": Architecture("lfm2", {**_LFM2, "block_auto_adjust_ff_dim": "=False"}, "convolution_layers"),
    "lfm2moe": Architecture(
        "lfm2_moe",
        {
            **_LFM2,
            **_EXPERTS,
            "moe_intermediate_size": _EXPERT,
            "num_dense_layers": "leading_dense_block_count|=0",
            "use_expert_bias": "+exp_probs_b.bias",
        },
        "convolution_layers",
    ),
    "exaone4": Architecture(
        "exaone4", {**_DECODER, "sliding_window": "attention.sliding_window|=None"}, "window_pattern"
    ),
    "exaone-moe": Architecture(
        "exaone_moe",
        {
            **_DECODER,
            **_EXPERTS,
            "moe_intermediate_size": _EXPERT,
            "num_shared_experts": "expert_shared_count|=0",
            "first_k_dense_replace": "leading_dense_block_count|=0",
            "sliding_window": "attention.sliding_window|=None",
        },
        "window_pattern",
    ),
    "hunyuan-dense": Architecture("hunyuan_v1_dense", {**_DECODER, **_BIAS}),
    "hunyuan-moe": Architecture(
        "hunyuan_v1_moe",
        {
            **_DECODER,
            **_BIAS,
            "num_experts": "expert_count",
            "moe_topk": "expert_used_count",
            "intermediate_size": _EXPERT,
        },
    ),
    "smollm3": Architecture("smollm3", {**_DECODER, **_BIAS, **_MLP_BIAS}),
    "ernie4_5": Architecture("ernie4_5", {**_DECODER, **_USE_BIAS}),
    "ernie4_5-moe": Architecture(
        "ernie4_5_moe",
        {
            **_COMMON,
            **_HEAD,
            **_ANY_WIDTH,
            **_USE_BIAS,
            "moe_num_experts": "expert_count",
            "moe_k": "expert_used_count",
            "moe_intermediate_size": _EXPERT,
            "moe_num_shared_experts": "expert_shared_count|=0",
            "moe_layer_interval": "interleave_moe_layer_step|=1",
            "moe_layer_start_index": "leading_dense_block_count|=0",
        },
    ),
    "dots1": Architecture("dots1", {**_DECODER, **_BIAS, **_DEEPSEEK_MOE, "sliding_window": "=None"}),
    "seed_oss": Architecture("seed_oss", {**_DECODER, **_BIAS, **_MLP_BIAS, "attention_out_bias": "+attn_output.bias"}),
    "minimax-m2": Architecture("minimax_m2", {**_DECODER, **_LOCAL, "intermediate_size": _EXPERT}),
    "gpt-oss": Architecture("gpt_oss", {**_DECODER, **_BIAS, **_LOCAL, **_WINDOW, "intermediate_size": _EXPERT}),
    "arcee": Architecture("arcee", {**_DECODER, **_BIAS, **_MLP_BIAS}),
    "apertus": Architecture("apertus", {**_DECODER, **_BIAS}),
    "jais2": Architecture("jais2", {**_DECODER, **_BIAS, **_MLP_BIAS}),
    "bitnet": Architecture("bitnet", {**_DECODER, **_BIAS}),
}
"""By `general.architecture`."""

CONVERTED = frozenset(
    {
        *(known.model_type.removesuffix("_text") for known in ARCHITECTURES.values()),
        # read as one of these above, or as another by what the file holds
        *("mixtral", "mistral", "ministral", "ministral3", "mistral3", "internlm3", "falcon_mamba", "granitemoe"),
        *("olmo3", "deepseek_v2", "glm4_moe_lite", "qwen3_vl", "qwen3_vl_moe"),
    }
)
"""Families that llama.cpp's converter takes."""

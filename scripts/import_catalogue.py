"""Makes the bundled catalogue of model configs, and the table its test compares against.

    python scripts/import_catalogue.py MODELS_DIR [CONFIGS_DIR]              writes the catalogue
    python scripts/import_catalogue.py MODELS_DIR [CONFIGS_DIR] --expected   writes the test's table

MODELS_DIR holds models.jsonl.gz (one row per model: hub_id, config, source, published and counted parameters);
CONFIGS_DIR holds further config files named ORG--NAME.json. `ENTRIES` below says which models are taken, from which
row, and what had to be restored. The expected figures come from counts of the built modules and from the plain
arithmetic in this file, which shares no code with narrows.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from pathlib import Path
from typing import Any

Config = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent
CATALOGUE = ROOT / "src/narrows/models/data/catalogue.jsonl"
EXPECTED = ROOT / "tests/data/catalogue_expected.json"

_NAMES = """
    model_type architectures torch_dtype dtype quantization_config tie_word_embeddings vocab_size
    max_position_embeddings
    hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim attention_bias
    mlp_bias qkv_bias sliding_window use_sliding_window max_window_layers layer_types sliding_window_pattern
    num_local_experts num_experts num_experts_per_tok experts_per_token moe_intermediate_size decoder_sparse_step
    mlp_only_layers shared_expert_intermediate_size n_routed_experts n_shared_experts first_k_dense_replace
    moe_layer_freq num_nextn_predict_layers q_lora_rank kv_lora_rank qk_nope_head_dim qk_rope_head_dim v_head_dim
    full_attention_interval linear_num_key_heads linear_num_value_heads linear_key_head_dim linear_value_head_dim
    linear_conv_kernel_dim attn_layer_period attn_layer_offset expert_layer_period expert_layer_offset mamba_d_conv
    mamba_d_state mamba_dt_rank mamba_expand mamba_conv_bias mamba_proj_bias n_embd n_head n_layer n_inner n_positions
    add_cross_attention text_config vision_config patch_size image_size num_channels vision_use_head
    depth in_channels temporal_patch_size spatial_merge_size out_hidden_size num_position_embeddings
    deepstack_visual_indexes mamba_ssm_dtype mtp_num_hidden_layers index_n_heads index_head_dim index_topk_freq
    index_skip_topk_offset index_topk_pattern indexer_types mlp_layer_types global_head_dim
    num_global_key_value_heads hidden_size_per_layer_input vocab_size_per_layer_input attention_k_eq_v
    num_kv_shared_layers use_double_wide_mlp enable_moe_block top_k_experts position_embedding_size
    hybrid_override_pattern layers_block_type mamba_num_heads mamba_head_dim ssm_state_size n_groups conv_kernel
    use_conv_bias use_bias moe_shared_expert_intermediate_size moe_latent_size mamba_ssm_cache_dtype
    attention_chunk_size no_rope_layers no_rope_layer_interval interleave_moe_layer_step moe_layers
    intermediate_size_mlp projector_input_dim projector_output_dim vision_output_dim lm_head_bias
    conv_L_cache conv_bias full_attn_idxs block_ff_dim block_auto_adjust_ff_dim block_ffn_dim_multiplier
    block_multiple_of tie_embedding shared_intermediate_size multi_query use_parallel_residual use_qkv_bias
    qk_layernorm use_qk_norm num_kv_heads new_decoder_architecture parallel_attn ffn_hidden_size alibi bias
    mamba_n_heads mamba_d_head mamba_n_groups attention_out_bias num_heads expand state_size
"""
KEPT = frozenset(_NAMES.split())
"""The fields readers read; everything else stays behind."""

COUNTED_ONLY = frozenset(
    """
    qwen3_vl qwen3_vl_moe qwen3_5 qwen3_5_moe deepseek_v32 gemma4 minimax_m2 glm_moe_dsa nemotron_h llama4 smollm3 lfm2
    phimoe phi granitemoe gpt_bigcode starcoder2 stablelm olmo2 falcon glm4 glm4_moe granitemoehybrid mamba2
    """.split()  # noqa: SIM905
)
"""Families that the arithmetic below does not cover: their figures are counts of the built modules alone."""

_LLAMA4_VISION: Config = {
    "hidden_size": 1408,
    "image_size": 336,
    "intermediate_size": 5632,
    "model_type": "llama4_vision_model",
    "num_attention_heads": 16,
    "num_channels": 3,
    "num_hidden_layers": 34,
    "patch_size": 14,
    "projector_input_dim": 4096,
    "projector_output_dim": 4096,
    "vision_output_dim": 4096,
}

NO_HEAD_DIM = ("llama", "mistral", "mixtral", "qwen2", "phi3")
"""Families whose published files leave head_dim to hidden ÷ heads, where the conversion wrote it out."""

FORK = "the model's own file, from a GitHub copy ({})"
CONFIGS = "fields of the hub's config.json, collected for a study of vLLM 0.32.0's KV allocator"


def same(row: str, **fields: Any) -> tuple[str, Config, str]:
    """The same fields as another model's row, apart from those given."""
    return row, fields, f"fields of {row}, of which it shares the structure"


def fixed(row: str, note: str = "", **fields: Any) -> tuple[str, Config, str]:
    """A row with fields that its source lost restored from the hub's file."""
    named = ", ".join(fields)
    return row, fields, note or (f"restored as in the hub's file: {named}" if fields else "")


NULL_WINDOW: Config = {"sliding_window": None}
NO_WINDOW: Config = {"use_sliding_window": False}
KV = "configs:"
_GITHUB_32_3B = "github:PANDASANG1231/llama_3.2-3B-huggingface-shard0"
_FP8_DYNAMIC = {
    "config_groups": {
        "group_0": {
            "input_activations": {"dynamic": True, "num_bits": 8, "strategy": "token", "type": "float"},
            "targets": ["Linear"],
            "weights": {"dynamic": False, "num_bits": 8, "strategy": "channel", "type": "float"},
        }
    },
    "format": "float-quantized",
    "ignore": ["lm_head"],
    "quant_method": "compressed-tensors",
}
_AWQ = {
    "bits": 4,
    "group_size": 128,
    "modules_to_not_convert": None,
    "quant_method": "awq",
    "version": "gemm",
    "zero_point": True,
}
_GPTQ = {"bits": 4, "desc_act": False, "group_size": 128, "quant_method": "gptq", "sym": True}
_SIGLIP = {
    "hidden_size": 1152,
    "image_size": 896,
    "intermediate_size": 4304,
    "model_type": "siglip_vision_model",
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "patch_size": 14,
    "vision_use_head": False,
}


def gemma3(published: int, **text: Any) -> tuple[str, Config, str]:
    """A Gemma 3 with vision: its file names few fields, the rest are the architecture's defaults."""
    config = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "text_config": {**text, "model_type": "gemma3_text", "sliding_window": 1024},
        "torch_dtype": "bfloat16",
        "vision_config": _SIGLIP,
    }
    note = f"the file's few fields; with the architecture's defaults they count the published {published:,} parameters"
    return "new:the hub's config.json as public code quotes it", config, note


def distill(row: str, **fields: Any) -> tuple[str, Config, str]:
    """A DeepSeek-R1 distillation of a Qwen 2.5 model."""
    config = {"tie_word_embeddings": False, "max_position_embeddings": 131072, **NULL_WINDOW, **NO_WINDOW, **fields}
    return row, config, f"structure of {row}; head apart and windows off as in the hub's file"


ENTRIES: dict[str, tuple[str, Config, str] | None] = {
    # None: the row of the same id as it is
    "meta-llama/Llama-2-7b-hf": None,
    "meta-llama/Llama-2-7b-chat-hf": None,
    "meta-llama/Llama-2-13b-hf": same("meta-llama/Llama-2-13b-chat-hf"),
    "meta-llama/Llama-2-13b-chat-hf": None,
    "meta-llama/Llama-2-70b-hf": same("meta-llama/Llama-2-70b-chat-hf"),
    "meta-llama/Llama-2-70b-chat-hf": None,
    "meta-llama/Meta-Llama-3-8B": same("meta-llama/Meta-Llama-3-8B-Instruct"),
    "meta-llama/Meta-Llama-3-8B-Instruct": fixed("meta-llama/Meta-Llama-3-8B-Instruct"),
    "meta-llama/Meta-Llama-3-70B": None,
    "meta-llama/Meta-Llama-3-70B-Instruct": same("meta-llama/Meta-Llama-3-70B"),
    "meta-llama/Llama-3.1-8B": None,
    "meta-llama/Llama-3.1-8B-Instruct": None,
    "meta-llama/Llama-3.1-70B": None,
    "meta-llama/Llama-3.1-70B-Instruct": None,
    "meta-llama/Llama-3.1-405B": fixed("meta-llama/Meta-Llama-3.1-405B", "published first as Meta-Llama-3.1-405B"),
    "meta-llama/Llama-3.1-405B-Instruct": same("meta-llama/Meta-Llama-3.1-405B"),
    "meta-llama/Llama-3.2-1B": None,
    "meta-llama/Llama-3.2-1B-Instruct": same("meta-llama/Llama-3.2-1B"),
    "meta-llama/Llama-3.2-3B": fixed(_GITHUB_32_3B),
    "meta-llama/Llama-3.2-3B-Instruct": None,
    "meta-llama/Llama-3.3-70B-Instruct": None,
    "nvidia/Llama-3.1-Nemotron-70B-Instruct-HF": None,
    "nvidia/Llama-3.1-70B-Instruct-FP8": None,
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": (
        "meta-llama/Llama-3.3-70B-Instruct",
        {"quantization_config": _FP8_DYNAMIC},
        "the original's fields and this publisher's usual recipe; its stored elements equal the published total",
    ),
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": None,
    "deepseek-ai/DeepSeek-R1-Distill-Llama-70B": None,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": distill("Qwen/Qwen2.5-1.5B"),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": distill("Qwen/Qwen2.5-7B"),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": distill("Qwen/Qwen2.5-14B"),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": distill("Qwen/Qwen2.5-32B"),
    "RedHatAI/DeepSeek-R1-Distill-Qwen-14B-FP8-dynamic": distill("Qwen/Qwen2.5-14B", quantization_config=_FP8_DYNAMIC),
    "deepseek-ai/deepseek-coder-6.7b-instruct": (
        "meta-llama/Llama-2-7b-hf",
        {"max_position_embeddings": 16384, "torch_dtype": "bfloat16", "vocab_size": 32256},
        "structure of meta-llama/Llama-2-7b-hf with this model's vocabulary and length; counts the published 6.74 B",
    ),
    "codellama/CodeLlama-7b-Instruct-hf": None,
    "codellama/CodeLlama-7b-Python-hf": None,
    "codellama/CodeLlama-13b-hf": None,
    "codellama/CodeLlama-13b-Instruct-hf": None,
    "codellama/CodeLlama-34b-hf": fixed("codellama/CodeLlama-34b-hf", vocab_size=32000),
    "codellama/CodeLlama-34b-Python-hf": None,
    "lmsys/vicuna-7b-v1.5": same("meta-llama/Llama-2-7b-hf"),
    "TinyLlama/TinyLlama-1.1B-Chat-v0.4": None,
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": same("TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T"),
    "TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T": fixed(
        "TinyLlama/TinyLlama-1.1B-intermediate-step-1431k-3T", torch_dtype="float32"
    ),
    "01-ai/Yi-34B": None,
    "HuggingFaceTB/SmolLM-135M": None,
    "HuggingFaceTB/SmolLM2-135M": None,
    "ibm-granite/granite-3b-code-instruct-128k": None,
    "tiiuae/Falcon3-3B-Instruct": None,
    "tiiuae/Falcon3-7B-Instruct": None,
    "tiiuae/Falcon3-10B-Instruct": None,
    "TheBloke/Llama-2-13B-chat-GPTQ": None,
    "TheBloke/Wizard-Vicuna-30B-Uncensored-GPTQ": None,
    "TheBloke/Genz-70b-GPTQ": None,
    "mistralai/Mistral-7B-v0.1": fixed(KV + "mistralai/Mistral-7B-v0.1"),
    "mistralai/Mistral-7B-Instruct-v0.1": fixed(
        "mistralai/Mistral-7B-Instruct-v0.1", sliding_window=4096, max_position_embeddings=32768
    ),
    "mistralai/Mistral-7B-Instruct-v0.2": fixed("mistralai/Mistral-7B-Instruct-v0.2", **NULL_WINDOW),
    "mistralai/Mistral-7B-v0.3": fixed(KV + "mistralai/Mistral-7B-v0.3"),
    "mistralai/Mistral-7B-Instruct-v0.3": None,
    "mistralai/Mistral-Large-Instruct-2407": fixed(
        "mistralai/Mistral-Large-Instruct-2407",
        "restored as in the hub's file: sliding_window; its first revision says 32768 positions, the model card 128k",
        **NULL_WINDOW,
    ),
    "mistralai/Devstral-Small-2507": None,
    "mistralai/Mixtral-8x7B-v0.1": None,
    "mistralai/Mixtral-8x7B-Instruct-v0.1": fixed("mistralai/Mixtral-8x7B-Instruct-v0.1", **NULL_WINDOW),
    "mistralai/Mixtral-8x22B-Instruct-v0.1": fixed("mistralai/Mixtral-8x22B-Instruct-v0.1", **NULL_WINDOW),
    "Qwen/Qwen1.5-MoE-A2.7B": None,
    "Qwen/Qwen2-0.5B-Instruct": fixed("Qwen/Qwen2-0.5B"),
    "Qwen/Qwen2-1.5B-Instruct": fixed("Qwen/Qwen2-1.5B"),
    "Qwen/Qwen2-7B-Instruct": fixed("Qwen/Qwen2-7B"),
    "Qwen/Qwen2.5-0.5B": fixed("Qwen/Qwen2.5-0.5B", **NO_WINDOW),
    "Qwen/Qwen2.5-1.5B": fixed("Qwen/Qwen2.5-1.5B", **NO_WINDOW),
    "Qwen/Qwen2.5-1.5B-Instruct": fixed("Qwen/Qwen2.5-1.5B-Instruct", **NO_WINDOW, max_position_embeddings=32768),
    "Qwen/Qwen2.5-3B": None,
    "Qwen/Qwen2.5-7B": fixed("Qwen/Qwen2.5-7B", **NO_WINDOW),
    "Qwen/Qwen2.5-7B-Instruct": None,
    "Qwen/Qwen2.5-14B": fixed("Qwen/Qwen2.5-14B", **NO_WINDOW),
    "Qwen/Qwen2.5-14B-Instruct": fixed("Qwen/Qwen2.5-14B-Instruct", **NO_WINDOW, max_position_embeddings=32768),
    "Qwen/Qwen2.5-32B": fixed("Qwen/Qwen2.5-32B", **NO_WINDOW),
    "Qwen/Qwen2.5-32B-Instruct": fixed("Qwen/Qwen2.5-32B-Instruct", **NO_WINDOW, max_position_embeddings=32768),
    "Qwen/Qwen2.5-72B": fixed(KV + "Qwen/Qwen2.5-72B"),
    "Qwen/Qwen2.5-72B-Instruct": fixed("Qwen/Qwen2.5-72B-Instruct", **NO_WINDOW, max_position_embeddings=32768),
    "Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4": (
        "new:fields of Qwen/Qwen2.5-72B-Instruct",
        {
            **NO_WINDOW,
            "architectures": ["Qwen2ForCausalLM"],
            "hidden_size": 8192,
            "intermediate_size": 29696,
            "max_position_embeddings": 32768,
            "model_type": "qwen2",
            "num_attention_heads": 64,
            "num_hidden_layers": 80,
            "num_key_value_heads": 8,
            "quantization_config": _GPTQ,
            "tie_word_embeddings": False,
            "torch_dtype": "float16",
            "vocab_size": 152064,
        },
        "feed-forward padded from 29568 to 29696, as Qwen's documentation says of its quantized 72B models",
    ),
    "Qwen/Qwen2.5-Coder-3B-Instruct": fixed("Qwen/Qwen2.5-Coder-3B-Instruct", **NO_WINDOW),
    "Qwen/Qwen2.5-Coder-14B-Instruct": fixed("Qwen/Qwen2.5-Coder-14B-Instruct", **NO_WINDOW),
    "Qwen/Qwen2.5-Coder-32B-Instruct": fixed("Qwen/Qwen2.5-Coder-32B-Instruct", **NO_WINDOW),
    "Qwen/Qwen2.5-Math-7B-Instruct": fixed("Qwen/Qwen2.5-Math-7B-Instruct", **NO_WINDOW),
    "Qwen/QwQ-32B-Preview": fixed("Qwen/QwQ-32B-Preview", **NO_WINDOW),
    "Qwen/QwQ-32B": fixed(
        "Qwen/QwQ-32B",
        "restored as in the hub's file: use_sliding_window; 131072 positions as at its release",
        **NO_WINDOW,
    ),
    "Qwen/Qwen3-0.6B": None,
    "Qwen/Qwen3-1.7B": fixed(KV + "Qwen/Qwen3-1.7B"),
    "Qwen/Qwen3-4B": fixed("Qwen/Qwen3-4B", **NULL_WINDOW, **NO_WINDOW),
    "Qwen/Qwen3-4B-Instruct-2507": fixed("Qwen/Qwen3-4B-Instruct-2507", **NULL_WINDOW, **NO_WINDOW),
    "Qwen/Qwen3-4B-AWQ": (
        "Qwen/Qwen3-4B",
        {**NULL_WINDOW, **NO_WINDOW, "torch_dtype": "float16", "quantization_config": _AWQ},
        "the original's fields and the quantization_config of the hub's file as public code quotes it",
    ),
    "Qwen/Qwen3-8B": None,
    "Qwen/Qwen3-14B": fixed(
        "github:root-hypercube/qwen3-mlx/Qwen3-14B-MLX-4bit",
        "from an MLX conversion's config, without its quantization fields",
        quantization_config=None,
    ),
    "Qwen/Qwen3-32B": fixed(KV + "Qwen/Qwen3-32B"),
    "Qwen/Qwen3-32B-FP8": fixed(KV + "Qwen/Qwen3-32B-FP8"),
    "Qwen/Qwen3-32B-AWQ": (
        KV + "Qwen/Qwen3-32B",
        {"torch_dtype": "float16", "quantization_config": _AWQ},
        "the original's fields and the quantization_config of the hub's file as public code quotes it",
    ),
    "Qwen/Qwen3-30B-A3B": None,
    "Qwen/Qwen3-30B-A3B-FP8": fixed(KV + "Qwen/Qwen3-30B-A3B-FP8"),
    "Qwen/Qwen3-30B-A3B-Instruct-2507": None,
    "Qwen/Qwen3-30B-A3B-Thinking-2507": fixed("Qwen/Qwen3-30B-A3B-Thinking-2507", **NULL_WINDOW, **NO_WINDOW),
    "Qwen/Qwen3-235B-A22B": None,
    "Qwen/Qwen3-235B-A22B-FP8": None,
    "Qwen/Qwen3-235B-A22B-Instruct-2507": fixed("Qwen/Qwen3-235B-A22B-Instruct-2507", **NULL_WINDOW, **NO_WINDOW),
    "Qwen/Qwen3-235B-A22B-Thinking-2507": fixed("Qwen/Qwen3-235B-A22B-Thinking-2507", **NULL_WINDOW, **NO_WINDOW),
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": fixed(KV + "Qwen/Qwen3-Coder-480B-A35B-Instruct"),
    "Qwen/Qwen3-Next-80B-A3B-Instruct": fixed(KV + "Qwen/Qwen3-Next-80B-A3B"),
    "google/gemma-2b": None,
    "google/gemma-7b": fixed("google/gemma-7b", max_position_embeddings=8192),
    "google/gemma-7b-it": fixed("google/gemma-7b-it", max_position_embeddings=8192),
    "google/gemma-2-2b": fixed(
        "google/gemma-2-2b",
        "float32, as the base checkpoint is stored; the instruct one is bfloat16",
        torch_dtype="float32",
    ),
    "google/gemma-2-2b-it": fixed("google/gemma-2-2b"),
    "google/gemma-2-9b-it": fixed("google/gemma-2-9b"),
    "google/gemma-2-27b-it": fixed("google/gemma-2-27b"),
    "google/gemma-3-1b-it": None,
    "google/gemma-3-4b-it": gemma3(4_300_079_472, hidden_size=2560, intermediate_size=10240, num_hidden_layers=34),
    "google/gemma-3-12b-it": gemma3(
        12_187_325_040,
        hidden_size=3840,
        intermediate_size=15360,
        num_attention_heads=16,
        num_hidden_layers=48,
        num_key_value_heads=8,
    ),
    "google/gemma-3-27b-it": gemma3(
        27_432_406_640,
        head_dim=128,
        hidden_size=5376,
        intermediate_size=21504,
        num_attention_heads=32,
        num_hidden_layers=62,
        num_key_value_heads=16,
    ),
    "google/medgemma-27b-it": None,
    "microsoft/Phi-3-mini-4k-instruct": fixed(KV + "microsoft/Phi-3-mini-4k-instruct"),
    "microsoft/Phi-3.5-mini-instruct": None,
    "microsoft/phi-4": fixed(KV + "microsoft/phi-4"),
    "microsoft/Phi-4-reasoning": fixed("microsoft/Phi-4-reasoning", **NULL_WINDOW),
    "microsoft/Phi-4-mini-instruct": None,
    "deepseek-ai/DeepSeek-V2-Lite": None,
    "deepseek-ai/DeepSeek-V2": (
        "new:the hub's config.json as public code quotes it",
        {
            "architectures": ["DeepseekV2ForCausalLM"],
            "attention_bias": False,
            "first_k_dense_replace": 1,
            "hidden_size": 5120,
            "intermediate_size": 12288,
            "kv_lora_rank": 512,
            "max_position_embeddings": 163840,
            "model_type": "deepseek_v2",
            "moe_intermediate_size": 1536,
            "moe_layer_freq": 1,
            "n_routed_experts": 160,
            "n_shared_experts": 2,
            "num_attention_heads": 128,
            "num_experts_per_tok": 6,
            "num_hidden_layers": 60,
            "num_key_value_heads": 128,
            "q_lora_rank": 1536,
            "qk_nope_head_dim": 128,
            "qk_rope_head_dim": 64,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "v_head_dim": 128,
            "vocab_size": 102400,
        },
        "counts the published 236 B parameters",
    ),
    "deepseek-ai/DeepSeek-V3": None,
    "deepseek-ai/DeepSeek-V3-0324": same("deepseek-ai/DeepSeek-V3"),
    "deepseek-ai/DeepSeek-R1": None,
    "deepseek-ai/DeepSeek-R1-0528": same("deepseek-ai/DeepSeek-R1"),
    "nvidia/DeepSeek-V3.1-NVFP4": None,
    "moonshotai/Kimi-K2-Instruct": None,
    "openai/gpt-oss-20b": None,
    "openai/gpt-oss-120b": None,
    "ai21labs/Jamba-v0.1": fixed(KV + "ai21labs/Jamba-v0.1"),
    "openai-community/gpt2": None,
    "Qwen/Qwen3-VL-8B-Instruct": None,
    "Qwen/Qwen3-VL-32B-Instruct": None,
    "Qwen/Qwen3-VL-32B-Thinking": None,
    "Qwen/Qwen3-VL-30B-A3B-Instruct": None,
    "Qwen/Qwen3-VL-235B-A22B-Instruct": None,
    "Qwen/Qwen3.5-27B": None,
    "Qwen/Qwen3.5-35B-A3B": None,
    "Qwen/Qwen3.5-122B-A10B": None,
    "deepseek-ai/DeepSeek-V3.2": None,
    "google/gemma-4-26B-A4B": None,
    "MiniMaxAI/MiniMax-M2.7": None,
    "zai-org/GLM-5": None,
    "zai-org/GLM-5.1": None,
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": None,
    "nvidia/Nemotron-H-56B-Base-8K": None,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": fixed(
        "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        "vision_config as in RedHatAI's quantized copy; counts the published parameters",
        vision_config=_LLAMA4_VISION,
    ),
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": fixed(
        "meta-llama/Llama-4-Maverick-17B-128E-Instruct",
        "vision_config as in RedHatAI's quantized copy of Scout; counts the published parameters",
        vision_config=_LLAMA4_VISION,
    ),
    "HuggingFaceTB/SmolLM3-3B": None,
    "LiquidAI/LFM2-1.2B": None,
    "microsoft/Phi-mini-MoE-instruct": None,
    "microsoft/phi-2": fixed("microsoft/phi-2", torch_dtype="float16"),
    "ibm-granite/granite-3.1-1b-a400m-instruct": None,
    "bigcode/gpt_bigcode-santacoder": None,
    "bigcode/starcoder2-7b": None,
    "stabilityai/stablelm-3b-4e1t": None,
    "stabilityai/stablelm-2-zephyr-1_6b": None,
    "allenai/OLMo-2-0325-32B": None,
    "tiiuae/falcon-7b": fixed(KV + "tiiuae/falcon-7b"),
    "zai-org/GLM-4-9B-0414": fixed(KV + "zai-org/GLM-4-9B-0414"),
    "zai-org/GLM-4.5-Air": fixed(KV + "zai-org/GLM-4.5-Air"),
    "ibm-granite/granite-4.0-h-small": fixed(KV + "ibm-granite/granite-4.0-h-small"),
    "mistralai/Mamba-Codestral-7B-v0.1": fixed(KV + "mistralai/Mamba-Codestral-7B-v0.1"),
}
"""hub id → (where its fields come from, fields set on top, note)."""

PUBLISHED = {
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1_777_088_000,
    "google/gemma-3-4b-it": 4_300_079_472,
    "google/gemma-3-12b-it": 12_187_325_040,
    "google/gemma-3-27b-it": 27_432_406_640,
    "deepseek-ai/DeepSeek-V2": 235_741_434_880,
    "deepseek-ai/deepseek-coder-6.7b-instruct": 6_740_512_768,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": 108_641_793_536,
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": 401_583_781_376,
    "tiiuae/falcon-7b": 6_921_720_704,
    "zai-org/GLM-4-9B-0414": 9_400_279_040,
    "zai-org/GLM-4.5-Air": 106_852_245_504,
    "ibm-granite/granite-4.0-h-small": 32_207_337_984,
    "mistralai/Mamba-Codestral-7B-v0.1": 7_285_403_648,
}
"""Parameter counts the hub shows for models without a row of their own, or that vLLM's modules count (for GLM-4.5-Air
without the 45 × 128 router corrections, which are no parameters)."""

STORED = {
    "deepseek-ai/DeepSeek-V3": 684_531_386_000,
    "Qwen/Qwen3-32B-FP8": 32_764_027_904,
    "Qwen/Qwen3-30B-A3B-FP8": 30_533_947_392,
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": 70_560_423_936,
    "Qwen/Qwen3-32B-AWQ": 5_731_472_384,
    "openai/gpt-oss-20b": 11_956_805_184,
    "openai/gpt-oss-120b": 63_081_444_672,
    "Qwen/Qwen3.5-27B": 27_781_427_952,
    "Qwen/Qwen3.5-35B-A3B": 35_951_822_704,
    "Qwen/Qwen3.5-122B-A10B": 125_086_497_008,
    "google/gemma-4-26B-A4B": 26_544_131_376,
}
"""Elements stored by checkpoints that are quantized or hold more than the model: the hub's totals (for gpt-oss each U8
byte counted once, not twice), and for the AWQ checkpoint the sum of its files' headers."""


# --- sources -------------------------------------------------------------------------------------------------------


STORED_BESIDE: dict[str, list[dict[str, Any]]] = {
    "Qwen/Qwen3-0.6B": [{"name": "head, stored again", "elements": 151936 * 1024}],
    "Qwen/Qwen3-1.7B": [{"name": "head, stored again", "elements": 151936 * 2048}],
    "google/medgemma-27b-it": [{"name": "head, stored again", "elements": 262208 * 5376}],
    "google/gemma-4-26B-A4B": [{"name": "head, stored again", "elements": 262144 * 2816}],
    "openai-community/gpt2": [{"name": "attention masks", "elements": 12 * 1024 * 1024}],
    "Qwen/Qwen3-Next-80B-A3B-Instruct": [{"name": "MTP layer", "elements": 1_650_471_424}],
    "TheBloke/Genz-70b-GPTQ": [{"name": "zero biases", "elements": 6_717_440}],
    "TheBloke/Wizard-Vicuna-30B-Uncensored-GPTQ": [{"name": "zero biases", "elements": 4_147_200}],
}
"""What the published files hold beside the model's tensors, in its data type: no config can tell.

The totals agree with the element counts the hub states from the files' headers (Qwen3-0.6B 751,632,384, medgemma-27b-it
28,842,036,848, gpt2 137,022,720, Qwen3-Next-80B 81,324,862,720), and for GPTQ with the sizes of the files.
"""


def _rows(models: Path) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    with gzip.open(models / "models.jsonl.gz", "rt") as file:
        for line in file:
            row = json.loads(line)
            rows.setdefault(row["hub_id"], row)
    return rows


def _source(row: Any) -> str:
    source: str = row["source"]
    if row.get("converted"):
        return "litgpt 0.5.13 (PyPI, Apache-2.0), its model table put into the hub's field names"
    if source.startswith("PyPI aiconfigurator-core"):
        return "the hub's config.json, carried by aiconfigurator-core 0.12.0 (PyPI, Apache-2.0)"
    if source.startswith("github:mlc-ai/mlc-llm"):
        return "the hub's config.json, carried by mlc-ai/mlc-llm's model presets (GitHub, Apache-2.0)"
    return FORK.format(source.removeprefix("github:"))


def _trimmed(config: Config) -> Config:
    kept = {}
    for key, value in config.items():
        if key in KEPT:
            nested = key in ("text_config", "vision_config") and isinstance(value, dict)
            kept[key] = _trimmed(value) if nested else value
    return kept


def _unconverted(config: Config) -> Config:
    """Without what the conversion added: head_dim where it only repeats hidden ÷ heads."""
    config = dict(config)
    repeats = config.get("head_dim", 0) * config.get("num_attention_heads", 0) == config["hidden_size"]
    if config["model_type"] in NO_HEAD_DIM and repeats:
        del config["head_dim"]
    return config


def _entry(hub_id: str, rows: dict[str, Any], configs: Path | None) -> dict[str, Any]:
    origin, fields, note = ENTRIES[hub_id] or (hub_id, {}, "")
    if origin.startswith("new:"):
        source, config = origin.removeprefix("new:"), {}
    elif origin.startswith(KV):
        if configs is None:
            raise SystemExit(f"{hub_id} needs the directory of config files")
        name = origin.removeprefix(KV)
        source, config = CONFIGS, json.loads((configs / f"{name.replace('/', '--')}.json").read_text())
    else:
        row = rows[origin]
        source, config = _source(row), row["config"]
        if row.get("converted"):
            config = _unconverted(config)
        beside = (row.get("hf_quant_config") or {}).get("quantization")
        if beside and not config.get("quantization_config"):
            config = {**config, "quantization_config": {"quant_method": "modelopt", **beside}}
            note = "quantization_config is the hub's hf_quant_config.json, which stands beside config.json"
    config = _trimmed({**config, **fields})
    if config.get("quantization_config", "") is None:
        del config["quantization_config"]
    entry: dict[str, Any] = {"id": hub_id, "source": source, "config": dict(sorted(config.items()))}
    if hub_id in STORED_BESIDE:
        entry["stored_beside"] = STORED_BESIDE[hub_id]
    return {**entry, "note": note} if note else entry


# --- figures, by plain arithmetic ------------------------------------------------------------------------------------


def _attention(c: Config, hidden: int, heads: int, kv: int, dim: int) -> int:
    """Weights of grouped-query attention with the biases and norms of the family."""
    family = c["model_type"]
    count = 2 * hidden * heads * dim + 2 * hidden * kv * dim
    if family in ("qwen2", "qwen2_moe"):
        count += (heads + 2 * kv) * dim
    if c.get("attention_bias") or family == "gpt_oss":
        count += (heads + 2 * kv) * dim + hidden
    if family == "gpt_oss":
        count += heads  # sinks
    if family in ("qwen3", "qwen3_moe", "qwen3_next", "gemma3_text"):
        count += 2 * dim
    if family == "qwen3_next":
        count += hidden * heads * dim  # output gate
    return count


def _latent(c: Config) -> int:
    hidden, heads, rank = c["hidden_size"], c["num_attention_heads"], c["kv_lora_rank"]
    nope, rope, value = c["qk_nope_head_dim"], c["qk_rope_head_dim"], c["v_head_dim"]
    q = heads * (nope + rope)
    low = c["q_lora_rank"]
    query = hidden * q if low is None else hidden * low + low + low * q
    result: int = query + hidden * (rank + rope) + rank + rank * heads * (nope + value) + heads * value * hidden
    return result


def _mamba(c: Config) -> int:
    hidden, n, conv, rank = c["hidden_size"], c["mamba_d_state"], c["mamba_d_conv"], c["mamba_dt_rank"]
    inner = c["mamba_expand"] * hidden
    projections = 3 * inner * hidden + inner * (rank + 2 * n) + (rank + 1) * inner
    result: int = projections + inner * n + inner + inner * (conv + 1) + rank + 2 * n
    return result


def _delta(c: Config) -> int:
    hidden, keys = c["hidden_size"], c["linear_num_key_heads"] * c["linear_key_head_dim"]
    heads = c["linear_num_value_heads"]
    values = heads * c["linear_value_head_dim"]
    qkv = 2 * keys + values
    projections = hidden * (qkv + values) + hidden * 2 * heads + values * hidden
    result: int = projections + qkv * c["linear_conv_kernel_dim"] + 2 * heads + c["linear_value_head_dim"]
    return result


def _experts(c: Config) -> tuple[int, int, int]:
    """(weights of all experts with router and shared ones, the part one token uses, width of a dense layer)."""
    hidden, family = c["hidden_size"], c["model_type"]
    total = c.get("n_routed_experts") or c.get("num_local_experts") or c.get("num_experts") or 0
    used = c.get("num_experts_per_tok") or 0
    width = c.get("moe_intermediate_size") or c["intermediate_size"]
    one = 3 * hidden * width + (2 * width + hidden if family == "gpt_oss" else 0)
    shared = 3 * hidden * width * (c.get("n_shared_experts") or 0)
    if family in ("qwen2_moe", "qwen3_next"):
        shared = 3 * hidden * c["shared_expert_intermediate_size"] + hidden
    router = hidden * total + (total if family == "gpt_oss" else 0)
    return total * one + shared + router, used * one + shared + router, c["intermediate_size"]


def _is_sparse(c: Config, layer: int) -> bool:
    family = c["model_type"]
    if family in ("deepseek_v2", "deepseek_v3", "kimi_k2"):
        return bool(layer >= c["first_k_dense_replace"])
    if family == "jamba":
        return bool(layer % c["expert_layer_period"] == c["expert_layer_offset"])
    return family in ("mixtral", "qwen2_moe", "qwen3_moe", "qwen3_next", "gpt_oss")


def _mixer_kind(c: Config, layer: int) -> str:
    """full, sliding, mamba or delta."""
    family = c["model_type"]
    if family == "jamba":
        return "full" if layer % c["attn_layer_period"] == c["attn_layer_offset"] else "mamba"
    if family == "qwen3_next":
        return "full" if (layer + 1) % c["full_attention_interval"] == 0 else "delta"
    if family in ("gemma2", "gpt_oss"):
        return ("sliding", "full")[layer % 2]
    if family == "gemma3_text":
        return "full" if (layer + 1) % 6 == 0 else "sliding"
    if family in ("mistral", "phi3", "mixtral"):
        return "sliding" if c.get("sliding_window") else "full"
    return "full"  # the Qwen files carried here all have use_sliding_window false


GEMMA3_DEFAULTS: Config = {
    "vocab_size": 262208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "torch_dtype": "bfloat16",
}


def _vision(c: Config, text_hidden: int) -> int:
    h, inner, layers, patch = c["hidden_size"], c["intermediate_size"], c["num_hidden_layers"], c["patch_size"]
    side = c["image_size"] // patch
    block = 4 * (h * h + h) + 2 * h * inner + inner + h + 4 * h
    result: int = h * 3 * patch * patch + h + side * side * h + layers * block + 2 * h + h * text_hidden + h
    return result


def figures(config: Config) -> dict[str, int]:
    """Unique and active parameters, and cache elements of one sequence of 4096 and of 131072 tokens."""
    tower = 0
    if config["model_type"] == "gemma3":
        text = {**GEMMA3_DEFAULTS, **config["text_config"]}
        tower = _vision(config["vision_config"], text["hidden_size"])
        config = text
    if config["model_type"] == "gpt2":
        return _gpt2(config)
    c, family = config, config["model_type"]
    hidden, layers, heads = c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"]
    kv = c.get("num_key_value_heads") or heads
    dim = c.get("head_dim") or hidden // heads
    norms = 4 if family in ("gemma2", "gemma3_text") else 2
    tied = c.get("tie_word_embeddings", family.startswith("gemma"))
    total = active = tower + c["vocab_size"] * hidden * (1 if tied else 2) + hidden
    cache = {4096: 0, 131072: 0}
    every, used, width = _experts(c)
    mlp_bias = (2 * width + hidden) if c.get("mlp_bias") else 0
    for layer in range(layers):
        kind = _mixer_kind(c, layer)
        if kind == "mamba":
            mixer = _mamba(c)
        elif kind == "delta":
            mixer = _delta(c)
        elif "kv_lora_rank" in c:
            mixer = _latent(c)
        else:
            mixer = _attention(c, hidden, heads, kv, dim)
        sparse = _is_sparse(c, layer)
        plain = 3 * hidden * width + mlp_bias
        # DeepSeek-V3's router correction bias is a buffer, not a parameter
        total += mixer + norms * hidden + (every if sparse else plain)
        active += mixer + norms * hidden + (used if sparse else plain)
        if kind in ("full", "sliding"):
            per_token = c["kv_lora_rank"] + c["qk_rope_head_dim"] if "kv_lora_rank" in c else 2 * kv * dim
            for length in cache:
                kept = min(length, c["sliding_window"]) if kind == "sliding" else length
                cache[length] += per_token * kept
    return {
        "unique_parameters": total,
        "active_parameters": active,
        "cache_elements_4096": cache[4096],
        "cache_elements_131072": cache[131072],
    }


def _gpt2(c: Config) -> dict[str, int]:
    h, layers = c["n_embd"], c["n_layer"]
    total = (c["vocab_size"] + c["n_positions"]) * h + layers * (12 * h * h + 13 * h) + 2 * h
    return {
        "unique_parameters": total,
        "active_parameters": total,
        "cache_elements_4096": 2 * layers * h * 4096,
        "cache_elements_131072": 2 * layers * h * 131072,
    }


def _expected(entries: list[dict[str, Any]], rows: dict[str, Any]) -> dict[str, Any]:
    """Figures of every entry; a count of the built modules, where there is one, must agree and is named."""
    table: dict[str, Any] = {}
    for entry in entries:
        hub_id = entry["id"]
        origin = (ENTRIES[hub_id] or (hub_id, {}, ""))[0]
        if entry["config"]["model_type"] in COUNTED_ONLY:
            table[hub_id] = _counted(hub_id, rows)
            continue
        computed: dict[str, Any] = dict(figures(entry["config"]))
        counted = rows.get(hub_id, rows.get(origin.removeprefix(KV), {})).get("meta", {})
        checked = "arithmetic"
        altered = set((ENTRIES[hub_id] or ("", {}, ""))[1]) & {"vocab_size", "tie_word_embeddings"}
        if counted.get("total_params") and not altered:
            _agree(hub_id, "parameters", computed["unique_parameters"], counted["total_params"])
            active = (counted.get("moe") or {}).get("active_params")
            if active:
                _agree(hub_id, "active parameters", computed["active_parameters"], active)
            checked = "modules built from the config"
        if hub_id in PUBLISHED:
            _agree(hub_id, "published parameters", computed["unique_parameters"], PUBLISHED[hub_id])
            checked = "published count"
        computed["parameters_checked_by"] = checked
        if hub_id in STORED:
            computed["stored_elements"] = STORED[hub_id]
        table[hub_id] = computed
    return table


def _counted(hub_id: str, rows: dict[str, Any]) -> dict[str, Any]:
    """What the built modules count, or what the hub or an engine's own modules do."""
    if hub_id in PUBLISHED:
        return {"unique_parameters": PUBLISHED[hub_id], "parameters_checked_by": "published count"}
    counted = rows[hub_id]["meta"]
    found = {"unique_parameters": counted["total_params"], "parameters_checked_by": "modules built from the config"}
    active = (counted.get("moe") or {}).get("active_params")
    return {**found, "active_parameters": active} if active else found


def _agree(hub_id: str, what: str, computed: int, known: int) -> None:
    if computed != known:
        print(f"DISAGREE {hub_id}: {what} {computed:,} by arithmetic, {known:,} known")


def main() -> None:
    """Writes the catalogue, or the table of expected figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", type=Path, help="directory that holds models.jsonl.gz")
    parser.add_argument("configs", type=Path, nargs="?", help="directory of ORG--NAME.json configs")
    parser.add_argument("--expected", action="store_true", help="write the test's table instead")
    arguments = parser.parse_args()
    rows = _rows(arguments.models)
    entries = [_entry(hub_id, rows, arguments.configs) for hub_id in ENTRIES]
    if arguments.expected:
        table = _expected(entries, rows)
        lines = [f"{json.dumps(hub_id)}: {json.dumps(row)}" for hub_id, row in table.items()]
        EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    else:
        text = "".join(json.dumps(entry, separators=(",", ":"), ensure_ascii=False) + "\n" for entry in entries)
        if found := re.search(r"/(?:home|work|tmp|root)/", text):
            raise SystemExit(f"a path of some machine is in the catalogue: {text[found.start() : found.start() + 60]}")
        CATALOGUE.write_text(text)
        print(f"{len(entries)} models, {len(text):,} bytes")


if __name__ == "__main__":
    main()

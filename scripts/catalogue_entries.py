"""Which models the bundled catalogue holds: where the fields of each come from, and what is set on top of them."""

from __future__ import annotations

from typing import Any

from scripts.catalogue_known import AS_THEY_ARE, ORIGINALS

Config = dict[str, Any]

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
ENTRIES |= dict.fromkeys(AS_THEY_ARE)
ENTRIES["XiaomiMiMo/MiMo-V2-Flash"] = fixed(
    "XiaomiMiMo/MiMo-V2-Flash", "its sliding_window_size too", sliding_window=128
)
ENTRIES |= {
    hub_id: (row, {"quantization_config": None}, f"fields of {row}, less its quantization")
    for hub_id, row in ORIGINALS.items()
}

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

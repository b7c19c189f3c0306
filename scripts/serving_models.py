"""Which models the serving tables mean, and how their weights were stored: `served(table name, precision)`.

A row names a catalogue entry, or a config that stands beside it (`AICC`: ORG--NAME of aiconfigurator-core's
model_configs folder, `OWN`: typed here), and what quantization goes on top.
"""

from __future__ import annotations

from typing import Any

Config = dict[str, Any]

NVFP4: Config = {
    "quant_method": "modelopt",
    "quant_algo": "NVFP4",
    "kv_cache_quant_algo": "FP8",
    "group_size": 16,
    "exclude_modules": ["lm_head"],
}
FP8: Config = {
    "quant_method": "modelopt",
    "quant_algo": "FP8",
    "kv_cache_quant_algo": "FP8",
    "exclude_modules": ["lm_head"],
}
BLOCK_FP8: Config = {
    "quant_method": "fp8",
    "weight_block_size": [128, 128],
    "activation_scheme": "dynamic",
    "fmt": "e4m3",
    "modules_to_not_convert": ["lm_head"],
}
AWQ: Config = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}


def gptq(bits: int, group: int) -> Config:
    """A GPTQ checkpoint's settings; `group` -1: one scale per output."""
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "desc_act": False, "sym": True}


def mlx(bits: int, group: int = 64) -> Config:
    """MLX's affine integers."""
    return {"mlx": {"bits": bits, "group_size": group}}


OWN: dict[str, tuple[Config, str]] = {
    "EleutherAI/gpt-j-6b": (
        {
            "model_type": "gptj", "architectures": ["GPTJForCausalLM"], "n_embd": 4096, "n_layer": 28, "n_head": 16,
            "n_positions": 2048, "vocab_size": 50400, "rotary_dim": 64, "torch_dtype": "float16",
            "tie_word_embeddings": False,
        },
        "transformers' defaults of GPTJConfig, which are this model's",
    ),
    "tiiuae/falcon-180B": (
        {
            "model_type": "falcon", "architectures": ["FalconForCausalLM"], "hidden_size": 14848,
            "num_hidden_layers": 80, "num_attention_heads": 232, "num_kv_heads": 8, "vocab_size": 65024,
            "new_decoder_architecture": True, "bias": False, "parallel_attn": True, "alibi": False,
            "multi_query": True, "torch_dtype": "bfloat16",
        },
        "fields of the hub's config.json as a GitHub copy has them (Alikhan13r/falcon-180B-chat)",
    ),
    "huggyllama/llama-30b": (
        {
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 6656,
            "intermediate_size": 17920, "num_hidden_layers": 60, "num_attention_heads": 52,
            "num_key_value_heads": 52, "vocab_size": 32000, "max_position_embeddings": 2048,
            "torch_dtype": "float16", "tie_word_embeddings": False,
        },
        "Touvron et al. 2023, table 2 (arXiv:2302.13971)",
    ),
    "Qwen/Qwen2.5-Coder-7B-Instruct": (
        {
            "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "hidden_size": 3584,
            "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
            "num_key_value_heads": 4, "vocab_size": 152064, "max_position_embeddings": 32768,
            "torch_dtype": "bfloat16", "tie_word_embeddings": False, "use_sliding_window": False,
        },
        "structure of Qwen/Qwen2.5-7B-Instruct",
    ),
}  # fmt: skip

DEEPSEEK = "deepseek-ai/DeepSeek-R1"
SILICON: dict[tuple[str, str], tuple[str, Config | None]] = {
    ("deepseek-ai/DeepSeek-R1", "fp8"): (DEEPSEEK, None),
    ("deepseek-ai/DeepSeek-V3", "fp8"): (DEEPSEEK, None),
    ("deepseek-ai/DeepSeek-R1", "fp4"): ("nvidia/DeepSeek-V3.1-NVFP4", None),
    ("deepseek-ai/DeepSeek-V3", "fp4"): ("nvidia/DeepSeek-V3.1-NVFP4", None),
    ("nvidia/DeepSeek-R1-NVFP4", "fp4"): ("nvidia/DeepSeek-V3.1-NVFP4", None),
    ("nvidia/DeepSeek-V3.1-NVFP4", "fp4"): ("nvidia/DeepSeek-V3.1-NVFP4", None),
    ("openai/gpt-oss-120b", "fp4"): ("openai/gpt-oss-120b", None),
    ("openai/gpt-oss-120b", "fp8"): ("openai/gpt-oss-120b", None),
    ("MiniMaxAI/MiniMax-M2.5", "fp8"): ("AICC MiniMaxAI/MiniMax-M2.5", None),
    ("MiniMaxAI/MiniMax-M2.5", "fp4"): ("AICC nvidia/MiniMax-M2.5-NVFP4", None),
    ("Qwen/Qwen3-32B", ""): ("Qwen/Qwen3-32B", None),
    ("Qwen/Qwen3-32B", "fp8"): ("Qwen/Qwen3-32B-FP8", None),
    ("Qwen/Qwen3-32B", "fp4"): ("Qwen/Qwen3-32B", NVFP4),
    ("nvidia/Qwen3-32B-NVFP4", "fp4"): ("Qwen/Qwen3-32B", NVFP4),
    ("meta-llama/Llama-3.1-70B", "fp8"): ("nvidia/Llama-3.1-70B-Instruct-FP8", None),
    ("meta-llama/Llama-3.1-70B", "fp4"): ("meta-llama/Llama-3.1-70B", NVFP4),
    ("meta-llama/Llama-3.1-8B-Instruct", ""): ("meta-llama/Llama-3.1-8B-Instruct", None),
    ("meta-llama/Llama-3.1-8B-Instruct", "fp8"): ("meta-llama/Llama-3.1-8B-Instruct", FP8),
    ("nvidia/Llama-3.1-8B-Instruct-FP8", "fp8"): ("meta-llama/Llama-3.1-8B-Instruct", FP8),
    ("Qwen/Qwen3.5-397B-A17B", "bf16"): ("AICC Qwen/Qwen3.5-397B-A17B", None),
    ("Qwen/Qwen3.5-397B-A17B", "fp8"): (
        "AICC Qwen/Qwen3.5-397B-A17B",
        {**BLOCK_FP8, "modules_to_not_convert": ["lm_head", "linear_attn.in_proj_a", "linear_attn.in_proj_b"]},
    ),
    ("Qwen/Qwen3.5-397B-A17B", "fp4"): ("AICC nvidia/Qwen3.5-397B-A17B-NVFP4", None),
    ("moonshotai/Kimi-K2.5", "fp4"): ("AICC nvidia/Kimi-K2.5-NVFP4", None),
    ("moonshotai/Kimi-K2.5", "int4"): ("AICC moonshotai/Kimi-K2.5", None),
    ("zhipuai/GLM-5", "fp8"): ("AICC zai-org/GLM-5-FP8", None),
    ("zhipuai/GLM-5", "fp4"): ("AICC nvidia/GLM-5-NVFP4", None),
    ("Qwen/Qwen3-235B-A22B-FP8", "fp8"): ("Qwen/Qwen3-235B-A22B-FP8", None),
}
"""(model, precision) of the silicon table → (structure, quantization on top of it).

An empty precision is the checkpoint's own, bfloat16. NVFP4 of the dense models is what ModelOpt writes: every linear
weight but the head, the KV cache in FP8. DeepSeek-V3, -R1 and -V3.1 have one structure."""

TRTLLM = {
    "GPT-J 6B": "OWN EleutherAI/gpt-j-6b",
    "LLaMA 7B": "meta-llama/Llama-2-7b-hf",
    "LLaMA 70B": "meta-llama/Llama-2-70b-hf",
    "Falcon 180B": "OWN tiiuae/falcon-180B",
    "Mistral 7B": "mistralai/Mistral-7B-v0.1",
    "Mixtral 8x7B": "mistralai/Mixtral-8x7B-v0.1",
}
BATCH1 = {
    "Llama-2-7B": "meta-llama/Llama-2-7b-hf",
    "Llama2-7B": "meta-llama/Llama-2-7b-hf",
    "Llama2 7B": "meta-llama/Llama-2-7b-hf",
    "Llama 7B": "meta-llama/Llama-2-7b-hf",
    "Vicuna 7B": "lmsys/vicuna-7b-v1.5",
    "Llama 13B": "meta-llama/Llama-2-13b-hf",
    "Llama 2 13B": "meta-llama/Llama-2-13b-hf",
    "Llama2-13B": "meta-llama/Llama-2-13b-hf",
    "Llama 33B": "OWN huggyllama/llama-30b",
    "Llama-2-70B": "meta-llama/Llama-2-70b-hf",
    "Llama2-70B": "meta-llama/Llama-2-70b-hf",
    "Llama-3.1-8B": "meta-llama/Llama-3.1-8B",
    "Llama-3.1-70B": "meta-llama/Llama-3.1-70B",
    "Llama-3.1-405B": "meta-llama/Llama-3.1-405B",
    "Mistral 7B": "mistralai/Mistral-7B-v0.1",
    "Mixtral-8x7B": "mistralai/Mixtral-8x7B-v0.1",
    "Mixtral 46.7B": "mistralai/Mixtral-8x7B-v0.1",
    "TinyLlama 1B": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    "CodeLlama-34B": "codellama/CodeLlama-34b-hf",
    "CodeLlama 34B": "codellama/CodeLlama-34b-hf",
    "Falcon 7B": "tiiuae/falcon-7b",
    "Qwen/Qwen3-4B-Instruct-2507": "Qwen/Qwen3-4B-Instruct-2507",
    "Qwen/Qwen3-30B-A3B-Instruct-2507": "Qwen/Qwen3-30B-A3B-Instruct-2507",
}
LLAMA_CPP = {
    "gpt-oss-20b": "openai/gpt-oss-20b",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "Qwen3-Coder-30B-A3B": "Qwen/Qwen3-30B-A3B-Instruct-2507",
    "Qwen2.5-Coder-7B": "OWN Qwen/Qwen2.5-Coder-7B-Instruct",
    "gemma-3-4b-it-qat": "google/gemma-3-4b-it",
}
BENCH = {
    "Qwen/Qwen3-8B": ("Qwen/Qwen3-8B", None, "bf16"),
    "Qwen/Qwen3-8B-FP8": ("Qwen/Qwen3-8B", BLOCK_FP8, "fp8"),
    "Qwen/Qwen3-14B": ("Qwen/Qwen3-14B", None, "bf16"),
    "Qwen/Qwen3-14B-FP8": ("Qwen/Qwen3-14B", BLOCK_FP8, "fp8"),
    "Qwen/Qwen3-32B": ("Qwen/Qwen3-32B", None, "bf16"),
    "Qwen/Qwen3-32B-FP8": ("Qwen/Qwen3-32B-FP8", None, "fp8"),
    "openai/gpt-oss-20b": ("openai/gpt-oss-20b", None, "mxfp4"),
    "openai/gpt-oss-120b": ("openai/gpt-oss-120b", None, "mxfp4"),
    "deepseek-ai/DeepSeek-R1-0528": (DEEPSEEK, None, "fp8"),
    "Qwen/Qwen3-235B-A22B-Instruct-2507": ("Qwen/Qwen3-235B-A22B", None, "bf16"),
    "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8": ("Qwen/Qwen3-235B-A22B-FP8", None, "fp8"),
    "zai-org/GLM-4.5-Air": ("zai-org/GLM-4.5-Air", None, "bf16"),
    "Qwen/Qwen3-30B-A3B": ("Qwen/Qwen3-30B-A3B", None, "bf16"),
}
"""Model of a serve command → (structure, quantization on top, precision)."""

# GPUs as scoreboards of llama.cpp name them; those of which the catalogue has another size are left out
SCOREBOARD_DEVICES = {
    "3080 10GB": "rtx-3080-10gb",
    "3090 24GB": "rtx-3090",
    "4080 16GB": "rtx-4080",
    "4090 24GB": "rtx-4090",
    "A100 PCIe 80GB": "a100-pcie-80gb",
    "A100 SXM 80GB": "a100-sxm-80gb",
    "A40 48GB": "a40",
    "H100 PCIe 80GB": "h100-pcie",
    "L40S 48GB": "l40s",
    "M1 Max 32-Core GPU 64GB": "apple-m1-max",
    "M2 Ultra 76-Core GPU 192GB": "apple-m2-ultra",
    "M3 Max 40-Core GPU 64GB": "apple-m3-max-40",
    "RTX 6000 Ada 48GB": "rtx-6000-ada",
    "RTX A6000 48GB": "rtx-a6000",
    "A100 80GB": "a100-sxm-80gb",
    "Apple M1 8c": "apple-m1",
    "Apple M1 Max 32c": "apple-m1-max",
    "Apple M1 Pro 16c": "apple-m1-pro",
    "Apple M1 Ultra 64c": "apple-m1-ultra",
    "Apple M2 10c": "apple-m2",
    "Apple M2 Max 38c": "apple-m2-max",
    "Apple M2 Pro 19c": "apple-m2-pro",
    "Apple M2 Ultra 76c": "apple-m2-ultra",
    "Apple M3 10c": "apple-m3",
    "Apple M3 Max 40c": "apple-m3-max-40",
    "Apple M3 Pro 18c": "apple-m3-pro",
    "Apple M3 Ultra 80c": "apple-m3-ultra",
    "Apple M4 10c": "apple-m4",
    "Apple M4 Max 40c": "apple-m4-max-40",
    "Apple M4 Pro 20c": "apple-m4-pro",
    "Arc A770": "arc-a770-16gb",
    "Arc B580": "arc-b580",
    "DGX Spark (GB10)": "gb10-dgx-spark",
    "H100 80GB": "h100-sxm",
    "RTX 3060": "rtx-3060-12gb",
    "RTX 3090": "rtx-3090",
    "RTX 4070 Ti SUPER": "rtx-4070-ti-super",
    "RTX 4090": "rtx-4090",
    "RTX 5070 Ti": "rtx-5070-ti",
    "RTX 5080": "rtx-5080",
    "RTX 5090": "rtx-5090",
    "RTX PRO 4500 Blackwell": "rtx-pro-4500-blackwell",
    "RTX PRO 6000 Blackwell": "rtx-pro-6000-blackwell-ws",
    "RX 7900 XTX": "rx-7900-xtx",
    "Radeon AI PRO R9700": "radeon-ai-pro-r9700",
    "Ryzen AI Max+ 395": "strix-halo-395",
}
SCOREBOARD_MODELS = {
    "Llama-2-7B": "meta-llama/Llama-2-7b-hf",
    "Llama-3-8B": "meta-llama/Meta-Llama-3-8B",
    "Llama-3-70B": "meta-llama/Meta-Llama-3-70B",
}

"""Makes tests/data/quantized.jsonl.gz: quantized checkpoints whose size or number of elements is published.

    python -m scripts.import_quantized DIRECTORY

DIRECTORY holds `models.jsonl.gz` (configs as published, with the source of each) and `quant-checks.json` (known
totals). What a config is silent on stands here: a file beside it, a recipe, or the original model's fields.

A row says how its total counts: `bytes` (of the file, or of its index), or elements as the hub counts them, which
differs by method: `elements` (every element once), `packed bytes twice` (U8 holds two values), `gptq` (integers
unpacked, without scales, zero points and index).
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from narrows.models.catalogue import catalogue_entry
from narrows.models.quantization import merge_beside
from scripts.packed import write_packed

TARGET = Path(__file__).resolve().parent.parent / "tests" / "data" / "quantized.jsonl.gz"

_AUTOGPTQ = {"damp_percent": 0.01, "sym": True, "true_sequential": True, "model_name_or_path": None}
_NF4 = {
    "quant_method": "bitsandbytes",
    "load_in_4bit": True,
    "load_in_8bit": False,
    "bnb_4bit_quant_type": "nf4",
    "bnb_4bit_use_double_quant": True,
    "bnb_4bit_quant_storage": "uint8",
    "bnb_4bit_compute_dtype": "bfloat16",
    "llm_int8_skip_modules": None,
}
_FP8_DYNAMIC = {
    "quant_method": "compressed-tensors",
    "format": "float-quantized",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "dynamic": False, "symmetric": True},
            "input_activations": {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True},
        }
    },
    "ignore": ["lm_head"],
}
_NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16}
_STARCODER = {
    "architectures": ["GPTBigCodeForCausalLM"],
    "model_type": "gpt_bigcode",
    "multi_query": True,
    "n_embd": 6144,
    "n_head": 48,
    "n_inner": 24576,
    "n_layer": 40,
    "n_positions": 8192,
    "torch_dtype": "float16",
    "vocab_size": 49153,
}
"""github:Decentralised-AI/WizardCoder-15B-1.0-GPTQ config.json."""


def _gates(layers: int) -> list[str]:
    return ["lm_head", *(f"model.layers.{i}.mlp.gate" for i in range(layers))]


def _attention(layers: int) -> list[str]:
    return [*_gates(layers), *(f"model.layers.{i}.self_attn*" for i in range(layers))]


_TABLE: tuple[tuple[str, str, str, dict[str, Any] | None, str], ...] = (
    # name in quant-checks.json, where its config is, how its total counts, what is set on top, a note
    ("TheBloke/Wizard-Vicuna-30B-Uncensored-GPTQ", "models", "bytes", None, ""),
    (
        "TheBloke/wizard-mega-13B-GPTQ",
        "models",
        "bytes",
        {"quantize_config.json": {"bits": 4, "group_size": 128, "damp_percent": 0.01, "desc_act": False, "sym": True}},
        "with the quantize_config.json beside it",
    ),
    ("TheBloke/Genz-70b-GPTQ", "models", "bytes", None, ""),
    (
        "TheBloke/WizardCoder-15B-1.0-GPTQ",
        "starcoder",
        "bytes",
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, **_AUTOGPTQ}
        | {"model_file_base_name": None},
        "with the quantize_config.json that AutoGPTQ writes for these settings",
    ),
    (
        "Qwen/Qwen-VL-Chat-Int4",
        "models",
        "bytes",
        None,
        "the decoder in Llama's fields; the vision tower is published elements less the decoder's parameters",
    ),
    ("Llama-2-13B-Computer-Engineering", "github:IrfanUruchi/Llama-2-13B-Computer-Engineering-", "bytes", None, ""),
    (
        "Llama-3.1-8B-Instruct (assessment)",
        "github:jeevanchaps/Meta-Llama3.1-8B-Instruct-assessment",
        "bytes",
        None,
        "",
    ),
    ("mlx Qwen3-14B-4bit", "github:root-hypercube/qwen3-mlx/Qwen3-14B-MLX-4bit", "bytes", None, ""),
    ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "catalogue", "elements", None, ""),
    ("Qwen/Qwen3-32B-FP8", "catalogue", "elements", None, ""),
    ("Qwen/Qwen3-30B-A3B-FP8", "catalogue", "elements", None, ""),
    (
        "RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16",
        "meta-llama/Llama-3.1-8B-Instruct",
        "gptq",
        {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True},
        "the original's fields; the count does not depend on the group",
    ),
    ("RedHatAI/Llama-3.2-1B-Instruct-FP8-dynamic", "meta-llama/Llama-3.2-1B-Instruct", "elements", _FP8_DYNAMIC, ""),
    ("RedHatAI/Llama-3.2-3B-Instruct-FP8-dynamic", "meta-llama/Llama-3.2-3B-Instruct", "elements", _FP8_DYNAMIC, ""),
    (
        "unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit",
        "meta-llama/Llama-3.1-8B-Instruct",
        "packed bytes twice",
        _NF4,
        "",
    ),
    ("unsloth/Llama-3.2-1B-bnb-4bit", "meta-llama/Llama-3.2-1B", "packed bytes twice", _NF4, ""),
    ("openai/gpt-oss-20b", "catalogue", "packed bytes twice", None, ""),
    ("openai/gpt-oss-120b", "catalogue", "packed bytes twice", None, ""),
    ("deepseek-ai/DeepSeek-V3", "catalogue", "elements", None, ""),
    ("nvidia/Qwen3-8B-NVFP4", "Qwen/Qwen3-8B", "elements", {**_NVFP4, "exclude_modules": ["lm_head"]}, ""),
    ("nvidia/Qwen3-30B-A3B-NVFP4", "Qwen/Qwen3-30B-A3B", "elements", {**_NVFP4, "exclude_modules": _gates(48)}, ""),
    (
        "nvidia/Qwen3-235B-A22B-NVFP4",
        "Qwen/Qwen3-235B-A22B-Instruct-2507",
        "elements",
        {**_NVFP4, "exclude_modules": _attention(94)},
        "the attention left out: the list in models.jsonl.gz is of another revision (its own size is 2.2 % less)",
    ),
    ("MiniMaxAI/MiniMax-M2.5", "MiniMaxAI/MiniMax-M2.7", "elements", None, "of the same structure as M2.7"),
    # not in quant-checks.json: totals of models.jsonl.gz itself
    ("github:Arp1tMoga/fast_qwen", "models", "bytes", None, "per-module bits; the prediction layer is in another file"),
    ("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", "models", "elements", None, ""),
    ("zai-org/GLM-5-FP8", "models", "elements", None, ""),
    ("nvidia/Llama-3.1-70B-Instruct-FP8", "models", "elements", None, ""),
    ("nvidia/DeepSeek-V3.1-NVFP4", "models", "elements", None, ""),
    ("nvidia/DeepSeek-V3.2-NVFP4", "models", "elements", None, ""),
    ("nvidia/GLM-5-NVFP4", "models", "elements", None, ""),
    ("nvidia/Gemma-4-31B-IT-NVFP4", "models", "packed bytes twice", None, ""),
    ("TheBloke/Llama-2-13B-chat-GPTQ", "models", "gptq", None, ""),
)
_STATIC = {"num_bits": 8, "type": "float", "strategy": "tensor"}
_FP8_STATIC = {**_FP8_DYNAMIC, "config_groups": {"group_0": {"weights": _STATIC, "input_activations": _STATIC}}}
_CHANNEL = {"num_bits": 8, "type": "int", "strategy": "channel"}
_W8A8 = {
    **_FP8_DYNAMIC,
    "format": "int-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": _CHANNEL, "input_activations": {"dynamic": True}}},
}
_FP4 = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
_NVFP4_PACKED = {
    **_FP8_DYNAMIC,
    "format": "nvfp4-pack-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": _FP4, "input_activations": _FP4}},
}
_BLOCKS = {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"}
_AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True}
_GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "static_groups": False}
_INT8 = {"quant_method": "bitsandbytes", "load_in_8bit": True}
_MORE: tuple[tuple[str, str, dict[str, Any], str, int], ...] = (
    # name, whose fields, usual recipe of the publisher, how the total counts, the total
    ("unsloth/Qwen2.5-0.5B-bnb-4bit", "Qwen/Qwen2.5-0.5B", _NF4, "packed bytes twice", 505_339_700),
    ("unsloth/Qwen2.5-72B-Instruct-bnb-4bit", "Qwen/Qwen2.5-72B-Instruct", _NF4, "packed bytes twice", 74_904_980_156),
    ("unsloth/gemma-2-27b-it-bnb-4bit", "google/gemma-2-27b-it", _NF4, "packed bytes twice", 28_042_874_066),
    ("unsloth/gemma-3-12b-it-bnb-4bit", "google/gemma-3-12b-it", _NF4, "packed bytes twice", 12_537_359_754),
    ("unsloth/phi-4-bnb-4bit", "microsoft/phi-4", _NF4, "packed bytes twice", 15_086_495_998),
    ("meta-llama/Llama-Guard-3-8B-INT8", "meta-llama/Llama-3.1-8B", _INT8, "elements", 8_031_637_504),
    ("RedHatAI/Qwen3-8B-FP8-dynamic", "Qwen/Qwen3-8B", _FP8_DYNAMIC, "elements", 8_192_136_192),
    ("RedHatAI/phi-4-FP8-dynamic", "microsoft/phi-4", _FP8_DYNAMIC, "elements", 14_661_657_600),
    ("RedHatAI/Qwen2.5-3B-FP8-dynamic", "Qwen/Qwen2.5-3B", _FP8_DYNAMIC, "elements", 3_398_135_808),
    ("RedHatAI/Meta-Llama-3.1-8B-FP8", "meta-llama/Llama-3.1-8B", _FP8_STATIC, "elements", 8_030_261_696),
    (
        "RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8",
        "meta-llama/Llama-3.3-70B-Instruct",
        _W8A8,
        "elements",
        70_560_423_936,
    ),
    (
        "RedHatAI/Llama-3.1-8B-Instruct-NVFP4",
        "meta-llama/Llama-3.1-8B-Instruct",
        _NVFP4_PACKED,
        "elements",
        4_976_808_384,
    ),
    (
        "RedHatAI/Llama-3.3-70B-Instruct-NVFP4",
        "meta-llama/Llama-3.3-70B-Instruct",
        _NVFP4_PACKED,
        "elements",
        40_606_377_056,
    ),
    (
        "nvidia/Qwen3-32B-NVFP4",
        "Qwen/Qwen3-32B",
        {**_NVFP4, "exclude_modules": ["lm_head"]},
        "elements",
        19_109_664_640,
    ),
    ("Qwen/Qwen3-4B-FP8", "Qwen/Qwen3-4B", _BLOCKS, "elements", 4_411_646_016),
    ("Qwen/Qwen3-0.6B-FP8", "Qwen/Qwen3-0.6B", _BLOCKS, "elements", 751_659_264),
    ("Qwen/Qwen2.5-3B-Instruct-AWQ", "Qwen/Qwen2.5-3B-Instruct", _AWQ, "gptq", 3_397_103_616),
    ("AMead10/Llama-3.2-3B-Instruct-AWQ", "meta-llama/Llama-3.2-3B-Instruct", _AWQ, "gptq", 3_606_752_256),
    (
        "TheBloke/Mixtral-8x7B-Instruct-v0.1-AWQ",
        "mistralai/Mixtral-8x7B-Instruct-v0.1",
        {**_AWQ, "modules_to_not_convert": ["gate"]},
        "gptq",
        46_702_792_704,
    ),
    ("Qwen/Qwen2.5-0.5B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-0.5B-Instruct", _GPTQ, "gptq", 494_032_768),
)
"""Totals of elements as `llmfit 1.1.17 list --json` gives them (parameters_raw, from the hub's safetensors headers)."""
_VARIANTS = {
    # bits, group, bytes of the git-lfs pointer
    "3bit-128g": (3, 128, 13_509_984_992),
    "4bit-32g": (4, 32, 19_435_090_976),
    "4bit-128g": (4, 128, 17_554_104_608),
    "8bit-128g": (8, 128, 33_730_582_288),
}
"""Files beside each other in github:CesarChaMal/Wizard-Vicuna-30B-Uncensored-GPTQ, gptq_model-….safetensors."""


def _as_llama(config: dict[str, Any]) -> dict[str, Any]:
    """Qwen 1 in Llama's fields: `intermediate_size` is that of gate and up together."""
    same = ("hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size", "torch_dtype")
    kept = {name: config[name] for name in (*same, "quantization_config", "tie_word_embeddings")}
    return {**kept, "model_type": "llama", "intermediate_size": config["intermediate_size"] // 2}


def _quantized(config: dict[str, Any], top: dict[str, Any] | None) -> dict[str, Any]:
    if top is None:
        return config
    if "quantize_config.json" in top:
        beside = {**top["quantize_config.json"], "true_sequential": True}
        return merge_beside(config, "quantize_config.json", beside)
    return {**config, "quantization_config": top}


def main(directory: Path) -> None:
    """Bring together configs and totals; write them reproducibly."""
    with gzip.open(directory / "models.jsonl.gz", "rt", encoding="utf-8") as file:
        models = {row["hub_id"]: row for row in map(json.loads, file)}
    checks: dict[str, dict[str, Any]] = {}
    for check in json.loads((directory / "quant-checks.json").read_text("utf-8")):
        checks[check["model"]] = check
    rows = []
    for name, where, unit, top, note in _TABLE:
        known: dict[str, Any] = checks.get(name) or {}
        row = models.get(name if where == "models" else where, {})
        if where == "starcoder":
            config, source = _STARCODER, "github:Decentralised-AI/WizardCoder-15B-1.0-GPTQ config.json"
        elif row and "config" in row:
            config, source = row["config"], row["source"]
            if row.get("hf_quant_config"):
                config = merge_beside(config, "hf_quant_config.json", row["hf_quant_config"])
        else:
            entry = catalogue_entry(name if where == "catalogue" else where)
            config, source = entry.config, entry.source
        beside = 0
        if name == "Qwen/Qwen-VL-Chat-Int4":
            beside = row["published"]["params_raw"] - row["meta"]["total_params"]
            config = _as_llama(config)
        total = known.get("known") or (row.get("published") or {}).get("params_raw") or row["index"]["total_size"]
        origin = known.get("source") or (row.get("published") or row["index"]).get("source") or row["source"]
        rows.append(
            {
                "model": name,
                "counts": unit,
                "known": total,
                "known_source": origin,
                "config": _quantized(config, top),
                "config_source": source,
                "note": note,
                "beside_elements": beside,
            }
        )
    for name, base, recipe, unit, total in _MORE:
        entry = catalogue_entry(base)
        rows.append(
            {
                "model": name,
                "counts": unit,
                "known": total,
                "known_source": "llmfit 1.1.17 parameters_raw (HF safetensors element total)",
                "config": {**entry.config, "quantization_config": recipe},
                "config_source": entry.source,
                "note": "the original's fields and the publisher's usual recipe",
                "beside_elements": 0,
            }
        )
    vicuna = models["TheBloke/Wizard-Vicuna-30B-Uncensored-GPTQ"]
    for label, (bits, group, size) in _VARIANTS.items():
        q = {**vicuna["config"]["quantization_config"], "bits": bits, "group_size": group}
        rows.append(
            {
                "model": f"TheBloke/Wizard-Vicuna-30B-Uncensored-GPTQ {label}",
                "counts": "bytes",
                "known": size,
                "known_source": "git-lfs pointer in github:CesarChaMal/Wizard-Vicuna-30B-Uncensored-GPTQ",
                "config": {**vicuna["config"], "quantization_config": q},
                "config_source": vicuna["source"],
                "note": "",
                "beside_elements": 0,
            }
        )
    write_packed(TARGET, rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Makes the bundled records of what started engines reported: src/narrows/accuracy/data/memory-records.jsonl.

    python scripts/import_memory_records.py ENGINE_MEMORY_RECORDS.jsonl

Merges that file with the records of scripts/data/memory-records-gathered.jsonl (its README says how they were taken).
Carries figures, settings and the address of each source, no prose. `STRUCTURE` says which catalogue entry has the
same tensors where a record's model is a fine-tune or goes by another name, `CONFIG` which fields of its config differ.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/accuracy/data/memory-records.jsonl"
GATHERED = Path(__file__).resolve().parent / "data/memory-records-gathered.jsonl"

GIB = 2**30

STRUCTURE = {
    "Qwen/Qwen2.5-3B (fine-tune, merged)": "Qwen/Qwen2.5-3B",
    "Qwen/Qwen2.5-Coder-7B-Instruct": "Qwen/Qwen2.5-7B-Instruct",
    "lmsys/vicuna-7b-v1.3": "lmsys/vicuna-7b-v1.5",
    "Llama-3 70B (PPO actor)": "meta-llama/Meta-Llama-3-70B",
    "deepseek-ai/DeepSeek-Coder-V2-Instruct": "deepseek-ai/DeepSeek-V2",
    "typhoon-ai/typhoon-s-thaillm-8b-instruct-research-preview": "Qwen/Qwen3-8B",
    "Qwen/Qwen3-Coder-30B-A3B-Instruct": "Qwen/Qwen3-30B-A3B-Instruct-2507",
    "Qwen/Qwen2.5-7B-Instruct-AWQ": "Qwen/Qwen2.5-7B-Instruct",
    "Qwen/QwQ-32B-AWQ": "Qwen/QwQ-32B",
    "Qwen/Qwen3.6-35B-A3B": "Qwen/Qwen3.5-35B-A3B",
    "teknium/OpenHermes-2.5-Mistral-7B": "mistralai/Mistral-7B-v0.1",
    "TheBloke/zephyr-7B-beta-AWQ": "mistralai/Mistral-7B-v0.1",
    "TheBloke/Llama-2-7B-GPTQ": "meta-llama/Llama-2-7b-hf",
    "Qwen/Qwen1.5-7B-Chat-GPTQ-Int4": "Qwen/Qwen2-7B-Instruct",
    "Qwen/Qwen1.5-14B-Chat": "Qwen/Qwen2-7B-Instruct",
    "Qwen/Qwen1.5-72B-Chat": "Qwen/Qwen2-7B-Instruct",
    "Qwen/Qwen-72B-Chat": "Qwen/Qwen2-7B-Instruct",
    "deepseek-ai/deepseek-coder-33b-instruct": "deepseek-ai/deepseek-coder-6.7b-instruct",
    "deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct": "deepseek-ai/DeepSeek-V2-Lite",
    "Qwen/Qwen2.5-14B-Instruct-GPTQ-Int4": "Qwen/Qwen2.5-14B-Instruct",
    "TheBloke/Mixtral-8x7B-Instruct-v0.1-AWQ": "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "RedHatAI/Mixtral-8x7B-Instruct-v0.1-FP8": "mistralai/Mixtral-8x7B-Instruct-v0.1",
    "Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8": "Qwen/Qwen3-30B-A3B-FP8",
    "Qwen/Qwen2.5-3B-Instruct-AWQ": "Qwen/Qwen2.5-3B",
}
"""Model of a record → catalogue entry with the same structure."""

_AWQ: dict[str, Any] = {
    "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
    "torch_dtype": "float16",
}
_GPTQ: dict[str, Any] = {
    "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True},
    "torch_dtype": "float16",
}


def _qwen(layers: int, hidden: int, width: int, heads: int, vocab: int) -> dict[str, Any]:
    """Dense Qwen models of the first two generations: as many KV heads as heads, 32,768 tokens."""
    return {
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "intermediate_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "vocab_size": vocab,
        "max_position_embeddings": 32768,
        "tie_word_embeddings": False,
    }


CONFIG: dict[str, dict[str, Any]] = {
    "Qwen/Qwen2.5-7B-Instruct-AWQ": _AWQ,
    "Qwen/QwQ-32B-AWQ": _AWQ,
    "Qwen/Qwen2.5-3B-Instruct-AWQ": _AWQ,
    "TheBloke/zephyr-7B-beta-AWQ": _AWQ,
    "TheBloke/Mixtral-8x7B-Instruct-v0.1-AWQ": _AWQ,
    "teknium/OpenHermes-2.5-Mistral-7B": {"vocab_size": 32002},
    "TheBloke/Llama-2-7B-GPTQ": _GPTQ,
    "Qwen/Qwen2.5-14B-Instruct-GPTQ-Int4": _GPTQ,
    "Qwen/Qwen1.5-7B-Chat-GPTQ-Int4": {**_qwen(32, 4096, 11008, 32, 151936), **_GPTQ},
    "Qwen/Qwen1.5-14B-Chat": _qwen(40, 5120, 13696, 40, 152064),
    "Qwen/Qwen1.5-72B-Chat": _qwen(80, 8192, 24576, 64, 152064),
    "Qwen/Qwen-72B-Chat": _qwen(80, 8192, 24576, 64, 152064),
    "deepseek-ai/deepseek-coder-33b-instruct": {
        "num_hidden_layers": 62,
        "hidden_size": 7168,
        "intermediate_size": 19200,
        "num_attention_heads": 56,
        "num_key_value_heads": 8,
    },
    "RedHatAI/Mixtral-8x7B-Instruct-v0.1-FP8": {
        "quantization_config": {"quant_method": "fp8", "activation_scheme": "static"},
    },
}
"""Model of a record → fields of its config that the entry with the same structure has otherwise."""

QUANTIZED_AS = {"tm-120": "Qwen/Qwen3-30B-A3B-FP8"}
"""Records of a quantized checkpoint named only by its flag."""

IN_USE = {"tm-110": 4.09}
"""GiB of the device that others held, where only the source says so: what was in use before the profiled step (42.62
GiB), less the weights (38.53 GiB); the device is a virtual one."""

EXPERT_PARALLEL = {"tm-117": 8}
"""Ranks that share out whole experts, where only the source says so: `enable_expert_parallel` in its arguments."""

INFERRED = {
    "llm-d-incubation/llm-d-planner": "0.11",  # another row of the same table names it
    "vllm/issues/10517": "0.6.4",  # opened in November 2024
    "vllm/issues/21348": "0.10",  # July 2025
    "vllm/issues/5248": "0.4.3",  # June 2024
    "vllm/issues/2418": "0.2.7",  # January 2024
    "vllm/issues/1354": "0.2",  # October 2023
    "vllm/issues/184": "0.1",  # June 2023
    "vllm/pull/12569": "0.7",  # January 2025
    "OpenRLHF/issues/336": "0.4.2",  # June 2024
}
"""Part of a source's address → the version of that time, where the record names none."""

NUMBERS = {
    "weights_gib": "weights_bytes",
    "kv_cache_gib": "kv_bytes",
    "activation_peak_gib": "activation_bytes",
    "non_torch_gib": "non_torch_bytes",
    "cuda_graph_gib": "graph_bytes",
    "graph_estimate_gib": "graph_estimate_bytes",
    "total_gpu_gib": "usable_bytes",
    "memory_in_use_gib": "memory_in_use_bytes",
}
SAME = (
    "id", "source", "engine", "split", "model", "quantization", "kv_cache_dtype", "model_dtype", "gpu_count", "tp",
    "pp", "dp", "gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "enforce_eager",
    "block_size", "kv_tokens", "gpu_blocks", "outcome", "family", "version_inferred",
)  # fmt: skip

DEVICES = {
    "NVIDIA GH200 96GB": "gh200-96gb",
    "NVIDIA GeForce RTX 5080": "rtx-5080",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
    "AMD Radeon RX 9070 XT": "rx-9070-xt",
}
"""Devices whose id the records lack or take from a neighbour."""


def _estimated_graphs(notes: str) -> float | None:
    words = notes.split("estimated CUDA graph memory ")
    return float(words[1].split()[0]) if len(words) > 1 else None


def _capacity(notes: str) -> float | None:
    words = notes.split("total capacity of ")
    return float(words[1].split()[0]) if len(words) > 1 else None


def record(raw: dict[str, Any]) -> dict[str, Any]:
    """One row as it is carried: sizes in bytes, only what is known."""
    notes = raw.get("notes") or ""
    kept = {name: raw[name] for name in SAME if raw.get(name) is not None}
    kept["source"] = raw["source"] if raw["source"].startswith("http") else ""
    kept |= {name: round(raw[old] * GIB) for old, name in NUMBERS.items() if raw.get(old) is not None}
    if raw["id"] in EXPERT_PARALLEL:
        kept["ep"] = EXPERT_PARALLEL[raw["id"]]
    if raw["id"] in IN_USE:
        kept["memory_in_use_bytes"] = round(IN_USE[raw["id"]] * GIB)
    capacity = _capacity(notes)
    if capacity is not None:
        kept.setdefault("usable_bytes", round(capacity * GIB))
    if raw.get("engine_version"):
        kept["version"] = raw["engine_version"].removeprefix("v").split("+")[0]
    else:
        for part, version in INFERRED.items():
            if part in raw["source"]:
                kept["version"], kept["version_inferred"] = version, True
    device = DEVICES.get(raw.get("gpu") or "", raw.get("accelerator_id"))
    if device:
        kept["device"] = device
    model = raw.get("model") or ""
    kept["structure"] = QUANTIZED_AS.get(raw["id"], STRUCTURE.get(model, model))
    estimated = _estimated_graphs(notes)
    if estimated is not None:
        kept["graph_estimate_bytes"] = round(estimated * GIB)
    flags = {
        "speculative": "speculative" in notes.lower() or "drafter resident" in notes or "MTP 3" in notes,
        "offload": "offload" in notes or "uva" in notes.lower() or "host memory" in notes,
        "override": "override" in notes,
        "connector": "connector" in notes,
        "inconsistent": "INCONSISTENT" in notes,
        "unified": "unified memory" in notes,
        "text": "limit_mm_per_prompt {'image': 0" in notes,
    }
    kept["flags"] = sorted({*raw.get("flags", ()), *(name for name, is_set in flags.items() if is_set)})
    if model in CONFIG:
        kept["config"] = CONFIG[model]
    return kept


def main() -> None:
    """Write the file."""
    rows = [json.loads(line) for path in (Path(sys.argv[1]), GATHERED) for line in path.read_text().splitlines()]
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(record(row), ensure_ascii=False) + "\n" for row in rows)
    TARGET.write_text(text)
    print(f"{len(rows)} records, {len(text):,} bytes")


if __name__ == "__main__":
    main()

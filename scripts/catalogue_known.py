"""Models of the catalogue whose configs no source at hand holds: their fields are remembered, and held against counts.

`data/catalogue-known.jsonl` has one a line: the fields as the hub's config.json has them, to the best of memory; the
parameters, and what they were checked by: the number of elements that the published files hold (as the Apache-2.0
package llmfit 1.1.17 lists them), or the modules that transformers 5.24 builds from these very fields.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SOURCE = "fields as remembered of the hub's config.json, not copied from it"
FILE = Path(__file__).resolve().parent / "data/catalogue-known.jsonl"
_UNTOLD = "what a count does not tell (windows, lengths, data type) is as remembered"

AS_THEY_ARE = """
    Qwen/Qwen3-VL-4B-Instruct XiaomiMiMo/MiMo-7B-Base deepseek-ai/DeepSeek-V4-Flash
    deepseek-ai/DeepSeek-V4-Pro moonshotai/Kimi-K2.5 nvidia/GLM-5.1-NVFP4
    nvidia/Gemma-4-31B-IT-NVFP4 nvidia/Kimi-K2.5-NVFP4 nvidia/Kimi-K2.6-NVFP4
    nvidia/Llama-3_3-Nemotron-Super-49B-v1 nvidia/MiniMax-M2.5-NVFP4
    nvidia/MiniMax-M2.7-NVFP4 nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8
    nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4 nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4
    zai-org/GLM-5.2 zai-org/GLM-5.3 tiiuae/falcon-180B-chat Qwen/Qwen-72B Qwen/Qwen-1_8B
    baichuan-inc/Baichuan-7B internlm/internlm-chat-7b internlm/internlm2-7b google/gemma-2-2b-jpn-it
    llava-hf/llava-1.5-7b-hf CohereForAI/aya-23-8B deepseek-ai/deepseek-moe-16b-base allenai/OLMo-2-1124-7B
    allenai/OLMo-2-1124-13B microsoft/Phi-3.5-vision-instruct
""".split()  # noqa: SIM905
"""Rows that are taken as their source has them."""

ORIGINALS = {
    "Qwen/Qwen3.5-397B-A17B": "nvidia/Qwen3.5-397B-A17B-NVFP4",
    "Qwen/Qwen3.6-27B": "nvidia/Qwen3.6-27B-NVFP4",
    "Qwen/Qwen3.6-35B-A3B": "nvidia/Qwen3.6-35B-A3B-NVFP4",
    "Qwen/Qwen-VL-Chat": "Qwen/Qwen-VL-Chat-Int4",
    "google/gemma-4-31B-it": "nvidia/Gemma-4-31B-IT-NVFP4",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16": "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4",
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4",
}
"""Models in 16 bits, whose fields are those of a quantized copy, less its quantization."""


def known() -> list[dict[str, Any]]:
    """The rows of the file."""
    return [json.loads(line) for line in FILE.read_text().splitlines()]


def entry_of(row: dict[str, Any]) -> dict[str, Any]:
    """The catalogue's entry."""
    published = row.get("published")
    count = f"the published file's {published:,} elements" if published else row["checked_by"]
    entry: dict[str, Any] = {"id": row["id"], "source": SOURCE, "config": dict(sorted(row["config"].items()))}
    if "stored_beside" in row:
        entry["stored_beside"] = row["stored_beside"]
    return {**entry, "note": f"parameters held against: {count}; {_UNTOLD}"}


def figures_of(row: dict[str, Any]) -> dict[str, Any]:
    """What the test compares with."""
    return {"unique_parameters": row["parameters"], "parameters_checked_by": row["checked_by"]}

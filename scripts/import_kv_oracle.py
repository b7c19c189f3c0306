"""Makes tests/data/kv-oracle.jsonl.gz: what vLLM 0.32's own allocator makes of 16 GiB of KV cache.

    python -m scripts.import_kv_oracle DIRECTORY

DIRECTORY holds one folder per platform with one JSON file per model: the config, the block size, the number of
blocks, "tokens" and concurrency at several lengths. Kept are models of the families narrows reads.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from narrows.models.readers import FAMILIES
from scripts.packed import write_packed

TARGET = Path(__file__).resolve().parent.parent / "tests" / "data" / "kv-oracle.jsonl.gz"
FOLDERS = ("cuda90", "cuda86_A10", "cpu", "cuda90_fp8kv", "cuda90_tp8")


def decoder(config: dict[str, Any]) -> dict[str, Any]:
    """The config itself, or of a multimodal one that was run without its tower the decoder's part."""
    text = config.get("text_config")
    if text is None or "vision_config" in config:
        return config
    dtype = text.get("dtype") or text.get("torch_dtype") or config.get("dtype") or config.get("torch_dtype")
    return {**text, "model_type": f"{config['model_type']}_text", "dtype": dtype}


def main(directory: Path) -> None:
    """Read the folders, keep what the test needs, write it reproducibly."""
    rows: list[dict[str, Any]] = []
    for folder in FOLDERS:
        for path in sorted((directory / folder).glob("*.json")):
            row = json.loads(path.read_text("utf-8"))
            if row.get("config", {}).get("model_type") not in FAMILIES or not row.get("num_blocks"):
                continue
            config = decoder({k: v for k, v in row["config"].items() if k != "quantization_config"})
            kept = {
                "folder": folder,
                "name": row["name"],
                "config": config,
                "tp": row["tp"],
                "kv_bytes": row["gib"] * 2**30,
                "max_num_batched_tokens": row["scheduler"]["max_num_batched_tokens"],
                "max_model_len": row["max_model_len"],
                "parameters": row["num_parameters_meta"],
                "block_size": row["cache_config"]["block_size"],
                "num_blocks": row["num_blocks"],
                "bytes_per_block_pool": row["bytes_per_block_pool"],
                "kv_cache_size_tokens": row["kv_cache_size_tokens"],
                "max_concurrency": row["max_concurrency"],
                "capacity_at": row["capacity_at"],
            }
            rows.append(kept)
    write_packed(TARGET, rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Makes tests/data/oracle.jsonl.gz: what transformers itself builds for the families narrows reads.

    python -m scripts.import_oracle DIRECTORY

DIRECTORY holds oracle-default.jsonl.gz and oracle-random.jsonl.gz: per row a config, the exact parameter count of the
model class on the meta device, active parameters, and the elements of the cache after a forward pass. Kept are the
config's fields, those counts and the cache; only families that narrows reads.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from narrows.models.readers import FAMILIES
from scripts.packed import write_packed

TARGET = Path(__file__).resolve().parent.parent / "tests" / "data" / "oracle.jsonl.gz"
ACTIVE_MISCOUNTED = {"muse_spark"}
"""The oracle takes the rows of the projections around these experts for experts of their own."""
DROPPED = {"id2label", "label2id", "problem_type", "_name_or_path", "transformers_version", "return_dict"}


def encoder_tokens(cache: dict[str, Any]) -> int | None:
    """Tokens of the encoder that were cached beside the decoder's, where there is one."""
    for snapshot in cache.values():
        for layers, _, tensors in snapshot.get("layers", []) if isinstance(snapshot, dict) else []:
            if str(layers[0]).startswith("cross."):
                return int(tensors[0][1][2])
    return None


def embedding_params(row: dict[str, Any]) -> int | None:
    """Elements of the decoder's embedding; None where the row has none, or that of another model's encoder."""
    found = row["embeddings"].get("input_embedding_params")
    return None if found is None or row["model_type"].endswith("encoder-decoder") else int(found)


def main(directory: Path) -> None:
    """Read both files, keep what the test needs, write it reproducibly."""
    rows: list[dict[str, Any]] = []
    for name in ("oracle-default", "oracle-random"):
        with gzip.open(directory / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                if row["model_type"] not in FAMILIES:
                    continue
                # the class decides what of an encoder-decoder is built; the file names it, as files of the hub do
                config = {**row["config"], "architectures": [row["cls"]]}
                caches = row["cache"].get("elems") or {}
                kept = {
                    "set": name,
                    "key": row["key"],
                    "seed": row.get("seed"),
                    "config": {k: v for k, v in config.items() if k not in DROPPED},
                    "total_params": row["total_params"],
                    "active_params": None
                    if row["model_type"] in ACTIVE_MISCOUNTED
                    else (row["moe"] or {}).get("active_params"),
                    "embedding_params": embedding_params(row),
                    # null: nothing is cached, or in places the count does not see
                    "cache_elements": {k: n for k, n in caches.items() if n is not None},
                    "encoder_tokens": encoder_tokens(row["cache"]),
                }
                rows.append(kept)
    write_packed(TARGET, rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

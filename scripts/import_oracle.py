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


def main(directory: Path) -> None:
    """Read both files, keep what the test needs, write it reproducibly."""
    rows: list[dict[str, Any]] = []
    for name in ("oracle-default", "oracle-random"):
        with gzip.open(directory / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                if row["model_type"] not in FAMILIES:
                    continue
                kept = {
                    "set": name,
                    "key": row["key"],
                    "seed": row.get("seed"),
                    "config": {k: v for k, v in row["config"].items() if k not in DROPPED},
                    "total_params": row["total_params"],
                    "active_params": None
                    if row["model_type"] in ACTIVE_MISCOUNTED
                    else (row["moe"] or {}).get("active_params"),
                    "embedding_params": row["embeddings"].get("input_embedding_params"),
                    # null: the class keeps what it caches in places the count does not see
                    "cache_elements": {k: n for k, n in (row["cache"].get("elems") or {}).items() if n is not None},
                }
                rows.append(kept)
    write_packed(TARGET, rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

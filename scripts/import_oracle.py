"""Makes tests/data/oracle.jsonl.gz: what transformers itself builds for the families narrows reads.

    python scripts/import_oracle.py DIRECTORY

DIRECTORY holds oracle-default.jsonl.gz and oracle-random.jsonl.gz: per row a config, the exact parameter count of the
model class on the meta device, active parameters, and the elements of the cache after a forward pass. Kept are the
config's fields, those counts and the cache; only families that narrows reads.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

from narrows.models.readers import FAMILIES

TARGET = Path(__file__).resolve().parent.parent / "tests" / "data" / "oracle.jsonl.gz"
DROPPED = {"id2label", "label2id", "problem_type", "_name_or_path", "transformers_version", "return_dict"}


def main(directory: Path) -> None:
    """Read both files, keep what the test needs, write it reproducibly."""
    lines = []
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
                    "active_params": (row["moe"] or {}).get("active_params"),
                    "embedding_params": row["embeddings"]["input_embedding_params"],
                    "cache_elements": row["cache"].get("elems") or {},
                }
                lines.append(json.dumps(kept, sort_keys=True, separators=(",", ":")))
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as packed:
        packed.write("\n".join(lines).encode())
    TARGET.write_bytes(buffer.getvalue())
    print(f"{len(lines)} rows, {len(buffer.getvalue())} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Makes tests/data/stored-names.jsonl.gz: names and shapes of the tensors that transformers builds for the oracle.

    python -m scripts.import_stored_names DIRECTORY

DIRECTORY is that of `import_oracle`. Kept are set, key, seed and parameters of a row, by which the test finds its
config in the oracle, and its tensors: [name pattern, shape, count, layers].
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from narrows.models.readers import FAMILIES
from scripts.packed import write_packed

TARGET = Path(__file__).resolve().parent.parent / "tests" / "data" / "stored-names.jsonl.gz"


def main(directory: Path) -> None:
    """Read both files, keep what the test needs, write it reproducibly."""
    rows: list[dict[str, Any]] = []
    for name in ("oracle-default", "oracle-random"):
        with gzip.open(directory / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
            for row in map(json.loads, file):
                if row["model_type"] in FAMILIES:
                    known = {
                        "set": name,
                        "key": row["key"],
                        "seed": row.get("seed"),
                        "total_params": row["total_params"],
                    }
                    rows.append({**known, "tensors": row["tensors"]})
    write_packed(TARGET, rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

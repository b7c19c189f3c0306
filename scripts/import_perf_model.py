"""Makes tests/data/perf-model.jsonl.gz: vLLM 0.32's own breakdown of FLOPs and weight bytes of five steps.

    python -m scripts.import_perf_model DIRECTORY

DIRECTORY holds one folder per platform with one JSON file per model, as for `import_kv_oracle`; `vllm_perf_model` is
what vLLM's `ModelMetrics` (Apache-2.0) says of each step. Kept are models of the families narrows reads.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from narrows.models.readers import FAMILIES
from scripts.import_kv_oracle import FOLDERS, decoder
from scripts.packed import write_packed

TARGET = Path(__file__).resolve().parent.parent / "tests" / "data" / "perf-model.jsonl.gz"


def main(directory: Path) -> None:
    """Read the folders, keep what the test needs, write it reproducibly."""
    rows: list[dict[str, Any]] = []
    for folder in FOLDERS:
        for path in sorted((directory / folder).glob("*.json")):
            row = json.loads(path.read_text("utf-8"))
            model = row.get("vllm_perf_model") or {}
            if row.get("config", {}).get("model_type") not in FAMILIES or not model.get("steps"):
                continue
            steps = {
                name: {
                    "flops": step["flops"],
                    "weights": {key: size for key, size in step["read_bytes"].items() if "weight" in key},
                }
                for name, step in model["steps"].items()
            }
            rows.append(
                {
                    "folder": folder,
                    "name": row["name"],
                    "config": decoder({k: v for k, v in row["config"].items() if k != "quantization_config"}),
                    "tp": row["tp"],
                    "steps": steps,
                }
            )
    write_packed(TARGET, rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

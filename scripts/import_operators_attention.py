"""Makes the bundled table of measured attention, columns for numpy, from what aiconfigurator publishes.

    python -m scripts.import_operators_attention FOLDER

FOLDER holds operators-attention-decode.csv.gz and operators-attention-prefill.csv.gz. All rows are carried, times to
three digits. Rows are those of one operator call: heads of 128 elements, full causal attention, all sequences alike.
Writes src/narrows/accuracy/data/operators-attention.npz; operators.md beside it says what stands in.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from scripts.packed_columns import DEVICES, codes, rows, seconds, write

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/accuracy/data/operators-attention.npz"
ENGINES = {"vllm": "vllm", "trtllm": "tensorrt-llm"}
PRECISIONS = {"bfloat16": "bf16", "fp8": "fp8"}


def order(row: dict[str, str]) -> tuple[object, ...]:
    """Rows that are alike stand together, which is what makes the file small."""
    sizes = (int(row[name]) for name in ("num_key_value_heads", "num_heads", "batch_size", "isl", "step"))
    names = (row[name] for name in ("phase", "split", "system", "kernel_source", "attn_dtype", "kv_cache_dtype"))
    return (*names, *sizes)


def main(folder: Path) -> None:
    """Reads both tables and writes one."""
    table = []
    for phase in ("decode", "prefill"):
        for row in rows(folder / f"operators-attention-{phase}.csv.gz"):
            if row["head_dim"] != "128" or row["window_size"] not in ("", "0", "0.0") or row["beam_width"] != "1":
                raise ValueError(f"a row of another kind: {row}")
            table.append({**row, "phase": phase})
    table.sort(key=order)
    columns = {
        "seconds": seconds(row["latency"] for row in table),
        **codes("phase", (row["phase"] for row in table)),
        **codes("split", (row["split"] for row in table)),
        **codes("device", (DEVICES[row["system"]] for row in table)),
        **codes("engine", (ENGINES[row["src"].split("/")[0]] for row in table)),
        **codes("version", (row["src"].split("/")[1] for row in table)),
        **codes("precision", (PRECISIONS[row["attn_dtype"]] for row in table)),
        **codes("cache", (PRECISIONS[row["kv_cache_dtype"]] for row in table)),
        "sequences": np.array([int(row["batch_size"]) for row in table], dtype=np.uint16),
        "heads": np.array([int(row["num_heads"]) for row in table], dtype=np.uint8),
        "kv_heads": np.array([int(row["num_key_value_heads"]) for row in table], dtype=np.uint8),
        "tokens": np.array([int(row["isl"]) + int(row["step"]) for row in table], dtype=np.uint32),
    }
    write(TARGET, columns)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

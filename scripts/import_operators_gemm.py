"""Makes the bundled times of matrix products and elementwise operators, each a table of columns for numpy.

    python -m scripts.import_operators_gemm FOLDER

FOLDER holds operators-gemm.csv.gz (ai-dynamo/aiconfigurator, Apache-2.0) and operators-layers.csv.gz (microsoft/vidur,
MIT). The first is carried whole, its times rounded to four digits. Of the second, equal shapes are one row with the
median of their times, and of token counts above 512 only multiples of 128 are kept: they stand 32 apart there.
Writes operators-gemm.npz and operators-layers.npz to src/narrows/accuracy/data/, whose README says what they hold.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from scripts.packed_columns import DEVICES, codes, rows, write

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/accuracy/data"
VIDUR_DEVICES = {"a100": "a100-sxm-80gb", "a40": "a40", "h100": "h100-sxm"}
PRECISIONS = {"bfloat16": "bf16", "fp8": "fp8", "nvfp4": "fp4"}
ENGINES = {"vllm": "vllm", "trtllm": "tensorrt-llm"}
KINDS = {
    "mlp_act": "activation",
    "input_layernorm": "norm",
    "add": "residual",
    "attn_rope": "rotary",
    "emb": "embedding",
}
"""Vidur's names of what is no matrix product → ours."""


def _names_first(name: str, values: list[str]) -> dict[str, np.ndarray[Any, Any]]:
    """A column of names as `codes` makes it, in the order in which these files hold it."""
    made = codes(name, values)
    return {f"{name}_names": made[f"{name}_names"], name: made[name]}


def rounded(seconds: list[float]) -> np.ndarray[Any, Any]:
    """Times to four digits, in seconds, as they will be read again."""
    return np.array([float(f"{value:.3e}") for value in seconds], dtype=np.float32)


def products(folder: Path) -> None:
    """Matrix products of one library call each."""
    table = rows(folder / "operators-gemm.csv.gz")
    names = ("split", "system", "src", "gemm_dtype")
    table.sort(key=lambda row: (*(row[name] for name in names), *(int(row[axis]) for axis in "nkm")))
    columns: dict[str, np.ndarray[Any, Any]] = {}
    for key, values in {
        "device": [DEVICES[row["system"]] for row in table],
        "engine": [ENGINES[row["src"].split("/")[0]] for row in table],
        "version": [row["src"].split("/")[1] for row in table],
        "precision": [PRECISIONS[row["gemm_dtype"]] for row in table],
        "split": [row["split"] for row in table],
    }.items():
        columns |= _names_first(key, values)
    for axis in "mnk":
        columns[axis] = np.array([int(row[axis]) for row in table], dtype=np.int32)
    columns["seconds"] = rounded([float(row["latency"]) / 1e3 for row in table])
    write(TARGET / "operators-gemm.npz", columns)


def layers(folder: Path) -> None:
    """Operators of whole layers: products as [m, k] × [k, n]; elementwise ones with m rows of n, k = 0."""
    times: dict[tuple[str, str, int, int, int], list[float]] = defaultdict(list)
    for row in rows(folder / "operators-layers.csv.gz"):
        m, n, k = int(row["num_tokens"]), int(row["gemm_n"]), int(row["gemm_k"])
        if m > 512 and m % 128:
            continue
        kind = "gemm"
        if not n:
            kind, n = KINDS[row["op"]], _width(row)
        times[VIDUR_DEVICES[row["gpu"]], kind, m, n, k].append(float(row["median_ms"]) / 1e3)
    keys = sorted(times)
    columns = _names_first("device", [key[0] for key in keys]) | _names_first("kind", [key[1] for key in keys])
    for place, axis in enumerate("mnk", start=2):
        columns[axis] = np.array([key[place] for key in keys], dtype=np.int32)
    columns["seconds"] = rounded([median(times[key]) for key in keys])
    write(TARGET / "operators-layers.npz", columns)


def _width(row: dict[str, str]) -> int:
    """Elements of a row that an elementwise operator writes on one rank."""
    ranks, hidden = int(row["tp"]), int(row["n_embd"])
    if row["op"] == "mlp_act":
        return int(row["n_expanded_embd"]) // ranks
    if row["op"] == "attn_rope":
        heads = int(row["n_head"])
        return (heads + int(row["n_kv_head"])) * (hidden // heads) // ranks
    return hidden


if __name__ == "__main__":
    products(Path(sys.argv[1]))
    layers(Path(sys.argv[1]))

"""Fits the laws of matrix products: src/narrows/calibration/data/gemm.jsonl. Needs scipy.

    python scripts/fit_gemm.py

Rows of `split = fit` alone are read (narrows.accuracy.operator_rows). Written are, by precision and library:
a law of each measured device; of its generation (its values, and no more FLOPs per joule than it reached); of NVIDIA's
devices with HBM and with GDDR, of NVIDIA's and of any device (one set of values for all measured devices); and
`without DEVICE`, fitted without it, which only scoring reads. An interval holds 80 % of measured ÷ predicted: of a
device's own rows for its law, of rows of devices left out for a class.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy.optimize import least_squares

from narrows.accuracy.operator_rows import Table, gemm_tables
from narrows.calibration.laws import Law
from narrows.roofline.devices import architecture, memory_family
from narrows.roofline.gemm import gemm_time

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/calibration/data/gemm.jsonl"
SOURCE = "ai-dynamo/aiconfigurator@095f58a5 systems/data (Apache-2.0)"
START = {
    "t0": (2e-6, 0.3e-6, 30e-6),
    "bandwidth": (0.85, 0.4, 1.0),
    "peak": (0.85, 0.2, 1.0),
    "sm_bandwidth": (120e9, 20e9, 600e9),
    "step": (0.3e-9, 0, 5e-9),
    "wave": (0.8e-6, 0, 10e-6),
    "whole_waves": (0.5, 0, 1),
    "sharpness": (3.0, 1.0, 12.0),
    "split": (2e-6, 0, 10e-6),
    "row": (0.9e-6, 0, 5e-6),
    "element": (2e-10, 0, 2e-9),
    "resident_speed": (3.0, 1.0, 8.0),
    "flops_per_joule": (0.7e12, 0.2e12, 8e12),
}
"""Coefficient → where the search starts, and between what."""
ONE_DEVICE = (0.6, 1.6)
"""Interval of a class that rests on one device (assumed)."""
ALWAYS = ("t0", "bandwidth", "peak", "sm_bandwidth", "step", "wave", "whole_waves", "sharpness")
QUANTIZED = ("row", "element")
MOST_SPLITS = 16.0
"""cuBLAS cuts the sum over k; CUTLASS's quantized products as vLLM calls them do not."""
RESIDENT = 0.5
"""Activations up to this share of L2 are found in it (set by hand on the rows of L40S; HBM shows no such thing)."""
RESIDENT_WEIGHTS = 0.16
"""The same of weights: the benchmark turns over several copies of them."""
UNTHROTTLED = 0.95
"""Share of its peak that a GDDR board reaches where power allows: set by hand to what the fastest rows of A100 reach
(0.92–0.96), which has the same instruction for it."""


def fixed(precision: str, gddr: bool, by_rows: bool) -> dict[str, float]:
    """Coefficients that are not searched."""
    held = {"resident": RESIDENT, "resident_weights": RESIDENT_WEIGHTS} if gddr else {}
    splits = {"splits": MOST_SPLITS} if precision == "bf16" else {}
    return {**held, **splits, **({"tiles_by_rows": 1.0} if by_rows else {})}


def adapted(values: dict[str, float], gddr: bool) -> dict[str, float]:
    """A pooled set of values as it holds on one kind of memory."""
    off = {"flops_per_joule"} if not gddr else set()
    off |= set() if gddr else {"resident", "resident_weights", "resident_speed"}
    kept = {name: value for name, value in values.items() if name not in off}
    return {**kept, "peak": UNTHROTTLED} if gddr and "flops_per_joule" in kept else kept


def is_gddr(table: Table) -> bool:
    """Whether the rows are of a device with GDDR."""
    return memory_family(table.device) == "GDDR"


def law_of(values: dict[str, float]) -> Law:
    """Values as a law, for the functions that take one."""
    return Law("gemm", "", values, 1.0, 1.0, 0, "", "")


def ratios(table: Table, values: dict[str, float]) -> Any:
    """Measured ÷ predicted, row by row."""
    return table.seconds / gemm_time(table.operator(), table.device, law_of(values), cold=False).time


def search(
    tables: Sequence[Table], own: bool, by_rows: bool, rows: int, known: dict[str, float]
) -> tuple[dict[str, float], float]:
    """The values that fit best on all tables alike (robust least squares on the logarithm), and the cost.

    known: values that other rows told.
    """
    precision = tables[0].precision
    any_gddr = any(map(is_gddr, tables))
    names = ALWAYS + (("split",) if precision == "bf16" else QUANTIZED)
    names += ("resident_speed",) if any_gddr else ()
    names += ("flops_per_joule",) if any_gddr and not own else ()
    names = tuple(name for name in names if name not in known)
    thin = [table.thinned(rows) for table in tables]
    cases = [(table, table.operator(), np.log(table.seconds)) for table in thin]
    start = [START[name][0] * (2 if name == "flops_per_joule" and precision != "bf16" else 1) for name in names]
    scale = np.array(start)

    def values_of(x: Any, gddr: bool) -> dict[str, float]:
        values = dict(zip(names, (x * scale).tolist(), strict=True)) | fixed(precision, gddr, by_rows) | known
        return values if own else adapted(values, gddr)

    def error(x: Any) -> Any:
        parts = []
        for table, operator, measured in cases:
            law = law_of(values_of(x, is_gddr(table)))
            parts.append(np.log(gemm_time(operator, table.device, law, cold=False).time) - measured)
        return np.concatenate(parts)

    bounds = [[START[name][side] / first for name, first in zip(names, start, strict=True)] for side in (1, 2)]
    found = least_squares(
        error, np.ones(len(names)), bounds=bounds, loss="soft_l1", f_scale=0.1, diff_step=1e-3, max_nfev=80
    )
    values = dict(zip(names, (found.x * scale).tolist(), strict=True)) | fixed(precision, any_gddr, by_rows) | known
    return {name: float(f"{value:.4g}") for name, value in values.items()}, float(found.cost)


def best(tables: Sequence[Table], own: bool = False, memory: Sequence[Table] = ()) -> dict[str, float]:
    """The better of both ways to choose tiles, where they are not cuBLAS's to choose.

    memory: rows in bf16 of the same devices, which tell better what their memory and L2 do: it knows no precision.
    """
    rows = 3000 if own else 1000
    known: dict[str, float] = {}
    if memory:
        known = {name: value for name, value in best(memory).items() if name in ("bandwidth", "resident_speed")}
    ways = (False,) if tables[0].precision == "bf16" else (False, True)
    return min((search(tables, own, by_rows, rows, known) for by_rows in ways), key=lambda one: one[1])[0]


def interval(parts: Sequence[Any]) -> tuple[float, float]:
    """The 10th and the 90th percentile of measured ÷ predicted, each part counting the same."""
    points = np.concatenate([np.quantile(part, np.linspace(0.005, 0.995, 199)) for part in parts])
    low, high = np.quantile(points, (0.1, 0.9))
    return round(float(low), 3), round(float(high), 3)


def but(tables: Sequence[Table], device: str) -> list[Table]:
    """The tables of other devices."""
    return [one for one in tables if one.device.id != device]


def left_out(tables: Sequence[Table], memory: Sequence[Table]) -> dict[str, tuple[dict[str, float], Any]]:
    """Device → the values of all others, and its rows' measured ÷ predicted with them."""
    found = {}
    for table in tables:
        name = table.device.id
        values = best(but(tables, name), memory=but(memory, name))
        found[name] = (values, ratios(table, adapted(values, is_gddr(table))))
    return found


def laws_of(tables: Sequence[Table], memory: Sequence[Table], engine: str) -> list[Law]:
    """All laws of one precision and library."""
    precision = tables[0].precision
    laws = []

    def add(device: str, values: dict[str, float], bounds: tuple[float, float], count: int, basis: str) -> None:
        laws.append(Law("gemm", device, values, *bounds, count, basis, SOURCE, precision, engine))

    count = sum(len(table.seconds) for table in tables)
    others = left_out(tables, memory) if len(tables) > 1 else {}
    wide = interval([ratio for _, ratio in others.values()]) if others else ONE_DEVICE
    for table in tables:
        values = best([table], own=True)
        add(table.device.id, values, interval([ratios(table, values)]), len(table.seconds), "fitted")
        reached = values["peak"] * table.device.peak(precision) / (table.device.tdp_watts or 1)
        values = {**values, "flops_per_joule": float(f"{reached:.4g}")}
        if is_gddr(table):
            values["peak"] = UNTHROTTLED
        family = f"{architecture(table.device)} {memory_family(table.device)}"
        basis = f"as {table.device.id}, and no more FLOPs per joule; interval of devices left out"
        add(family, values, wide, len(table.seconds), basis)
    pooled = best(tables, memory=memory)
    names = ", ".join(table.device.id for table in tables)
    for chips in ("HBM", "GDDR"):
        values = adapted(pooled, chips == "GDDR")
        add(
            f"nvidia {chips}",
            values,
            wide,
            count,
            f"one law for {names}; interval of devices left out",
        )
    low, high = wide
    flat = adapted(pooled, False)
    basis = f"one law for {names}; interval of devices left out, widened by a quarter"
    add("nvidia", flat, (round(low * 0.8, 3), round(high * 1.25, 3)), count, basis)
    basis = f"assumed: as NVIDIA's ({names}), interval widened to 1.6 times"
    add("any", flat, (round(low * 0.7, 3), round(high * 1.6, 3)), 0, basis)
    for table in tables if len(tables) > 2 else ():
        name = table.device.id
        rest, gddr = but(tables, name), is_gddr(table)
        bounds = interval([ratio for _, ratio in left_out(rest, but(memory, name)).values()])
        size = sum(len(one.seconds) for one in rest)
        add(f"without {name}", adapted(others[name][0], gddr), bounds, size, "fitted without it, for scoring alone")
    return laws


def stretched(laws: Sequence[Law]) -> list[Law]:
    """Laws of precisions that no rows are of: fp16 as bf16, int8 as fp8, and of any precision as bf16."""
    found = []
    for law in laws:
        if law.device.startswith("without"):
            continue
        if law.precision == "bf16":
            found.append(msgspec.structs.replace(law, precision="fp16", basis=f"{law.basis}; in bf16"))
        if law.precision == "fp8":
            found.append(msgspec.structs.replace(law, precision="int8", n=0, basis=f"assumed: as fp8 ({law.basis})"))
        if law.precision == "bf16" and law.device == "any":
            found.append(msgspec.structs.replace(law, precision="", basis=f"{law.basis}; in bf16"))
    return found


def main() -> None:
    """Fit, show, write."""
    found = [table for table in gemm_tables() if not table.test]
    laws = []
    for engine in ("", "tensorrt-llm"):
        for precision in ("bf16", "fp8", "fp4"):
            tables = [one for one in found if one.precision == precision and one.engine == (engine or "vllm")]
            memory = [one for one in found if one.precision == "bf16" and one.engine == (engine or "vllm")]
            laws += laws_of(tables, memory if precision != "bf16" else (), engine) if tables else []
    laws += stretched(laws)
    TARGET.write_bytes(b"".join(msgspec.json.encode(law) + b"\n" for law in laws))
    for law in laws:
        print(
            f"{law.device:32} {law.precision:5} {law.engine:13} n={law.n:<6} {law.low:.2f}–{law.high:.2f} {law.values}"
        )


if __name__ == "__main__":
    main()

"""Fits the laws of elementwise operators: src/narrows/calibration/data/elementwise.jsonl. Needs scipy.

    python -m scripts.fit_elementwise

A law of each measured device, of classes of devices (one set of values for all of them), and `without DEVICE` for
scoring. Intervals hold 80 % of measured ÷ predicted: of the device's own rows, or of rows of devices left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy.optimize import least_squares

from narrows.accuracy.operator_rows import Table, layer_tables
from narrows.calibration.laws import Law
from narrows.roofline.devices import architecture, memory_family
from narrows.roofline.elementwise import elementwise_time
from scripts.fit_gemm import interval

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/calibration/data/elementwise.jsonl"
SOURCE = "microsoft/vidur data/profiling/compute (MIT)"
START = {"t0": (2e-6, 0.1e-6, 20e-6), "bandwidth": (0.85, 0.75, 1.0)}
START |= {"serial": (0.3e-9, 0.0, 5e-9), "element": (0.3e-9, 0.0, 20e-9)}
"""Coefficient → where the search starts, and between what. Memory reaches at least what products see of it."""


def law_of(values: dict[str, float]) -> Law:
    """Values as a law."""
    return Law("elementwise", "", values, 1.0, 1.0, 0, "", "")


def search(tables: Sequence[Table]) -> dict[str, float]:
    """The values that fit best, kind by kind."""
    found: dict[str, float] = {}
    for kind in sorted({table.kind for table in tables}):
        cases = [(table, table.operator(), np.log(table.seconds)) for table in tables if table.kind == kind]
        scale = np.array([START[name][0] for name in START])
        names = [f"{kind}.{name}" for name in START]

        def error(x: Any, cases: Any = cases, scale: Any = scale, names: Any = names) -> Any:
            law = law_of(dict(zip(names, x * scale, strict=True)))
            parts = []
            for table, operator, measured in cases:
                one = np.log(elementwise_time(operator, table.device, law).time) - measured
                parts.append(one / len(measured) ** 0.5)
            return np.concatenate(parts)

        bounds = [[START[name][side] / START[name][0] for name in START] for side in (1, 2)]
        fitted = least_squares(error, np.ones(len(names)), bounds=bounds, diff_step=1e-3)
        found |= {name: float(f"{value:.4g}") for name, value in zip(names, fitted.x * scale, strict=True)}
    return found


def ratios(table: Table, values: dict[str, float]) -> Any:
    """Measured ÷ predicted, row by row."""
    return table.seconds / elementwise_time(table.operator(), table.device, law_of(values)).time


def main() -> None:
    """Fit, show, write."""
    tables = [table for table in layer_tables() if table.kind != "gemm"]
    devices = sorted({table.device.id for table in tables})
    laws = []

    def add(device: str, values: dict[str, float], bounds: tuple[float, float], count: int, basis: str) -> None:
        laws.append(Law("elementwise", device, values, *bounds, count, basis, SOURCE))

    without = {name: search([one for one in tables if one.device.id != name]) for name in devices}
    off = {name: [ratios(one, without[name]) for one in tables if one.device.id == name] for name in devices}
    wide = interval([part for parts in off.values() for part in parts])
    for name in devices:
        mine = [one for one in tables if one.device.id == name]
        values, count = search(mine), sum(len(one.seconds) for one in mine)
        add(name, values, interval([ratios(one, values) for one in mine]), count, "fitted")
        family = f"{architecture(mine[0].device)} {memory_family(mine[0].device)}"
        add(family, values, wide, count, f"as {name}; interval of devices left out")
    pooled, count = search(tables), sum(len(one.seconds) for one in tables)
    basis = f"one law for {', '.join(devices)}"
    add("nvidia", pooled, wide, count, f"{basis}; interval of devices left out")
    wider = (round(wide[0] * 0.7, 3), round(wide[1] * 1.6, 3))
    add("any", pooled, wider, 0, f"assumed: {basis}, interval widened to 1.6 times")
    for name in devices:
        rest = [one for one in tables if one.device.id != name]
        others = [part for other in devices if other != name for part in off[other]]
        size = sum(len(one.seconds) for one in rest)
        add(f"without {name}", without[name], interval(others), size, "fitted without it, for scoring alone")
    TARGET.write_bytes(b"".join(msgspec.json.encode(law) + b"\n" for law in laws))
    for law in laws:
        print(f"{law.device:22} n={law.n:<6} {law.low:.2f}–{law.high:.2f}", law.values)


if __name__ == "__main__":
    main()

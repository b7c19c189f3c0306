"""Fits the laws of whole steps and writes src/narrows/calibration/data/steps.jsonl.

    python scripts/fit_serving.py [--constants]

On rows of the split `fit` of the bundled serving tables, prompts alone and engines for one user; how: see
`narrows.accuracy.serving_fit`. Run it when a law of an operator has changed: factors are relative to those.

--constants: writes nothing, and shows what the size that is not fitted by least squares (`EXPOSED`) does to errors
with the model or the device left out, on rows of the split `fit` alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from pathlib import Path

import msgspec
import numpy as np

from narrows.accuracy.serving_cases import device, parts_of, serving_cases, shape, shipped
from narrows.accuracy.serving_fit import left_out
from narrows.accuracy.serving_work import Work
from narrows.roofline import engine_overhead

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/calibration/data/steps.jsonl"
TRIED = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Multiples of a constant that are tried."""


def errors() -> dict[str, tuple[float, float]]:
    """What is left out, and of what → (median, p90) of the relative errors."""
    serving_cases.cache_clear()
    parts = parts_of(serving_cases())
    found = {}
    without: tuple[tuple[str, Callable[[Work], Hashable]], ...] = (("model", shape), ("device", device))
    for left, key_of in without:
        for of, rows in (
            ("dense", [one for one in parts.servers if one.kind == "dense"]),
            ("experts", [one for one in parts.servers if one.kind == "experts"]),
            ("prompts", list(parts.prompts)),
        ):
            times, _ = left_out(rows, parts, key_of)
            size = np.abs(times / np.array([one.measured for one in rows]) - 1)
            found[f"{of}, {left} left out"] = float(np.median(size)), float(np.quantile(size, 0.9))
    return found


def constants() -> None:
    """The table of the constant."""
    for name in ("EXPOSED",):
        kept = getattr(engine_overhead, name)
        for times in TRIED:
            setattr(engine_overhead, name, kept * times)
            shown = "; ".join(f"{of} {100 * mid:.1f}/{100 * high:.1f}" for of, (mid, high) in errors().items())
            print(f"{name} = {kept * times:g}: {shown}", flush=True)
        setattr(engine_overhead, name, kept)


def main() -> None:
    """Write the file, or show the constants."""
    if "--constants" in sys.argv[1:]:
        constants()
        return
    found = shipped()
    TARGET.write_bytes(b"".join(msgspec.json.encode(law) + b"\n" for law in found))
    print(f"{len(found)} laws of steps, from {max(law.n for law in found)} rows")


if __name__ == "__main__":
    main()

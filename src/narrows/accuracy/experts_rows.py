"""Measured mixtures of experts as operators whose shapes hold columns, by device and format."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from narrows.accuracy.columns import columns
from narrows.accuracy.operator_rows import device_of
from narrows.hardware import Accelerator
from narrows.step import Experts, Operator

BITS = {"bf16": (16.0, 16), "fp8": (8.0, 8), "fp8 blocks": (8.002, 8), "fp4": (4.5, 4), "w4a16": (4.25, 16)}
"""Bits of a weight with its scales, and of an activation. Blocks: 4 bytes per 128 × 128 weights."""
PEAKS = {16: "bf16", 8: "fp8", 4: "fp4"}
"""Bits of activations → the precision whose peak counts."""
SIZES = ("tokens", "hidden", "intermediate", "experts", "all_experts", "top_k", "touched", "matrices", "load")


class Rows(NamedTuple):
    """Rows of one device and format. operator: one, its shape holds columns. kernels: names row by row. excluded: how
    many rows are neither fitted nor scored.
    """

    device: Accelerator
    format: str
    test: bool
    operator: Operator
    seconds: Any
    kernels: Any
    excluded: int


def operator_of(columns: dict[str, Any], format: str) -> Operator:
    """One operator; the columns named in `SIZES` may be numbers."""
    weight_bits, activation_bits = BITS[format]
    one = {name: columns[name] for name in SIZES}
    shape = Experts(weight_bits=weight_bits, activation_bits=activation_bits, **one)
    size = shape.matrices * shape.hidden * shape.intermediate
    rows = shape.tokens * shape.top_k * shape.experts / shape.all_experts * shape.load
    flops: Any = 2 * rows * size
    weights: Any = shape.touched * size * weight_bits / 8
    moved: Any = shape.tokens * shape.hidden * 2
    return Operator("experts", shape, 1, PEAKS[activation_bits], flops, weights, moved, moved)


def sizes_of(operator: Operator) -> dict[str, Any]:
    """The columns of an operator made by `operator_of`."""
    return {name: getattr(operator.shape, name) for name in SIZES}


@cache
def experts_rows() -> tuple[Rows, ...]:
    """All rows that are fitted or scored, in groups of one law each."""
    data = columns("operators-experts.npz")
    groups = sorted(set(zip(data["device"].tolist(), data["format"].tolist(), data["split"].tolist(), strict=True)))
    found = []
    for device, format, split in groups:
        mine = (data["device"] == device) & (data["format"] == format) & (data["split"] == split)
        good = mine & (data["excluded"] == "")
        operator = operator_of({name: data[name][good].astype(float) for name in SIZES}, format)
        seconds = data["seconds"][good].astype(float)
        if not good.any():
            continue  # a table that is excluded as a whole: `excluded_rows` counts it
        excluded = int(mine.sum() - good.sum())
        found.append(
            Rows(device_of(device), format, split == "test", operator, seconds, data["kernel"][good], excluded)
        )
    return tuple(found)


REASONS = {
    "ties": "ties decide which rank works",
    "width": "fp8 experts of a width that kernels are not made for",
    "slower": "fewer bits, and slower than bf16",
}
"""Why rows are excluded, as scripts/import_operators_experts.py names it."""


def excluded_rows() -> dict[str, int]:
    """How many rows of all tables are neither fitted nor scored, by the key of `REASONS`."""
    found = columns("operators-experts.npz")["excluded"]
    return {key: int((found == reason).sum()) for key, reason in REASONS.items()}


def picked(rows: Rows, which: Any) -> Rows:
    """The rows that an index or mask picks."""
    chosen = {name: column[which] for name, column in sizes_of(rows.operator).items()}
    operator = operator_of(chosen, rows.format)
    return rows._replace(operator=operator, seconds=rows.seconds[which], kernels=rows.kernels[which])

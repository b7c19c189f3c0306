"""A measured curve of matrix products: seconds by rows, for weights of several sizes, interpolated in between."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from narrows.calibration.laws import Law, measured_laws

CURVES = "curves"
"""The name under which `narrows measure machine` keeps them."""


class Curve(msgspec.Struct, frozen=True):
    """points: depth of a weight (k) → (rows, seconds per column), both ascending. low, high: as of a `Law`.

    A library walks along the depth of a column, and column after column: what a column takes hangs on its depth, and
    hardly on how many there are (on two cores, 896 deep: 16.5 and 16.6 GB/s with 4,864 and 151,936 columns; 4,096 deep:
    23.8 GB/s, with as many bytes in all as in between).
    """

    points: tuple[tuple[int, tuple[tuple[int, float], ...]], ...]
    low: float
    high: float

    def seconds(self, m: int, k: int, n: int) -> float:
        """Seconds of [m, k] × [k, n].

        Between measured rows, and between measured depths, time is a power law (straight lines on logarithmic axes);
        beyond them it grows as the work does.
        """
        per_element = [(depth, _at(rows, m) / depth) for depth, rows in self.points]
        return n * k * math.exp(_between([(math.log(d), math.log(t)) for d, t in per_element], math.log(k)))


def _at(rows: Sequence[tuple[int, float]], m: int) -> float:
    """Seconds at `m` rows of one column."""
    last, seconds = rows[-1]
    if m > last:
        return seconds * m / last
    return math.exp(_between([(math.log(r), math.log(t)) for r, t in rows], math.log(m)))


def _between(points: Sequence[tuple[float, float]], x: float) -> float:
    """Linear between the points, level beyond them."""
    right = bisect_right(points, (x, math.inf))
    if right == 0:
        return points[0][1]
    if right == len(points):
        return points[-1][1]
    (x0, y0), (x1, y1) = points[right - 1], points[right]
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


def along(values: Mapping[str, float], x: float, rate: bool = False) -> float:
    """Seconds (rate: per second) at size `x` of what was measured at the sizes that `values` are named by.

    A power law between two sizes. Below the least, as at it; beyond the largest, seconds grow as the size does, and
    rates stay.
    """
    points = sorted((int(name), value) for name, value in values.items() if name.isdecimal())
    last, value = points[-1]
    if x > last and not rate:
        return value * x / last
    return math.exp(_between([(math.log(size), math.log(at)) for size, at in points], math.log(max(x, 1))))


def values_of(points: Iterable[tuple[int, int, int, float]]) -> dict[str, float]:
    """The coefficients of a `Law` from (m, k, n, seconds): `4096x4096@16` → seconds."""
    return {f"{k}x{n}@{m}": seconds for m, k, n, seconds in points}


def curve_of(law: Law) -> Curve:
    """The curve that a law's coefficients are."""
    by_depth: dict[int, list[tuple[int, float]]] = {}
    for name, seconds in law.values.items():
        shape, _, rows = name.partition("@")
        k, _, n = shape.partition("x")
        by_depth.setdefault(int(k), []).append((int(rows), seconds / int(n)))
    return Curve(tuple((depth, tuple(sorted(by_depth[depth]))) for depth in sorted(by_depth)), law.low, law.high)


def measured_row(precision: str) -> Law | None:
    """The law of products measured on this machine at a precision (`bf16`, `fp32`, …), or None."""
    return next(
        (row for row in measured_laws(CURVES) if (row.operator, row.precision) == ("gemm", precision)),
        None,
    )

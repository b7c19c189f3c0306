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
    """points: elements of a weight (k·n) → (rows, seconds), both ascending. low, high: as of a `Law`."""

    points: tuple[tuple[int, tuple[tuple[int, float], ...]], ...]
    low: float
    high: float

    def seconds(self, m: int, k: int, n: int) -> float:
        """Seconds of [m, k] × [k, n].

        Between measured rows, and between measured sizes of weights, time is a power law (straight lines on
        logarithmic axes); beyond them it grows as the work does.
        """
        size = k * n
        per_element = [(elements, _at(rows, m) / elements) for elements, rows in self.points]
        return size * math.exp(_between([(math.log(e), math.log(t)) for e, t in per_element], math.log(size)))


def _at(rows: Sequence[tuple[int, float]], m: int) -> float:
    """Seconds at `m` rows of one weight."""
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
    points = sorted((int(name), value) for name, value in values.items() if name.isdigit())
    last, value = points[-1]
    if x > last and not rate:
        return value * x / last
    return math.exp(_between([(math.log(size), math.log(at)) for size, at in points], math.log(max(x, 1))))


def values_of(points: Iterable[tuple[int, int, int, float]]) -> dict[str, float]:
    """The coefficients of a `Law` from (m, k, n, seconds): `4096x4096@16` → seconds."""
    return {f"{k}x{n}@{m}": seconds for m, k, n, seconds in points}


def curve_of(law: Law) -> Curve:
    """The curve that a law's coefficients are."""
    by_size: dict[int, list[tuple[int, float]]] = {}
    for name, seconds in law.values.items():
        shape, _, rows = name.partition("@")
        k, _, n = shape.partition("x")
        by_size.setdefault(int(k) * int(n), []).append((int(rows), seconds))
    return Curve(tuple((size, tuple(sorted(by_size[size]))) for size in sorted(by_size)), law.low, law.high)


def measured_row(precision: str) -> Law | None:
    """The law of products measured on this machine at a precision (`bf16`, `fp32`, …), or None."""
    return next(
        (row for row in measured_laws(CURVES) if (row.operator, row.precision) == ("gemm", precision)),
        None,
    )


def measured_curve(precision: str) -> Curve | None:
    """The same as a curve."""
    row = measured_row(precision)
    return curve_of(row) if row else None

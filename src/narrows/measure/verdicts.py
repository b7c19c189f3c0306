"""What bounds a decoder, by how its time grows: flat in the batch is memory-bound, linear is compute-bound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import msgspec

from narrows.measure.predict import Bound, Predicted

FLAT, LINEAR = 0.35, 0.65
"""Growth, as the power of the rows that the time grows with, below which it is flat and above which linear."""
CLEAR = 3.0
"""How many times longer the arithmetic or the traffic must be than the other for a verdict to be clear."""
REACHED = 0.6
"""Share of the measured peak or bandwidth from which on work is taken to be bounded by it."""


class Observed(msgspec.Struct, frozen=True):
    """What a time says by itself. growth: the power of the rows it grows with around here (1: linear); None at the
    ends, where the share of peak and bandwidth that is reached decides. bound: None where it is in between.
    """

    growth: float | None
    bound: Bound | None


def growths(times: Mapping[int, float]) -> dict[int, float | None]:
    """Of times by rows: the growth from the next fewer to the next more rows.

    None at the first, for which libraries have kernels of their own; the last goes by the step before it.
    """
    rows = sorted(times)
    found: dict[int, float | None] = dict.fromkeys(rows)
    for index in range(1, len(rows)):
        low, high = rows[index - 1], rows[min(index + 1, len(rows) - 1)]
        if index + 1 < len(rows) or index > 1:
            found[rows[index]] = math.log(times[high] / times[low]) / math.log(high / low)
    return found


def observed(growth: float | None, time: float, found: Predicted, peak: float, bandwidth: float) -> Observed:
    """The verdict of a measured time; `found` gives the work: FLOPs and bytes."""
    if growth is not None:
        bound: Bound | None = "memory bandwidth" if growth < FLAT else "compute" if growth > LINEAR else None
        return Observed(growth, bound)
    compute, memory = found.flops / peak / time, found.bytes / bandwidth / time
    if max(compute, memory) < REACHED:
        return Observed(None, None)
    return Observed(None, "compute" if compute > memory else "memory bandwidth")


def agrees(predicted: Predicted, seen: Observed) -> bool | None:
    """Whether a prediction's verdict is what was observed; None where either is not clear.

    Time that goes into issuing operators does not grow with the batch either.
    """
    if seen.bound is None or predicted.separation < CLEAR:
        return None
    flat = predicted.bound in ("memory bandwidth", "overhead")
    return flat == (seen.bound == "memory bandwidth")


def turning_rows(times: Mapping[int, float]) -> float | None:
    """The rows at which growth passes a half: where the verdict turns; None where it does not within what was run."""
    known = [(rows, growth) for rows, growth in growths(times).items() if growth is not None]
    for (low, before), (high, after) in pairwise(known):
        if before < 0.5 <= after:
            share = (0.5 - before) / (after - before)
            return math.exp(math.log(low) + share * math.log(high / low))
    return None

"""What bounds a decoder, by how its time grows: flat in the batch is memory-bound, linear is compute-bound.

That holds for one kernel. A library changes kernels as rows are added (a matrix and a vector, a matrix and a matrix),
and the time jumps with it whatever bounds either; where it does so, the machine's own curve of products knows. Growth
is therefore taken within the rows of one kernel, of measured times and of predicted ones alike.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import pairwise

import msgspec

from narrows.measure.predict import Bound, Predicted

FLAT, LINEAR = 0.35, 0.65
"""Growth, as the power of the rows that the time grows with, below which it is flat and above which linear."""
CLEAR = 3.0
"""How many times longer the arithmetic or the traffic must be than the other for a verdict to be clear."""
REACHED = 0.6
"""Share of the measured peak or bandwidth from which on work is taken to be bounded by it."""


TOLD = 0.5
"""How much faster FLOPs must grow than bytes for growth to tell which of them bounds."""
Asked = Mapping[int, tuple[float, float]]
"""Rows → bytes and FLOPs that they ask for."""
LOST = 0.2
"""Share of a step's time that a change of kernel must explain to count as one: twice what repeats may differ by."""


class Observed(msgspec.Struct, frozen=True):
    """What a time says by itself. growth: the power of the rows that it grows with around here, from 0 (as its
    bytes do) to 1 (as its FLOPs do); None where no other time of its kernel is known and the share of peak and
    bandwidth that is reached decides. bound: None where it is in between.
    """

    growth: float | None
    bound: Bound | None


def kernel_changes(expected: Mapping[int, Predicted]) -> tuple[int, ...]:
    """Rows from which on another kernel runs than with the next fewer, by what is predicted for each number of rows.

    With more rows one kernel never reaches less of what the peaks allow: its traffic stays, its arithmetic is used
    better. Where the measured curve of products does reach less, another kernel has taken over.
    """
    found = []
    for few, many in pairwise(sorted(expected)):
        before, after = expected[few], expected[many]
        kept = after.reached / before.reached
        if after.products * (1 - kept) > LOST * after.time:
            found.append(many)
    return tuple(found)


def asked_of(expected: Mapping[int, Predicted]) -> Asked:
    """What is asked for by rows, from what is predicted for each number of rows."""
    return {rows: (one.bytes, one.flops) for rows, one in expected.items()}


def growths(
    times: Mapping[int, float], changes: Collection[int] = (), asked: Asked | None = None
) -> dict[int, float | None]:
    """Of times by rows: the growth from the next fewer to the next more rows that the same kernel runs.

    changes: see `kernel_changes`. At the ends of a kernel's rows one of the two steps is left; a kernel that runs but
    one of the times has none: None. asked: the bytes and FLOPs of each number of rows; growth then is 0 where the time
    grows as the bytes do and 1 where it grows as the FLOPs do (more rows read more experts), and None where both grow
    alike.
    """
    rows = sorted(times)
    found: dict[int, float | None] = dict.fromkeys(rows)
    for index, at in enumerate(rows):
        low = rows[index - 1] if index and at not in changes else at
        following = rows[index + 1] if index + 1 < len(rows) else at
        high = at if following in changes else following
        if low < high:
            growth = math.log(times[high] / times[low]) / math.log(high / low)
            found[at] = growth if asked is None else _placed(growth, asked[low], asked[high], high / low)
    return found


def _placed(growth: float, few: tuple[float, float], many: tuple[float, float], more: float) -> float | None:
    bytes_, flops = (math.log(b / a) / math.log(more) for a, b in zip(few, many, strict=True))
    return (growth - bytes_) / (flops - bytes_) if flops - bytes_ > TOLD else None


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


def turning_rows(times: Mapping[int, float], changes: Collection[int] = (), asked: Asked | None = None) -> float | None:
    """The rows at which growth passes a half: where the verdict turns; None where it does not within what was run."""
    known = [(rows, growth) for rows, growth in growths(times, changes, asked).items() if growth is not None]
    for (low, before), (high, after) in pairwise(known):
        if before < 0.5 <= after:
            share = (0.5 - before) / (after - before)
            return math.exp(math.log(low) + share * math.log(high / low))
    return None


def throughout(times: Mapping[int, float], changes: Collection[int] = (), asked: Asked | None = None) -> Bound | None:
    """What bounds at all of these rows; None where it turns among them, or growth is nowhere known."""
    known = [growth for growth in growths(times, changes, asked).values() if growth is not None]
    if not known or min(known) < 0.5 <= max(known):
        return None
    return "compute" if min(known) >= 0.5 else "memory bandwidth"

"""Lines of a scoreboard from errors and from intervals."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from narrows.accuracy.board import MIN_CLAIM, Interval, Score


def score_of(group: str, method: str, errors: Sequence[tuple[str, float]], quantity: str = "seconds") -> Score:
    """One line from (source, signed relative error): sizes in the median, at 90 % and at worst; bias of the signed."""
    sizes = sorted(abs(error) for _, error in errors)
    return Score(
        quantity=quantity,
        group=group,
        method=method,
        n=len(sizes),
        sources=len({source for source, _ in errors}),
        median=median(sizes),
        p90=sizes[min(len(sizes) - 1, -(-len(sizes) * 9 // 10) - 1)],
        worst=sizes[-1],
        bias=median(error for _, error in errors),
        claims=len(sizes) >= MIN_CLAIM,
    )


def interval_of(group: str, bounds: Sequence[tuple[float, float, float]]) -> Interval:
    """How many of (low, high, measured) are inside, and how wide the intervals are relative to the measured."""
    widths = [(high - low) / measured for low, high, measured in bounds]
    inside = sum(low <= measured <= high for low, high, measured in bounds)
    return Interval(group, len(bounds), inside / len(bounds), sum(widths) / len(widths), median(widths))

"""Timing: warm up, repeat within a budget, and keep the median with its spread."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import msgspec

from narrows.quantity import Quantity

Clock = Callable[[], float]
Action = Callable[[], object]

SHORTEST = 5e-4
"""Seconds of one repeat at least: below it, reading the clock and starting the action weigh too much."""


class Sample(msgspec.Struct, frozen=True):
    """Seconds of one action: the median of `repeats`, of which 80 % lie from `low` to `high`."""

    median: float
    low: float
    high: float
    repeats: int

    @property
    def seconds(self) -> Quantity:
        """The time as a quantity."""
        return Quantity(self.median, "s", "measured", self.low, self.high)

    def rate(self, amount: float, unit: str) -> Quantity:
        """`amount` per second: FLOP/s of FLOPs, B/s of bytes."""
        return Quantity(amount / self.median, unit, "measured", amount / self.high, amount / self.low)


class Pace:
    """How long a stage may still take: `until` on `clock`, in seconds."""

    def __init__(self, clock: Clock, budget: float) -> None:
        self.clock = clock
        self.until = clock() + budget

    @property
    def left(self) -> float:
        """Seconds that are left; 0 when over."""
        return max(0.0, self.until - self.clock())

    def part(self, budget: float) -> Pace:
        """A stage of `budget` seconds at most, within this one."""
        return Pace(self.clock, min(budget, self.left))


def sample(
    action: Action,
    *,
    settle: Action = lambda: None,
    clock: Clock = time.perf_counter,
    budget: float = 0.2,
    least: int = 5,
    most: int = 100,
) -> Sample:
    """Time `action`: once or twice to warm up, then repeats until `budget` seconds and `least` repeats are spent.

    settle: waits for what the action only started (a device's stream). An action so short that the clock would weigh
    is run several times per repeat. One that takes longer than the budget is run three times in all.
    """

    def lasted(times: int) -> float:
        begun = clock()
        for _ in range(times):
            action()
        settle()
        return clock() - begun

    settle()
    first = lasted(1)
    once = lasted(1) if first < budget else first
    inner = max(1, math.ceil(SHORTEST / max(once, 1e-9))) if once < SHORTEST else 1
    inner = min(inner, 10_000)
    begun = clock()
    found: list[float] = []
    while len(found) < most:
        found.append(lasted(inner) / inner)
        spent = clock() - begun
        if spent >= budget and (len(found) >= least or (spent >= 3 * budget and len(found) >= 2)):
            break
    return of(found)


def of(times: list[float]) -> Sample:
    """The sample of single times."""
    ordered = sorted(times)
    return Sample(median(ordered), quantile(ordered, 0.1), quantile(ordered, 0.9), len(ordered))


def quantile(ordered: list[float], share: float) -> float:
    """The value below which `share` of the ordered values lie, linear between two."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: list[float]) -> float:
    """The middle value."""
    return quantile(sorted(values), 0.5)

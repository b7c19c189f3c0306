"""What a scoreboard is made of."""

from __future__ import annotations

from typing import Literal

import msgspec

from narrows.text import Text

MIN_CLAIM = 20
"""A score of fewer cases is shown and claims nothing."""
NAMED_ABOVE = 0.25
"""An error above this is named with its reason."""
Protocol = Literal["leave one source out", "test split"]


class Score(msgspec.Struct, frozen=True):
    """One line of the scoreboard: relative errors |predicted ÷ reported − 1|.

    n cases from `sources`; bias: median of the signed errors. claims: n is large enough to claim anything.
    """

    quantity: str
    group: str
    method: str
    n: int
    sources: int
    median: float
    p90: float
    worst: float
    bias: float
    claims: bool


class Outcomes(msgspec.Struct, frozen=True):
    """Started or not: how many of each were said to be so. recall: share of the failures that were foreseen.

    group: `all` records with a known device, those with nothing else on it, or those without a named reason to differ.
    by_stage: stage a log died in → (foreseen as a failure, foreseen at that stage, in all).
    """

    group: str
    method: str
    started: int
    started_right: int
    failed: int
    failed_right: int
    balanced_accuracy: float
    recall: float
    by_stage: dict[str, tuple[int, int, int]]


class Starts(msgspec.Struct, frozen=True):
    """One group's starts and failures (a version, device or family), and how many of each were foreseen."""

    group: str
    started: int
    started_right: int
    failed: int
    failed_right: int


class Interval(msgspec.Struct, frozen=True):
    """Share of reported values inside the 80 % intervals, and the intervals' mean width relative to the reported."""

    group: str
    n: int
    coverage: float
    mean_width: float
    median_width: float


class Outlier(msgspec.Struct, frozen=True):
    """One record whose prediction is far off, or that has a reason to be: its error, and the reason where known."""

    record: str
    source: str
    quantity: str
    predicted: float
    reported: float
    error: float
    reason: Text | None


class LeftOut(msgspec.Struct, frozen=True):
    """Records on which nothing is predicted, by why."""

    reason: Text
    records: tuple[str, ...]


class MemoryScores(msgspec.Struct, frozen=True):
    """The scoreboard, protocol by protocol."""

    protocol: Protocol
    scores: tuple[Score, ...]
    groups: tuple[Score, ...]
    outcomes: tuple[Outcomes, ...]
    starts: tuple[Starts, ...]
    interval: Interval
    intervals: tuple[Interval, ...]
    outliers: tuple[Outlier, ...]

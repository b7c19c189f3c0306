"""`accuracy`: why should anyone believe this? Predictions held against public measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.accuracy.board import LeftOut, MemoryScores
from narrows.accuracy.memory import left_out, memory_scores
from narrows.accuracy.records import memory_records
from narrows.answers.base import Answer
from narrows.calibration import Coefficient, coefficients
from narrows.text import BadInput, Text

if TYPE_CHECKING:
    from narrows.answers.accuracy_loading import LoadingAccuracy

TOPICS = ("memory", "loading")


class Accuracy(Answer, frozen=True, kw_only=True):
    """The answer of `accuracy`: the scoreboard by each protocol, what it was fitted with, what is left out and why.

    records: bundled measurements in all. coefficients: those narrows ships, fitted on the split `fit` only.
    """

    schema: str = "narrows.accuracy/1"
    topic: str
    records: int
    scoreboards: tuple[MemoryScores, ...]
    coefficients: tuple[Coefficient, ...]
    left_out: tuple[LeftOut, ...]


def accuracy(topic: str = "memory") -> Accuracy | LoadingAccuracy:
    """The scoreboard of `topic` (memory, loading). Raises BadInput for another topic.

    >>> accuracy("memory").scoreboards[0].protocol
    'leave one source out'
    """
    if topic not in TOPICS:
        raise BadInput("'{topic}' is not a scoreboard; use one of: {known}", topic=topic[:40], known=", ".join(TOPICS))
    if topic == "loading":
        from narrows.answers.accuracy_loading import loading_accuracy

        return loading_accuracy()
    return Accuracy(
        command=f"narrows accuracy {topic}",
        topic=topic,
        records=len(memory_records()),
        scoreboards=(memory_scores("leave one source out"), memory_scores("test split")),
        coefficients=tuple(coefficients("vllm").values()),
        left_out=left_out(),
        assumptions=(
            Text("each source is predicted with coefficients refitted without it; nothing is scored on what it taught"),
            Text("settings that a log does not state are the defaults of its version and device"),
        ),
        sources=tuple(sorted({record.source for record in memory_records() if record.source})),
    )

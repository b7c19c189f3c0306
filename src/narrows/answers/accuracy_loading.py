"""`accuracy loading`: predicted loading times held against public records."""

from __future__ import annotations

from narrows.accuracy.board import LeftOut
from narrows.accuracy.loading import LoadingScores, left_out, loading_scores
from narrows.accuracy.loading_records import loading_cases, loading_records
from narrows.answers.base import Answer
from narrows.calibration import Coefficient
from narrows.loading.rates import shipped
from narrows.text import Text


class LoadingAccuracy(Answer, frozen=True, kw_only=True):
    """The answer of `accuracy loading`: the scoreboard, the rates narrows ships, and what is left out and why.

    records: bundled ones in all, those of stages that move no weights among them.
    """

    schema: str = "narrows.accuracy-loading/1"
    topic: str = "loading"
    records: int
    scoreboards: tuple[LoadingScores, ...]
    coefficients: tuple[Coefficient, ...]
    left_out: tuple[LeftOut, ...]


def loading_accuracy() -> LoadingAccuracy:
    """The scoreboard of loading, every source predicted by what the others teach."""
    return LoadingAccuracy(
        command="narrows accuracy loading",
        records=len(loading_records()),
        scoreboards=(loading_scores(),),
        coefficients=tuple(shipped().values()),
        left_out=left_out(),
        assumptions=(
            Text("each source is predicted with rates refitted without it; nothing is scored on what it taught"),
            Text("what catalogues and documents say of a storage is known whichever source is left out"),
        ),
        sources=tuple(sorted({case.record.source for case in loading_cases()[0]})),
    )

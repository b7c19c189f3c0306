"""`accuracy`: why should anyone believe this? Predictions held against public measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.accuracy.board import LeftOut, MemoryScores
from narrows.accuracy.gemm import OperatorScores
from narrows.accuracy.memory import left_out, memory_scores
from narrows.accuracy.records import memory_records
from narrows.answers.base import Answer
from narrows.calibration import Coefficient, coefficients
from narrows.calibration.laws import Law, laws
from narrows.text import BadInput, Text

if TYPE_CHECKING:
    from narrows.answers.accuracy_loading import LoadingAccuracy

TOPICS = ("memory", "roofline", "loading")


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


class RooflineAccuracy(Answer, frozen=True, kw_only=True):
    """The answer of `accuracy roofline`: times against what was measured, by protocol.

    end_to_end: steps of servers, prompts alone, engines for one user; operators: each kind by itself. records: bundled
    measurements end to end, repeated ones once; left_out: those that are not scored, and why. laws: what narrows makes
    of operators' times in a whole step, as shipped.
    """

    schema: str = "narrows.accuracy-roofline/1"
    topic: str
    records: int
    end_to_end: tuple[OperatorScores, ...]
    operators: tuple[OperatorScores, ...]
    laws: tuple[Law, ...]
    left_out: tuple[LeftOut, ...]


def accuracy(topic: str = "memory") -> Accuracy | RooflineAccuracy | LoadingAccuracy:
    """The scoreboard of `topic` (memory, roofline, loading). Raises BadInput for another, or where numpy is missing.

    >>> accuracy("memory").scoreboards[0].protocol
    'leave one source out'
    """
    if topic not in TOPICS:
        raise BadInput("'{topic}' is not a scoreboard; use one of: {known}", topic=topic[:40], known=", ".join(TOPICS))
    if topic == "loading":
        from narrows.answers.accuracy_loading import loading_accuracy

        return loading_accuracy()
    return _memory() if topic == "memory" else _roofline()


def _memory() -> Accuracy:
    return Accuracy(
        command="narrows accuracy memory",
        topic="memory",
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


def _roofline() -> RooflineAccuracy:
    # arrays and tables of measurements: only this scoreboard needs them
    from narrows.accuracy.roofline import operator_scores
    from narrows.accuracy.serving import serving_scores
    from narrows.accuracy.serving_cases import serving_cases
    from narrows.accuracy.serving_records import serving_records

    cases = serving_cases()
    return RooflineAccuracy(
        command="narrows accuracy roofline",
        topic="roofline",
        records=len(serving_records()),
        end_to_end=serving_scores(),
        operators=operator_scores(),
        laws=laws("steps"),
        left_out=cases.left,
        assumptions=(
            Text("a server decodes as many requests together as it has, or as its memory holds, at their mean length"),
            Text(
                "where other servers take the prompts, as many decode as those can feed, at the share of the "
                "roofline of the model of three constants"
            ),
            Text(
                "vLLM and TensorRT-LLM run prompts in the steps that decode, so that both read the same experts; "
                "SGLang in steps of their own"
            ),
            Text("what was measured more than once, or is stated in several files, counts once"),
            Text("an FP8 KV cache where TensorRT-LLM serves FP8 or NVFP4 weights, else the checkpoint's own"),
            Text("laws of operators are fitted on benchmarks of operators alone; no server taught them"),
        ),
        sources=tuple(sorted({record.source for record in serving_records()})),
    )

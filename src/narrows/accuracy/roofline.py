"""The scoreboard of single operators, each by its law."""

from __future__ import annotations

from narrows.accuracy.attention import attention_scores
from narrows.accuracy.collectives import collective_intervals, collective_scores
from narrows.accuracy.elementwise import elementwise_scores
from narrows.accuracy.experts import experts_scores
from narrows.accuracy.gemm import OperatorScores, gemm_scores
from narrows.accuracy.serving_cases import serving_cases


def operator_scores() -> tuple[OperatorScores, ...]:
    """Matrix products, attention, experts, elementwise operators and collectives, each by its protocols.

    Raises BadInput where numpy is not installed.
    """
    serving_cases()  # says so in one place where numpy is missing
    collectives = OperatorScores("leave one device out", collective_scores(), collective_intervals(), 0)
    return (*gemm_scores(), *attention_scores(), *experts_scores(), *elementwise_scores(), collectives)

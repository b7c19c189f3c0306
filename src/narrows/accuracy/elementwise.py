"""Elementwise operators against what was measured: by device and kind, next to bytes ÷ 0.8 of the bandwidth."""

from __future__ import annotations

from narrows.accuracy.board import Interval, Score
from narrows.accuracy.gemm import OURS, PLAIN, PLAIN_BANDWIDTH, OperatorScores, Split, interval, score
from narrows.accuracy.operator_rows import layer_tables
from narrows.calibration.laws import law
from narrows.roofline.devices import device_keys
from narrows.roofline.elementwise import elementwise_time


def elementwise_scores() -> tuple[OperatorScores, ...]:
    """The scoreboard of elementwise operators, protocol by protocol. Raises BadInput where numpy is not installed."""
    return _scored("leave one device out"), _scored("fitted rows")


def _scored(protocol: Split) -> OperatorScores:
    scores: list[Score] = []
    intervals: list[Interval] = []
    for table in layer_tables():
        if table.kind == "gemm":
            continue
        keys = device_keys(table.device) if protocol == "fitted rows" else (f"without {table.device.id}",)
        found = law("elementwise", "elementwise", keys)
        operator = table.operator()
        ours = elementwise_time(operator, table.device, found).time
        plain = operator.bytes / (PLAIN_BANDWIDTH * table.device.memory_bandwidth)
        group = f"{table.kind} {table.device.id}"
        scores.append(score("elementwise", group, OURS, ours, table.seconds))
        scores.append(score("elementwise", group, PLAIN, plain, table.seconds))
        intervals.append(interval(group, ours, table.seconds, found))
    return OperatorScores(protocol, tuple(scores), tuple(intervals), 0)

"""Elementwise operators against what was measured: by device and kind, next to bytes ÷ 0.8 of the bandwidth."""

from __future__ import annotations

from narrows.accuracy.gemm import PLAIN_BANDWIDTH, OperatorScores, Predicted, Split, scored
from narrows.accuracy.operator_rows import layer_tables
from narrows.calibration.laws import law
from narrows.roofline.devices import device_keys
from narrows.roofline.elementwise import elementwise_time, spread


def elementwise_scores() -> tuple[OperatorScores, ...]:
    """The scoreboard of elementwise operators, protocol by protocol. Raises BadInput where numpy is not installed."""
    return _scored("leave one device out"), _scored("fitted rows")


def _scored(protocol: Split) -> OperatorScores:
    rows = []
    for table in layer_tables():
        if table.kind == "gemm":
            continue
        keys = device_keys(table.device) if protocol == "fitted rows" else (f"without {table.device.id}",)
        found = law("elementwise", "elementwise", keys)
        operator = table.operator()
        ours = elementwise_time(operator, table.device, found).time
        plain = operator.bytes / (PLAIN_BANDWIDTH * table.device.memory_bandwidth)
        low, high = spread(operator, found)
        parts = (table.seconds, ours, plain, low * ours, high * ours)
        rows.append(Predicted(table.kind, f"{table.kind} {table.device.id}", *parts))
    return scored(protocol, "elementwise", rows)

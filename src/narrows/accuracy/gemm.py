"""Matrix products against what was measured: by device, precision and library, next to the plain roofline.

Protocols: `test split`: rows of a device on which nothing was fitted, by the law of its class. `leave one device out`:
by a law fitted without the device. `fitted rows`: by the device's own law, which saw them. `other laboratory`: whole
layers that another project measured, by the device's own law, or by that of its class where it has none.
Benchmarks multiply by the same weights again and again, so they are predicted warm (see `gemm_time`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import msgspec

from narrows.accuracy.board import MIN_CLAIM, Interval, Score
from narrows.accuracy.operator_rows import Table, gemm_tables, layer_tables
from narrows.calibration.laws import Law, law, laws
from narrows.roofline.devices import device_keys
from narrows.roofline.gemm import gemm_time

OURS, PLAIN = "narrows", "plain roofline, 0.7 of peak and 0.8 of bandwidth"
PLAIN_PEAK, PLAIN_BANDWIDTH = 0.7, 0.8
Split = Literal["test split", "leave one device out", "fitted rows", "other laboratory"]


class OperatorScores(msgspec.Struct, frozen=True):
    """Scores and intervals of one protocol; `group` of both is `precision device`, with the library where not vLLM.

    excluded: rows that were faster than the device can be, and are not scored.
    """

    protocol: Split
    scores: tuple[Score, ...]
    intervals: tuple[Interval, ...]
    excluded: int


class Case(NamedTuple):
    """Rows with the law that predicts them."""

    table: Table
    law: Law


def plain_time(table: Table) -> Any:
    """Seconds by constant shares of peak and bandwidth: the slower of both."""
    import numpy as np

    operator = table.operator()
    shape: Any = operator.shape
    flops = 2 * table.m * table.n * table.k
    moved = table.n * table.k * shape.weight_bits / 8 + 2 * table.m * table.n
    moved = moved + table.m * table.k * shape.activation_bits / 8
    computing = flops / (PLAIN_PEAK * table.device.peak(table.precision))
    return np.maximum(computing, moved / (PLAIN_BANDWIDTH * table.device.memory_bandwidth))


def score(quantity: str, group: str, method: str, predicted: Any, measured: Any) -> Score:
    """One line: errors relative to what was measured."""
    import numpy as np

    errors = predicted / measured - 1
    size = np.abs(errors)
    return Score(
        quantity,
        group,
        method,
        len(size),
        1,
        float(np.median(size)),
        float(np.quantile(size, 0.9)),
        float(size.max()),
        float(np.median(errors)),
        len(size) >= MIN_CLAIM,
    )


def interval(group: str, predicted: Any, measured: Any, law: Law) -> Interval:
    """How often the measured time lies in the law's interval, and how wide that is."""
    import numpy as np

    inside = (measured >= law.low * predicted) & (measured <= law.high * predicted)
    width = (law.high - law.low) * predicted / measured
    return Interval(group, len(measured), float(inside.mean()), float(width.mean()), float(np.median(width)))


def _engine(table: Table) -> str:
    return "" if table.engine in ("vllm", "vidur") else table.engine


def _group(table: Table) -> str:
    name = f"{table.precision} {table.device.id}"
    return name if table.engine == "vllm" else f"{name} ({table.engine})"


def _scored(protocol: Split, cases: Iterable[Case]) -> OperatorScores:
    scores, intervals, excluded = [], [], 0
    for table, found in cases:
        group = _group(table)
        ours = gemm_time(table.operator(), table.device, found, cold=table.engine == "vidur").time
        scores.append(score("GEMM", group, OURS, ours, table.seconds))
        scores.append(score("GEMM", group, PLAIN, plain_time(table), table.seconds))
        intervals.append(interval(group, ours, table.seconds, found))
        excluded += table.excluded
    return OperatorScores(protocol, tuple(scores), tuple(intervals), excluded)


def _by_device(table: Table) -> Law:
    return law("gemm", "gemm", device_keys(table.device), table.precision, _engine(table))


def _without(table: Table) -> Law | None:
    """The law that was fitted without the table's device; None where no other device has such rows."""
    kind = "" if table.precision == "bf16" else table.precision
    name, engine = f"without {table.device.id}", _engine(table)
    return next((row for row in laws("gemm") if (row.device, row.precision, row.engine) == (name, kind, engine)), None)


def gemm_scores() -> tuple[OperatorScores, ...]:
    """The scoreboard of matrix products, protocol by protocol. Raises BadInput where numpy is not installed."""
    tables = gemm_tables()
    test = [Case(table, _by_device(table)) for table in tables if table.test]
    seen = [Case(table, _by_device(table)) for table in tables if not table.test]
    pairs = [(table, _by_device(table) if table.test else _without(table)) for table in tables]
    without = [Case(table, found) for table, found in pairs if found is not None]
    other = [Case(table, _by_device(table)) for table in layer_tables() if table.kind == "gemm"]
    return (
        _scored("test split", test),
        _scored("leave one device out", without),
        _scored("fitted rows", seen),
        _scored("other laboratory", other),
    )

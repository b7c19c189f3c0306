"""Matrix products against what was measured: by device, precision and library, next to the plain roofline.

Protocols: `test split`: rows of a device on which nothing was fitted, by the law of its class. `leave one device out`:
by a law fitted without the device. No coefficient saw those rows; the form of the law was chosen with both in view.
`fitted rows`: by the device's own law, which saw them, so that its coverage is 0.8 by construction. `other laboratory`:
whole layers that another project measured, by the device's own law, or by that of its class where it has none.
Benchmarks multiply by the same weights again and again, so they are predicted warm (see `gemm_time`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from narrows.accuracy.board import MIN_CLAIM, Interval, Score
from narrows.accuracy.operator_rows import Table, gemm_tables, layer_tables
from narrows.calibration.laws import Law, law, laws
from narrows.roofline.devices import device_keys
from narrows.roofline.gemm import gemm_time
from narrows.text import Text

OURS, PLAIN = "narrows", "plain roofline, 0.7 of peak and 0.8 of bandwidth"
PLAIN_PEAK, PLAIN_BANDWIDTH = 0.7, 0.8
Split = Literal[
    "test split",
    "leave one device out",
    "leave one model out",
    "leave one source out",
    "fitted rows",
    "other laboratory",
]


class OperatorScores(msgspec.Struct, frozen=True):
    """Scores and intervals of one protocol. `group` of both is `precision device`, with the library where not vLLM, or
    `precision (all)`.

    excluded: rows that are not scored. notes: why, and of which tables the intervals promise less than 80 %.
    """

    protocol: Split
    scores: tuple[Score, ...]
    intervals: tuple[Interval, ...]
    excluded: int
    notes: tuple[Text, ...] = ()


class Case(NamedTuple):
    """Rows with the law that predicts them."""

    table: Table
    law: Law


class Predicted(NamedTuple):
    """Rows of one group: measured seconds, predicted by the law and by the plain roofline, and the law's interval."""

    kind: str
    group: str
    measured: Any
    ours: Any
    plain: Any
    low: Any
    high: Any


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


def interval(group: str, measured: Any, low: Any, high: Any) -> Interval:
    """How often the measured time lies between two times, and how far apart they are relative to it."""
    import numpy as np

    inside = (measured >= low) & (measured <= high)
    width = (high - low) / measured
    return Interval(group, len(measured), float(inside.mean()), float(width.mean()), float(np.median(width)))


def _engine(table: Table) -> str:
    return "" if table.engine in ("vllm", "vidur") else table.engine


def _group(table: Table) -> str:
    name = f"{table.precision} {table.device.id}"
    return name if table.engine == "vllm" else f"{name} ({table.engine})"


MANY, LEAST_COVERED, MOST_COVERED = 100, 0.7, 0.9
"""An interval of so many rows or more is held to cover between these shares of them."""


def outside(intervals: Sequence[Interval]) -> tuple[Text, ...]:
    """Where single tables are covered by less or more than an interval promises: how many, and why that is left so."""
    many = [one for one in intervals if one.n >= MANY]
    off = [one for one in many if not LEAST_COVERED <= one.coverage <= MOST_COVERED]
    if not off:
        return ()
    return (
        Text(
            "of {many} tables with 100 rows or more, {few} are covered by less than 70 % and {much} by more than 90 %: "
            "devices differ by more than the rows of one do, and so few of them cannot tell how the next one differs; "
            "intervals are made to hold over devices left out together, not on each",
            many=len(many),
            few=sum(one.coverage < LEAST_COVERED for one in off),
            much=sum(one.coverage > MOST_COVERED for one in off),
        ),
    )


def scored(
    protocol: Split,
    quantity: str,
    rows: Sequence[Predicted],
    excluded: int = 0,
    reasons: Sequence[Text] | None = None,
) -> OperatorScores:
    """Scores and intervals of every group, and of each kind's groups together where it has several.

    reasons: why rows are excluded; None: they are faster than the device can be.
    """
    import numpy as np

    whole: dict[str, list[Predicted]] = {}
    for row in rows:
        whole.setdefault(row.kind, []).append(row)
    for kind, parts in whole.items():
        if len(parts) > 1:
            columns = (np.concatenate(column) for column in list(zip(*parts, strict=True))[2:])
            rows = [*rows, Predicted(kind, f"{kind} (all)", *columns)]
    scores: list[Score] = []
    for row in rows:
        scores.append(score(quantity, row.group, OURS, row.ours, row.measured))
        scores.append(score(quantity, row.group, PLAIN, row.plain, row.measured))
    intervals = tuple(interval(row.group, row.measured, row.low, row.high) for row in rows)
    if reasons is None:
        reasons = (
            [Text("{n} rows that are faster than the device can be are not scored", n=excluded)] if excluded else []
        )
    return OperatorScores(protocol, tuple(scores), intervals, excluded, (*reasons, *outside(intervals)))


def _products(protocol: Split, cases: Sequence[Case]) -> OperatorScores:
    rows = []
    for table, found in cases:
        ours = gemm_time(table.operator(), table.device, found, cold=table.engine == "vidur").time
        parts = (table.seconds, ours, plain_time(table), found.low * ours, found.high * ours)
        rows.append(Predicted(table.precision, _group(table), *parts))
    return scored(protocol, "GEMM", rows, sum(case.table.excluded for case in cases))


def _by_device(table: Table) -> Law:
    return law("gemm", "gemm", device_keys(table.device), table.precision, _engine(table))


def _without(table: Table) -> Law | None:
    """The law that was fitted without the table's device; None where no other device has such rows."""
    wanted = f"without {table.device.id}", table.precision, _engine(table)
    return next((row for row in laws("gemm") if (row.device, row.precision, row.engine) == wanted), None)


def gemm_scores() -> tuple[OperatorScores, ...]:
    """The scoreboard of matrix products, protocol by protocol. Raises BadInput where numpy is not installed."""
    tables = gemm_tables()
    test = [Case(table, _by_device(table)) for table in tables if table.test]
    seen = [Case(table, _by_device(table)) for table in tables if not table.test]
    pairs = [(table, _by_device(table) if table.test else _without(table)) for table in tables]
    without = [Case(table, found) for table, found in pairs if found is not None]
    other = [Case(table, _by_device(table)) for table in layer_tables() if table.kind == "gemm"]
    return (
        _products("test split", test),
        _products("leave one device out", without),
        _products("fitted rows", seen),
        _products("other laboratory", other),
    )

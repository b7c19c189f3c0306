"""Attention against what was measured: by device, phase and precision of the cache, next to the plain roofline.

Scored are rows that read 64 MB of cache or more, and prompts of 1024 tokens or more; the intervals of all others stand
beside them. Protocols as for matrix products: `test split`, `leave one device out`, `fitted rows`. Benchmarks read the
same cache again and again, so they are predicted warm (see `attention_time`). Excluded: tables in which more than
one row in twenty is faster than memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from narrows.accuracy.attention_rows import Rows, attention_rows, picked
from narrows.accuracy.gemm import PLAIN_BANDWIDTH, PLAIN_PEAK, OperatorScores, Predicted, Split, scored
from narrows.calibration.laws import Law, law, laws
from narrows.roofline.attention import attention_time
from narrows.roofline.devices import device_keys
from narrows.text import Text

SMALL = "small "
"""Before the group of rows that are below what is scored."""


def attention_scores() -> tuple[OperatorScores, ...]:
    """The scoreboard of attention, protocol by protocol. Raises BadInput where numpy is not installed."""
    tables = [rows for rows in attention_rows() if not rows.impossible]
    excluded = sum(len(rows.seconds) for rows in attention_rows() if rows.impossible)
    own = [(rows, law("attention", rows.kind, device_keys(rows.device), rows.cache, rows.engine)) for rows in tables]
    left = [(rows, found if rows.test else without(rows)) for rows, found in own]
    return (
        _scored("test split", [(rows, found) for rows, found in own if rows.test]),
        _scored("leave one device out", [(rows, found) for rows, found in left if found is not None], excluded),
        _scored("fitted rows", [(rows, found) for rows, found in own if not rows.test], excluded),
    )


def without(rows: Rows) -> Law | None:
    """The law that was fitted without the device; None where no other device has such rows."""
    device = f"without {rows.device.id}"
    engines = ("", rows.law_engine)
    wanted = rows.kind, device, rows.cache
    found = [row for row in laws("attention") if (row.operator, row.device, row.precision) == wanted]
    return next((row for row in reversed(found) if row.engine in engines), None)


def predicted(rows: Rows, by: Law, group: str, small: bool = False) -> Predicted:
    """Measured and predicted seconds of one group. small: of what is not scored, which has an interval of its own."""
    import numpy as np

    operator, device = rows.operator, rows.device
    ours = attention_time(operator, device, by, cold=False).time
    computing = operator.flops / (PLAIN_PEAK * device.peak(operator.precision))
    plain = np.maximum(computing, operator.bytes / (PLAIN_BANDWIDTH * device.memory_bandwidth))
    low, high = (by.values[f"small.{end}"] for end in ("low", "high")) if small else (by.low, by.high)
    return Predicted(rows.kind.split(".")[0], group, rows.seconds, ours, plain, low * ours, high * ours)


def _scored(protocol: Split, cases: Sequence[tuple[Rows, Law]], excluded: int = 0) -> OperatorScores:
    import numpy as np

    found, small = [], []
    for rows, by in cases:
        engine = "" if rows.engine == "vllm" else f" ({rows.engine})"
        name = f"{rows.kind} {rows.cache} {rows.device.id}{engine}"
        if rows.large.any():
            found.append(predicted(picked(rows, rows.large), by, name))
        if not rows.large.all():
            few = predicted(picked(rows, ~rows.large), by, f"{SMALL}{name}", small=True)
            small.append(few._replace(kind=f"{SMALL}attention"))
    both = [*found, *small]
    devices = sorted({rows.device.id for rows, _ in cases})
    for device in devices if len(devices) > 1 else ():
        mine = [
            one
            for one, (rows, _) in zip(found, (case for case in cases if case[0].large.any()), strict=True)
            if rows.device.id == device
        ]
        parts = [np.concatenate(column) for column in list(zip(*mine, strict=True))[2:]]
        both.append(Predicted(f"all {device}", f"attention {device}", *parts))
    whole = [np.concatenate(column) for column in list(zip(*found, strict=True))[2:]]
    why = Text("{n} rows of tables in which more than one in twenty is faster than memory are not scored", n=excluded)
    return scored(
        protocol, "attention", [*both, Predicted("all", "attention (all)", *whole)], excluded, [why] if excluded else []
    )

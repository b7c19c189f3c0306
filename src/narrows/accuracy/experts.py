"""Mixtures of experts against what was measured: by device and format, next to the plain roofline.

Protocols as for matrix products: `test split`, `leave one device out`, `fitted rows`. Benchmarks run the same experts
again and again, so they are predicted warm (see `experts_time`). Excluded are the rows that operators.md beside the
data names: those whose routing is not known, widths that kernels are not made for, and a table slower than bf16.
"""

from __future__ import annotations

from collections.abc import Sequence

from narrows.accuracy.experts_rows import Rows, excluded_rows, experts_rows
from narrows.accuracy.gemm import PLAIN_BANDWIDTH, PLAIN_PEAK, OperatorScores, Predicted, Split, scored
from narrows.calibration.laws import Law, laws
from narrows.roofline.devices import device_keys
from narrows.roofline.experts import experts_law, experts_time
from narrows.text import Text

MEASURED_WITH = "vllm"


def experts_scores() -> tuple[OperatorScores, ...]:
    """The scoreboard of experts, protocol by protocol. Raises BadInput where numpy is not installed."""
    own = [(rows, experts_law(rows.operator, device_keys(rows.device), MEASURED_WITH)) for rows in experts_rows()]
    left = [(rows, law if rows.test else without(rows)) for rows, law in own]
    return (
        _scored("test split", [(rows, law) for rows, law in own if rows.test]),
        _scored("leave one device out", [(rows, law) for rows, law in left if law is not None]),
        _scored("fitted rows", [(rows, law) for rows, law in own if not rows.test]),
    )


def without(rows: Rows) -> Law | None:
    """The law that was fitted without the device; None where no other device has such rows."""
    wanted = f"without {rows.device.id}", rows.format
    return next((law for law in laws("experts") if (law.device, law.precision) == wanted), None)


def _scored(protocol: Split, cases: Sequence[tuple[Rows, Law]]) -> OperatorScores:
    import numpy as np

    found = []
    for rows, law in cases:
        operator, device = rows.operator, rows.device
        ours = experts_time(operator, device, law, cold=False).time
        computing = operator.flops / (PLAIN_PEAK * device.peak(operator.precision))
        plain = np.maximum(computing, operator.bytes / (PLAIN_BANDWIDTH * device.memory_bandwidth))
        parts = (rows.seconds, ours, plain, law.low * ours, law.high * ours)
        found.append(Predicted("experts", f"{rows.format} {device.id}", *parts))
    fit = protocol == "fitted rows"
    excluded = sum(excluded_rows().values()) if fit else 0
    return scored(protocol, "experts", found, excluded, [_reasons()] if fit else [])


def _reasons() -> Text:
    return Text(
        "not scored: {ties} rows whose busiest rank hangs on how ties are sorted, {width} of fp8 experts whose width "
        "no kernel is made for, {slower} of a table of fewer bits that is slower than bf16 on its device (H100, fp8)",
        **excluded_rows(),
    )

"""The report of `calibration`."""

from __future__ import annotations

from narrows.answers.calibration import Calibration
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _
from narrows.units import binary


def calibration_report(answer: Calibration) -> list[Part]:
    """A numbered list."""
    if not answer.corrections:
        hint = _("No corrections are on record. 'narrows check LOG --calibrate' keeps one.")
        return [Paragraph(hint), Paragraph(answer.path, "dim")]
    columns = [
        Column("#", "right"),
        Column(_("engine")),
        Column(_("accelerator")),
        Column(_("model")),
        Column("TP", "right"),
        Column(_("KV cache beyond the prediction"), "right"),
        Column(_("from")),
    ]
    rows = [
        (
            str(number),
            f"{one.engine}=={one.version}",
            one.gpu,
            one.model,
            str(one.tensor_parallel),
            binary(one.kv_bytes),
            f"{one.log} ({one.date})",
        )
        for number, one in enumerate(answer.corrections, 1)
    ]
    return [Table(columns, rows), Paragraph(answer.path, "dim")]

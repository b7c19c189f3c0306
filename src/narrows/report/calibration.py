"""The report of `calibration`."""

from __future__ import annotations

from narrows.answers.calibration import Calibration
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _
from narrows.units import bandwidth, binary


def calibration_report(answer: Calibration) -> list[Part]:
    """A numbered list."""
    if not answer.corrections and not answer.storages:
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
    parts: list[Part] = [Table(columns, rows)] if rows else []
    if answer.storages:
        parts.append(_storages(answer))
    return [*parts, Paragraph(answer.path, "dim")]


def _storages(answer: Calibration) -> Table:
    columns = [
        Column("#", "right"),
        Column(_("storage measured here")),
        Column(_("many reads"), "right"),
        Column(_("one reader"), "right"),
        Column(_("first touch"), "right"),
        Column(_("copy"), "right"),
        Column(_("when")),
    ]
    rows = [
        (
            str(number),
            f"{one.device} ({one.filesystem})",
            bandwidth(one.top),
            bandwidth(one.stream),
            bandwidth(one.first_touch),
            bandwidth(one.memcpy),
            one.date,
        )
        for number, one in enumerate(answer.storages, 1 + len(answer.corrections))
    ]
    return Table(columns, rows)

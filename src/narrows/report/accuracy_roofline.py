"""The report of `accuracy roofline`: end to end first, then by operator, then what it rests on and what is left out."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from narrows.accuracy.board import Interval, Score
from narrows.accuracy.gemm import OperatorScores
from narrows.answers.accuracy import RooflineAccuracy
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.words import word


def accuracy_roofline_report(answer: RooflineAccuracy) -> list[Part]:
    """All parts."""
    parts: list[Part] = [
        Paragraph(
            _("Roofline against {records} public measurements of servers and engines").format(records=answer.records),
            "heading",
        )
    ]
    parts += _boards(answer.end_to_end)
    parts.append(Paragraph(_("By operator"), "heading"))
    parts += _boards(answer.operators, shortened=True)
    parts.append(Paragraph(_("Single devices and libraries, and laws of single models: --json"), "dim"))
    parts.append(_laws(answer))
    parts.append(Paragraph(_("Left out"), "heading"))
    parts += [Paragraph(f"· {len(one.records)}: {say(one.reason)}", "dim") for one in answer.left_out]
    parts += [Paragraph("· " + say(text), "dim") for text in answer.assumptions]
    return parts


TOGETHER = "(all)"
"""Ends the name of a group that holds the others of its precision, phase or quantity, which begin with it."""


def _boards(boards: tuple[OperatorScores, ...], shortened: bool = False) -> list[Part]:
    """One table per quantity and protocol; what is to be said of it stands under it.

    shortened: of groups that others are part of, these others are not shown.
    """
    parts: list[Part] = []
    for board in boards:
        covered = {one.group: one for one in board.intervals}
        shown = [one for one in board.scores if not shortened or not _part_of_another(one, board.scores)]
        for quantity, scores in groupby(shown, key=lambda one: one.quantity):
            parts.append(_table(f"{word(quantity)}: {word(board.protocol)}", list(scores), covered))
        parts += [Paragraph("· " + say(note), "dim") for note in board.notes]
    return parts


def _part_of_another(one: Score, scores: Iterable[Score]) -> bool:
    whole = {other.group.removesuffix(TOGETHER).strip() for other in scores if other.group.endswith(TOGETHER)}
    first = one.group.split()[0].split(".")[0]
    return not one.group.endswith(TOGETHER) and (first in whole or one.quantity in whole)


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def _table(title: str, scores: list[Score], covered: dict[str, Interval]) -> Table:
    columns = [
        Column(_("records")),
        Column(_("by")),
        Column("n", "right"),
        Column(_("median error"), "right"),
        Column("p90", "right"),
        Column(_("bias"), "right"),
        Column(_("inside 80 %"), "right"),
        Column(_("mean width"), "right"),
    ]
    rows = []
    for one in scores:
        ours = one.method == "narrows" or one.method.startswith(("law ", "table"))
        interval = covered.get(one.group) if ours else None
        rows.append(
            (
                word(one.group),
                word(one.method),
                f"{one.n}" if one.claims else _("{n} (few)").format(n=one.n),
                _percent(one.median),
                _percent(one.p90),
                f"{100 * one.bias:+.1f} %",
                f"{100 * interval.coverage:.0f} %" if interval is not None else "",
                f"{100 * interval.mean_width:.0f} %" if interval is not None else "",
            )
        )
    strong = frozenset(index for index, one in enumerate(scores) if one.method == "narrows")
    return Table(columns, rows, title=title, strong=strong)


def _laws(answer: RooflineAccuracy) -> Table:
    columns = [
        Column(_("whole steps of")),
        Column(_("device")),
        Column(_("engine")),
        Column("n", "right"),
        Column(_("80 % interval"), "right"),
        Column(_("basis")),
    ]
    rows = [
        (
            word("dense models" if one.operator == "dense" else "mixtures of experts"),
            one.device,
            f"{one.engine} {one.version}".strip() or _("all"),
            f"{one.n}",
            f"{one.low:.2f} … {one.high:.2f}",
            one.basis,
        )
        for one in answer.laws
        if not one.model
    ]
    return Table(columns, rows, title=_("Laws of whole steps as shipped, fitted on the split “fit”"))

"""The report of `accuracy roofline`: a screen of what decides whether to believe it; in full, every board."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

import msgspec

from narrows.accuracy.board import Score
from narrows.accuracy.gemm import OperatorScores
from narrows.answers.accuracy import RooflineAccuracy
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.scoreboard import Line, board_table, intervals_meant, left_out, lines_of, more, protocol_word, unit
from narrows.report.words import word

WHOLE = ("all devices", "all engines")
"""Groups that are all there is of a quantity."""
SERVED = (*WHOLE, "dense models", "mixtures of experts")
"""Groups of servers and engines on the first screen."""
LINKS = ("all_reduce nccl, NVLink switch", "all_reduce nccl, PCIe")
"""Collectives on the first screen: what tensor parallelism runs."""
SAW = "fitted rows"
"""The protocol of rows that the laws saw: no evidence."""
TOGETHER = "(all)"
"""Ends the name of a group that holds the others of its precision, phase or quantity, which begin with it."""


def accuracy_roofline_report(answer: RooflineAccuracy, full: bool = False) -> list[Part]:
    """The few rows that tell most, each with its baselines; full: every board, the laws, and what is left out."""
    heading = _("Roofline against {records} public measurements of servers and engines").format(records=answer.records)
    parts: list[Part] = [Paragraph(heading, "heading"), unit()]
    if full:
        parts += _boards(answer.end_to_end)
        parts.append(Paragraph(_("By operator"), "heading"))
        parts += _boards(answer.operators, shortened=True)
        parts.append(Paragraph(_("Single devices and libraries, and laws of single models: --json"), "dim"))
        parts.append(_laws(answer))
    else:
        parts.append(_chosen(answer.end_to_end, _("servers and engines"), _served, sources=True))
        parts.append(_chosen(answer.operators, _("operators alone"), _first_operator))
        parts += [Paragraph("· " + text, "dim") for text in _meanings()]
    parts += left_out([(one.reason, one.records) for one in answer.left_out], full)
    if full:
        parts += [Paragraph("· " + say(text), "dim") for text in answer.assumptions]
    else:
        parts.append(more())
    return parts


def _meanings() -> list[str]:
    return [
        _("kept apart: rows of test, which taught nothing; of operators, those of a whole device"),
        _("device, model, source left out: laws are fitted anew without it; other laboratory: rows of another project"),
        _(
            "plain roofline: 0.7 of the peak, 0.8 of the bandwidth or link; three constants: per layer, byte and FLOP; "
            "scaled: these by model and device"
        ),
        intervals_meant(),
    ]


def _first_operator(one: Score, board: OperatorScores) -> bool:
    """Whether a score of an operator stands on the first screen: those that hold others, and parts of none."""
    if one.quantity == "collectives":
        return one.group in LINKS
    if one.quantity == "attention":
        return one.group.endswith(f"attention {TOGETHER}")
    return not _part_of_another(one, board.scores)


def _served(one: Score, _board: OperatorScores) -> bool:
    return one.group in SERVED


def _chosen(
    boards: Sequence[OperatorScores], first: str, chosen: Callable[[Score, OperatorScores], bool], sources: bool = False
) -> Table:
    """A line per group and protocol, under their quantity, but no rows that the laws saw."""
    found: dict[str, dict[str, list[Line]]] = {}
    for board in boards:
        if board.protocol != SAW:
            kept = [one for one in board.scores if chosen(one, board)]
            for line in lines_of(kept, board.intervals):
                groups = found.setdefault(line.ours.quantity, {})
                name = _named(line.ours, protocol_word(board.protocol))
                groups.setdefault(_short(line.ours), []).append(msgspec.structs.replace(line, name=name))
    under = [(_quantity(name), [line for lines in own.values() for line in lines]) for name, own in found.items()]
    return board_table(first, under, sources=sources)


def _quantity(name: str) -> str:
    return {"GEMM": _("matrix products"), "elementwise": _("element-wise work")}.get(name, word(name))


def _short(one: Score) -> str:
    """A group without what every group of its quantity says: `bf16` of `bf16 (all)`, nothing of `attention (all)`."""
    name = one.group.removesuffix(TOGETHER).strip()
    if one.quantity == "GEMM":
        return name.split()[0]
    return "" if name == one.quantity or one.group in WHOLE else name


def _named(one: Score, protocol: str) -> str:
    short = _short(one)
    return _("{rows}, {protocol}").format(rows=_group(short), protocol=protocol) if short else protocol


def _group(name: str) -> str:
    return {
        "small attention": _("short prompts, small caches"),
        "activation": _("activation functions"),
        "norm": _("norms"),
        "residual": _("residual additions"),
        "rotary": _("rotary embeddings"),
    }.get(name, word(name))


def _boards(boards: tuple[OperatorScores, ...], shortened: bool = False) -> list[Part]:
    """One table per quantity and protocol; what is to be said of it stands under it.

    shortened: of groups that others are part of, these others are not shown.
    """
    parts: list[Part] = []
    for board in boards:
        shown = [one for one in board.scores if not shortened or not _part_of_another(one, board.scores)]
        for quantity, scores in groupby(shown, key=lambda one: one.quantity):
            title = f"{_quantity(quantity)}: {word(board.protocol)}"
            lines = lines_of(list(scores), board.intervals)
            for method, own in groupby(lines, key=lambda line: line.ours.method):
                by = title if method == "narrows" else f"{title} · {word(method)}"
                parts.append(board_table(_("records"), [("", list(own))], by, sources=True, bias=True))
        if board.notes:
            parts += [*(Paragraph("· " + say(note), "dim") for note in board.notes), Paragraph("")]
    return parts


def _part_of_another(one: Score, scores: Iterable[Score]) -> bool:
    whole = {other.group.removesuffix(TOGETHER).strip() for other in scores if other.group.endswith(TOGETHER)}
    first = one.group.split()[0].split(".")[0]
    return not one.group.endswith(TOGETHER) and (first in whole or one.quantity in whole)


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

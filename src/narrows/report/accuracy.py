"""The report of `accuracy`: what is predicted and what starts, beside baselines; what is far off and why."""

from __future__ import annotations

from itertools import groupby

import msgspec

from narrows.accuracy.board import NAMED_ABOVE, Interval, MemoryScores, Outcomes, Outlier, Score, Starts
from narrows.answers.accuracy import Accuracy
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.scoreboard import Line, board_table, left_out, lines_of, more, unit
from narrows.report.words import word


def accuracy_report(answer: Accuracy, full: bool = False) -> list[Part]:
    """The few rows that tell most, each with its baselines; full: every board, and what they rest on."""
    heading = _("Memory ledger against {records} public records").format(records=answer.records)
    parts: list[Part] = [Paragraph(heading, "heading"), unit()]
    for board in answer.scoreboards:
        parts += _board(board) if full else _first(board)
    if full:
        parts.append(_coefficients(answer))
    parts += left_out([(one.reason, one.records) for one in answer.left_out], full, names=True)
    if full:
        parts += [Paragraph("· " + say(text), "dim") for text in answer.assumptions]
    else:
        parts.append(more())
    return parts


def _first(board: MemoryScores) -> list[Part]:
    """What is predicted, what starts, and what is far off."""
    foreseen = _foreseen(board.outcomes)
    gap = Paragraph("")
    parts: list[Part] = [_scores(board.scores, word(board.protocol)), foreseen, _interval(board.interval), gap]
    far = [one for one in board.outliers if one.quantity == "started" or abs(one.error) > NAMED_ABOVE]
    return [*parts, _outliers(tuple(far))] if far else parts


def _foreseen(outcomes: tuple[Outcomes, ...]) -> Table:
    """How many of the starts and of the failures were foreseen, a column for each method."""
    methods = list(dict.fromkeys(one.method for one in outcomes))
    rows = []
    for name, right, n in (
        (_("starts foreseen"), "started_right", "started"),
        (_("failures foreseen"), "failed_right", "failed"),
    ):
        for group in dict.fromkeys(one.group for one in outcomes):
            own = {one.method: one for one in outcomes if one.group == group}
            cells = [f"{getattr(own[m], right)}/{getattr(own[m], n)}" if m in own else "" for m in methods]
            rows.append((name if group == "all" else "  " + word(group), *cells))
    return Table([Column(_("started or not")), *(Column(word(one), "right") for one in methods)], rows)


def _board(board: MemoryScores) -> list[Part]:
    parts: list[Part] = [
        _scores(board.scores, word(board.protocol), full=True),
        _starts(board.outcomes),
        _interval(board.interval),
    ]
    if board.intervals:
        parts.append(_intervals(board.intervals))
    if board.starts:
        parts.append(_by_group(board.starts))
    if board.groups:
        parts.append(_groups(board.groups))
    if board.outliers:
        parts.append(_outliers(board.outliers))
    return parts


def _interval(found: Interval) -> Paragraph:
    text = _(
        "80 % intervals of the bytes for KV cache hold {coverage} of {n} reported values; their width is "
        "{mean} of the value on average, {median} in the median"
    )
    return Paragraph(
        text.format(
            coverage=_percent(found.coverage, 0),
            n=found.n,
            mean=_percent(found.mean_width),
            median=_percent(found.median_width),
        )
    )


def _percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"


def _scores(scores: tuple[Score, ...], title: str, full: bool = False) -> Table:
    groups = []
    for quantity, own in groupby(scores, key=lambda one: one.quantity):
        # a name of its own for all of them, so that the others stand as parts of it
        lines = lines_of(list(own))
        groups += [("", [_named(line, quantity) for line in lines])]
    return board_table(_("predicted"), groups, title, digits=2, sources=True, bias=full, worst=full)


def _named(line: Line, quantity: str) -> Line:
    name = word(quantity) if line.ours.group == "all" else "  " + line.name
    return msgspec.structs.replace(line, name=name)


def _starts(outcomes: tuple[Outcomes, ...]) -> Table:
    columns = [
        Column(_("started or not")),
        Column(_("by")),
        Column(_("started"), "right"),
        Column(_("failed"), "right"),
        Column(_("balanced accuracy"), "right"),
        Column(_("recall of failures"), "right"),
        Column(_("stage: foreseen, there, all")),
    ]
    rows = [
        (
            word(one.group),
            word(one.method),
            f"{one.started_right}/{one.started}",
            f"{one.failed_right}/{one.failed}",
            _percent(one.balanced_accuracy, 0),
            _percent(one.recall, 0),
            "; ".join(f"{word(stage)} {a}, {b}, {n}" for stage, (a, b, n) in one.by_stage.items()),
        )
        for one in outcomes
    ]
    return Table(columns, rows, strong=frozenset(i for i, one in enumerate(outcomes) if one.method == "narrows"))


def _by_group(starts: tuple[Starts, ...]) -> Table:
    columns = [
        Column(_("started or not, by")),
        Column(_("started"), "right"),
        Column(_("failed"), "right"),
        Column(_("recall of failures"), "right"),
    ]
    rows = [
        (
            one.group,
            f"{one.started_right}/{one.started}",
            f"{one.failed_right}/{one.failed}",
            _percent(one.failed_right / one.failed, 0) if one.failed else "–",
        )
        for one in starts
    ]
    return Table(columns, rows)


def _intervals(intervals: tuple[Interval, ...]) -> Table:
    columns = [
        Column(_("80 % intervals by")),
        Column("n", "right"),
        Column(_("inside"), "right"),
        Column(_("median width"), "right"),
    ]
    rows = [(one.group, f"{one.n}", _percent(one.coverage, 0), _percent(one.median_width)) for one in intervals]
    return Table(columns, rows)


def _groups(groups: tuple[Score, ...]) -> Table:
    columns = [
        Column(_("KV tokens by")),
        Column("n", "right"),
        Column(_("sources"), "right"),
        Column(_("median error"), "right"),
        Column(_("worst"), "right"),
    ]
    rows = [(one.group, f"{one.n}", f"{one.sources}", _percent(one.median, 2), _percent(one.worst)) for one in groups]
    return Table(columns, rows)


def _outliers(outliers: tuple[Outlier, ...]) -> Table:
    columns = [Column(_("excluded or explained")), Column(_("error"), "right"), Column(_("reason"))]
    rows = [
        (
            one.record,
            _("foreseen wrongly") if one.quantity == "started" else f"{100 * one.error:+.1f} %",
            say(one.reason) if one.reason is not None else _("not known"),
        )
        for one in outliers
    ]
    return Table(columns, rows)


def _coefficients(answer: Accuracy) -> Table:
    columns = [
        Column(_("coefficient")),
        Column(_("value"), "right"),
        Column(_("80 % interval"), "right"),
        Column(_("unit")),
        Column("n", "right"),
        Column(_("versions")),
    ]
    rows = [
        (
            one.name,
            f"{one.value:,.4g}" if one.value < 1000 else f"{one.value:,.0f}",
            f"{one.low:,.4g} … {one.high:,.4g}" if one.value < 1000 else f"{one.low:,.0f} … {one.high:,.0f}",
            one.unit,
            f"{one.n}",
            one.versions or _("all"),
        )
        for one in answer.coefficients
    ]
    return Table(columns, rows, title=_("Coefficients as shipped, fitted on the split “fit”; n = 0: assumed"))

"""The report of `accuracy`: scoreboards, starts, intervals, what is off and why, what is left out."""

from __future__ import annotations

from narrows.accuracy.board import Interval, MemoryScores, Outcomes, Outlier, Score, Starts
from narrows.answers.accuracy import Accuracy
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.words import word


def accuracy_report(answer: Accuracy) -> list[Part]:
    """All parts: the scoreboards first, then what they rest on."""
    parts: list[Part] = [
        Paragraph(_("Memory ledger against {records} public records").format(records=answer.records), "heading")
    ]
    for board in answer.scoreboards:
        parts += _board(board)
    parts.append(_coefficients(answer))
    parts.append(Paragraph(_("Left out"), "heading"))
    parts += [
        Paragraph(f"· {len(one.records)}: {say(one.reason)} ({', '.join(one.records)})", "dim")
        for one in answer.left_out
    ]
    parts += [Paragraph("· " + say(text), "dim") for text in answer.assumptions]
    return parts


def _board(board: MemoryScores) -> list[Part]:
    parts: list[Part] = [
        _scores(board.scores, word(board.protocol)),
        _starts(board.outcomes),
        Paragraph(
            _(
                "80 % intervals of the bytes for KV cache hold {coverage} of {n} reported values; their width is "
                "{mean} of the value on average, {median} in the median"
            ).format(
                coverage=_percent(board.interval.coverage, 0),
                n=board.interval.n,
                mean=_percent(board.interval.mean_width),
                median=_percent(board.interval.median_width),
            )
        ),
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


def _percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"


def _scores(scores: tuple[Score, ...], title: str) -> Table:
    columns = [
        Column(_("predicted")),
        Column(_("records")),
        Column(_("by")),
        Column("n", "right"),
        Column(_("sources"), "right"),
        Column(_("median error"), "right"),
        Column("p90", "right"),
        Column(_("worst"), "right"),
        Column(_("bias"), "right"),
    ]
    rows = [
        (
            word(one.quantity),
            word(one.group),
            word(one.method),
            f"{one.n}" if one.claims else _("{n} (few)").format(n=one.n),
            f"{one.sources}",
            _percent(one.median, 2),
            _percent(one.p90),
            _percent(one.worst),
            f"{100 * one.bias:+.1f} %",
        )
        for one in scores
    ]
    strong = frozenset(index for index, one in enumerate(scores) if one.method == "narrows")
    return Table(columns, rows, title=title, strong=strong)


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

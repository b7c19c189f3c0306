"""The report of `accuracy loading`: scoreboard beside its baselines, the concurrency law's check, what is far off."""

from __future__ import annotations

from narrows.accuracy.board import Interval, Outlier, Score
from narrows.accuracy.loading import LoadingScores
from narrows.answers.accuracy_loading import LoadingAccuracy
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.words import word
from narrows.units import seconds

_SHOWN = 12


def loading_accuracy_report(answer: LoadingAccuracy) -> list[Part]:
    """All parts: the scoreboard first, then what it rests on."""
    moved = sum(board.scores[0].n for board in answer.scoreboards)
    parts: list[Part] = [
        Paragraph(
            _("Loading times against {moved} of {records} public records").format(moved=moved, records=answer.records),
            "heading",
        )
    ]
    for board in answer.scoreboards:
        parts += _board(board)
    parts.append(Paragraph(_("Left out"), "heading"))
    parts += [
        Paragraph(f"· {len(one.records)}: {say(one.reason)} ({', '.join(one.records)})", "dim")
        for one in answer.left_out
    ]
    parts += [Paragraph("· " + say(text), "dim") for text in answer.assumptions]
    return parts


def _board(board: LoadingScores) -> list[Part]:
    return [
        _scores((*board.scores, *board.per_source), word(board.protocol)),
        _interval(board.interval),
        _scores(board.starts, _("After loading: profile, compile and capture")),
        _interval(board.starts_interval),
        _scores(board.groups, _("By storage and loader")),
        _cases(board.concurrency, _("The concurrency law on a published table, from its smallest concurrency")),
        _cases(board.outliers[:_SHOWN], _("Farthest off")),
    ]


def _interval(found: Interval) -> Paragraph:
    text = _(
        "80 % intervals hold {coverage} of {n} measured times; their width is {mean} of the time on average, "
        "{median} in the median"
    )
    return Paragraph(
        text.format(
            coverage=f"{100 * found.coverage:.0f} %",
            n=found.n,
            mean=f"{100 * found.mean_width:.0f} %",
            median=f"{100 * found.median_width:.0f} %",
        )
    )


def _scores(scores: tuple[Score, ...], title: str) -> Table:
    columns = [
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
            word(one.group),
            word(one.method),
            f"{one.n}" if one.claims else _("{n} (few)").format(n=one.n),
            f"{one.sources}",
            f"{100 * one.median:.1f} %",
            f"{100 * one.p90:.0f} %",
            f"{100 * one.worst:.0f} %",
            f"{100 * one.bias:+.0f} %",
        )
        for one in scores
    ]
    return Table(columns, rows, title, frozenset(i for i, one in enumerate(scores) if one.method == "narrows"))


def _cases(cases: tuple[Outlier, ...], title: str) -> Table:
    columns = [
        Column(_("record")),
        Column(_("predicted"), "right"),
        Column(_("measured"), "right"),
        Column(_("error"), "right"),
        Column(_("reason")),
    ]
    rows = [
        (
            one.record,
            seconds(one.predicted),
            seconds(one.reported),
            f"{100 * one.error:+.0f} %",
            say(one.reason) if one.reason is not None else "",
        )
        for one in cases
    ]
    return Table(columns, rows, title)

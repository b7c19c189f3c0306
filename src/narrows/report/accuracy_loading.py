"""The report of `accuracy loading`: scoreboard beside its baselines, the concurrency law's check, what is far off."""

from __future__ import annotations

from narrows.accuracy.board import Interval, Outlier, Score
from narrows.accuracy.loading import LoadingScores
from narrows.answers.accuracy_loading import LoadingAccuracy
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.scoreboard import board_table, left_out, lines_of, more, unit
from narrows.report.words import word
from narrows.units import seconds

_SHOWN, _FEW = 12, 5
"""Cases that are farthest off: in full, and on the first screen."""


def loading_accuracy_report(answer: LoadingAccuracy, full: bool = False) -> list[Part]:
    """The few rows that tell most, each with its baselines; full: every board, and what they rest on."""
    moved = sum(board.scores[0].n for board in answer.scoreboards)
    heading = _("Loading times against {moved} of {records} public records").format(moved=moved, records=answer.records)
    parts: list[Part] = [Paragraph(heading, "heading"), unit()]
    for board in answer.scoreboards:
        parts += _board(board) if full else _first(board)
    parts += left_out([(one.reason, one.records) for one in answer.left_out], full, names=True)
    if full:
        parts += [Paragraph("· " + say(text), "dim") for text in answer.assumptions]
    else:
        parts.append(more())
    return parts


def _first(board: LoadingScores) -> list[Part]:
    loaders = [one for one in board.groups if one.group.startswith("loader:")]
    return [
        _scores((*board.scores, *board.per_source), word(board.protocol)),
        _interval(board.interval),
        Paragraph(""),
        _scores(board.starts, _("After loading: profile, compile and capture")),
        _interval(board.starts_interval),
        Paragraph(""),
        _scores(tuple(loaders), _("By loader")),
        _cases(board.outliers[:_FEW], _("Farthest off")),
    ]


def _board(board: LoadingScores) -> list[Part]:
    return [
        _scores((*board.scores, *board.per_source), word(board.protocol), full=True),
        _interval(board.interval),
        Paragraph(""),
        _scores(board.starts, _("After loading: profile, compile and capture"), full=True),
        _interval(board.starts_interval),
        Paragraph(""),
        _scores(board.groups, _("By storage and loader"), full=True),
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


def _scores(scores: tuple[Score, ...], title: str, full: bool = False) -> Table:
    groups = [("", lines_of(scores))]
    return board_table(_("records"), groups, title, sources=True, bias=full, worst=full)


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

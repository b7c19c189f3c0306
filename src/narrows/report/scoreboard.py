"""Tables of scores: a row for what is predicted, a column for each method that predicts it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from narrows.accuracy.board import Interval, Score
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.words import word
from narrows.text import Text
from narrows.units import count


class Line(msgspec.Struct, frozen=True):
    """What is predicted: narrows' own score, those of the baselines by their column, narrows' interval."""

    name: str
    ours: Score
    others: dict[str, Score]
    interval: Interval | None = None


def ours(method: str) -> bool:
    """Whether a method is narrows' own."""
    return method == "narrows" or method.startswith(("law ", "table"))


def baseline(method: str) -> str:
    """The heading of a baseline's column."""
    return {
        "plain roofline, 0.7 of peak and 0.8 of bandwidth": _("plain roofline"),
        "0.8 of the link": _("plain roofline"),
        "three constants: per layer, byte and FLOP": _("three constants"),
        "three constants, scaled by model and device": _("scaled"),
        "bytes ÷ bandwidth of the storage": _("÷ bandwidth of storage"),
        "bytes ÷ bandwidth of storage and machine": _("÷ that of storage and machine"),
        "median start of the other sources": _("median of other sources"),
    }.get(method, word(method))


def protocol_word(protocol: str) -> str:
    """What was kept from the laws, in two words."""
    return {
        "test split": _("kept apart"),
        "leave one device out": _("device left out"),
        "leave one model out": _("model left out"),
        "leave one source out": _("source left out"),
        "other laboratory": _("other laboratory"),
    }.get(protocol, word(protocol))


def lines_of(scores: Iterable[Score], intervals: Iterable[Interval] = ()) -> list[Line]:
    """The scores of each quantity and group together, in the order in which they come."""
    covered = {one.group: one for one in intervals}
    together: dict[tuple[str, str], list[Score]] = {}
    for one in scores:
        together.setdefault((one.quantity, one.group), []).append(one)
    found = []
    for (_quantity, group), members in together.items():
        own = next(one for one in members if ours(one.method))
        others = {baseline(one.method): one for one in members if not ours(one.method)}
        found.append(Line(word(group), own, others, covered.get(group)))
    return found


def error(score: Score, digits: int = 1) -> str:
    """Median and 90th percentile, in %."""
    return f"{100 * score.median:.{digits}f} / {100 * score.p90:.1f}"


def cases(score: Score) -> str:
    """How many, and whether they are too few to claim anything."""
    return count(score.n) if score.claims else _("{n} (few)").format(n=count(score.n))


def board_table(
    first: str,
    groups: Sequence[tuple[str, Sequence[Line]]],
    title: str = "",
    *,
    digits: int = 1,
    sources: bool = False,
    bias: bool = False,
    worst: bool = False,
) -> Table:
    """Lines under the name of their group, where it has one: errors as median / 90th percentile, in %.

    sources: with how many they come from; worst, bias: with narrows' largest error, the median of its signed
    ones. The interval's columns stand where any line has one.
    """
    every = [line for _name, lines in groups for line in lines]
    methods = list(dict.fromkeys(name for line in every for name in line.others))
    covered = any(line.interval is not None for line in every)
    columns = [Column(first), Column("n", "right")]
    columns += [Column(_("sources"), "right")] if sources else []
    columns += [Column("narrows", "right"), *(Column(name, "right") for name in methods)]
    columns += [Column(_("worst"), "right")] if worst else []
    columns += [Column(_("bias"), "right")] if bias else []
    columns += [Column(_("holds"), "right"), Column(_("width"), "right")] if covered else []
    rows: list[tuple[str, ...]] = []
    strong = []
    for name, lines in groups:
        if name:
            strong.append(len(rows))
            rows.append((name, *[""] * (len(columns) - 1)))
        for line in lines:
            found = line.interval
            cells = [("  " if name else "") + line.name, cases(line.ours)]
            cells += [count(line.ours.sources)] if sources else []
            cells += [error(line.ours, digits)]
            cells += [error(line.others[one], digits) if one in line.others else "" for one in methods]
            cells += [f"{100 * line.ours.worst:.1f} %"] if worst else []
            cells += [f"{100 * line.ours.bias:+.1f} %"] if bias else []
            if covered:
                cells += [f"{100 * found.coverage:.0f} %", f"{100 * found.mean_width:.0f} %"] if found else ["", ""]
            rows.append(tuple(cells))
    return Table(columns, rows, title=title, strong=frozenset(strong))


def unit() -> Paragraph:
    """What the figures of every board are."""
    return Paragraph(_("errors in %: median / 90th percentile; few: less than 20 cases, which claim nothing"), "dim")


def intervals_meant() -> str:
    """What the columns of the interval say."""
    return _("holds: share of the measured inside the 80 % intervals; width: of these, by the measured, on average")


def left_out(found: Sequence[tuple[Text, Sequence[str]]], full: bool, names: bool = False) -> list[Part]:
    """What is not scored: in full by reason (with the records' names), else how much."""
    if not full:
        n = sum(len(records) for _reason, records in found)
        return [Paragraph(_("{n} records are left out, each for a reason").format(n=count(n)), "dim")] if n else []
    parts: list[Part] = [Paragraph(_("Left out"), "heading")]
    for reason, records in found:
        own = f" ({', '.join(records)})" if names else ""
        parts.append(Paragraph(f"· {count(len(records))}: {say(reason)}{own}", "dim"))
    return parts


def more() -> Paragraph:
    """Where the rest is."""
    return Paragraph(_("Every board, and what is left out and why: --all; every figure: --json"), "dim")

"""Prints parts of a report with rich: tables, paragraphs, bars. One renderer for every answer."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Literal

import msgspec


class Column(msgspec.Struct, frozen=True):
    """A column: its heading, and whether its cells stand to the right (numbers) or left."""

    heading: str
    align: Literal["left", "right"] = "left"


class Table(msgspec.Struct, frozen=True):
    """Rows of cells under columns. `strong`: indices of rows that stand out."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    title: str = ""
    strong: frozenset[int] = frozenset()


class Paragraph(msgspec.Struct, frozen=True):
    """A sentence or several. tone: how it is coloured where there is colour."""

    text: str
    tone: Literal["plain", "heading", "good", "bad", "dim"] = "plain"
    indent: int = 0


class Segment(msgspec.Struct, frozen=True):
    """A piece of a bar: label and length in the bar's own unit. Without a label it is room, and nothing is drawn."""

    label: str
    value: float


class Bars(msgspec.Struct, frozen=True):
    """Stacked horizontal bars over a common scale, drawn in text. `limit`: where the bar must end."""

    rows: Sequence[tuple[str, Sequence[Segment], str]]
    """(label, segments, what to write behind)"""
    limit: float


Part = Table | Paragraph | Bars

_STYLES = {"plain": "", "heading": "bold", "good": "green", "bad": "bold red", "dim": "dim"}
_FILLS = (("█", "blue"), ("▓", "cyan"), ("▒", "magenta"), ("░", "yellow"), ("▚", "green"), ("#", "red"))


def _console(width: int | None = None, **settings: object):  # type: ignore[no-untyped-def]
    from rich.console import Console

    class Terminal(Console):
        """rich answers a reader that went away with exit 1, which here means "does not fit"."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, "the reader went away")

    return Terminal(highlight=False, soft_wrap=False, width=width, **settings)  # type: ignore[arg-type]


def show(parts: Sequence[Part]) -> None:
    """Print to the terminal; without one, in plain text: paragraphs 110 characters wide, tables as wide as they are."""
    console = _console()
    if not console.is_terminal:
        print(to_text(parts))
        return
    _print(console if console.width >= 20 else _console(width=20), parts)


WIDEST = 240
"""Characters of a table that is not shown on a terminal: a program reads it, and no cell should break."""


def to_text(parts: Sequence[Part], width: int = 110) -> str:
    """The same as a string, without colour and without blanks at the ends of lines."""
    import io

    buffer = io.StringIO()
    for part in parts:
        wide = WIDEST if isinstance(part, Table) else width
        _print(_console(width=wide, file=buffer, color_system=None), [part])
    return "\n".join(line.rstrip() for line in buffer.getvalue().rstrip("\n").split("\n"))


def _print(console, parts: Sequence[Part]) -> None:  # type: ignore[no-untyped-def]
    from rich.padding import Padding
    from rich.text import Text as RichText

    for part in parts:
        if isinstance(part, Table):
            if part.title:
                console.print(RichText(part.title, style="bold"))
            if _width(part) <= console.width:
                console.print(_table(part))
            else:
                _print_narrow(console, part)
        elif isinstance(part, Bars):
            for line in _bars(part, console.width):
                console.print(line, no_wrap=True, overflow="crop")
        else:
            console.print(Padding(RichText(part.text, style=_STYLES[part.tone]), (0, 0, 0, part.indent)))


def _table(part: Table):  # type: ignore[no-untyped-def]
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(part.columns):
        # headings break at spaces only, and the first column, which names the row, not at all
        longest = max((cell_len(word) for word in column.heading.split()), default=1)
        table.add_column(
            RichText(column.heading), justify=column.align, overflow="fold", no_wrap=index == 0, min_width=longest
        )
    for index, row in enumerate(part.rows):
        table.add_row(*(RichText(cell) for cell in row), style="bold" if index in part.strong else None)
    return table


def _width(part: Table) -> int:
    """Characters of a table with every heading and every cell in one line."""
    from rich.cells import cell_len

    cells = zip(*([column.heading for column in part.columns], *part.rows), strict=True)
    return 1 + sum(max(cell_len(cell) for cell in column) for column in cells) + 3 * (len(part.columns) - 1) + 1


def _print_narrow(console, part: Table) -> None:  # type: ignore[no-untyped-def]
    """A table that is wider than the terminal, laid out anew."""
    from rich.text import Text as RichText

    from narrows.report.tables import lines

    console.print()
    headings, numbers = [one.heading for one in part.columns], [one.align == "right" for one in part.columns]
    for line in lines(headings, numbers, part.rows, console.width):
        style = "dim" if line.below else "bold" if line.row is None or line.row in part.strong else ""
        console.print(RichText(line.text, style=style), no_wrap=True, overflow="ignore", crop=False)
    console.print()


def _bars(part: Bars, width: int):  # type: ignore[no-untyped-def]
    from rich.cells import cell_len
    from rich.text import Text as RichText

    names = max((cell_len(label) for label, _, _ in part.rows), default=0)
    behind = max((cell_len(note) for _, _, note in part.rows), default=0)
    room = max(10, width - names - behind - 4)
    longest = max((segments for _, segments, _ in part.rows), key=len, default=())
    labels = list(
        dict.fromkeys(
            segment.label
            for segments in (longest, *(s for _, s, _ in part.rows))
            for segment in segments
            if segment.label
        )
    )
    most = max([part.limit, *(sum(s.value for s in segments) for _, segments, _ in part.rows)])
    if len(labels) > 1:
        yield from _key(labels, width)
    for label, segments, note in part.rows:
        if not segments:
            yield RichText("  " + label, style="bold")
            continue
        line = RichText("  " + label + " " * (names - cell_len(label)) + " ")
        done, drawn = 0.0, 0
        for segment in segments:
            done += max(0.0, segment.value)
            end = round(done / most * room) if most else 0
            fill, colour = _FILLS[labels.index(segment.label) % len(_FILLS)] if segment.label else (" ", "")
            line.append(fill * (end - drawn), style=colour)
            drawn = end
        mark = round(part.limit / most * room) if most else 0
        if drawn < mark:
            line.append(" " * (mark - drawn - 1) + "|", style="dim")
            drawn = mark
        line.append(" " * (room - drawn) + " " + note)
        yield line


def _key(labels: Sequence[str], width: int):  # type: ignore[no-untyped-def]
    """Which fill stands for what, in lines that fit."""
    from rich.cells import cell_len
    from rich.text import Text as RichText

    key = RichText("  ")
    for index, label in enumerate(labels):
        fill, colour = _FILLS[index % len(_FILLS)]
        if cell_len(key.plain) > 2 and cell_len(f"{key.plain}{fill} {label}") > width:
            yield key
            key = RichText("  ")
        key.append(fill, style=colour).append(f" {label}   ")
    yield key

"""A table on a terminal that is narrower than the table: nothing is cut, and no number breaks.

In this order, until it fits: headings break at spaces; texts do; texts go below their row; `before → after` becomes two
lines; columns go into a second table with the rows named again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len

MARGIN, INDENT = 1, 3
"""Blanks before a table, and before what stands below a row."""
GAPS = (3, 2)
"""Blanks between columns: as usual, and where that would be too wide."""
ROOM, NAME, LONG = 24, 16, 40
"""Width down to which a column of texts is narrowed beside others, where they are `LONG` (else `NAME`); and `NAME` for
one that names the rows."""
_ARROW = " → "
_UNIT = re.compile(r" +(?![%×] |[%×]$)")
"""Where a text may break: not between a number and its sign."""
_LEAD, _BRANCHES = re.compile("[ │├└─]*"), str.maketrans("├└─", "│  ")
"""What stands before a name, in a tree its branches; and what stands before its next line."""


class Line(NamedTuple):
    """A line of a table as it is printed. row: of which row, or None of a heading or rule; below: below its row."""

    text: str
    row: int | None = None
    below: bool = False


class Block(NamedTuple):
    """Columns that stand beside each other, how wide, and those whose texts stand below."""

    columns: tuple[int, ...]
    widths: tuple[int, ...]
    below: tuple[int, ...]
    gap: int


class Grid(NamedTuple):
    """Cells of a table: headings, whether each column is of numbers, and rows."""

    headings: tuple[str, ...]
    numbers: tuple[bool, ...]
    rows: Sequence[Sequence[str]]

    def cells(self, column: int) -> list[str]:
        """The cells of a column, without its heading."""
        return [row[column] for row in self.rows]


def lines(headings: Sequence[str], numbers: Sequence[bool], rows: Sequence[Sequence[str]], width: int) -> list[Line]:
    """The lines of a table in at most `width` characters; no cell loses a character but blanks where it breaks.

    numbers: columns that stand to the right and break at most after an arrow.
    """
    grid = Grid(tuple(headings), tuple(numbers), rows)
    found: list[Line] = []
    for block in blocks(grid, width):
        if found:
            found.append(Line(""))
        found += _drawn(grid, block, width)
    return found


def blocks(grid: Grid, width: int) -> list[Block]:
    """The table as one block, or as several that name the rows again."""
    every = tuple(range(len(grid.headings)))
    texts = [i for i in every[1:] if not grid.numbers[i] and any(" " in cell for cell in grid.cells(i))]
    texts.sort(key=lambda i: -max((cell_len(cell) for cell in grid.cells(i)), default=0))
    for arrows in (False, True):
        for moved in range(len(texts) + 1):
            below = tuple(sorted(texts[:moved]))
            beside = tuple(i for i in every if i not in below)
            for gap in GAPS:
                widths = _fitted(grid, beside, width - MARGIN - gap * (len(beside) - 1), arrows)
                if widths is not None:
                    return [Block(beside, widths, below, gap)]
    return _split(grid, every, tuple(sorted(texts)), width)


def _split(grid: Grid, every: tuple[int, ...], below: tuple[int, ...], width: int) -> list[Block]:
    """As many columns as have room, again and again; a column alone is folded where it must."""
    gap = GAPS[-1]
    left = [i for i in every[1:] if i not in below]
    found: list[Block] = []
    while left or not found:
        beside: tuple[int, ...] = every[:1]
        widths = _fitted(grid, beside, width - MARGIN, True) or (max(4, width - MARGIN),)
        while left:
            more = (*beside, left[0])
            wider = _fitted(grid, more, width - MARGIN - gap * (len(more) - 1), True)
            if wider is None and len(beside) > 1:
                break
            if wider is None:
                half = max(4, (width - MARGIN - gap) // 2)
                wider = (half, half)
            beside, widths = more, wider
            left.pop(0)
        found.append(Block(beside, widths, () if found else below, gap))
    return found


def _fitted(grid: Grid, columns: tuple[int, ...], room: int, arrows: bool) -> tuple[int, ...] | None:
    """Widths that add up to at most `room`, or None. Of what may be narrowed, the widest gives way first."""
    widths, floors, needed = [], [], []
    for at, i in enumerate(columns):
        cells = grid.cells(i)
        pieces = [piece for cell in cells for piece in (cell.split(_ARROW) if arrows and grid.numbers[i] else [cell])]
        # a piece before an arrow keeps it
        extra = 2 if arrows and grid.numbers[i] and any(_ARROW in cell for cell in cells) else 0
        widest = max((cell_len(piece) for piece in pieces), default=0) + extra
        least = _longest([grid.headings[i]])
        wanted = max(widest, cell_len(grid.headings[i]))
        if grid.numbers[i]:
            floor = max(widest, least)
        else:
            floor = max(
                least, _longest(cells), min(wanted if at == 0 else widest, NAME if at == 0 or widest < LONG else ROOM)
            )
        widths.append(wanted)
        floors.append(min(floor, wanted))
        needed.append(widest)
    while sum(widths) > room:
        over = [(width - floor, width, i) for i, (width, floor) in enumerate(zip(widths, floors, strict=True))]
        loose = [(width, i) for spare, width, i in over if spare > 0]
        if not loose:
            return None
        # headings first: numbers lose nothing by them
        headed = [(width, i) for width, i in loose if width > needed[i]]
        widths[max(headed or loose)[1]] -= 1
    return tuple(widths)


def _longest(texts: Sequence[str]) -> int:
    """Of the words, which stay whole."""
    return max((cell_len(word) for text in texts for word in _UNIT.split(text)), default=1)


def _drawn(grid: Grid, block: Block, width: int) -> Iterator[Line]:
    heads = [_wrapped(grid.headings[i], size) for i, size in zip(block.columns, block.widths, strict=True)]
    tall = max(len(one) for one in heads)
    for at in range(tall):  # the words stand on the rule
        yield Line(_joined(grid, block, [one[at - tall + len(one)] if at >= tall - len(one) else "" for one in heads]))
    for piece in _below([grid.headings[i] for i in block.below], width):
        yield Line(piece)
    yield Line(" " * MARGIN + "─" * (sum(block.widths) + block.gap * (len(block.widths) - 1)))
    for number, row in enumerate(grid.rows):
        cells = [_broken(row[i], size, grid.numbers[i]) for i, size in zip(block.columns, block.widths, strict=True)]
        for at in range(max(len(one) for one in cells)):
            yield Line(_joined(grid, block, [one[at] if at < len(one) else "" for one in cells]), number)
        for piece in _below([row[i] for i in block.below], width):
            yield Line(piece, number, below=True)


def _below(texts: Sequence[str], width: int) -> list[str]:
    """What stands below a row: its texts one after the other."""
    joined = " · ".join(text for text in texts if text)
    return [" " * INDENT + piece for piece in _wrapped(joined, max(4, width - INDENT))] if joined else []


def _joined(grid: Grid, block: Block, cells: Sequence[str]) -> str:
    placed = []
    for cell, i, size in zip(cells, block.columns, block.widths, strict=True):
        blank = " " * (size - cell_len(cell))
        placed.append(blank + cell if grid.numbers[i] else cell + blank)
    return (" " * MARGIN + (" " * block.gap).join(placed)).rstrip()


def _broken(cell: str, width: int, number: bool) -> list[str]:
    """A cell in lines of a width: a number breaks after its arrow only."""
    if number and cell_len(cell) > width and _ARROW in cell:
        pieces = cell.split(_ARROW)
        return [f"{piece} →" for piece in pieces[:-1]] + pieces[-1:]
    return _wrapped(cell, width)


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most `width` cells, broken at spaces and indented as the text is; a longer word is folded."""
    if cell_len(text) <= width:
        return [text]
    lead = _LEAD.match(text)[0]  # type: ignore[index]  # it matches always
    indent = lead.translate(_BRANCHES)
    found = [lead]
    for word in _UNIT.split(text[len(lead) :].strip()):
        longer = f"{found[-1]} {word}" if found[-1] not in (lead, indent) else found[-1] + word
        if cell_len(longer) <= width:
            found[-1] = longer
            continue
        if found[-1] not in (lead, indent):
            found.append(indent)
        for char in word:
            if cell_len(found[-1] + char) > width:
                found.append(indent)
            found[-1] += char
    return found

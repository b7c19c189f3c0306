"""Tables on terminals of any width: nothing is cut, no number breaks, nothing is wider than the terminal."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from narrows.answers.fit import fit
from narrows.answers.gpus import gpus
from narrows.answers.roofline import roofline
from narrows.report import console
from narrows.report.console import Bars, Column, Paragraph, Segment, Table
from narrows.report.i18n import use_language
from narrows.report.render import parts_of
from narrows.report.tables import lines

WIDTHS = (60, 80, 100, 120, 200)

words = st.text("ab가나×-", min_size=1, max_size=9)
texts = st.lists(words, max_size=12).map(" ".join)
numbers = st.sampled_from(["1", "33.7 ms", "33.7 ms → 4.91 ms", "", "$0.322 → –", "123,456.7 GB", "7.0 / 12.5 %"])


def shown(part: Any, width: int) -> list[str]:
    """A part as a terminal of a width shows it."""
    buffer = io.StringIO()
    console._print(console._console(width=width, file=buffer, color_system=None), [part])
    return [line.rstrip() for line in buffer.getvalue().split("\n")]


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[str], list[bool], list[list[str]]]:
    kinds = [False, *draw(st.lists(st.booleans(), max_size=9))]
    headings = draw(st.lists(texts, min_size=len(kinds), max_size=len(kinds)))
    rows = st.tuples(*(numbers if kind else texts for kind in kinds)).map(list)
    return headings, kinds, draw(st.lists(rows, max_size=5))


@given(tables(), st.integers(44, 140))
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(
    table: tuple[list[str], list[bool], list[list[str]]], width: int
) -> None:
    headings, kinds, rows = table
    found = lines(headings, kinds, rows, width)
    assert all(cell_len(line.text) <= width for line in found)
    everything = "\n".join(line.text for line in found)
    for i, row in enumerate(rows):
        own = "\n".join(line.text for line in found if line.row == i)
        for cell, number in zip(row, kinds, strict=True):
            for piece in cell.replace(" → ", " →|").split("|") if number else cell.split():
                assert piece in own, (piece, everything)
    for heading in headings:
        assert all(word in everything for word in heading.split())


def test_texts_go_below_their_row_before_a_number_breaks() -> None:
    found = lines(
        ["change", "gain", "why"],
        [False, True, False],
        [["--tp 2", "1.86 ×", "1.86 × on 2 × the devices, and they talk for 391 µs"]],
        40,
    )
    assert [line.text for line in found] == [
        " change     gain",
        "   why",
        " ───────────────",
        " --tp 2   1.86 ×",
        "   1.86 × on 2 × the devices, and they",
        "   talk for 391 µs",
    ]


def test_columns_without_room_follow_in_a_second_table_that_names_the_rows() -> None:
    rows = [["L40S", *(f"{1000 * i} GB" for i in range(1, 7))]]
    found = [line.text for line in lines(["gpu", *"abcdef"], [False, *[True] * 6], rows, 40)]
    assert sum(line.startswith(" L40S") for line in found) == 2
    assert "3000 GB" in " ".join(found) and "6000 GB" in " ".join(found)


def test_headings_break_before_texts_do() -> None:
    found = lines(["deployment", "compute-bound from batch"], [False, True], [["H100 SXM5 80GB", "380"]], 34)
    assert [line.text for line in found] == [
        "                     compute-bound",
        " deployment             from batch",
        " ─────────────────────────────────",
        " H100 SXM5 80GB                380",
    ]


def test_a_table_with_room_is_as_before() -> None:
    table = Table([Column("gpu"), Column("memory", "right")], [["L40S", "44.4 GiB"]], title="All")
    assert shown(table, 80) == shown(table, 24)
    assert shown(table, 80)[:5] == ["All", "", " gpu      memory", " ───────────────", " L40S   44.4 GiB"]


def test_the_key_of_bars_is_whole() -> None:
    rows = [("a bar", [Segment(f"cause of number {i}", 1.0) for i in range(6)], "5 ms")]
    found = shown(Bars(rows, 0.0), 60)
    assert all(cell_len(line) <= 60 for line in found)
    assert all(f"cause of number {i}" in "\n".join(found) for i in range(6))


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("width", WIDTHS)
def test_reports_are_whole_at_every_width(language: str, width: int) -> None:
    use_language(language)
    answers = [
        fit("llama-3.1-8b", gpu=["l40s", "h100-sxm", "a10g"]),
        roofline("llama-3.1-8b", ["l40s", "h100-sxm"], sweep="batch=1..64x2", generations=True),
        roofline("deepseek-v3", "h200-sxm", tp=8, operator="mla.core"),
        gpus("h100"),
    ]
    for answer in answers:
        for part in parts_of(answer):
            found = shown(part, width)
            assert all(cell_len(line) <= width for line in found), (width, [x for x in found if cell_len(x) > width])
            if isinstance(part, Table):
                together = "\n".join(found)
                figures = {piece for row in part.rows for cell in row for piece in re.findall(r"[\d.,]*\d", cell)}
                assert all(figure in together for figure in figures)
            elif isinstance(part, Paragraph):
                assert all(word in " ".join(found) for word in part.text.split() if cell_len(word) < width - 8)

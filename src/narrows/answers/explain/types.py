"""The types of `explain`, and the few words its topics are written with."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from narrows.answers.base import Answer
from narrows.quantity import Kind, Quantity
from narrows.text import Text

CHAPTER = "Hands-On LLM Serving and Optimization (O'Reilly, 2026), chapter 5"
"""Where figures of kind `cited` are quoted from, unless a topic names another source."""

Known = Literal["computed", "cited", "measured", "predicted", "assumed"]


class Cell(msgspec.Struct, frozen=True):
    """One cell of a table: what is shown, and the number behind it in base units (None for words)."""

    text: Text
    quantity: Quantity | None = None


class Row(msgspec.Struct, frozen=True):
    """One row of a table, and how its numbers are known: `computed` here, or as a `Quantity` is known.

    A row with several numbers is known as its least certain one.
    """

    id: str
    known: Known
    cells: tuple[Cell, ...]


class ExampleTable(msgspec.Struct, frozen=True):
    """A table of a topic; every row has one cell per column."""

    columns: tuple[Text, ...]
    rows: tuple[Row, ...]


class Step(msgspec.Struct, frozen=True):
    """One step of a topic: a sentence, the formula with the numbers put in, and the number it gives.

    result: in base units (B, s, FLOP/B, FLOP/s, USD/h; counts by name; `1` for a plain ratio). points: a list under
    the sentence. table: what the sentence introduces.
    """

    id: str
    text: Text
    derivation: Text | None = None
    result: Quantity | None = None
    points: tuple[Text, ...] = ()
    table: ExampleTable | None = None


class RooflinePoint(msgspec.Struct, frozen=True):
    """A piece of work on a roofline chart: intensity in FLOP/B, attainable FLOP/s, and what bounds it."""

    label: Text
    intensity: float
    attainable: float
    bound: str


class RooflinePicture(msgspec.Struct, frozen=True):
    """A roof (peak FLOP/s, bandwidth bytes/s, ridge FLOP/B) and the points under it."""

    device: str
    precision: str
    peak: float
    bandwidth: float
    ridge: float
    points: tuple[RooflinePoint, ...]


class Topic(msgspec.Struct, frozen=True):
    """One lesson.

    sources: of its cited figures and of its facts. assumptions: on what its predictions rest. more: a command that
    shows more of the same.
    """

    id: str
    title: Text
    steps: tuple[Step, ...]
    sources: tuple[str, ...] = ()
    assumptions: tuple[Text, ...] = ()
    more: str = ""
    roofline: RooflinePicture | None = None


class Explanation(Answer, frozen=True, kw_only=True):
    """The answer of `explain`: one topic, or all of them in the order in which they build on each other."""

    schema: str = "narrows.explain/1"
    topics: tuple[Topic, ...]

    def result(self, topic: str, step: str) -> Quantity:
        """The number a step gives. KeyError if there is no such step, or it gives none."""
        for one in self._topic(topic).steps:
            if one.id == step and one.result is not None:
                return one.result
        raise KeyError(f"{topic}.{step}")

    def row(self, topic: str, table: str, row: str) -> tuple[float | None, ...]:
        """The numbers of a table's row, in base units; None where a cell holds words. KeyError if it is not there."""
        for one in self._topic(topic).steps:
            if one.id == table and one.table is not None:
                for line in one.table.rows:
                    if line.id == row:
                        return tuple(cell.quantity.value if cell.quantity else None for cell in line.cells)
        raise KeyError(f"{topic}.{table}.{row}")

    def _topic(self, name: str) -> Topic:
        for one in self.topics:
            if one.id == name:
                return one
        raise KeyError(name)


def formula(text: str) -> Text:
    """A derivation of symbols, numbers and units alone, the same in every language."""
    return Text("{formula}", formula=text)


def fixed(value: float, digits: int) -> str:
    """A number for a sentence, with a fixed number of digits after the point."""
    return f"{value:.{digits}f}"


def exact(value: float, unit: str) -> Quantity:
    """A number that follows by arithmetic."""
    return Quantity(value, unit, "exact")


def of_kind(value: float, unit: str, kind: Kind) -> Quantity:
    """A number and how it is known."""
    return Quantity(value, unit, kind)


def words(text: Text | str) -> Cell:
    """A cell without a number: a sentence, or a name that is the same in every language."""
    return Cell(text if isinstance(text, Text) else formula(text))


def number(
    shown: str, value: float, unit: str, kind: Kind = "exact", low: float | None = None, high: float | None = None
) -> Cell:
    """A cell with a number: as shown, and in base units; low and high where it is a range."""
    return Cell(formula(shown), Quantity(value, unit, kind, low, high))


def row(name: str, *cells: Cell, known: Known = "computed") -> Row:
    """A row of a table."""
    return Row(name, known, cells)


def table(columns: tuple[Text, ...], *rows: Row) -> ExampleTable:
    """A table."""
    return ExampleTable(columns, rows)


def step(
    id: str, text: Text, derivation: Text | str | None = None, result: Quantity | None = None, **more: Any
) -> Step:
    """A step; a derivation given as `str` has no words in it."""
    return Step(id, text, formula(derivation) if isinstance(derivation, str) else derivation, result, **more)

"""Coefficients that were fitted or assumed, as fact files: each with its interval, its basis and its source."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

import msgspec

from narrows.text import Text


class Coefficient(msgspec.Struct, frozen=True):
    """One number that physics does not give: `value` in `unit`; 80 % of `n` observations lie from `low` to `high`.

    versions: engine versions it holds for (empty: all). n = 0: assumed, not observed.
    """

    engine: str
    name: str
    value: float
    unit: str
    low: float
    high: float
    n: int
    basis: str
    source: str
    versions: str = ""

    @property
    def told(self) -> Text:
        """The basis as a sentence: of how many logs and sources the value is the median, or why it is assumed."""
        if not self.n or self.unit == "ratio":
            return Text(self.basis)
        return Text(
            "median of {n} start-up logs from {sources} sources", n=self.n, sources=len(self.source.split("; "))
        )


Coefficients = Mapping[str, Coefficient]
"""Coefficients of one engine by name."""


@cache
def coefficients(engine: str) -> Coefficients:
    """All coefficients of an engine, from its file."""
    path = os.path.join(os.path.dirname(__file__), "data", f"{engine}.jsonl")
    with open(path, "rb") as file:
        rows = (msgspec.json.decode(line, type=Coefficient) for line in file if line.strip())
        return {row.name: row for row in rows}

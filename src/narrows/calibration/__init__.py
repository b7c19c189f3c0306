"""Coefficients that were fitted or assumed, as fact files: each with its interval, its basis and its source."""

from __future__ import annotations

import os
from functools import cache

import msgspec


class Coefficient(msgspec.Struct, frozen=True):
    """One number that physics does not give: `value` in `unit`, between `low` and `high` in `n` observations."""

    engine: str
    name: str
    value: float
    unit: str
    low: float
    high: float
    n: int
    basis: str
    source: str


@cache
def _read(engine: str) -> dict[str, Coefficient]:
    path = os.path.join(os.path.dirname(__file__), "data", f"{engine}.jsonl")
    with open(path, "rb") as file:
        rows = (msgspec.json.decode(line, type=Coefficient) for line in file if line.strip())
        return {row.name: row for row in rows}


def coefficient(engine: str, name: str) -> Coefficient:
    """The coefficient `name` of an engine. A name that is not in the file is a mistake of ours: KeyError."""
    return _read(engine)[name]

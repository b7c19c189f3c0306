"""Bundled tables as columns whose codes stand as names."""

from __future__ import annotations

from functools import cache
from typing import Any

from narrows.accuracy.operator_rows import load


@cache
def columns(name: str) -> dict[str, Any]:
    """The columns of a bundled table, names for codes. Raises BadInput where numpy is not installed."""
    found = load(name)
    coded = [key for key in found if f"{key}_names" in found]
    plain = {key: column for key, column in found.items() if not key.endswith("_names")}
    return plain | {key: found[f"{key}_names"][found[key]] for key in coded}

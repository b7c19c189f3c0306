"""The largest whole number for which something that only gets harder still holds."""

from __future__ import annotations

from collections.abc import Callable


def largest(limit: int, holds: Callable[[int], bool]) -> int:
    """The largest number from 1 to `limit` for which `holds`, which fails for all beyond; 0 if there is none."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low

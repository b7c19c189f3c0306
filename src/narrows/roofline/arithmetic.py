"""Arithmetic of laws of speed that numbers and numpy arrays both go through; numpy is not imported."""

from __future__ import annotations

from typing import Any


def larger(a: Any, b: Any) -> Any:
    """The larger one, element by element where arrays are given."""
    return (a + b + abs(a - b)) / 2


def ceiling(a: Any) -> Any:
    """The next whole number, element by element where arrays are given."""
    return -(-a // 1)


def joined(sharpness: float, a: Any, b: Any) -> Any:
    """Seconds of two kinds of work that overlap: (a^p + b^p)^(1/p).

    p = 1: one after the other; the larger p, the nearer to the longer of them. Both must not be 0.
    """
    longest = larger(a, b)
    return longest * ((a / longest) ** sharpness + (b / longest) ** sharpness) ** (1 / sharpness)


def resident_share(size: Any, room: float, sharpness: float) -> Any:
    """Share of `size` bytes that a cache of `room` bytes still holds when they are read again: 1 where they are few,
    0 where they are many, and the sharper the turn, the larger `sharpness`.
    """
    return 1 / (1 + (size / room) ** sharpness) if room else 0.0

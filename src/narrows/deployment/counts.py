"""Whole numbers that are asked for: of tokens, sequences, ranks."""

from __future__ import annotations

from narrows.text import BadInput

MOST_LENGTH = 2**31 - 1
MOST_RANKS = 4096
"""Larger splits than any machine has."""


def whole(flag: str, value: int, most: int = MOST_LENGTH) -> int:
    """The value, a whole number from 1 to `most`. Raises BadInput that names the flag."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise BadInput(
            "{flag} is {value}; it must be a whole number from 1 to {most}", flag=flag, value=str(value)[:40], most=most
        )
    return value

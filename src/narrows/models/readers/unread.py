"""What is said of configs that a reader understands in part: what it would have to leave out decides sizes."""

from __future__ import annotations

from typing import Any

from narrows.text import BadInput


def unread_setting(family: str, field: str) -> BadInput:
    """Of a field set to what the family's reader does not know."""
    return BadInput(
        "this {family} config sets '{field}' in a way that narrows does not read yet", family=family, field=field
    )


def unread_tower(kind: Any) -> BadInput:
    """Of a vision part of another kind than those that are read. kind: as the file names it."""
    return BadInput("the vision part of this config is '{kind}', which narrows does not read yet", kind=str(kind)[:60])

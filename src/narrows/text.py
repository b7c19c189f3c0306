"""Sentences for people: a message with named parameters, kept untranslated until it is shown.

Layers below the report never format or translate. They return a `Text`, or raise `BadInput`; the report turns
either into the reader's language. The English sentence is the message id of the gettext catalogue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Text:
    """A sentence with named parameters, e.g. `Text("{gpu} is not known", gpu="h900")`.

    `str()` gives English. Parameters may be strings, numbers or other `Text`s.
    """

    __slots__ = ("msgid", "params")

    def __init__(self, msgid: str, /, **params: Any) -> None:
        self.msgid = msgid
        self.params = params

    def render(self, translate: Callable[[str], str] | None = None) -> str:
        """The sentence with its parameters put in; whole numbers get thousands separators."""
        sentence = translate(self.msgid) if translate else self.msgid
        return sentence.format(**{name: _shown(value, translate) for name, value in self.params.items()})

    def __str__(self) -> str:
        return self.render()

    def __repr__(self) -> str:
        return f"Text({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and (self.msgid, self.params) == (other.msgid, other.params)

    def __hash__(self) -> int:
        return hash((self.msgid, str(self)))


def _shown(value: Any, translate: Callable[[str], str] | None) -> str:
    if isinstance(value, Text):
        return value.render(translate)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return printable(str(value))


def printable(text: str) -> str:
    """Text from a file or a command line with what a terminal would act on taken out: one line, no escapes."""
    return text if text.isprintable() else "".join(ch if ch.isprintable() else " " for ch in text)


class BadInput(Exception):
    """What the user gave cannot be used. The message says what is wrong and what to do; the exit code is 2."""

    def __init__(self, msgid: str, /, **params: Any) -> None:
        self.text = Text(msgid, **params)
        super().__init__(msgid)

    def __str__(self) -> str:
        return str(self.text)


def flag_of(option: str) -> str:
    """The flag of an option by its Python name: `max_len` → `--max-len`."""
    return "--" + option.replace("_", "-")

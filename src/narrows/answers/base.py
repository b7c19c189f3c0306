"""What every answer has: frozen values that encode to the JSON of `--json` and print well where a person looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from narrows import __version__
from narrows.text import Text


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the answers: schema name and version, the command that gives it, what was assumed, where facts are from."""

    schema: str
    narrows_version: str = __version__
    command: str
    assumptions: tuple[Text, ...] = ()
    sources: tuple[str, ...] = ()

    as_text: ClassVar[Callable[[Any], str] | None] = None
    """How to print an answer; the report sets it when it is loaded."""
    as_html: ClassVar[Callable[[Any], str] | None] = None

    def to_json(self) -> str:
        """The answer as JSON: exactly what `--json` prints."""
        return encode(self).decode()

    def __str__(self) -> str:
        return Answer.as_text(self) if Answer.as_text else self.to_json()

    def _repr_html_(self) -> str | None:
        return Answer.as_html(self) if Answer.as_html else None


def _plain(value: Any) -> Any:
    if isinstance(value, Text):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def encode(answer: Any) -> bytes:
    """JSON of an answer: one line per value, indented; sentences in English whatever the language of the terminal."""
    return msgspec.json.format(msgspec.json.encode(answer, enc_hook=_plain, order="deterministic"), indent=2)


def json_schema(kind: type[Answer]) -> dict[str, Any]:
    """JSON Schema of an answer type."""

    def sentence(value: type) -> dict[str, Any]:
        if value is Text:
            return {"type": "string"}
        raise TypeError(f"{value.__name__} has no JSON form")

    return msgspec.json.schema(kind, schema_hook=sentence)

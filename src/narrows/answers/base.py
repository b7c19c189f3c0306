"""What every answer has: frozen values that encode to the JSON of `--json` and print well where a person looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from narrows import __version__
from narrows.text import Text, flag_of


class Printed:
    """What an answer does: encode to JSON, print as the report, show itself in a notebook."""

    __slots__ = ()

    as_text: ClassVar[Callable[[Any], str] | None] = None
    """How to print an answer; the API sets it, since the report lies below the answers."""
    as_html: ClassVar[Callable[[Any], str] | None] = None

    def to_json(self) -> str:
        """The answer as JSON: exactly what `--json` prints."""
        return encode(self).decode()

    def __str__(self) -> str:
        return Printed.as_text(self) if Printed.as_text else self.to_json()

    def _repr_html_(self) -> str | None:
        return Printed.as_html(self) if Printed.as_html else None


class Answer(Printed, msgspec.Struct, frozen=True, kw_only=True):
    """Base of the answers: schema and version, the command that gives it, what was assumed, where facts are from."""

    schema: str
    narrows_version: str = __version__
    command: str
    assumptions: tuple[Text, ...] = ()
    sources: tuple[str, ...] = ()


def command_line(name: str, *arguments: str, **options: Any) -> str:
    """The command that gives an answer again: options by their Python names; None, False and "" are left out."""
    from shlex import quote

    words = ["narrows", name, *(quote(argument) for argument in arguments if argument)]
    for option, value in options.items():
        flag = flag_of(option)
        for one in value if isinstance(value, list | tuple) else (value,):
            if one is True:
                words.append(flag)
            elif one not in (None, False, ""):
                words += [flag, quote(str(one))]
    return " ".join(words)


def _plain(value: Any) -> Any:
    if isinstance(value, Text):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def encode(answer: Any) -> bytes:
    """JSON of an answer: one line per value, indented; sentences in English whatever the language of the terminal."""
    return msgspec.json.format(msgspec.json.encode(answer, enc_hook=_plain, order="deterministic"), indent=2)


def json_schema(kind: type[Printed]) -> dict[str, Any]:
    """JSON Schema of an answer type."""

    def sentence(value: type) -> dict[str, Any]:
        if value is Text:
            return {"type": "string"}
        raise TypeError(f"{value.__name__} has no JSON form")

    return msgspec.json.schema(kind, schema_hook=sentence)

"""A config.json as a reader sees it: typed, bounded access to fields, with errors that name the field and the mend.

Absent is not null: a default stands in for an absent field only; an explicit null is the file's own answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from narrows.text import BadInput

LARGEST: Final = 2**31 - 1
"""No field of a real model comes near it; larger values are refused rather than computed with."""
MOST_LAYERS: Final = 10_000

_REQUIRED: Final = object()


class Fields:
    """The fields of one config object; `path` prefixes names in messages (`text_config.`). Records what was read."""

    def __init__(self, values: dict[str, Any], path: str = "") -> None:
        self.values = values
        self.path = path
        self.read: set[str] = set()
        self.defaulted: list[str] = []
        self.inner: dict[str, Fields] = {}

    def raw(self, *names: str, default: Any = None) -> Any:
        """The first present field of these spellings, as it stands in the file; `default` if none is present."""
        self.read.update(names)
        for name in names:
            if name in self.values:
                return self.values[name]
        return default

    def stated(self, *names: str) -> Any:
        """The first of these spellings whose value is not null; None if there is none."""
        self.read.update(names)
        return next((self.values[name] for name in names if self.values.get(name) is not None), None)

    def has(self, name: str) -> bool:
        """Whether the file has the field (even as null)."""
        return name in self.values

    def nested(self, name: str) -> Fields:
        """An object inside this one."""
        value = self.raw(name)
        if value is None:
            raise BadInput("config field '{field}' must be an object of fields", field=self.path + name)
        if not isinstance(value, dict):
            raise BadInput(
                "config field '{field}' is {value}; it must be an object of fields",
                field=self.path + name,
                value=shown(value),
            )
        if name not in self.inner:
            self.inner[name] = Fields(value, f"{self.path}{name}.")
        return self.inner[name]

    def size(self, *names: str, default: int | Any | None = _REQUIRED, least: int = 1, most: int = LARGEST) -> int:
        """A whole number from `least` to `most`. Absent without a default, or null in the file, is an error."""
        value = self.maybe_size(*names, default=default, least=least, most=most)
        if value is None:
            raise BadInput(
                "config field '{field}' is null, and narrows needs a number there; take the config.json of the "
                "original model",
                field=self.path + names[0],
            )
        return value

    def maybe_size(
        self, *names: str, default: int | Any | None = _REQUIRED, least: int = 1, most: int = LARGEST
    ) -> int | None:
        """A whole number from `least` to `most`, or None where the file says null or the default is None."""
        value = self.raw(*names, default=_REQUIRED)
        if value is _REQUIRED:
            if default is _REQUIRED:
                raise BadInput(
                    "config field '{field}' is missing; narrows will not guess it: take the complete config.json "
                    "of the model",
                    field=self.path + names[0],
                )
            if default is not None:
                self.defaulted.append(self.path + names[0])
            found: int | None = default
            return found
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise BadInput(
                "config field '{field}' is {value}; it must be a whole number",
                field=self.path + names[0],
                value=shown(value),
            )
        if not least <= value <= most:
            raise BadInput(
                "config field '{field}' is {value}; it must be between {least} and {most}",
                field=self.path + names[0],
                value=shown(value),
                least=least,
                most=most,
            )
        return value

    def layers(self, *names: str, default: int | Any = _REQUIRED) -> int:
        """The number of layers: a size with a tighter bound, since each layer is laid out."""
        count = self.size(*names, default=default)
        if count > MOST_LAYERS:
            raise BadInput(
                "config field '{field}' is {value}; narrows lays out at most {most} layers",
                field=self.path + names[0],
                value=count,
                most=MOST_LAYERS,
            )
        return count

    def flag(self, name: str, default: bool) -> bool:
        """true or false; null counts as the default (transformers reads it so)."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise BadInput(
                "config field '{field}' is {value}; it must be true or false",
                field=self.path + name,
                value=shown(value),
            )
        return value

    def factor(self, name: str, default: float) -> float:
        """A positive number below a thousand, which a size is multiplied with."""
        return as_factor(self.raw(name, default=default), self.path + name)

    def choice(self, name: str, known: Sequence[str], default: str) -> str:
        """One of these words."""
        value = self.raw(name, default=default)
        if value not in known:
            raise BadInput(
                "config field '{field}' is '{value}'; narrows reads {known} there",
                field=self.path + name,
                value=str(value)[:40],
                known=", ".join(known),
            )
        word: str = value
        return word

    def word(self, name: str, default: str | None) -> str | None:
        """Any word; null is None."""
        value = self.raw(name, default=default)
        if value is not None and not isinstance(value, str):
            raise BadInput(
                "config field '{field}' is {value}; it must be a word", field=self.path + name, value=shown(value)
            )
        return value

    def kinds(self, name: str, count: int, known: Iterable[str]) -> list[str] | None:
        """A list with one known kind per layer, or None where the file has none."""
        value = self.raw(name)
        if value is None:
            return None
        known = tuple(known)
        if not isinstance(value, list) or any(kind not in known for kind in value):
            raise BadInput(
                "config field '{field}' must be a list of: {known}",
                field=self.path + name,
                known=", ".join(known),
            )
        self.check_layers(name, len(value), count)
        return value

    def check_layers(self, name: str, given: int, count: int) -> None:
        """Refuse a list of `given` entries in a model of `count` layers."""
        if given != count:
            raise BadInput(
                "config field '{field}' lists {given} layers, and the model has {count}; the file contradicts itself",
                field=self.path + name,
                given=given,
                count=count,
            )

    def indices(self, name: str) -> frozenset[int]:
        """A list of layer indices; absent or null is empty."""
        value = self.raw(name)
        if value is None:
            return frozenset()
        if not isinstance(value, list) or any(isinstance(i, bool) or not isinstance(i, int) for i in value):
            raise BadInput("config field '{field}' must be a list of layer numbers", field=self.path + name)
        return frozenset(value)

    def divide(self, total: int, parts: int, total_name: str, parts_name: str) -> int:
        """total ÷ parts where it must come out even."""
        if total % parts:
            raise BadInput(
                "config field '{total_name}' ({total}) is not a multiple of '{parts_name}' ({parts}); "
                "the file contradicts itself",
                total_name=self.path + total_name,
                total=total,
                parts_name=self.path + parts_name,
                parts=parts,
            )
        return total // parts


def as_factor(value: Any, field: str) -> float:
    """A value of a file that a size is multiplied with: a positive number below a thousand."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1000:
        raise BadInput(
            "config field '{field}' is {value}; it must be a number above 0 and below 1,000",
            field=field,
            value=shown(value),
        )
    return value


def shown(value: Any) -> str:
    """A value from a file as the file writes it (a string with its quotes), short enough for one line."""
    import json

    if isinstance(value, int) and abs(value) >= 10**30:
        return "a huge number"
    try:
        text = " ".join(json.dumps(value[:80] if isinstance(value, str) else value, ensure_ascii=False).split())
    except (ValueError, RecursionError):
        return "a value that cannot be shown"
    return text if len(text) <= 40 else text[:37] + "..."

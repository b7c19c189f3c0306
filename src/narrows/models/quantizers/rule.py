"""What a reader of a quantization method makes of a config, and what the readers share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from narrows.models.fields import Fields
from narrows.precision import FORMATS, Format, Scheme
from narrows.text import BadInput, Text

MOST_BLOCK = 2**20
"""A group or block no longer than this; rows of real models are shorter."""


class Rule(msgspec.Struct, frozen=True):
    """The scheme of all weights that are not listed, and the lists.

    roles: prefixes of the roles it is limited to. excluded: modules left out, beside those under the usual names.
    rules: modules stored otherwise, the first match decides. reach: what it applies to beside the layers' linear
    weights. kv: the KV format the file asks for. habits: of the tool that wrote the file
    (`module_schemes.HEAD_AGAIN`, …). notes: what was assumed.
    """

    scheme: Scheme
    roles: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    rules: tuple[tuple[str, Scheme], ...] = ()
    reach: tuple[str, ...] = ()
    kv: Format | None = None
    habits: tuple[str, ...] = ()
    notes: tuple[Text, ...] = ()


def unread(q: Fields, name: str, known: str) -> BadInput:
    """The error for a value that narrows does not read, with those it reads."""
    return BadInput(
        "config field '{field}' is {value}; narrows reads {known} there",
        field=q.path + name,
        value=word(q, name),
        known=known,
    )


def word(q: Fields, name: str, default: str = "") -> str:
    """A field that should be a word, in lower case; anything else becomes the name of its type."""
    value = q.raw(name)
    if value is None:
        return default
    plain = isinstance(value, str | bool | float) or (isinstance(value, int) and abs(value) < 2**63)
    return (str(value) if plain else type(value).__name__)[:60].lower()


def names(q: Fields, *fields: str) -> tuple[str, ...]:
    """Module names under these fields, all together; null and absent are an empty list.

    Raises BadInput for anything else.
    """
    entries: list[str] = []
    for name in fields:
        value = q.raw(name)
        if value is None:
            continue
        if not isinstance(value, list) or any(not isinstance(entry, str) for entry in value):
            raise BadInput("config field '{field}' must be a list of module names", field=q.path + name)
        entries += value
    return tuple(entry.removesuffix(".weight") for entry in entries)


def block(q: Fields, name: str) -> tuple[int, int]:
    """Two block sizes, rows and columns. Raises BadInput where these are not given, or are no sizes."""
    sizes = q.raw(name)
    if not (isinstance(sizes, list) and len(sizes) == 2 and all(type(s) is int and 0 < s <= MOST_BLOCK for s in sizes)):
        raise BadInput("config field '{field}' must be two block sizes", field=q.path + name)
    return sizes[0], sizes[1]


def bits(q: Fields, *fields: str, known: Iterable[int] = (2, 3, 4, 8), default: Any = ...) -> int:
    """Bits of a weight. Raises BadInput for others than `known`."""
    fields = fields or ("bits",)
    found = q.size(*fields) if default is ... else q.size(*fields, default=default)
    if found not in known:
        raise unread(q, fields[0], ", ".join(map(str, known)))
    return found


def positive_group(q: Fields, default: int) -> int:
    """Weights that share a scale, where a whole row cannot."""
    return q.size("group_size", default=default, most=MOST_BLOCK)


def group(q: Fields, *fields: str, default: int | None = 128) -> int:
    """Weights that share a scale; −1: a whole row."""
    fields = fields or ("group_size",)
    found = q.maybe_size(*fields, default=default, least=-1, most=MOST_BLOCK)
    return -1 if found is None or found == 0 else found


def members(q: Fields, name: str) -> list[tuple[str, Any]]:
    """An object that maps module names to settings of their own, as it stands in the file.

    Empty where absent or null; raises BadInput for anything else.
    """
    value = q.raw(name)
    if value is None:
        return []
    if not isinstance(value, dict):
        raise BadInput("config field '{field}' must be an object of fields", field=q.path + name)
    return list(value.items())


def settings(q: Fields, name: str) -> list[tuple[str, Fields]]:
    """The same where only objects count, each as fields."""
    inner = [(key, own) for key, own in members(q, name) if isinstance(own, dict)]
    return [(key, Fields(own, f"{q.path}{name}.{key[:60]}.")) for key, own in inner]


def kv_format(q: Fields, name: str) -> Format | None:
    """The KV format that a field asks for: a word, or a scheme of 8-bit numbers.

    None where absent or null; raises BadInput for others.
    """
    stated = q.raw(name)
    if stated is None:
        return None
    if word(q, name).upper() in ("FP8", "FP8_E4M3"):
        return FORMATS["float8_e4m3fn"]
    if isinstance(stated, dict) and stated.get("num_bits") == 8:
        return FORMATS["float8_e4m3fn" if stated.get("type", "float") == "float" else "int8"]
    raise BadInput("config field '{field}' is not read yet; set the KV precision yourself", field=q.path + name)

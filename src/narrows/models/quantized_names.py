"""A name that a quantized checkpoint of a catalogue model has: `…-FP8`, `…-AWQ`, taken with its method's usual scheme.

Only where the hub cannot be asked: what a name ends with does not tell groups, exceptions and formats for sure.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import msgspec

from narrows.models.catalogue import CatalogueEntry, catalogue_entry
from narrows.text import BadInput, Text


class Ending(msgspec.Struct, frozen=True):
    """What a name ends with, of which organisations (none: of any), and the config that it usually stands for."""

    ends: str
    config: dict[str, Any]
    scheme: str
    source: str
    organisations: tuple[str, ...] = ()
    dtype: str = ""


@cache
def endings() -> tuple[Ending, ...]:
    """All of them, those of an organisation before those of any."""
    path = os.path.join(os.path.dirname(__file__), "data", "quantized-names.jsonl")
    with open(path, "rb") as file:
        return tuple(msgspec.json.Decoder(Ending).decode_lines(file.read()))


def quantized_entry(name: str) -> tuple[CatalogueEntry, Text] | None:
    """The catalogue's model that `name` begins with, stored as its ending usually says, and what was assumed."""
    organisation, _, repository = name.strip().rstrip("/").rpartition("/")
    lower = repository.lower()
    for one in endings():
        cut = len(lower) - len(one.ends)
        if not lower.endswith(one.ends) or cut < 2 or lower[cut - 1] not in "-_.":
            continue
        if one.organisations and organisation.lower().rpartition("/")[2] not in one.organisations:
            continue
        entry = _original(organisation, repository[: cut - 1])
        if entry is None:
            return None
        config = {**entry.config, "quantization_config": one.config}
        if one.dtype:
            config |= {"torch_dtype": one.dtype}
        said = Text(
            "'{name}' is not in the catalogue and the hub was not asked: it is assumed to be {original} stored as "
            "{scheme} ({source})",
            name=name.strip()[:100],
            original=entry.id,
            scheme=one.scheme,
            source=one.source,
        )
        return msgspec.structs.replace(entry, config=config, stored_beside=()), said
    return None


def _original(organisation: str, repository: str) -> CatalogueEntry | None:
    """The entry of the unquantized model: its own organisation's where there is one."""
    for asked in (f"{organisation}/{repository}", repository) if organisation else (repository,):
        try:
            return catalogue_entry(asked)
        except BadInput:
            continue
    return None

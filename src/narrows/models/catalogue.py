"""The bundled catalogue: configs of real models, with the source of each, found by loosely matching names."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from narrows.text import BadInput


class CatalogueEntry(msgspec.Struct, frozen=True):
    """One model of the catalogue: hub id, the config fields that readers use, where they were taken from."""

    id: str
    source: str
    config: dict[str, Any]
    note: str = ""


@cache
def catalogue() -> tuple[CatalogueEntry, ...]:
    """All entries, in the order of the file."""
    data = resources.files("narrows.models").joinpath("data/catalogue.jsonl").read_bytes()
    return tuple(msgspec.json.decode(line, type=CatalogueEntry) for line in data.splitlines() if line)


_DROPPED = ({"hf"}, {"hf", "instruct", "chat", "it", "base", "meta"})
"""Words of a name that may be left out, in two rounds: first those that mean nothing, then those that only tell
fine-tunes apart."""


def _key(name: str, dropped: set[str] = frozenset()) -> str:  # type: ignore[assignment]
    words = re.findall(r"[a-z]+|[0-9]+", name.rsplit("/", 1)[-1].lower())
    return "".join(word for word in words if word not in dropped)


def catalogue_entry(name: str) -> CatalogueEntry:
    """The entry that `name` means: `meta-llama/Llama-2-7b-hf`, `Llama-2-7b-hf`, `llama2 7b`. Raises BadInput.

    An organisation in the name must match. Where a loose name fits several entries, they are listed.
    """
    entries = catalogue()
    lowered = name.strip().lower()
    for entry in entries:
        if lowered in (entry.id.lower(), entry.id.rsplit("/", 1)[-1].lower()):
            return entry
    organisation = lowered.rsplit("/", 1)[0] if "/" in lowered else None
    pool = [e for e in entries if organisation in (None, e.id.lower().rsplit("/", 1)[0])]
    for dropped in (set(), *_DROPPED):
        found = [entry for entry in pool if _key(entry.id, dropped) == _key(lowered, dropped)]
        if len(found) == 1 or (found and all(entry.config == found[0].config for entry in found)):
            return found[0]
        if found:
            raise BadInput(
                "'{name}' could be any of: {found}; give the whole name",
                name=name[:80],
                found=", ".join(entry.id for entry in found),
            )
    raise _unknown(name, entries)


def _unknown(name: str, entries: tuple[CatalogueEntry, ...]) -> BadInput:
    from difflib import get_close_matches

    ids = {_key(entry.id): entry.id for entry in entries}
    near = [ids[key] for key in get_close_matches(_key(name[:200]), ids, n=3, cutoff=0.6)]
    if near:
        return BadInput(
            "'{name}' is not in the catalogue; the nearest are: {near}. For any other model give its config.json "
            "(or a directory that holds it)",
            name=name[:80],
            near=", ".join(near),
        )
    return BadInput(
        "'{name}' is not in the catalogue ('narrows models' lists it); download the model's config.json from the "
        "hub and give that file (or its directory)",
        name=name[:80],
    )

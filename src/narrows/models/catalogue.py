"""The bundled catalogue: configs of real models, with the source of each, found by loosely matching names."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Any

import msgspec

from narrows.text import BadInput


class StoredBeside(msgspec.Struct, frozen=True):
    """What the published file holds beside the model's tensors (a tied head again, masks): no config can tell."""

    name: str
    elements: int


class CatalogueEntry(msgspec.Struct, frozen=True):
    """One model of the catalogue: hub id, the config fields that readers use, where they were taken from."""

    id: str
    source: str
    config: dict[str, Any]
    note: str = ""
    stored_beside: tuple[StoredBeside, ...] = ()

    @property
    def organisation(self) -> str:
        """The first part of the hub id, in lower case."""
        return self.id.lower().partition("/")[0]

    @property
    def name(self) -> str:
        """The second part of the hub id, in lower case."""
        return self.id.lower().partition("/")[2]


@cache
def catalogue() -> tuple[CatalogueEntry, ...]:
    """All entries, in the order of the file."""
    # importlib.resources would take ten times longer to import than this takes to run
    with open(os.path.join(os.path.dirname(__file__), "data", "catalogue.jsonl"), "rb") as file:
        return tuple(msgspec.json.Decoder(CatalogueEntry).decode_lines(file.read()))


_HUB = ("https://huggingface.co/", "https://hf.co/", "hf.co/")
_EMPTY = frozenset({"hf", "meta"})
"""Words of a name that mean nothing."""
_TUNED = frozenset({"instruct", "chat", "it"})
"""Words that tell a fine-tune from its base model."""
_DROPPED = (frozenset[str](), frozenset({"hf"}), _EMPTY, _EMPTY | _TUNED | {"base"})
"""Words of a name that may be left out, in rounds: first those that mean nothing, then those that tell fine-tunes
apart."""


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+|[0-9]+", name)


def _key(words: list[str], dropped: frozenset[str] = frozenset()) -> str:
    """Words without separators, as people type them anyway, but numbers stay apart: 'llama 2 7b' is not 'llama 27b'."""
    kept = " ".join(word for word in words if word not in dropped)
    return re.sub(r"(?<=[a-z]) (?=[a-z])", "", kept)


def catalogue_entry(name: str) -> CatalogueEntry:
    """The entry that `name` means: `meta-llama/Llama-2-7b-hf`, `Llama-2-7b-hf`, `llama2 7b`. Raises BadInput.

    An organisation in the name must match. A name that says nothing of tuning means the base model where both are
    there. Where several entries of different structure remain, they are listed.
    """
    wanted = name.strip().lower()
    for prefix in _HUB:
        wanted = wanted.removeprefix(prefix)
    organisation, slash, repository = wanted.rstrip("/").rpartition("/")
    pool = [entry for entry in catalogue() if not slash or entry.organisation == organisation]
    exact = [entry for entry in pool if entry.name == repository]
    if len(exact) == 1:
        return exact[0]
    asked = _words(repository[:200])
    split = [(entry, _words(entry.name)) for entry in pool]
    for dropped in _DROPPED:
        key = _key(asked, dropped)
        found = [entry for entry, words in split if key and _key(words, dropped) == key]
        if len(found) > 1:
            tuned = not _TUNED.isdisjoint(asked)
            found = [entry for entry in found if tuned != _TUNED.isdisjoint(_words(entry.name))] or found
        if found and all(entry.config == found[0].config for entry in found):
            return found[0]
        if found:
            raise _ambiguous(name, found)
    start = [word for word in asked if word not in _EMPTY]
    begun = [entry for entry, words in split if start and [w for w in words if w not in _EMPTY][: len(start)] == start]
    plain = [entry for entry in begun if _TUNED.isdisjoint(_words(entry.name))]
    sized = any(word.isdecimal() for word in start)
    if len(plain) == 1 and sized and all(w == "v" or w.isdecimal() for w in _words(plain[0].name)[len(start) :]):
        return plain[0]  # family and size are there, only a version is missing, and there is but one
    if len(begun) == 1:
        return begun[0]
    if len(begun) > 1:
        raise _ambiguous(name, begun)
    raise _unknown(name)


def nearest(name: str) -> list[str]:
    """Ids of the catalogue that look most like `name`, three at most."""
    from difflib import get_close_matches

    key = _key(_words(name.strip().lower().rstrip("/").rpartition("/")[2][:200]))
    ids = {_key(_words(entry.name)): entry.id for entry in catalogue()}
    return [ids[found] for found in get_close_matches(key, ids, n=3, cutoff=0.7)] if key else []


def _shown(name: str) -> str:
    return "".join(ch if ch.isprintable() else " " for ch in name.strip()[:80])


def _ambiguous(name: str, found: list[CatalogueEntry]) -> BadInput:
    shown = ", ".join(entry.id for entry in found[:8]) + (", …" if len(found) > 8 else "")
    return BadInput("'{name}' could be any of: {found}; give the whole name", name=_shown(name), found=shown)


def _unknown(name: str) -> BadInput:
    near = nearest(name)
    if near:
        return BadInput(
            "'{name}' is not in the catalogue; the nearest are: {near}. For any other model give its config.json "
            "(or a directory that holds it)",
            name=_shown(name),
            near=", ".join(near),
        )
    return BadInput(
        "'{name}' is not in the catalogue ('narrows models' lists it); download the model's config.json from the "
        "hub and give that file (or its directory)",
        name=_shown(name),
    )

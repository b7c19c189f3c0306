"""Loaders as facts: how each reads, how many reads it has under way, and what every rank reads of the checkpoint."""

from __future__ import annotations

import os
from functools import cache
from typing import Literal

import msgspec

from narrows.text import BadInput


class Loader(msgspec.Struct, frozen=True, kw_only=True):
    """How one way of loading moves bytes.

    access: `mmap` (page faults, in order), `read` (through the page cache), `direct` (past it). streams: reads under
    way per rank. part: what a rank handles: `slices` (its part of files that all ranks map), `own` (a file of its own),
    `distributed` (an even part, exchanged between devices), `all` (everything). pipelined: reading and copying to the
    device overlap. pinned: copies from pinned memory. fresh: bytes of new host memory per byte loaded; copies: passes
    over host memory; peak: host memory held at most per byte loaded. object: reads object stores without a download.
    cpu, http_cpu: CPU seconds per GB in one thread that all streams share, and beside that over HTTP; 0: no limit seen.
    own_format: the checkpoint must be converted first. flag: how its engine is told; tune: its concurrency.
    """

    id: str
    name: str
    engines: tuple[str, ...]
    access: Literal["mmap", "read", "direct"]
    streams: int
    part: Literal["slices", "own", "distributed", "all"]
    pipelined: bool
    pinned: bool
    source: str
    aliases: tuple[str, ...] = ()
    fresh: float = 0.0
    copies: int = 0
    peak: float = 0.0
    object: bool = False
    cpu: float = 0.0
    http_cpu: float = 0.0
    own_format: bool = False
    download: bool = False
    """Puts files on a disk and no weights on a device."""
    flag: str = ""
    tune: str = ""

    def share(self, ranks: int) -> float:
        """The part of the checkpoint that one of `ranks` handles."""
        return 1.0 if self.part == "all" else 1.0 / ranks


@cache
def loaders() -> tuple[Loader, ...]:
    """All loaders, in the order of the file."""
    with open(os.path.join(os.path.dirname(__file__), "data", "loaders.jsonl"), "rb") as file:
        return tuple(msgspec.json.Decoder(Loader).decode_lines(file.read()))


def loader(id: str) -> Loader:
    """The loader of that id; another is a mistake of ours: KeyError."""
    return {one.id: one for one in loaders()}[id]


def find_loader(name: str | None, engine: str) -> Loader:
    """The loader of that id or alias, or the engine's own where none is named.

    Raises BadInput for an unknown one, and for one that the engine does not have.
    """
    if name is None:
        return loader("gguf-mmap" if engine == "llama.cpp" else "safetensors")
    wanted = name.strip().lower()
    mine = [one for one in loaders() if engine in one.engines]
    for one in loaders():
        if one.download or wanted not in (one.id, *one.aliases):
            continue
        if one not in mine:
            break
        return one
    raise BadInput(
        "--loader is '{name}', which {engine} does not have; use one of: {known}",
        name=name[:40],
        engine=engine,
        known=", ".join(one.id for one in mine),
    )

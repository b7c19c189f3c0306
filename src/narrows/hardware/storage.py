"""Where weights come from: kinds of storage with what a client can read, each figure with its source and date."""

from __future__ import annotations

from functools import cache
from typing import Literal

import msgspec

from narrows.hardware.catalogue import bundled, shown
from narrows.text import BadInput

Kind = Literal["object", "hub", "block", "share", "fuse", "local", "memory"]
NETWORKED = ("object", "hub", "share", "fuse")
"""Kinds that come through the machine's network interface; `block` has a way of its own on most clouds."""


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of storage as one machine sees it. Rates are bytes/s.

    kind: `object` (HTTP, range requests), `hub` (HTTP through a content network), `block` (a volume over a network of
    its own), `share` (a file system over the network), `fuse` (an object store mounted as files), `local` (a drive in
    the machine), `memory`. bandwidth: the most a client reads on paper or where measured, as `basis` says; low, high:
    what it is sold at, or was seen at. stream: what one reader gets that waits for every answer, where a document
    says so; None: fitted by kind. reach: share of a network interface that clients were seen to fill. write: bytes/s
    where weights are stored on it first.
    """

    id: str
    name: str
    kind: Kind
    bandwidth: float
    low: float
    high: float
    basis: Literal["cited", "measured", "assumed"]
    source: str
    as_of: str
    aliases: tuple[str, ...] = ()
    stream: float | None = None
    reach: float = 1.0
    write: float | None = None
    unless: str = ""
    """What the figure takes for granted, as a sentence; empty: nothing that a buyer chooses."""

    @property
    def remote(self) -> bool:
        """Whether it has no files: a loader speaks its protocol, or everything is downloaded first."""
        return self.kind in ("object", "hub")


class Instance(msgspec.Struct, frozen=True):
    """What a cloud's machine lets through, bytes/s: `block` to its volumes, `network` to everything else."""

    id: str
    block: float | None
    network: float | None
    source: str
    as_of: str

    def limit(self, kind: Kind) -> float | None:
        """The machine's limit for a kind of storage; None where there is none or it is not known."""
        return self.block if kind == "block" else self.network if kind in NETWORKED else None


@cache
def storages() -> tuple[Storage, ...]:
    """All kinds of storage, in the order of the file."""
    return tuple(msgspec.json.Decoder(Storage).decode_lines(bundled("storage.jsonl")))


@cache
def instances() -> tuple[Instance, ...]:
    """All machines whose limits are known."""
    return tuple(msgspec.json.Decoder(Instance).decode_lines(bundled("instances.jsonl")))


def find_storage(name: str) -> Storage:
    """The storage of that id or alias (`gp3`, `local-ssd`). Raises BadInput with the known ones."""
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    for one in storages():
        if wanted in (one.id, *one.aliases):
            return one
    raise BadInput(
        "'{name}' is no storage that is known, and no file or directory here; use one of: {known}",
        name=shown(name),
        known=", ".join(one.id for one in storages()),
    )


def find_instance(name: str) -> Instance:
    """The machine of that name (`g5.12xlarge`). Raises BadInput with the known ones."""
    wanted = name.strip().lower()
    for one in instances():
        if wanted == one.id:
            return one
    raise BadInput(
        "the limits of instance '{name}' are not known; leave it out and give --bandwidth, or use one of: {known}",
        name=shown(name),
        known=", ".join(one.id for one in instances()),
    )

"""The tensors that a checkpoint's files name in their headers, whatever the file format."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import msgspec

Progress = Callable[[int, int], None]
"""Told after every file: (headers read, headers in all)."""


class StoredTensor(msgspec.Struct, frozen=True, gc=False):
    """One stored tensor. format: as the file spells it (`BF16`, `F8_E4M3`, `Q4_K`). shape: as stored. file: its name.

    Without the garbage collector's bookkeeping: a checkpoint has up to a few hundred thousand, none holds a cycle.
    """

    name: str
    format: str
    shape: tuple[int, ...]
    bytes: int
    file: str

    @property
    def elements(self) -> int:
        """Elements as the header counts them: packed integers count once."""
        return prod(self.shape)


class Inventory(msgspec.Struct, frozen=True):
    """All tensors of one checkpoint.

    place: where it lies, for messages. files: names of those read. header_bytes: read of them, nothing else was.
    missing: files that belong to it and are not there (all the rest is complete only without any).
    unnamed, unstored: tensors in the files that the index does not name; names of the index that no file has.
    twice: tensors that stand in more than one file, counted once. left_out: files beside it that are not part of it.
    """

    kind: str
    place: str
    tensors: tuple[StoredTensor, ...]
    files: tuple[str, ...]
    header_bytes: int
    missing: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    unnamed: int = 0
    unstored: int = 0
    twice: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.bytes for tensor in self.tensors)

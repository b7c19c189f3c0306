"""GGML types: how llama.cpp's GGUF files store one tensor, in blocks of one row; and the file types made of them.

The table is `data/ggml.json`, read when first asked for. A config's own precision needs none of this.
"""

from __future__ import annotations

import os
from functools import cache

import msgspec

from narrows.precision.formats import Format


class GgmlType(Format, frozen=True):
    """One GGML type: `block` elements of a row take `block_bytes` bytes. id: its number in a file.

    `bits` is rounded up, and says only how wide the type is; sizes come from whole blocks.
    """

    id: int
    block: int
    block_bytes: int

    def bytes_for(self, elements: int) -> int:
        """Bytes of `elements` elements in whole blocks. Rows are multiples of the block in a valid file."""
        return -(-elements // self.block) * self.block_bytes


class FileType(msgspec.Struct, frozen=True):
    """A file type such as Q4_K_M: its number in `general.file_type`, and the GGML type most of its tensors have."""

    name: str
    number: int
    base: GgmlType


class _Row(msgspec.Struct):
    type: str
    id: int
    block: int
    bytes: int


class _FileRow(msgspec.Struct):
    name: str
    number: int
    base: str


class _Table(msgspec.Struct):
    source: str
    types: list[_Row]
    file_types: list[_FileRow]


@cache
def _table() -> _Table:
    with open(os.path.join(os.path.dirname(__file__), "data", "ggml.json"), "rb") as file:
        return msgspec.json.decode(file.read(), type=_Table)


@cache
def ggml_types() -> dict[str, GgmlType]:
    """Every GGML type by name, in the order of their numbers."""
    return {
        row.type: GgmlType(row.type, -(-row.bytes * 8 // row.block), row.id, row.block, row.bytes)
        for row in _table().types
    }


@cache
def ggml_types_by_id() -> dict[int, GgmlType]:
    """Every GGML type by its number in a file."""
    return {one.id: one for one in ggml_types().values()}


@cache
def file_types() -> dict[str, FileType]:
    """Every file type by name (`Q4_K_M`)."""
    return {row.name: FileType(row.name, row.number, ggml_types()[row.base]) for row in _table().file_types}


def file_type_name(number: object) -> str:
    """The name of a `general.file_type`; empty for a number that no file type has (`guessed` is 1024)."""
    return next((one.name for one in file_types().values() if one.number == number), "")

"""Headers of GGUF files, versions 2 and 3, of either byte order: metadata and the table of tensors, never weights.

Layout: magic, version, number of tensors, number of metadata pairs; the pairs; one row per tensor (name, dimensions,
type, offset); then, aligned, the data. Source: the format's description (ggml, docs/gguf.md, MIT). Of the metadata
only what tells the model's shape is kept: numbers, short strings and short lists; tokenizers are passed over.
"""

from __future__ import annotations

import os
import stat
from math import prod
from struct import Struct
from typing import Any

import msgspec

from narrows.models.paths import short
from narrows.models.stored.gguf_cursor import Cursor, refusal
from narrows.precision.ggml import GgmlType, ggml_types_by_id
from narrows.text import BadInput, Text, printable

MAGIC = b"GGUF"
MOST_TENSORS = 2**16
"""The largest known models have about 2,000."""
MOST_PAIRS = 2**14
MOST_STRINGS = 2**23
"""Strings of all lists together: a vocabulary of 262,144 has as many tokens and twice as many merges."""
MOST_NAME = 1024
MOST_TENSOR_NAME = 256
"""llama.cpp itself stops at 63."""
KEPT_STRING = 256
KEPT_LIST = 2**12
MOST_KEPT = 2**18
"""Elements of all kept lists together."""
MOST_DIMS = 4
_DEFAULT_ALIGNMENT = 32
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Value types of metadata, as struct spells them."""


class GgufTensor(msgspec.Struct, frozen=True):
    """One tensor: dimensions with the row's length first, as the file has them; offset from the file's beginning."""

    name: str
    dims: tuple[int, ...]
    type: GgmlType
    offset: int

    @property
    def elements(self) -> int:
        """Elements in all."""
        return prod(self.dims)

    @property
    def bytes(self) -> int:
        """Bytes in the file, without padding."""
        return self.type.bytes_for(self.elements)


class GgufHeader(msgspec.Struct, frozen=True):
    """What one file says of itself. lengths: of the lists that were not kept, by key. data: where its data begins."""

    path: str
    version: int
    big_endian: bool
    metadata: dict[str, Any]
    lengths: dict[str, int]
    tensors: tuple[GgufTensor, ...]
    alignment: int
    data: int
    size: int


def read_header(path: str, *, most_strings: int = MOST_STRINGS) -> GgufHeader:
    """The header of one GGUF file. Raises BadInput, naming the byte, for anything that is not one.

    most_strings: of all lists together; the later parts of a model have no tokenizer.
    """
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise BadInput("'{path}' is not a regular file; give a GGUF file", path=short(path))
        with open(path, "rb", buffering=0) as file:
            return _read(Cursor(file, path), most_strings)
    except FileNotFoundError:
        raise BadInput("'{path}' does not exist; give a GGUF file", path=short(path)) from None
    except OSError as error:
        raise BadInput(
            "'{path}' cannot be read: {reason}", path=short(path), reason=error.strerror or str(error)
        ) from None


def _read(c: Cursor, most_strings: int) -> GgufHeader:
    if c.size < 4 or c.take(4, Text("the magic")) != MAGIC:
        c.refuse(Text("the magic 'GGUF' is missing; it may be another kind of file, or a failed download"), 0)
    version = _version(c)
    at = c.offset
    tensors, pairs = c.u64(Text("the number of tensors")), c.u64(Text("the number of metadata entries"))
    # the smallest tensor row has 24 bytes, the smallest pair 13
    if tensors > MOST_TENSORS or tensors * 24 > c.left:
        c.refuse(Text("it claims {count} tensors, more than it can hold or any model has", count=_bounded(tensors)), at)
    if pairs > MOST_PAIRS or pairs * 13 > c.left:
        c.refuse(
            Text("it claims {count} metadata entries, more than it can hold or any model has", count=_bounded(pairs)),
            at + 8,
        )
    metadata, lengths, alignment = _metadata(c, pairs, most_strings)
    rows = _rows(c, tensors)
    data = -(-c.offset // alignment) * alignment
    placed = tuple(GgufTensor(name, dims, kind, data + offset) for name, dims, kind, offset, _ in rows)
    _check_places(c, placed, [row[4] for row in rows], alignment, data)
    return GgufHeader(c.path, version, c.order == ">", metadata, lengths, placed, alignment, data, c.size)


def _version(c: Cursor) -> int:
    raw = c.take(4, Text("the version"))
    version = int.from_bytes(raw, "little")
    if version & 0xFFFF == 0:
        c.big_endian()
        version = int.from_bytes(raw, "big")
    if version == 1:
        c.refuse(
            Text("the version is 1, which llama.cpp does not read any more either; convert the original model anew"), 4
        )
    if version not in (2, 3):
        c.refuse(Text("the version is {version}; narrows reads 2 and 3", version=version), 4)
    return version


def _metadata(c: Cursor, pairs: int, most_strings: int) -> tuple[dict[str, Any], dict[str, int], int]:
    """(kept values, lengths of what was not kept, alignment)."""
    metadata: dict[str, Any] = {}
    lengths: dict[str, int] = {}
    seen: set[str] = set()
    room = [most_strings, MOST_KEPT]
    alignment = _DEFAULT_ALIGNMENT
    for _ in range(pairs):
        at = c.offset
        key = c.name(Text("the name of a metadata entry"), MOST_NAME)
        if key in seen:
            c.refuse(Text("the metadata entry '{key}' stands there twice", key=key[:60]), at)
        seen.add(key)
        what = Text("the metadata entry '{key}'", key=key[:60])
        at, kind = c.offset, c.u32(what)
        value: Any
        if kind == _ARRAY:
            value, length = _array(c, key, what, room)
            if value is None:
                lengths[key] = length
        else:
            value = _value(c, kind, key, what, at)
        if key == "general.alignment":
            if kind != 4 or not isinstance(value, int) or value <= 0 or value & (value - 1):
                c.refuse(Text("the alignment must be a power of two in 32 bits"), at)
            alignment = value
        if value is not None:
            metadata[key] = value
    return metadata, lengths, alignment


def _value(c: Cursor, kind: int, key: str, what: Text, at: int) -> Any:
    """A scalar or a string; None for a string that is not kept."""
    if kind == _STRING:
        length = c.u64(what)
        c.need(length, what)
        if length > KEPT_STRING or key.startswith("tokenizer."):
            c.skip(length, what)
            return None
        return printable(c.take(length, what).decode(errors="replace"))
    letter = _SCALARS.get(kind)
    if letter is None:
        c.refuse(Text("{what} has the unknown type {kind}", what=what, kind=kind), at)
    form = Struct(c.order + letter)
    return form.unpack(c.take(form.size, what))[0]


def _array(c: Cursor, key: str, what: Text, room: list[int]) -> tuple[list[Any] | None, int]:
    """(values, length); None for a list that is not kept. room: strings that may still be passed over, and numbers
    that may still be kept."""
    at, kind, length = c.offset, c.u32(what), c.u64(what)
    if kind == _ARRAY:
        c.refuse(Text("{what} is a list of lists, which no model has", what=what), at)
    if kind == _STRING:
        c.need(8 * length, what)
        room[0] -= length
        if room[0] < 0:
            c.refuse(Text("{what} has more strings than any tokenizer", what=what), at)
        c.skip_strings(length, what)
        return None, length
    letter = _SCALARS.get(kind)
    if letter is None:
        c.refuse(Text("{what} is a list of the unknown type {kind}", what=what, kind=kind), at)
    form = Struct(c.order + letter)
    c.need(form.size * length, what)
    if length > KEPT_LIST or length > room[1] or key.startswith("tokenizer."):
        c.skip(form.size * length, what)
        return None, length
    room[1] -= length
    raw = c.take(form.size * length, what)
    return list(Struct(f"{c.order}{length}{letter}").unpack(raw)), length


_Row = tuple[str, tuple[int, ...], GgmlType, int, int]
"""(name, dimensions, type, offset from the data, where the row stands)"""


def _rows(c: Cursor, count: int) -> list[_Row]:
    found: list[_Row] = []
    seen: set[str] = set()
    known = ggml_types_by_id()
    for _ in range(count):
        at = c.offset
        name = c.name(Text("the name of a tensor"), MOST_TENSOR_NAME)
        if name in seen:
            c.refuse(Text("the tensor '{name}' stands there twice", name=name[:60]), at)
        seen.add(name)
        what = Text("the tensor '{name}'", name=name[:60])
        number = c.u32(what)
        if number > MOST_DIMS:
            c.refuse(
                Text("{what} has {count} dimensions; GGML has at most {most}", what=what, count=number, most=MOST_DIMS),
                at,
            )
        dims = tuple(c.u64(what) for _ in range(number))
        kind_at, number = c.offset, c.u32(what)
        kind = known.get(number)
        if kind is None:
            c.refuse(Text("{what} has the type {kind}, which narrows does not know", what=what, kind=number), kind_at)
        if not 0 < prod(dims) < 2**62:
            c.refuse(Text("the dimensions of {what} are zero or too large", what=what), at)
        if (dims[0] if dims else 1) % kind.block:
            c.refuse(
                Text(
                    "{what} has rows of {row} elements, which blocks of {block} ({kind}) do not fill",
                    what=what,
                    row=dims[0] if dims else 1,
                    block=kind.block,
                    kind=kind.name,
                ),
                at,
            )
        found.append((name, dims, kind, c.u64(what), at))
    return found


def _check_places(c: Cursor, tensors: tuple[GgufTensor, ...], rows: list[int], alignment: int, data: int) -> None:
    """Every tensor begins at a multiple of the alignment, lies inside the file, and overlaps no other."""
    end = 0
    for tensor, row in sorted(zip(tensors, rows, strict=True), key=lambda pair: pair[0].offset):
        name = tensor.name[:60]
        if (tensor.offset - data) % alignment:
            reason = Text(
                "the tensor '{name}' does not begin at a multiple of {alignment}", name=name, alignment=alignment
            )
            raise refusal(c.path, row, reason)
        if tensor.offset < end:
            raise refusal(c.path, row, Text("the tensor '{name}' overlaps another", name=name))
        end = tensor.offset + tensor.bytes
        if end > c.size:
            raise refusal(
                c.path,
                row,
                Text(
                    "the tensor '{name}' ends at byte {end}, and the file has {size}; it is incomplete or damaged",
                    name=name,
                    end=min(end, 2**64),
                    size=c.size,
                ),
            )


def _bounded(count: int) -> int:
    return min(count, 2**64)

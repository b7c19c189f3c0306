"""The header of a safetensors file: an 8-byte length, that much JSON, then the data the JSON describes.

Source of the format and of its limits: the safetensors project's format description (Apache-2.0). A header is checked
in full before it counts: every byte of the data belongs to exactly one tensor, and shape × format gives its size.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from typing import Any

import msgspec

from narrows.models.paths import short
from narrows.models.stored.inventory import StoredTensor
from narrows.text import BadInput, Text, printable

MOST_HEADER = 100_000_000
"""Bytes of one header; the official reader has the same limit."""
MOST_TENSORS = 500_000
"""Of one checkpoint. The largest published ones have about 200,000."""
MOST_ENTRY = 4096
"""Bytes of the description of one tensor, its name and a shape of hundreds of dimensions included."""
MOST_METADATA = 8 * 2**20
"""Bytes of the strings beside the tensors: a format's name, at most a training run's settings."""
_MOST_NAME = 60
_U64 = 2**64
LENGTH = 8
"""Bytes before the header, which hold its length."""

BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("BOOL", "I8", "U8"), 8),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}
"""Formats by the format's own names (safetensors 0.8) and their bits per element."""

Read = Callable[[int, int], bytes]
"""(first byte, how many) → those bytes of a file, fewer at its end."""


class _Entry(msgspec.Struct, gc=False):
    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


_DECODE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_DECODE_ENTRY = msgspec.json.Decoder(_Entry)
_DECODE_METADATA = msgspec.json.Decoder(dict[str, str] | None)


def refusal(file: str, offset: int, what: Text) -> BadInput:
    """The one sentence for a file that is none, or not whole."""
    return BadInput(
        "'{file}' cannot be read as safetensors, at byte {offset}: {what}; download it again, or give the model's "
        "config.json itself to go by that alone",
        file=short(file),
        offset=offset,
        what=what,
    )


def read_file(path: str, name: str, room: int = MOST_TENSORS) -> tuple[list[StoredTensor], int]:
    """(tensors, bytes read) of a file on this machine. name: what the tensors call it. Raises BadInput."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadInput("'{path}' is not a regular file; give the directory as downloaded", path=printable(path))
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size

            def read(first: int, count: int) -> bytes:
                file.seek(first)
                return file.read(count)

            return read_header(path, name, size, read, room)
    except OSError as error:
        raise BadInput(
            "'{path}' cannot be read: {reason}", path=printable(path), reason=error.strerror or str(error)
        ) from None


def read_header(
    file: str, name: str, size: int | None, read: Read, room: int = MOST_TENSORS
) -> tuple[list[StoredTensor], int]:
    """(tensors, bytes read) of one file. size: of the whole file (None: unknown); room: the most tensors there may be.

    file: for messages; name: what the tensors call it. Reads nothing behind the header. Raises BadInput.
    """
    length = header_length(file, size, read(0, LENGTH))
    header = read(LENGTH, length)
    if len(header) < length:
        raise refusal(file, LENGTH + len(header), Text("the file ends inside its header"))
    return parse(file, name, header, None if size is None else size - LENGTH - length, room), LENGTH + length


def header_length(file: str, size: int | None, begin: bytes) -> int:
    """The header's length, which the first 8 bytes state; refused where it cannot be."""
    if len(begin) < LENGTH:
        raise refusal(file, len(begin), Text("the file ends before its header begins"))
    length = int.from_bytes(begin[:LENGTH], "little")
    if length > MOST_HEADER:
        raise refusal(file, 0, Text("its header would be {length} bytes long, more than any", length=length))
    if size is not None and LENGTH + length > size:
        raise refusal(
            file, 0, Text("its header would be {length} bytes long, and the file has {size}", length=length, size=size)
        )
    return length


def parse(file: str, name: str, header: bytes, body: int | None, room: int = MOST_TENSORS) -> list[StoredTensor]:
    """The tensors of a header, in the order of their data. body: bytes behind the header (None: unknown)."""
    if header.count(b"{") > room + 2:
        raise refusal(file, LENGTH, Text("it holds more than {most} tensors", most=room))
    try:
        if not header.isascii():
            header.decode()
        raw = _DECODE.decode(header)
        metadata = raw.pop("__metadata__", b"null")
        if memoryview(metadata).nbytes > MOST_METADATA:
            raise refusal(file, LENGTH, Text("its metadata are larger than any"))
        _DECODE_METADATA.decode(metadata)
    except UnicodeDecodeError as error:
        raise refusal(file, LENGTH + error.start, Text("its header is not UTF-8")) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise refusal(file, LENGTH + _at(error), _json_fault(error)) from None
    if any(header.count(key) != len(raw) for key in (b'"dtype"', b'"shape"', b'"data_offsets"')):
        _refuse_repeated(file, header)
    found = []
    shapes: dict[tuple[int, ...], tuple[tuple[int, ...], int]] = {}
    entry = key = None
    try:
        for key, value in raw.items():
            entry = None
            if len(key) + memoryview(value).nbytes > MOST_ENTRY:
                raise ValueError
            entry = _DECODE_ENTRY.decode(value)
            shape, elements = shapes.get(entry.shape) or shapes.setdefault(entry.shape, _elements(entry.shape))
            begin, end = entry.data_offsets
            bits = elements * BITS[entry.dtype]
            if not 0 <= begin <= end < _U64 or elements < 0 or bits >= _U64 or bits != 8 * (end - begin):
                raise ValueError
            found.append((begin, end, StoredTensor(key, _SPELT[entry.dtype], shape, end - begin, name)))
    except (msgspec.DecodeError, RecursionError, KeyError, ValueError) as error:
        raise refusal(file, _place(header, str(key)), _entry_fault(str(key), entry, error)) from None
    found.sort(key=_extent)
    return _contiguous(file, header, body, found)


_SPELT = {name: name for name in BITS}
"""One object per format's name, however many tensors have it."""


def _extent(one: tuple[int, int, StoredTensor]) -> tuple[int, int]:
    return one[0], one[1]


def _elements(shape: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """The shape itself, to be shared, and its elements; −1 for none that fits 64 bits on the way."""
    total = 1
    for size in shape:
        total *= size
        if size < 0 or size >= _U64 or total >= _U64:
            return shape, -1
    return shape, total


def _contiguous(
    file: str, header: bytes, body: int | None, found: list[tuple[int, int, StoredTensor]]
) -> list[StoredTensor]:
    """The tensors, if their data follow each other without a hole or an overlap and fill the file."""
    data = LENGTH + len(header)
    at = 0
    for begin, end, tensor in found:
        if begin < at:
            overlap = Text("the data of '{name}' overlap those before", name=tensor.name[:_MOST_NAME])
            raise refusal(file, data + begin, overlap)
        if begin > at:
            hole = Text("nothing lies before the data of '{name}'", name=tensor.name[:_MOST_NAME])
            raise refusal(file, data + at, hole)
        at = end
    if body is not None and body != at:
        size, wanted = data + body, data + at
        if body < at:
            raise refusal(file, size, Text("it ends there, and its header describes {wanted} bytes", wanted=wanted))
        raise refusal(file, wanted, Text("its header describes no more, and it has {size} bytes", size=size))
    return [tensor for _, _, tensor in found]


def _refuse_repeated(file: str, header: bytes) -> None:
    """Refuse a name that is there twice. The official reader takes the last; no writer writes one."""

    def keys(pairs: list[tuple[str, Any]]) -> None:
        seen = set()
        for key, _ in pairs:
            if key in seen:
                place = _place(header, key, header.find(b'"') + 1)
                raise refusal(file, place, Text("'{name}' is there twice", name=key[:_MOST_NAME]))
            seen.add(key)

    json.loads(header, object_pairs_hook=keys)


def _place(header: bytes, key: str, start: int = 0) -> int:
    """Where a name stands in the file, or the header's beginning where it is spelt otherwise."""
    return LENGTH + max(0, header.find(json.dumps(key, ensure_ascii=False).encode(errors="replace"), start))


def _at(error: Exception) -> int:
    """The byte that msgspec names in its message, if it does."""
    digits = str(error).rpartition("(byte ")[2].rstrip(")")
    return int(digits) if digits.isdecimal() else 0


def _json_fault(error: Exception) -> Text:
    if isinstance(error, msgspec.ValidationError):
        return Text("its header is no object of tensors")
    return Text("its header is not valid JSON")


def _entry_fault(name: str, entry: _Entry | None, error: Exception) -> Text:
    name = name[:_MOST_NAME]
    if isinstance(error, KeyError) and entry is not None:
        return Text("'{name}' has the unknown format '{format}'", name=name, format=entry.dtype[:20])
    if isinstance(error, ValueError) and not isinstance(error, msgspec.DecodeError) and entry is not None:
        return Text(
            "'{name}' has offsets {offsets}, which shape {shape} of {format} does not fill",
            name=name,
            offsets=_cut(entry.data_offsets),
            shape=_cut(entry.shape),
            format=entry.dtype,
        )
    return Text("'{name}' is not described by dtype, shape and data_offsets", name=name)


def _cut(numbers: tuple[int, ...]) -> str:
    """Numbers from a file, short enough for one line."""
    shown = ", ".join(str(n) if abs(n) < 10**24 else "…" for n in numbers[:6])
    return f"[{shown}, …]" if len(numbers) > 6 else f"[{shown}]"

"""GGUF files byte by byte, right and wrong in every field: what the official writer would never write."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

U32, F32, STRING, ARRAY, U64 = 4, 6, 8, 9, 10
FORMS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
BLOCKS = {
    0: (1, 4),
    1: (1, 2),
    2: (32, 18),
    8: (32, 34),
    12: (256, 144),
    14: (256, 210),
    30: (1, 2),
    39: (32, 17),
    3: (32, 20),
    6: (32, 22),
    7: (32, 24),
}
"""Type number → (block, bytes), of the types that tests use."""


class Writer:
    """Pieces of a header in one byte order."""

    def __init__(self, order: str = "<") -> None:
        self.order = order

    def number(self, form: str, *values: Any) -> bytes:
        return struct.pack(self.order + form, *values)

    def text(self, value: str | bytes) -> bytes:
        raw = value.encode() if isinstance(value, str) else value
        return self.number("Q", len(raw)) + raw

    def value(self, kind: int, value: Any) -> bytes:
        return self.text(value) if kind == STRING else self.number(FORMS[kind], value)

    def pair(self, key: str | bytes, kind: int, value: Any) -> bytes:
        return self.text(key) + self.number("I", kind) + self.value(kind, value)

    def items(self, key: str, kind: int, values: Sequence[Any]) -> bytes:
        body = b"".join(self.value(kind, value) for value in values)
        return self.text(key) + self.number("IIQ", ARRAY, kind, len(values)) + body

    def row(self, name: str | bytes, dims: Sequence[int], kind: int, offset: int) -> bytes:
        return self.text(name) + self.number(f"I{len(dims)}QIQ", len(dims), *dims, kind, offset)

    def head(self, tensors: int, pairs: int, version: int = 3) -> bytes:
        return b"GGUF" + self.number("IQQ", version, tensors, pairs)


def size_of(dims: Sequence[int], kind: int) -> int:
    """Bytes of a tensor."""
    block, size = BLOCKS[kind]
    total = 1
    for one in dims:
        total *= one
    return -(-total // block) * size


def gguf(
    pairs: Sequence[bytes],
    tensors: Sequence[tuple[str, Sequence[int], int]],
    *,
    order: str = "<",
    version: int = 3,
    alignment: int = 32,
    weights: bool = True,
) -> bytes:
    """A whole file with these metadata entries and tensors (name, dimensions, type), its weights zero."""
    writer, offset, rows = Writer(order), 0, []
    for name, dims, kind in tensors:
        rows.append(writer.row(name, dims, kind, offset))
        offset += -(-size_of(dims, kind) // alignment) * alignment
    header = writer.head(len(rows), len(pairs), version) + b"".join(pairs) + b"".join(rows)
    return header + bytes(-len(header) % alignment) + (bytes(offset) if weights else b"")


def place(path: Path, pairs: Sequence[bytes], tensors: Sequence[tuple[str, Sequence[int], int]]) -> Path:
    """Such a file on disk, its weights a hole."""
    header = gguf(pairs, tensors, weights=False)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + sum(-(-size_of(dims, kind) // 32) * 32 for _, dims, kind in tensors))
    return path

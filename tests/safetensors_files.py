"""Makes safetensors files: whole ones, sparse ones of any size, and broken ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BITS = {
    "F64": 64,
    "I64": 64,
    "F32": 32,
    "I32": 32,
    "BF16": 16,
    "I16": 16,
    "F16": 16,
    "F8_E4M3": 8,
    "U8": 8,
    "I8": 8,
    "F4": 4,
}

Tensors = Mapping[str, tuple[str, tuple[int, ...]]]
"""Name → (format, shape)."""


def size_of(form: str, shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total * BITS[form] // 8


def header_of(tensors: Tensors, metadata: dict[str, str] | None = None) -> tuple[bytes, int]:
    """(header with its length before it, bytes of data that follow)."""
    entries: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    at = 0
    for name, (form, shape) in tensors.items():
        end = at + size_of(form, shape)
        entries[name] = {"dtype": form, "shape": list(shape), "data_offsets": [at, end]}
        at = end
    return framed(json.dumps(entries, separators=(",", ":")).encode()), at


def framed(header: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header


def write(path: Path, tensors: Tensors, metadata: dict[str, str] | None = None) -> int:
    """Write a file whose data are a hole: it takes a few kB of disk. Returns the bytes of data."""
    header, body = header_of(tensors, metadata)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + body)
    return body


def write_sharded(folder: Path, shards: list[Tensors], stem: str = "model", index: bool = True) -> int:
    """Shards as the hub has them, with an index. Returns the bytes of data."""
    total, where = 0, {}
    for number, tensors in enumerate(shards, 1):
        name = f"{stem}-{number:05}-of-{len(shards):05}.safetensors"
        total += write(folder / name, tensors, {"format": "pt"})
        where.update(dict.fromkeys(tensors, name))
    if index:
        named = {"metadata": {"total_size": total}, "weight_map": where}
        (folder / f"{stem}.safetensors.index.json").write_text(json.dumps(named))
    return total

"""What headers tell of single tensors, in the terms of the schemes: the parts that are stored, and so kept."""

from __future__ import annotations

import msgspec

from narrows.precision import FORMATS, Format, Part, Scheme

_NAMES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I8": "int8",
    "U8": "uint8",
    "F4": "float4_e2m1",
}
"""Formats as safetensors spells them → as configs do."""


def format_named(stored: str, bits: int) -> Format:
    """The format that a header names; one without a name of its own keeps the header's."""
    return FORMATS.get(_NAMES.get(stored, ""), Format(stored, bits))


class StoredAs(Scheme, frozen=True):
    """A weight of which the header tells the parts, whatever a rule would say."""

    parts: tuple[Part, ...]

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """The parts that the files hold, whatever the shape."""
        return self.parts


class Evident(Scheme, frozen=True):
    """A quantization that the headers show and no config names. What was not found of it is taken as unquantized."""

    name: str

    @property
    def label(self) -> str:
        """For tables."""
        return self.name


class Measured(msgspec.Struct, frozen=True, eq=False):
    """Where the files differ from the rules: (role, name with its layer) → what is stored of one such tensor."""

    table: dict[tuple[str, str], StoredAs]

    def of(self, role: str, name: str) -> StoredAs | None:
        """What the files hold of a tensor; None where it is as the rules say."""
        return self.table.get((role, name))

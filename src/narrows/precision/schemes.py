"""Quantization schemes as storage rules: what a checkpoint stores for one linear weight of shape [out, in].

A scheme is a plain fact about files, so it says nothing about speed or quality. Which tensors it applies to is
decided by the tensor's role (linear weights only) and by the checkpoint's own list of exceptions.
"""

from __future__ import annotations

import msgspec

from narrows.precision.formats import FORMATS, Format

F32, F16 = FORMATS["float32"], FORMATS["float16"]
F8 = FORMATS["float8_e4m3fn"]
U8, I8, I16, I32, I64 = (FORMATS[name] for name in ("uint8", "int8", "int16", "int32", "int64"))


class Part(msgspec.Struct, frozen=True):
    """One stored tensor that stands for (part of) a weight."""

    suffix: str
    format: Format
    elements: int

    @property
    def bytes(self) -> int:
        """Bytes of this part."""
        return self.format.bytes_for(self.elements)


def ceil(a: int, b: int) -> int:
    """a ÷ b, rounded up."""
    return -(-a // b)


class Scheme(msgspec.Struct, frozen=True, tag=True):
    """The weight as it is; every other scheme overrides both members."""

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """What stands in the file for a linear weight [out, inner] whose unquantized format is `dtype`."""
        return (Part("weight", dtype, out * inner),)

    @property
    def label(self) -> str:
        """A short name for tables; empty where the data type alone names it."""
        return ""


UNQUANTIZED = Scheme()

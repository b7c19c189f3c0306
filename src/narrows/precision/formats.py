"""Number formats and their exact bits.

Bits of IEEE 754 formats are from the standard; bfloat16 and the 8- and 4-bit floats are from the OCP
specifications (OFP8, Microscaling Formats v1.0).
"""

from __future__ import annotations

import msgspec

from narrows.text import BadInput


class Format(msgspec.Struct, frozen=True):
    """A number format: its name as checkpoints spell it, and its bits per element."""

    name: str
    bits: int

    def bytes_for(self, elements: int) -> int:
        """Bytes of `elements` packed elements, rounded up to whole bytes."""
        return (elements * self.bits + 7) // 8


FORMATS: dict[str, Format] = {
    name: Format(name, bits)
    for name, bits in (
        ("float64", 64),
        ("float32", 32),
        ("float16", 16),
        ("bfloat16", 16),
        ("float8_e4m3fn", 8),
        ("float8_e5m2", 8),
        ("int64", 64),
        ("int32", 32),
        ("int16", 16),
        ("int8", 8),
        ("uint8", 8),
        ("int4", 4),
        ("float4_e2m1", 4),
    )
}

_ALIASES = {
    "fp64": "float64",
    "double": "float64",
    "fp32": "float32",
    "float": "float32",
    "f32": "float32",
    "fp16": "float16",
    "half": "float16",
    "f16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
    "fp8_e4m3": "float8_e4m3fn",
    "float8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "i8": "int8",
    "i4": "int4",
    "fp4": "float4_e2m1",
}


def format_of(name: str) -> Format:
    """The format with this name or alias (`bf16`, `torch.bfloat16`, `fp8`). Raises BadInput for an unknown one."""
    key = name.strip().lower().removeprefix("torch.")
    found = FORMATS.get(_ALIASES.get(key, key))
    if found is None:
        raise BadInput(
            "'{name}' is not a known number format; use one of: {known}",
            name=name[:60],
            known="fp32, fp16, bf16, fp8, fp8_e5m2, int8, int4, fp4",
        )
    return found

"""bitsandbytes: weights flattened and cut into blocks of 64, or rows of 8-bit integers.

Source: the state dicts of bitsandbytes' Linear4bit and Linear8bitLt (MIT), which files hold as they are.
"""

from __future__ import annotations

from narrows.precision.formats import Format
from narrows.precision.schemes import F32, I8, U8, Part, Scheme, ceil

_BLOCK, _NESTED = 64, 256


class Bnb4(Scheme, frozen=True):
    """NF4 or FP4: pairs of values in U8, one maximum per 64 values; double: these maxima are 8-bit themselves.

    storage: the format the pairs are packed into (`bnb_4bit_quant_storage`).
    """

    kind: str = "nf4"
    double: bool = False
    storage: Format = U8

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`weight` [out·in/2, 1], `absmax` [blocks], `quant_map` [16], the nested ones, and the state as JSON."""
        blocks = ceil(out * inner, _BLOCK)
        parts = [
            Part("weight", self.storage, ceil(out * inner * 4, self.storage.bits)),
            Part("absmax", U8 if self.double else F32, blocks),
            Part("quant_map", F32, 16),
        ]
        if self.double:
            parts += [Part("nested_absmax", F32, ceil(blocks, _NESTED)), Part("nested_quant_map", F32, 256)]
        return (*parts, Part("quant_state", U8, len(self._state(out, inner, dtype))))

    def _state(self, out: int, inner: int, dtype: Format) -> str:
        """The JSON that stands in the file as bytes; the offset's digits vary, 20 characters are usual."""
        state = (
            f'{{"quant_type": "{self.kind}", "blocksize": {_BLOCK}, "dtype": "{dtype.name}", "shape": [{out}, {inner}]'
        )
        if self.double:
            state += f', "nested_blocksize": {_NESTED}, "nested_dtype": "float32", "nested_offset": {"0" * 20}'
        return state + "}"

    @property
    def label(self) -> str:
        """For tables."""
        return f"bnb {self.kind}" + (" double" if self.double else "")


class Bnb8(Scheme, frozen=True):
    """LLM.int8(): I8 with an fp32 scale per row and a byte that names the layout."""

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`weight` [out, in], `SCB` [out], `weight_format` (a scalar)."""
        return (Part("weight", I8, out * inner), Part("SCB", F32, out), Part("weight_format", U8, 1))

    @property
    def label(self) -> str:
        """For tables."""
        return "bnb int8"

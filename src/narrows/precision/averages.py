"""Weights whose layout varies from tensor to tensor, or that stand as indices into codebooks."""

from __future__ import annotations

from narrows.precision.formats import Format
from narrows.precision.schemes import F16, I8, I16, U8, Part, Scheme, ceil


class BitsPerWeight(Scheme, frozen=True):
    """An average of `millibits` ÷ 1000 bits per weight, as EXL2 and EXL3 files state it; no tensor is known singly.

    vectors: one fp16 value per row and per column beside (EXL3's `suh` and `svh`).
    """

    name: str
    millibits: int
    vectors: bool = False

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """As many bytes as the average gives."""
        weight = Part("weight", U8, ceil(out * inner * self.millibits, 8000))
        return (weight, Part("vectors", F16, out + inner)) if self.vectors else (weight,)

    @property
    def label(self) -> str:
        """For tables."""
        return f"{self.name} {self.millibits / 1000:g} bpw"


class Aqlm(Scheme, frozen=True):
    """AQLM: sums of `codebooks` vectors of rows × columns weights, each an index of `bits` bits.

    Source: transformers' AqlmConfig and the aqlm package's QuantizedLinear (Apache-2.0).
    """

    rows: int
    columns: int
    codebooks: int
    bits: int

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`codes` [out/rows, in/columns, codebooks], `codebooks` [codebooks, 2^bits, rows, columns], `scales`."""
        index = I8 if self.bits <= 8 else I16
        return (
            Part("codes", index, ceil(out, self.rows) * ceil(inner, self.columns) * self.codebooks),
            Part("codebooks", F16, self.codebooks * 2**self.bits * self.rows * self.columns),
            Part("scales", F16, ceil(out, self.rows)),
        )

    @property
    def label(self) -> str:
        """For tables."""
        return f"aqlm {self.codebooks}x{self.bits}"


class Higgs(Scheme, frozen=True):
    """HIGGS: grid indices packed in I16, a scale per group, two tables of the grid. Source: transformers (Apache-2.0).

    hadamard: the input is padded to a multiple of it.
    """

    bits: int
    group: int
    hadamard: int

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`weight` [out·bits/16, in], `scales` [out, in/group], `tables` [2^bits], `tables2` [2^bits, 2^bits, 2]."""
        columns, grid = ceil(inner, self.hadamard) * self.hadamard, 2**self.bits
        return (
            Part("weight", I16, ceil(out * self.bits, 16) * columns),
            Part("scales", dtype, out * ceil(columns, self.group)),
            Part("tables", dtype, grid + 2 * grid * grid),
        )

    @property
    def label(self) -> str:
        """For tables."""
        return f"higgs int{self.bits}"

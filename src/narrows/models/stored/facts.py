"""What headers tell of single tensors, in the terms of the tensor table: the parts that are stored, and so kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from narrows.models.spec import Layer, ModelSpec
from narrows.models.tensors import TensorRow
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


class Evident(Scheme, frozen=True):
    """A quantization that the headers show and no config names. What was not found of it is taken as unquantized."""

    name: str

    @property
    def label(self) -> str:
        """For tables."""
        return self.name


class Measured(msgspec.Struct, frozen=True, eq=False):
    """Where the files differ from the rules: (role, name with its layer) → the parts of one such tensor."""

    table: dict[tuple[str, str], tuple[Part, ...]]

    def rows(self, rows: Iterable[TensorRow], layer: int | None = None) -> list[TensorRow]:
        """Rows of the table with the parts that the files hold, where the rules say something else."""
        return [self._told(row, row.name if layer is None else row.name.replace("{}", str(layer), 1)) for row in rows]

    def layer_rows(self, plain: ModelSpec, layer: Layer, indices: Sequence[int]) -> list[TensorRow]:
        """Rows of equal layers, those together that are stored alike. plain: the model by its rules."""
        counts: dict[TensorRow, int] = {}
        for index in indices:
            for row in self.rows(plain.layer_rows(layer, (index,)), index):
                counts[row] = counts.get(row, 0) + 1
        return [msgspec.structs.replace(row, count=row.count * number) for row, number in counts.items()]

    def _told(self, row: TensorRow, name: str) -> TensorRow:
        parts = self.table.get((row.tensor.role, name))
        return row if parts is None else msgspec.structs.replace(row, parts=parts)

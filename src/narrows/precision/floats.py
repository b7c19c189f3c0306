"""Weights in 8- and 4-bit floats with scales beside them."""

from __future__ import annotations

from narrows.precision.formats import Format
from narrows.precision.schemes import F8, F32, U8, Part, Scheme, ceil


class Fp8Block(Scheme, frozen=True):
    """FP8 with one scale per block of rows × columns (DeepSeek-V3's `weight_block_size`, 128 × 128)."""

    rows: int
    columns: int
    scale: Format = F32

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """Weight in FP8 and `weight_scale_inv` [⌈out/rows⌉, ⌈in/columns⌉]."""
        return (
            Part("weight", F8, out * inner),
            Part("weight_scale_inv", self.scale, ceil(out, self.rows) * ceil(inner, self.columns)),
        )

    @property
    def label(self) -> str:
        """For tables."""
        return f"fp8 block {self.rows}×{self.columns}"


class Fp8Scaled(Scheme, frozen=True):
    """FP8 with one scale per tensor or per output channel, and a static input scale where activations have one."""

    per_channel: bool = False
    static_input: bool = False
    scale: Format = F32

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """Weight in FP8, `weight_scale` (1 or [out, 1]) and, if static, `input_scale`."""
        parts = [Part("weight", F8, out * inner), Part("weight_scale", self.scale, out if self.per_channel else 1)]
        if self.static_input:
            parts.append(Part("input_scale", self.scale, 1))
        return tuple(parts)

    @property
    def label(self) -> str:
        """For tables."""
        return "fp8 per channel" if self.per_channel else "fp8 per tensor"


class Mxfp4(Scheme, frozen=True):
    """OCP MXFP4 as gpt-oss stores it: 32 values share one 8-bit exponent; two values per byte."""

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`blocks` [out, in/32, 16] U8 and `scales` [out, in/32] U8."""
        blocks = out * ceil(inner, 32)
        return (Part("blocks", U8, blocks * 16), Part("scales", U8, blocks))

    @property
    def label(self) -> str:
        """For tables."""
        return "mxfp4"


class Microscaled(Scheme, frozen=True):
    """OCP microscaling formats of dense layers: FP4 pairs in U8 or FP8 values, and an 8-bit exponent per `group`.

    Sources: compressed-tensors' `mxfp4-pack-quantized` and MXFP8, Quark's export of `per_group` with e8m0 scales.
    """

    bits: int = 4
    group: int = 32

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`weight` [out, in/2] U8 or [out, in] FP8, and `weight_scale` [out, in/32] U8."""
        weight = Part("weight", U8, out * ceil(inner, 2)) if self.bits == 4 else Part("weight", F8, out * inner)
        return (weight, Part("weight_scale", U8, out * ceil(inner, self.group)))

    @property
    def label(self) -> str:
        """For tables."""
        return f"mxfp{self.bits}"


class Nvfp4(Scheme, frozen=True):
    """NVFP4 as ModelOpt stores it: FP4 pairs in U8, an FP8 scale per 16 values, two fp32 scalars.

    input_scale: activations are in FP4 too, with a scale for them (W4A16 has none).
    """

    group: int = 16
    input_scale: bool = True

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`weight` [out, in/2] U8, `weight_scale` [out, in/16] FP8, `weight_scale_2`, `input_scale`."""
        parts = (
            Part("weight", U8, out * ceil(inner, 2)),
            Part("weight_scale", F8, out * ceil(inner, self.group)),
            Part("weight_scale_2", F32, 1),
        )
        return (*parts, Part("input_scale", F32, 1)) if self.input_scale else parts

    @property
    def label(self) -> str:
        """For tables."""
        return "nvfp4"

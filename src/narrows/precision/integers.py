"""Weights in packed or plain integers with scales and, where they have them, zero points beside them."""

from __future__ import annotations

from narrows.precision.formats import Format
from narrows.precision.schemes import F16, F32, I8, I16, I32, I64, U8, Part, Scheme, ceil


def _groups(inner: int, group: int) -> int:
    """Groups along the input; a size of −1 (or 0) means one for the whole row."""
    return 1 if group <= 0 else ceil(inner, group)


class Gptq(Scheme, frozen=True):
    """GPTQ: integers packed in I32 along the input, zero points packed along the output, fp16 scales, `g_idx`.

    old: as GPTQ-for-LLaMa's CUDA branch wrote it before AutoGPTQ: fp32 scales, an fp32 bias of zeros, no `g_idx`
    (TheBloke/wizard-mega-13B-GPTQ: 7,454,797,240 bytes).
    """

    bits: int
    group: int
    old: bool = False

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`qweight` [in·bits/32, out], `qzeros` [groups, out·bits/32], `scales` [groups, out], `g_idx` [in]."""
        groups = _groups(inner, self.group)
        parts = (
            Part("qweight", I32, ceil(inner * self.bits, 32) * out),
            Part("qzeros", I32, groups * ceil(out * self.bits, 32)),
            Part("scales", F32 if self.old else F16, groups * out),
        )
        return (*parts, Part("bias", F32, out)) if self.old else (*parts, Part("g_idx", I32, inner))

    @property
    def label(self) -> str:
        """For tables."""
        return f"gptq int{self.bits}"


class Marlin(Scheme, frozen=True):
    """GPTQ or AWQ repacked for the Marlin kernel before it was saved: 4 bits, no zero points, no `g_idx`.

    Source: AutoGPTQ's and AutoAWQ's Marlin linear layers (MIT).
    """

    group: int

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`B` [in/16, out·2] and `s` [groups, out]."""
        return (Part("B", I32, ceil(inner, 16) * out * 2), Part("s", F16, _groups(inner, self.group) * out))

    @property
    def label(self) -> str:
        """For tables."""
        return "marlin int4"


class Marlin24(Scheme, frozen=True):
    """compressed-tensors `marlin-24`: 4-bit integers of the two values kept of every four, and which these are.

    Source: compressed-tensors' Marlin-24 compressor and vLLM's scheme for it (Apache-2.0).
    """

    group: int
    bits: int = 4

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`weight_packed` [in/32, out·bits/2], `meta` [in/32, out·2] I16, `scale_packed` [groups, out], shape."""
        return (
            Part("weight_packed", I32, ceil(inner, 32) * ceil(out * self.bits, 2)),
            Part("meta", I16, ceil(inner, 32) * out * 2),
            Part("scale_packed", F16, _groups(inner, self.group) * out),
            Part("weight_shape", I64, 2),
        )

    @property
    def label(self) -> str:
        """For tables."""
        return f"marlin-24 int{self.bits}"


class Awq(Scheme, frozen=True):
    """AWQ: integers packed in I32 along the output, zero points likewise, fp16 scales."""

    bits: int
    group: int

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`qweight` [in, out·bits/32], `qzeros` [groups, out·bits/32], `scales` [groups, out]."""
        groups = _groups(inner, self.group)
        packed = ceil(out * self.bits, 32)
        return (
            Part("qweight", I32, inner * packed),
            Part("qzeros", I32, groups * packed),
            Part("scales", F16, groups * out),
        )

    @property
    def label(self) -> str:
        """For tables."""
        return f"awq int{self.bits}"


class CompressedInt(Scheme, frozen=True):
    """compressed-tensors `pack-quantized`: integers packed in I32 along the input, one scale per group or channel.

    reordered: input channels are grouped by activation size, so that an index is stored.
    """

    bits: int
    group: int
    symmetric: bool = True
    reordered: bool = False

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`weight_packed` [out, in·bits/32], `weight_scale` [out, groups], `weight_shape` [2], zero points if any."""
        groups = _groups(inner, self.group)
        parts = [
            Part("weight_packed", I32, out * ceil(inner * self.bits, 32)),
            Part("weight_scale", dtype, out * groups),
            Part("weight_shape", I64, 2),
        ]
        if self.reordered:
            parts.append(Part("weight_g_idx", I32, inner))
        if not self.symmetric:
            parts.append(Part("weight_zero_point", I32, ceil(out * self.bits, 32) * groups))
        return tuple(parts)

    @property
    def label(self) -> str:
        """For tables."""
        return f"int{self.bits} packed"


class Int8Scaled(Scheme, frozen=True):
    """8-bit integers with a scale per output channel or per tensor, and a static input scale where there is one."""

    per_channel: bool = True
    static_input: bool = False
    scale: Format | None = None
    """None: as the rest of the checkpoint."""

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """Weight in I8, `weight_scale` ([out, 1] or 1) and, if static, `input_scale`."""
        scale = self.scale or dtype
        parts = (Part("weight", I8, out * inner), Part("weight_scale", scale, out if self.per_channel else 1))
        return (*parts, Part("input_scale", scale, 1)) if self.static_input else parts

    @property
    def label(self) -> str:
        """For tables."""
        return "int8 per channel" if self.per_channel else "int8 per tensor"


class GroupedInt(Scheme, frozen=True):
    """Packed integers with a scale and a zero point (or offset) per group, in formats of their own.

    packed: the format that integers are packed into. scale, zero: formats of scales and zero points (None: as the
    rest of the checkpoint); zero_bits: zero points are packed as integers of so many bits instead (0: they are not
    stored). input_vector: a vector along the input is stored beside (ModelOpt's AWQ). scalars: fp32 scalars beside.
    whole_groups: a weight whose rows are not whole groups stays as it is (MLX).
    """

    name: str
    bits: int
    group: int
    packed: Format = I32
    scale: Format | None = None
    zero: Format | None = None
    zero_bits: int | None = None
    input_vector: bool = False
    scalars: int = 0
    whole_groups: bool = False

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """Integers [out, in·bits], scales [out, groups] and what goes with them."""
        if self.whole_groups and inner % self.group:
            return (Part("weight", dtype, out * inner),)
        groups = _groups(inner, self.group)
        parts = [
            Part("weight", self.packed, out * ceil(inner * self.bits, self.packed.bits)),
            Part("scales", self.scale or dtype, out * groups),
        ]
        if self.zero_bits is None:
            parts.append(Part("zeros", self.zero or dtype, out * groups))
        elif self.zero_bits:
            parts.append(Part("zeros", self.packed, ceil(out * self.zero_bits, self.packed.bits) * groups))
        if self.input_vector:
            parts.append(Part("pre_quant_scale", dtype, inner))
        if self.scalars:
            parts.append(Part("scalars", F32, self.scalars))
        return tuple(parts)

    @property
    def label(self) -> str:
        """For tables."""
        return f"{self.name} int{self.bits}"


class Sparse24(Scheme, frozen=True):
    """compressed-tensors `sparse-24-bitmask`: the two values kept of every four, and a bit for each that says which."""

    dense: Scheme

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`compressed` [out, in/2], `bitmask` [out, in/8] U8, `shape` [2], and the scales of the dense scheme."""
        weight, *scales = self.dense.stored(out, inner, dtype)
        half = Part("compressed", weight.format, ceil(weight.elements, 2))
        return (half, Part("bitmask", U8, out * ceil(inner, 8)), Part("shape", I64, 2), *scales)

    @property
    def label(self) -> str:
        """For tables."""
        return f"{self.dense.label} sparse 2:4".strip()


class Ternary(Scheme, frozen=True):
    """BitNet: four ternary weights to a byte, one scale. Source: transformers' BitLinear (Apache-2.0)."""

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`weight` [out/4, in] U8 and `weight_scale` [1]."""
        return (Part("weight", U8, ceil(out, 4) * inner), Part("weight_scale", dtype, 1))

    @property
    def label(self) -> str:
        """For tables."""
        return "bitnet ternary"

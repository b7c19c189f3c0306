"""Quantization schemes as storage rules: what a checkpoint stores for one linear weight of shape [out, in].

A scheme is a plain fact about files, so it says nothing about speed or quality. Which tensors it applies to is
decided by the tensor's role (linear weights only) and by the checkpoint's own list of exceptions.
"""

from __future__ import annotations

import re
from functools import cached_property

import msgspec

from narrows.precision.formats import FORMATS, Format
from narrows.text import BadInput

F32, F16 = FORMATS["float32"], FORMATS["float16"]
F8 = FORMATS["float8_e4m3fn"]
U8, I32, I64 = FORMATS["uint8"], FORMATS["int32"], FORMATS["int64"]


class Part(msgspec.Struct, frozen=True):
    """One stored tensor that stands for (part of) a weight."""

    suffix: str
    format: Format
    elements: int

    @property
    def bytes(self) -> int:
        """Bytes of this part."""
        return self.format.bytes_for(self.elements)


def _ceil(a: int, b: int) -> int:
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


class Fp8Block(Scheme, frozen=True):
    """FP8 with one scale per block of rows × columns (DeepSeek-V3's `weight_block_size`, 128 × 128)."""

    rows: int
    columns: int
    scale: Format = F32

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """Weight in FP8 and `weight_scale_inv` [⌈out/rows⌉, ⌈in/columns⌉]."""
        return (
            Part("weight", F8, out * inner),
            Part("weight_scale_inv", self.scale, _ceil(out, self.rows) * _ceil(inner, self.columns)),
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


class Gptq(Scheme, frozen=True):
    """GPTQ: integers packed in I32 along the input, zero points packed along the output, fp16 scales, `g_idx`."""

    bits: int
    group: int

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`qweight` [in·bits/32, out], `qzeros` [groups, out·bits/32], `scales` [groups, out], `g_idx` [in]."""
        groups = 1 if self.group <= 0 else _ceil(inner, self.group)
        return (
            Part("qweight", I32, _ceil(inner * self.bits, 32) * out),
            Part("qzeros", I32, groups * _ceil(out * self.bits, 32)),
            Part("scales", F16, groups * out),
            Part("g_idx", I32, inner),
        )

    @property
    def label(self) -> str:
        """For tables."""
        return f"gptq int{self.bits}"


class Awq(Scheme, frozen=True):
    """AWQ: integers packed in I32 along the output, zero points likewise, fp16 scales."""

    bits: int
    group: int

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`qweight` [in, out·bits/32], `qzeros` [groups, out·bits/32], `scales` [groups, out]."""
        groups = 1 if self.group <= 0 else _ceil(inner, self.group)
        packed = _ceil(out * self.bits, 32)
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
        groups = 1 if self.group <= 0 else _ceil(inner, self.group)
        parts = [
            Part("weight_packed", I32, out * _ceil(inner * self.bits, 32)),
            Part("weight_scale", dtype, out * groups),
            Part("weight_shape", I64, 2),
        ]
        if self.reordered:
            parts.append(Part("weight_g_idx", I32, inner))
        if not self.symmetric:
            parts.append(Part("weight_zero_point", I32, _ceil(out * self.bits, 32) * groups))
        return tuple(parts)

    @property
    def label(self) -> str:
        """For tables."""
        return f"int{self.bits} packed"


class Mxfp4(Scheme, frozen=True):
    """OCP MXFP4 as gpt-oss stores it: 32 values share one 8-bit exponent; two values per byte."""

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`blocks` [out, in/32, 16] U8 and `scales` [out, in/32] U8."""
        blocks = out * _ceil(inner, 32)
        return (Part("blocks", U8, blocks * 16), Part("scales", U8, blocks))

    @property
    def label(self) -> str:
        """For tables."""
        return "mxfp4"


class Nvfp4(Scheme, frozen=True):
    """NVFP4 as ModelOpt stores it: FP4 pairs in U8, an FP8 scale per 16 values, two fp32 scalars."""

    group: int = 16

    def stored(self, out: int, inner: int, dtype: Format) -> tuple[Part, ...]:
        """`weight` [out, in/2] U8, `weight_scale` [out, in/16] FP8, `weight_scale_2`, `input_scale`."""
        return (
            Part("weight", U8, out * _ceil(inner, 2)),
            Part("weight_scale", F8, out * _ceil(inner, self.group)),
            Part("weight_scale_2", F32, 1),
            Part("input_scale", F32, 1),
        )

    @property
    def label(self) -> str:
        """For tables."""
        return "nvfp4"


def _pattern(expression: str, entry: str) -> re.Pattern[str]:
    """Compile an entry that came from a file. Many or nested repetitions could match for hours: they are refused."""
    repeats = len(re.findall(r"[*+{]|(?<!\()\?", expression))
    nested = re.search(r"[*+}?]\)[*+{?]", expression)
    if len(expression) <= 300 and repeats <= 4 and expression.count("|") <= 16 and not nested:
        try:
            return re.compile(expression)
        except re.error:
            pass
    raise BadInput(
        "quantization_config excludes modules by '{entry}', which narrows does not evaluate; name the modules instead",
        entry=entry[:80],
    )


class Exclusions(msgspec.Struct, frozen=True, dict=True):
    """The modules a checkpoint leaves unquantized, as its config lists them.

    An entry names a module (`model.layers.0.mlp.gate`) or the end of its path (`mlp.gate`) and covers what lies below
    a whole path; `*` matches anything, and `re:` begins a regular expression. An entry without a dot (`lm_head`)
    matches that name anywhere in the path.
    """

    entries: tuple[str, ...] = ()

    @cached_property
    def _compiled(self) -> tuple[frozenset[str], frozenset[str], tuple[re.Pattern[str], ...]]:
        literal, bare, patterns = set(), set(), []
        for entry in self.entries:
            if entry.startswith("re:"):
                patterns.append(_pattern(entry[3:], entry))
            elif "*" in entry:
                patterns.append(_pattern(re.escape(entry).replace(r"\*", ".*") + r"(\.|$)", entry))
            elif "." in entry.rstrip("."):
                literal.add(entry.rstrip("."))
            else:
                bare.add(entry.rstrip("."))
        return frozenset(literal), frozenset(bare), tuple(patterns)

    @cached_property
    def single_expert(self) -> str | None:
        """An entry that names one expert of several, which is not read yet."""
        return next((entry for entry in self.entries if re.search(r"experts\.\d", entry)), None)

    def cover(self, module: str) -> bool:
        """Whether `module` (e.g. `model.layers.3.self_attn.q_proj`) is left unquantized."""
        literal, bare, patterns = self._compiled
        pieces = module.split(".")
        if bare and not bare.isdisjoint(pieces):
            return True
        if literal:
            count = len(pieces)
            paths = [".".join(pieces[:end]) for end in range(1, count + 1)]
            ends = [".".join(pieces[begin:]) for begin in range(1, count)]
            if not literal.isdisjoint(paths) or not literal.isdisjoint(ends):
                return True
        return any(pattern.match(module) for pattern in patterns)

"""MLX: `quantization` without a method, with settings of single modules among its fields."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.module_schemes import NO_PREDICTION
from narrows.models.quantizers.rule import Rule, bits, group, unread
from narrows.precision import FORMATS, UNQUANTIZED, Scheme
from narrows.precision.integers import GroupedInt
from narrows.text import BadInput

_U32 = FORMATS["int32"]
_MODES = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}
"""Modes with 8-bit scales and no offsets: bits and group."""
_BITS = (2, 3, 4, 5, 6, 8)


def read_mlx(q: Fields, model_type: str) -> Rule:
    """Every matrix of the language model, embedding, head and router included; towers stay as they are.

    A field with a dot or an object is a module of its own: `false`, or bits, group size and mode.
    """
    scheme = _scheme(q, None)
    rules = []
    for name, own in q.values.items():
        if isinstance(own, dict):
            rules.append((_as_here(name), _scheme(q.nested(name), q)))
        elif own is False and "." in name:
            rules.append((_as_here(name), UNQUANTIZED))
    return Rule(scheme, rules=tuple(rules), reach=("head", "embedding", "router"), habits=(NO_PREDICTION,))


def _as_here(name: str) -> str:
    """MLX stacks the experts of a layer under `switch_mlp`."""
    return name.replace(".switch_mlp.", ".experts.*.")


def _scheme(q: Fields, outer: Fields | None) -> Scheme:
    """MLX's affine integers: packed in U32, a scale and an offset per group in the checkpoint's own format."""
    mode = q.raw("mode") or (outer.raw("mode") if outer is not None else None) or "affine"
    if isinstance(mode, str) and mode in _MODES:
        wide, size = _MODES[mode]
        return GroupedInt(
            f"mlx {mode}", wide, group(q, default=size), _U32, scale=FORMATS["uint8"], zero_bits=0, whole_groups=True
        )
    if mode != "affine":
        raise unread(q, "mode", "affine, mxfp4, mxfp8, nvfp4")
    rest = outer if outer is not None else q
    size = group(q) if q.has("group_size") else group(rest, default=64)
    if size < 1:
        raise BadInput(
            "config field '{field}' is {value}; it must be a whole number", field=q.path + "group_size", value=size
        )
    return GroupedInt("mlx", bits(q if q.has("bits") else rest, known=_BITS), size, _U32, whole_groups=True)


def read_metal(q: Fields, model_type: str) -> Rule:
    """transformers' Metal quantization: MLX's affine integers of the layers' linear weights only."""
    return Rule(GroupedInt("metal", bits(q, default=4), group(q, default=64), _U32))

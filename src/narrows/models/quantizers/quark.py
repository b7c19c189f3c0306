"""AMD Quark: a scheme for all layers, others by name, and modules left out."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.quantizers.rule import Rule, block, group, members, names, settings, unread, word
from narrows.precision import FORMATS, UNQUANTIZED, Format, Scheme
from narrows.precision.floats import Fp8Block, Fp8Scaled, Microscaled
from narrows.precision.integers import GroupedInt, Int8Scaled
from narrows.text import BadInput


def read_quark(q: Fields, model_type: str) -> Rule:
    """`global_quant_config`, `layer_quant_config` by pattern; the KV cache where keys and values leave in FP8."""
    rules = [(name, _scheme(own)) for name, own in settings(q, "layer_quant_config")]
    if members(q, "layer_type_quant_config"):
        raise BadInput(
            "'quantization_config' quantizes only some modules, or others than usual ('{name}'), which narrows does "
            "not read yet",
            name="layer_type_quant_config",
        )
    scheme = _scheme(q.nested("global_quant_config"))
    if scheme is UNQUANTIZED:
        scheme = next((one for _, one in rules if one is not UNQUANTIZED), UNQUANTIZED)
        rules.append(("*", UNQUANTIZED))
    return Rule(scheme, excluded=names(q, "exclude"), rules=tuple(rules), reach=("head", "tower"), kv=_kv(q))


def _kv(q: Fields) -> Format | None:
    """FP8 where the layers of the KV group have FP8 outputs."""
    if not isinstance(q.raw("export"), dict):
        return None
    cached = names(q.nested("export"), "kv_cache_group")
    for name, own in settings(q, "layer_quant_config"):
        told = name in cached and isinstance(own.raw("output_tensors"), dict)
        if told and word(own.nested("output_tensors"), "dtype").startswith("fp8"):
            return FORMATS["float8_e4m3fn"]
    return None


def _scheme(own: Fields) -> Scheme:
    """The scheme of one setting, as Quark's `real_quantized` export stores it (MIT)."""
    if own.raw("weight") is None:
        return UNQUANTIZED
    if isinstance(own.raw("weight"), list):
        raise unread(own, "weight", "one scheme")
    weight = own.nested("weight")
    kind, way = word(weight, "dtype"), word(weight, "qscheme")
    inputs = own.raw("input_tensors")
    static = isinstance(inputs, dict) and not own.nested("input_tensors").raw("is_dynamic")
    size = group(weight, default=None)
    if kind in ("fp8_e4m3", "fp8_e4m3fn") and way in ("per_tensor", "per_channel"):
        return Fp8Scaled(way == "per_channel", static)
    if kind.startswith("fp8") and way == "per_block":
        return Fp8Block(*block(weight, "block_size"))
    if kind in ("fp4", "mxfp4") and way == "per_group" and size in (-1, 32):
        return Microscaled()
    if kind == "int8" and way in ("per_tensor", "per_channel"):
        return Int8Scaled(way == "per_channel", static)
    if kind in ("int4", "uint4") and way in ("per_group", "per_channel"):
        symmetric = weight.flag("symmetric", True)
        return GroupedInt("quark", 4, size, zero_bits=0 if symmetric else 4)
    raise BadInput(
        "quark with {kind} weights {way} is not read yet; narrows reads fp8, fp4 and int8, int4",
        kind=kind[:20],
        way=way[:20],
    )

"""NVIDIA ModelOpt: one algorithm, or one for each layer (`MIXED_PRECISION`)."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.quantizers.rule import Rule, group, kv_format, members, positive_group
from narrows.precision import FORMATS, UNQUANTIZED, Fp8Block, Fp8Scaled, Nvfp4, Scheme
from narrows.precision.floats import Microscaled
from narrows.precision.integers import GroupedInt
from narrows.text import BadInput

_U8 = FORMATS["uint8"]
KNOWN = "FP8, FP8_PB_WO, FP8_PER_CHANNEL_PER_TOKEN, MXFP8, NVFP4, W4A16_NVFP4, W4A16_AWQ, W4A8_AWQ, MIXED_PRECISION"


def read_modelopt(q: Fields, model_type: str) -> Rule:
    """The algorithm of all linear weights; `quantized_layers` stands for those alone that it lists."""
    kv = kv_format(q, "kv_cache_quant_algo") or kv_format(q, "kv_cache_scheme")
    listed = members(q, "quantized_layers")
    algorithm = str(q.raw("quant_algo") or "").upper()
    if not listed:
        return Rule(_scheme(algorithm, q), kv=kv)
    rules: list[tuple[str, Scheme]] = []
    made: dict[tuple[str, int], Scheme] = {}
    for name, own in listed:
        if own is None:
            raise BadInput(
                "config field '{field}' must be an object of fields", field=q.path + "quantized_layers." + name[:60]
            )
        key = (str(own.raw("quant_algo") or "").upper(), group(own, default=16))
        rules.append((name, made.setdefault(key, _scheme(key[0], own))))
    most = max(made.values(), key=lambda scheme: sum(one is scheme for _, one in rules))
    return Rule(most, rules=(*rules, ("*", UNQUANTIZED)), kv=kv, reach=("head",))


def _scheme(algorithm: str, q: Fields) -> Scheme:
    """What ModelOpt's export of an algorithm stores. Source: modelopt's quantized export (Apache-2.0)."""
    if algorithm == "FP8":
        return Fp8Scaled(static_input=True)
    if algorithm == "FP8_PER_CHANNEL_PER_TOKEN":
        return Fp8Scaled(per_channel=True)
    if algorithm == "FP8_PB_WO":
        return Fp8Block(128, 128)
    if algorithm == "MXFP8":
        return Microscaled(8)
    if algorithm in ("NVFP4", "NVFP4_AWQ", "NVFP4_SVDQUANT"):
        return Nvfp4(positive_group(q, 16))
    if algorithm == "W4A16_NVFP4":
        return Nvfp4(positive_group(q, 16), input_scale=False)
    if algorithm in ("W4A16_AWQ", "W4A8_AWQ"):
        width = group(q, default=128)
        scalars = 2 if algorithm == "W4A8_AWQ" else 0
        return GroupedInt("modelopt", 4, width, _U8, zero_bits=0, input_vector=True, scalars=scalars)
    raise BadInput(
        "modelopt algorithm '{method}' is not read yet; narrows reads {known}", method=algorithm[:40], known=KNOWN
    )

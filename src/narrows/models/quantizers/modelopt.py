"""NVIDIA ModelOpt: one algorithm, or one for each layer (`MIXED_PRECISION`)."""

from __future__ import annotations

from collections import Counter

import msgspec

from narrows.models.fields import Fields
from narrows.models.quantizers.compressed_tensors import read_compressed_tensors
from narrows.models.quantizers.rule import Rule, group, kv_format, members, positive_group, word
from narrows.precision import FORMATS, UNQUANTIZED, Scheme
from narrows.precision.floats import Fp8Block, Fp8Scaled, Microscaled, Nvfp4
from narrows.precision.integers import GroupedInt, Int8Scaled
from narrows.precision.schemes import F32
from narrows.text import BadInput

_U8 = FORMATS["uint8"]
KNOWN = (
    "FP8, FP8_PB_WO, FP8_PER_CHANNEL_PER_TOKEN, MXFP8, MXFP4, W4A8_MXFP4_FP8, NVFP4, W4A16_NVFP4, W4A8_NVFP4_FP8, "
    "W4A16_AWQ, W4A8_AWQ, W8A16, MIXED_PRECISION"
)


def read_modelopt(q: Fields, model_type: str) -> Rule:
    """The algorithm of all linear weights; `quantized_layers` stands for those alone that it lists."""
    kv = kv_format(q, "kv_cache_quant_algo") or kv_format(q, "kv_cache_scheme")
    if not q.raw("quantized_layers"):
        if q.raw("quant_algo") == "MIXED_PRECISION" and q.raw("config_groups"):
            grouped = read_compressed_tensors(q, model_type)
            return msgspec.structs.replace(grouped, kv=kv, habits=())
        return Rule(_scheme(word(q, "quant_algo").upper(), q), kv=kv)
    rules: list[tuple[str, Scheme]] = []
    made: dict[tuple[str, int | None], Scheme] = {}
    for name, own in members(q, "quantized_layers"):
        # thousands of modules, one by one, in a handful of ways
        if not isinstance(own, dict):
            raise BadInput(
                "config field '{field}' must be an object of fields", field=q.path + "quantized_layers." + name[:60]
            )
        algorithm, size = own.get("quant_algo"), own.get("group_size")
        key = (algorithm, size) if isinstance(algorithm, str) and isinstance(size, int | None) else (name, None)
        if key not in made:
            fields = Fields(own, q.path + "quantized_layers." + name[:60] + ".")
            made[key] = _scheme(word(fields, "quant_algo").upper(), fields)
        rules.append((name, made[key]))
    uses = Counter(scheme for _, scheme in rules)
    return Rule(uses.most_common(1)[0][0], rules=(*rules, ("*", UNQUANTIZED)), kv=kv, reach=("head",))


def _scheme(algorithm: str, q: Fields) -> Scheme:
    """What ModelOpt's export of an algorithm stores. Source: modelopt/torch/export/quant_utils.py (Apache-2.0)."""
    if algorithm == "FP8":
        return Fp8Scaled(static_input=True)
    if algorithm == "FP8_PER_CHANNEL_PER_TOKEN":
        return Fp8Scaled(per_channel=True)
    if algorithm == "FP8_PB_WO":
        return Fp8Block(128, 128)
    if algorithm == "MXFP8":
        return Microscaled(8)
    if algorithm in ("MXFP4", "W4A8_MXFP4_FP8"):
        return Microscaled(4)
    if algorithm == "W8A16":
        return Int8Scaled(scale=F32)
    if algorithm in ("NVFP4", "NVFP4_AWQ", "W4A8_NVFP4_FP8"):
        return Nvfp4(positive_group(q, 16))
    if algorithm == "W4A16_NVFP4":
        return Nvfp4(positive_group(q, 16), input_scale=False)
    if algorithm in ("W4A16_AWQ", "W4A8_AWQ"):
        width = group(q, default=128)
        scalars = 2 if algorithm == "W4A8_AWQ" else 0
        return GroupedInt("modelopt", 4, width, _U8, F32, zero_bits=0, input_vector=True, scalars=scalars)
    raise BadInput(
        "modelopt algorithm '{method}' is not read yet; narrows reads {known}", method=algorithm[:40], known=KNOWN
    )

"""Reads how a checkpoint stores its weights: `torch_dtype`/`dtype` and `quantization_config`."""

from __future__ import annotations

from typing import Any

from narrows.models.fields import Fields
from narrows.models.spec import Precision
from narrows.precision import (
    FORMATS,
    Awq,
    CompressedInt,
    Exclusions,
    Fp8Block,
    Fp8Scaled,
    Gptq,
    Mxfp4,
    Nvfp4,
    Scheme,
    format_of,
)
from narrows.text import BadInput

_EXCLUDED = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")
_BF16_SCALES = ("qwen3", "qwen3_moe")
"""Model types whose FP8 files keep block scales in bfloat16; DeepSeek's keep them in float32."""


def read_precision(c: Fields) -> Precision:
    """The precision of a config. An absent data type is float32 in transformers, and marked as assumed."""
    named = c.stated("dtype", "torch_dtype")
    if named is not None and not isinstance(named, str):
        raise BadInput("config field '{field}' must be a data type such as \"bfloat16\"", field=c.path + "torch_dtype")
    # transformers 4 reads torch_dtype "auto" as: whatever the file has
    assumed = named is None or named == "auto"
    dtype = FORMATS["float32"] if named is None or named == "auto" else format_of(named)
    if not dtype.name.startswith(("float", "bfloat")):
        raise BadInput(
            "config field '{field}' is {value}; the format of what is not quantized is a float such as bfloat16",
            field=c.path + "torch_dtype",
            value=dtype.name,
        )
    if c.raw("quantization_config") is None:
        return Precision(dtype, assumed)
    q = c.nested("quantization_config")
    method = q.raw("quant_method", "quant_algo")
    if not isinstance(method, str):
        raise BadInput("'quantization_config' names no 'quant_method'; narrows cannot tell how the weights are stored")
    if assumed:
        dtype = FORMATS["bfloat16"]
    scheme, roles, kv = _scheme(q, method.lower(), str(c.values.get("model_type", "")))
    exclusions = Exclusions(_excluded(q))
    if exclusions.single_expert:
        raise BadInput(
            "'quantization_config' leaves out single experts ('{entry}'), which narrows does not read yet",
            entry=exclusions.single_expert[:80],
        )
    return Precision(dtype, assumed, scheme, exclusions, roles, kv)


def _excluded(q: Fields) -> tuple[str, ...]:
    entries: list[str] = []
    for name in _EXCLUDED:
        value = q.raw(name)
        if value is None:
            continue
        if not isinstance(value, list) or any(not isinstance(entry, str) for entry in value):
            raise BadInput("config field '{field}' must be a list of module names", field=q.path + name)
        entries += value
    return tuple(entry.removesuffix(".weight") for entry in entries)


def _scheme(q: Fields, method: str, model_type: str) -> tuple[Scheme, tuple[str, ...], Any]:
    """(rule, roles it is limited to, KV format it asks for)."""
    if method == "fp8":
        if q.raw("weight_block_size") is None:
            return Fp8Scaled(static_input=q.raw("activation_scheme") == "static"), (), None
        rows, columns = _block(q, "weight_block_size")
        return Fp8Block(rows, columns, FORMATS["bfloat16" if model_type in _BF16_SCALES else "float32"]), (), None
    if method == "gptq":
        for name in ("dynamic", "lm_head", "modules_in_block_to_quantize"):
            if q.raw(name):
                raise BadInput(
                    "'quantization_config' quantizes only some modules, or others than usual ('{name}'), which "
                    "narrows does not read yet",
                    name=name,
                )
        return Gptq(_bits(q), _group(q)), (), None
    if method == "awq":
        return Awq(_bits(q), _group(q)), (), None
    if method == "mxfp4":
        return Mxfp4(), ("experts.",), None
    if method in ("compressed-tensors", "compressed_tensors"):
        return (*_compressed(q), _kv_scheme(q))
    if method.startswith("modelopt") or method in ("fp8_pb_wo", "nvfp4"):
        return _modelopt(q), (), _modelopt_kv(q)
    raise BadInput(
        "quantization method '{method}' is not read yet; narrows reads fp8, gptq, awq, mxfp4, compressed-tensors "
        "and modelopt. Use the unquantized config of the model instead",
        method=method[:40],
    )


def _block(q: Fields, name: str) -> tuple[int, int]:
    """Two block sizes, rows and columns."""
    block = q.raw(name)
    if not (isinstance(block, list) and len(block) == 2 and all(type(size) is int and size > 0 for size in block)):
        raise BadInput("config field '{field}' must be two block sizes", field=q.path + name)
    return block[0], block[1]


def _bits(q: Fields) -> int:
    bits = q.size("bits", "w_bit")
    if bits not in (2, 3, 4, 8):
        raise BadInput(
            "config field '{field}' is {value}; narrows reads 2, 3, 4 or 8 bits", field=q.path + "bits", value=bits
        )
    return bits


def _group(q: Fields) -> int:
    return q.size("group_size", "q_group_size", default=128, least=-1)


def _compressed(q: Fields) -> tuple[Scheme, tuple[str, ...]]:
    """compressed-tensors: one group of linear weights, FP8 (tensor, channel, block) or packed integers."""
    groups = q.raw("config_groups")
    if not isinstance(groups, dict) or len(groups) != 1:
        raise BadInput(
            "'quantization_config' has several groups with rules of their own, which narrows does not read yet"
        )
    group = Fields(groups, f"{q.path}config_groups.").nested(next(iter(groups)))
    if group.raw("targets") not in (None, ["Linear"]):
        raise BadInput("'quantization_config' targets other than all linear weights, which narrows does not read yet")
    weights = group.nested("weights")
    bits, kind, strategy = weights.size("num_bits"), weights.raw("type"), weights.raw("strategy")
    static = isinstance(group.raw("input_activations"), dict) and not group.nested("input_activations").flag(
        "dynamic", False
    )
    if kind == "float" and bits == 8:
        if strategy == "block":
            return Fp8Block(*_block(weights, "block_structure"), FORMATS["bfloat16"]), ()
        if strategy in ("tensor", "channel"):
            return Fp8Scaled(strategy == "channel", static, FORMATS["bfloat16"]), ()
    if kind == "int" and bits in (4, 8) and q.raw("format") == "pack-quantized":
        size = weights.maybe_size("group_size", default=None, least=-1) or -1
        return CompressedInt(bits, size, weights.flag("symmetric", True), weights.raw("actorder") == "group"), ()
    raise BadInput(
        "compressed-tensors with {bits}-bit {kind} weights by {strategy} is not read yet",
        bits=bits,
        kind=str(kind)[:20],
        strategy=str(strategy)[:20],
    )


def _kv_scheme(q: Fields) -> Any:
    scheme = q.raw("kv_cache_scheme")
    if scheme is None:
        return None
    if isinstance(scheme, dict) and scheme.get("num_bits") == 8:
        return FORMATS["float8_e4m3fn"]
    raise BadInput(
        "config field '{field}' is not read yet; set the KV precision yourself", field=q.path + "kv_cache_scheme"
    )


def _modelopt_kv(q: Fields) -> Any:
    stated = q.raw("kv_cache_quant_algo")
    if stated is None:
        return None
    if stated == "FP8":
        return FORMATS["float8_e4m3fn"]
    raise BadInput(
        "config field '{field}' is not read yet; set the KV precision yourself", field=q.path + "kv_cache_quant_algo"
    )


def _modelopt(q: Fields) -> Scheme:
    algorithm = str(q.raw("quant_algo") or "").upper()
    if algorithm == "FP8":
        return Fp8Scaled(static_input=True)
    if algorithm == "NVFP4":
        return Nvfp4(q.size("group_size", default=16))
    raise BadInput("modelopt algorithm '{method}' is not read yet; narrows reads FP8 and NVFP4", method=algorithm[:40])


BESIDE = ("hf_quant_config.json", "quantize_config.json")
"""Files that ModelOpt and older GPTQ tools put beside a config.json instead of a `quantization_config` in it."""


def merge_beside(config: dict[str, Any], name: str, beside: dict[str, Any]) -> dict[str, Any]:
    """A config with what one of the `BESIDE` files says, where the config itself is silent."""
    if config.get("quantization_config") is not None:
        return config
    if name == "quantize_config.json":
        return {**config, "quantization_config": {"quant_method": "gptq", **beside}}
    quantization = beside.get("quantization")
    if not isinstance(quantization, dict):
        return config
    return {**config, "quantization_config": {"quant_method": "modelopt", **quantization}}

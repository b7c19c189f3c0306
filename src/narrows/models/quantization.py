"""Reads how a checkpoint stores its weights: `torch_dtype`/`dtype` and `quantization_config`."""

from __future__ import annotations

from typing import Any

from narrows.models.fields import Fields
from narrows.models.spec import Precision
from narrows.precision import FORMATS, Exclusions, format_of
from narrows.text import BadInput

_MOVED = ("compression_config", "quantization", "expert_dtype")
_EXCLUDED = ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")


def read_precision(c: Fields) -> Precision:
    """The precision of a config. An absent data type is float32 in transformers, and marked as assumed.

    Raises BadInput for a data type or a method of quantization that is not read.
    """
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
    if q.has("quant_algo") and not q.has("quant_method"):
        method = "modelopt"
    if assumed:
        dtype = FORMATS["bfloat16"]
    # the readers of methods are not needed for most models
    from narrows.models.quantizers import reader_of
    from narrows.models.quantizers.rule import names
    from narrows.precision.selection import overrides

    rule = reader_of(method.lower())(q, str(c.values.get("model_type", "")))
    excluded = dict.fromkeys((*names(q, *_EXCLUDED), *rule.excluded))
    return Precision(
        dtype,
        assumed,
        rule.scheme,
        Exclusions(tuple(excluded)),
        rule.roles,
        rule.kv,
        overrides(list(rule.rules)),
        rule.reach,
        rule.habits,
        method.lower(),
        rule.notes,
    )


def with_quantization(config: dict[str, Any]) -> dict[str, Any]:
    """A config whose `quantization_config` is where and as most files have it.

    Older compressed-tensors files call it `compression_config`; MLX writes `quantization` (and the same again as
    `quantization_config`) without a method, and bits and a group size are enough to tell it by. DeepSeek V4 says beside
    it that experts are in FP4.
    """
    if config.get("quantization_config") is None:
        for name in ("compression_config", "quantization"):
            if isinstance(config.get(name), dict):
                config = {**config, "quantization_config": config[name]}
                break
    found = config.get("quantization_config")
    if not isinstance(found, dict):
        return config
    if isinstance(found.get("quantization_config"), dict):
        found = {"quant_method": "compressed-tensors", **found["quantization_config"]}
    if "quant_method" not in found and "quant_algo" not in found:
        if isinstance(found.get("config_groups"), dict):
            found = {"quant_method": "compressed-tensors", **found}
        elif {"bits", "group_size"} <= set(found):
            found = {"quant_method": "mlx", **found}
    if config.get("expert_dtype") is not None and "expert_dtype" not in found:
        found = {**found, "expert_dtype": config["expert_dtype"]}
    kept = {name: value for name, value in config.items() if name not in _MOVED}
    return {**kept, "quantization_config": found}


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

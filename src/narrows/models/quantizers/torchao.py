"""torchao: the name and fields of a configuration class, for all modules or by name."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.quantizers.rule import Rule, group, names
from narrows.precision import FORMATS, UNQUANTIZED, Scheme
from narrows.precision.floats import Fp8Scaled
from narrows.precision.integers import GroupedInt, Int8Scaled
from narrows.text import BadInput

_BF16 = FORMATS["bfloat16"]
_WORDS = {
    "int4_weight_only": "Int4WeightOnlyConfig",
    "int8_weight_only": "Int8WeightOnlyConfig",
    "int8_dynamic_activation_int8_weight": "Int8DynamicActivationInt8WeightConfig",
    "int8_dynamic_activation_int4_weight": "Int8DynamicActivationInt4WeightConfig",
    "float8_weight_only": "Float8WeightOnlyConfig",
    "float8_dynamic_activation_float8_weight": "Float8DynamicActivationFloat8WeightConfig",
}
"""What older configs call the classes."""


def read_torchao(q: Fields, model_type: str) -> Rule:
    """One class for all linear weights, or `ModuleFqnToConfig` with one per module."""
    kind, fields = _of(q)
    embeddings = q.flag("include_input_output_embeddings", False)
    reach = ("tower", "head", "embedding") if embeddings else ("tower",)
    excluded = names(q, "modules_to_not_convert")
    if kind not in ("ModuleFqnToConfig", "FqnToConfig"):
        return Rule(scheme_of(kind, fields), excluded=excluded, reach=reach)
    table = "module_fqn_to_config" if fields.has("module_fqn_to_config") else "fqn_to_config"
    inner = fields.nested(table)
    rules: list[tuple[str, Scheme]] = []
    rest: Scheme = UNQUANTIZED
    for name in inner.values:
        own = inner.raw(name)
        scheme = UNQUANTIZED if own is None else scheme_of(*_config(inner.nested(name)))
        if name == "_default":
            rest = scheme
        else:
            rules.append((name, scheme))
    main = rest if rest is not UNQUANTIZED else next((s for _, s in rules if s is not UNQUANTIZED), UNQUANTIZED)
    if rest is UNQUANTIZED:
        rules.append(("*", UNQUANTIZED))
    return Rule(main, excluded=excluded, rules=tuple(rules), reach=("tower", "head", "embedding"))


def _of(q: Fields) -> tuple[str, Fields]:
    """The class's name and its fields."""
    stated = q.raw("quant_type")
    if isinstance(stated, str):
        kind = _WORDS.get(stated, stated)
        given = q.raw("quant_type_kwargs")
        return kind, q.nested("quant_type_kwargs") if isinstance(given, dict) else Fields({}, q.path)
    return _config(q.nested("quant_type").nested("default"))


def _config(stated: Fields) -> tuple[str, Fields]:
    """`_type` and `_data` of a configuration as torchao writes it."""
    kind = stated.raw("_type")
    if not isinstance(kind, str):
        raise BadInput("config field '{field}' names no class of torchao", field=stated.path + "_type")
    return kind.rpartition(".")[2], stated.nested("_data") if stated.has("_data") else stated


def scheme_of(kind: str, fields: Fields) -> Scheme:
    """What tensors of such a class hold. Source: torchao's tensor subclasses (BSD-3).

    Raises BadInput for a class that is not known.
    """
    if kind == "Int4WeightOnlyConfig":
        return GroupedInt("torchao", 4, group(fields), scale=_BF16, zero=_BF16)
    if kind in ("Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig"):
        return Int8Scaled()
    if kind in (
        "Int8DynamicActivationInt4WeightConfig",
        "Int8DynamicActivationIntxWeightConfig",
        "IntxWeightOnlyConfig",
    ):
        # integers of fewer bits stand in whole bytes, each group with a scale and a zero point
        return GroupedInt("torchao", 8, group(fields, default=32), FORMATS["int8"], zero=FORMATS["int8"])
    if kind in ("Float8WeightOnlyConfig", "Float8DynamicActivationFloat8WeightConfig"):
        return Fp8Scaled(per_channel=True)
    raise BadInput(
        "torchao's {kind} is not read yet; narrows reads int4, int8 and float8 weights",
        kind=kind[:60],
    )

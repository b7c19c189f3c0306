"""compressed-tensors: groups of modules, each with a scheme, and modules left out."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.module_schemes import HEAD_AGAIN
from narrows.models.quantizers.rule import Rule, block, group, kv_format, members, unread, word
from narrows.precision import FORMATS, UNQUANTIZED, Scheme
from narrows.precision.floats import Fp8Block, Fp8Scaled, Microscaled, Nvfp4
from narrows.precision.integers import CompressedInt, Int8Scaled, Marlin24, Sparse24
from narrows.text import BadInput

_LINEAR = ("Linear", "QKVParallelLinear", "RowParallelLinear", "ColumnParallelLinear", "MergedColumnParallelLinear")
_BF16 = FORMATS["bfloat16"]


def read_compressed_tensors(q: Fields, model_type: str) -> Rule:
    """Names come before expressions, these before classes: that is how compressed-tensors itself chooses."""
    named: list[tuple[str, Scheme]] = []
    patterns: list[tuple[str, Scheme]] = []
    linear: Scheme | None = None
    for name, value in members(q, "config_groups"):
        if not isinstance(value, dict):
            raise BadInput(
                "config field '{field}' must be an object of fields", field=q.path + "config_groups." + name[:60]
            )
        own = Fields(value, f"{q.path}config_groups.{name[:60]}.")
        if own.raw("weights") is None:
            continue  # only activations or outputs, such as a KV cache by module
        scheme = _scheme(own, q)
        for target in _targets(own):
            if target in _LINEAR:
                linear = linear or scheme
            elif target.startswith("re:"):
                patterns.append((target, scheme))
            elif target != "Embedding" and ("." in target or not target[:1].isupper()):
                named.append((target, scheme))
            else:
                raise BadInput(
                    "'quantization_config' targets modules of class {name}; narrows reads Linear, names of modules and "
                    "expressions (re:…)",
                    name=target[:60],
                )
    rules = named + patterns
    if linear is None:
        if not rules:
            raise BadInput(
                "'quantization_config' names no group of weights ('config_groups'); narrows cannot tell how they are "
                "stored"
            )
        linear, rules = rules[0][1], [*rules, ("*", UNQUANTIZED)]
    sparse = _sparse(q)
    if sparse:
        linear, rules = Sparse24(linear), [(t, s if s is UNQUANTIZED else Sparse24(s)) for t, s in rules]
    # published counts: twice in Llama-3.2, Qwen2.5-1.5B and -3B, Qwen3-0.6B to 4B, Gemma 3 w8a8; once in SmolLM3
    return Rule(
        linear, rules=tuple(rules), reach=("head", "tower"), kv=kv_format(q, "kv_cache_scheme"), habits=(HEAD_AGAIN,)
    )


def _targets(own: Fields) -> list[str]:
    targets = own.raw("targets")
    if targets is None:
        return ["Linear"]
    if not isinstance(targets, list) or any(not isinstance(target, str) for target in targets):
        raise BadInput("config field '{field}' must be a list of module names", field=own.path + "targets")
    return targets


def _sparse(q: Fields) -> bool:
    """Whether pairs of zeros are left out of the file."""
    if not isinstance(q.raw("sparsity_config"), dict):
        return False
    layout = word(q.nested("sparsity_config"), "format", "dense")
    if layout == "dense":
        return False
    if layout == "sparse-24-bitmask":
        return True
    raise BadInput(
        "config field '{field}' is {value}; its size depends on the weights themselves, so a config cannot tell it",
        field=q.path + "sparsity_config.format",
        value=layout[:40],
    )


def _scheme(own: Fields, q: Fields) -> Scheme:
    """The scheme of a group: by its weights' type, bits and strategy, and by the layout they are saved in."""
    weights = own.nested("weights")
    layout = word(own, "format", word(q, "format"))
    bits, kind, strategy = weights.size("num_bits"), word(weights, "type", "int"), word(weights, "strategy")
    inputs = own.raw("input_activations")
    static = isinstance(inputs, dict) and word(own.nested("input_activations"), "dynamic") in ("", "false")
    size = group(weights, default=None)
    if not strategy:
        strategy = "tensor" if size == -1 else "group"
    if layout == "dense":
        # scales beside weights that are stored whole: what of them a file holds, its header alone tells
        raise unread(
            q, "format", "pack-quantized, int-quantized, float-quantized, naive-quantized, nvfp4-pack-quantized"
        )
    if layout == "marlin-24" and kind == "int" and bits in (4, 8):
        return Marlin24(size, bits)
    if kind == "float" and bits == 8:
        if strategy == "group" and size == 32:
            return Microscaled(8)
        if strategy == "block":
            return Fp8Block(*block(weights, "block_structure"), _BF16)
        if strategy in ("tensor", "channel"):
            return Fp8Scaled(strategy == "channel", static, _BF16)
    if kind == "float" and bits == 4:
        if layout.startswith("mxfp4") or (not layout.startswith("nvfp4") and size == 32):
            return Microscaled()
        if strategy in ("tensor_group", "group") and size > 0:
            return Nvfp4(size, isinstance(inputs, dict))
    if kind == "int" and layout == "pack-quantized" and bits in (2, 4, 8):
        reordered = weights.raw("actorder") == "group"
        return CompressedInt(bits, size, weights.flag("symmetric", True), reordered)
    if kind == "int" and bits == 8 and strategy in ("tensor", "channel"):
        return Int8Scaled(strategy == "channel", static)
    raise BadInput(
        "compressed-tensors with {bits}-bit {kind} weights by {strategy} is not read yet",
        bits=bits,
        kind=kind[:20],
        strategy=strategy[:20],
    )

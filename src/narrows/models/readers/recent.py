"""Llama-like decoders with something of their own: gates, sinks, windows, experts in listed layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt
from typing import Any

import msgspec

from narrows.models.feedforward import Dense, FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, linear
from narrows.models.readers.build import FULL, PRE_NORMS, SLIDING, outside, routed, which_sparse, windowed
from narrows.models.readers.like_llama import assemble, build
from narrows.models.readers.qwen import experts as qwen_experts
from narrows.models.readers.traits import Traits, attention_of, dense_of, experts_of
from narrows.models.readers.traits_recent import TRAITS
from narrows.models.spec import Layer, ModelSpec
from narrows.models.tensors import Tensor


def read(c: Fields, model_type: str) -> ModelSpec:
    """Those that differ in switches only."""
    return build(c, model_type, TRAITS[model_type])


def sliding(c: Fields, traits: Traits, usual: Sequence[str], **rest: Any) -> list[Attention]:
    """One attention per layer: windows where `layer_types` says so, else where the architecture usually has them."""
    window = c.maybe_size("sliding_window", default=traits.window)
    kinds = c.kinds("layer_types", len(usual), (SLIDING, FULL)) or usual
    return windowed(attention_of(c, traits, **rest), window, kinds)


def by_kind(
    c: Fields, layers: int, first_dense: int, sparse: FeedForward, plain: Callable[[], FeedForward]
) -> list[FeedForward]:
    """Dense and sparse layers as `mlp_layer_types` lists them, else the first ones dense."""
    at = which_sparse(c, layers, first_dense)
    dense = sparse if all(at) else plain()
    return [sparse if one else dense for one in at]


def every(layers: int, period: int, offset: int = 1) -> list[str]:
    """Full attention in the layers i with (i + offset) a multiple of `period`, windows elsewhere."""
    return [SLIDING if (i + offset) % period else FULL for i in range(layers)]


def output_gate(c: Fields, heads: int, head_dim: int) -> tuple[Tensor, ...]:
    """A gate on the attention's output that is projected on its own."""
    return tuple(linear("attention.gate", heads * head_dim, c.size("hidden_size"), shards=heads))


def _heads(c: Fields, traits: Traits) -> tuple[int, int]:
    shape = attention_of(c, traits)
    return shape.heads, shape.head_dim


def read_exaone(c: Fields) -> ModelSpec:
    """EXAONE 3 and 3.5: Llama; its own files say `num_layers`."""
    if not c.has("num_hidden_layers") and c.has("num_layers"):
        c.values = {**c.values, "num_hidden_layers": c.raw("num_layers")}
    c.read |= {"num_layers", "embed_dropout"}
    return build(c, "exaone", TRAITS["exaone"])


def read_hyperclovax(c: Fields) -> ModelSpec:
    """HyperCLOVA X SEED Think: a norm after each part as well, unless `use_post_norm` is off."""
    traits = TRAITS["hyperclovax"]
    if not c.flag("use_post_norm", True):
        traits = msgspec.structs.replace(traits, norms=PRE_NORMS)
    return build(c, "hyperclovax", traits)


def read_cwm(c: Fields) -> ModelSpec:
    """Code World Model: layers 0, 4, 8 … are full; 0 as a window means none."""
    layers, traits = c.layers("num_hidden_layers"), TRAITS["cwm"]
    if c.raw("sliding_window") == 0:
        c.values = {**c.values, "sliding_window": None}
    mixers = sliding(c, traits, every(layers, 4, 0))
    return assemble(c, "cwm", traits, mixers, [dense_of(c, traits)] * layers)


def read_apertus1p5_text(c: Fields) -> ModelSpec:
    """Apertus 1.5's decoder: Apertus, with a head that may be narrower than the embedding."""
    traits, layers = TRAITS["apertus1p5_text"], c.layers("num_hidden_layers")
    part = dense_of(c, traits)
    if c.word("hidden_act", "xielu") == "xielu":
        part = msgspec.structs.replace(part, activation=2)
    spec = assemble(c, "apertus1p5_text", traits, [attention_of(c, traits)] * layers, [part] * layers)
    rows = c.maybe_size("output_vocab_size", default=None, most=spec.vocab)
    if rows is None or rows == spec.vocab or spec.head_tied:
        return spec
    # the narrow head stands as a tensor of its own
    head = Tensor("after.head", (rows, spec.hidden), "plain", rows)
    return msgspec.structs.replace(spec, head_tied=True, extra=outside(after=[head]))


def _swa(c: Fields, family: str) -> tuple[Traits, list[Attention]]:
    traits, layers = TRAITS[family], c.layers("num_hidden_layers")
    c.read.add("layer_rope_theta")
    return traits, sliding(c, traits, every(layers, 4, 0), sinks=True)


def read_granite_swa(c: Fields) -> ModelSpec:
    """Granite with windows and sinks: layers 0, 4, 8 … are full."""
    traits, mixers = _swa(c, "granite_swa")
    return assemble(c, "granite_swa", traits, mixers, [dense_of(c, traits)] * len(mixers))


def read_granitemoe_swa(c: Fields) -> ModelSpec:
    """The same with experts."""
    traits, mixers = _swa(c, "granitemoe_swa")
    assert traits.experts is not None
    return assemble(c, "granitemoe_swa", traits, mixers, [experts_of(c, traits.experts)] * len(mixers))


def read_cohere2_moe(c: Fields) -> ModelSpec:
    """Command A with experts: leading dense layers, if any, have a pattern of windows and a width of their own."""
    layers, traits = c.layers("num_hidden_layers"), TRAITS["cohere2_moe"]
    assert traits.experts is not None
    first = c.size("first_k_dense_replace", default=0, least=0)
    own, rest = c.size("prefix_dense_sliding_window_pattern", default=1), c.size("sliding_window_pattern", default=4)
    usual = [*every(min(first, layers), own), *every(max(layers - first, 0), rest)]
    c.read |= {"shared_expert_combination_strategy", "expert_selection_fn", "use_qk_norm"}
    width = c.maybe_size("prefix_dense_intermediate_size", default=None)
    sparse, plain = experts_of(c, traits.experts), dense_of(c, traits)
    plain = plain if width is None else msgspec.structs.replace(plain, intermediate=width)
    parts = by_kind(c, layers, first, sparse, lambda: plain)
    return assemble(c, "cohere2_moe", traits, sliding(c, traits, usual), parts)


def read_hy_v3(c: Fields) -> ModelSpec:
    """Hunyuan 3: the first layer is dense."""
    layers, traits = c.layers("num_hidden_layers"), TRAITS["hy_v3"]
    assert traits.experts is not None
    first = c.size("first_k_dense_replace", default=1, least=0)
    c.read |= {"moe_router_enable_expert_bias", "expert_hidden_dim", "qk_norm", "route_norm", "router_scaling_factor"}
    c.read |= {"enable_moe_fp32_combine", "enable_lm_head_fp32", "enable_attention_fp32_softmax"}
    c.read |= {"moe_router_use_sigmoid", "use_grouped_mm"}
    parts = by_kind(c, layers, first, experts_of(c, traits.experts), lambda: dense_of(c, traits))
    return assemble(c, "hy_v3", traits, [attention_of(c, traits)] * layers, parts)


def read_flint(c: Fields) -> ModelSpec:
    """Flint: sinks, the first two layers dense and full, a shared expert without a gate."""
    layers, traits = c.layers("num_hidden_layers"), TRAITS["flint"]
    usual = [FULL if i < 2 or i % 4 == 1 or i == layers - 1 else SLIDING for i in range(layers)]
    shared = c.size("shared_expert_intermediate_size", default=1024)
    sparse = msgspec.structs.replace(qwen_experts(c, 256, 6, shared), shared_gate=False)
    if c.raw("mlp_only_layers") is None:
        c.values = {**c.values, "mlp_only_layers": [0, 1]}
    parts = routed(c, layers, sparse, dense_of(c, traits))
    return assemble(c, "flint", traits, sliding(c, traits, usual, sinks=True), parts)


def read_afmoe(c: Fields) -> ModelSpec:
    """Arcee Trinity: a gate on the attention's output, norms before and after each part."""
    layers, traits = c.layers("num_hidden_layers"), TRAITS["afmoe"]
    assert traits.experts is not None
    usual = every(layers, c.size("global_attn_every_n_layers", default=4))
    gate = output_gate(c, *_heads(c, traits))
    first = c.maybe_size("num_dense_layers", default=1, least=0) or 0
    c.read |= {"num_expert_groups", "num_limited_groups", "mup_enabled", "load_balance_coeff", "route_norm"}
    c.read |= {"score_func", "use_grouped_mm"}
    sparse, plain = experts_of(c, traits.experts), dense_of(c, traits)
    parts: list[FeedForward] = [sparse if i >= first else plain for i in range(layers)]
    return assemble(c, "afmoe", traits, sliding(c, traits, usual, beside=gate), parts)


def read_beam(c: Fields) -> ModelSpec:
    """Beam: a gate with a bias per head, three dense layers first, every sixth layer and the last one full."""
    layers, traits = c.layers("num_hidden_layers"), TRAITS["beam"]
    assert traits.experts is not None
    heads, width = _heads(c, traits)
    gate = (*output_gate(c, heads, width), Tensor("attention.gate_bias", (heads,), "vector", heads))
    mixers = sliding(c, traits, [*every(layers, 6)[:-1], FULL], beside=gate)
    parts = by_kind(c, layers, 3, experts_of(c, traits.experts), lambda: dense_of(c, traits))
    return assemble(c, "beam", traits, mixers, parts)


def read_diffllama(c: Fields) -> ModelSpec:
    """Differential transformer (Ye et al. 2024): two softmaxes subtracted, weighed by four learned vectors."""
    layers, traits = c.layers("num_hidden_layers"), TRAITS["diffllama"]
    width = attention_of(c, traits).head_dim
    lambdas = tuple(Tensor(f"attention.lambda_{name}", (width,), "vector") for name in ("q1", "k1", "q2", "k2"))
    c.read.add("lambda_std_dev")
    mixer = attention_of(c, traits, beside=lambdas)
    return assemble(c, "diffllama", traits, [mixer] * layers, [dense_of(c, traits)] * layers)


def changed(spec: ModelSpec, change: Callable[[Layer], Layer]) -> ModelSpec:
    """The model with every layer changed; equal layers stay equal."""
    groups = tuple(msgspec.structs.replace(group, layer=change(group.layer)) for group in spec.groups)
    return msgspec.structs.replace(spec, groups=groups)


def read_doge(c: Fields) -> ModelSpec:
    """Doge: a learned mask made of the values, learned scales of both branches, single neurons as experts."""
    layers, traits = c.layers("num_hidden_layers"), TRAITS["doge"]
    window = c.maybe_size("sliding_window", default=None)
    own = attention_of(c, traits, window=window)
    kv = own.kv_heads
    mask = (
        Tensor("attention.mask_scale", (kv,), "vector"),
        *linear("attention.mask", kv, kv * own.head_dim, bias=own.qkv_bias),
    )
    hidden, plain = own.hidden, dense_of(c, traits)
    mixer, part = msgspec.structs.replace(own, beside=mask), _neurons(c, plain)
    scales = tuple(Tensor(f"scale.{name}", (hidden,), "vector") for name in ("input", "post_attention"))
    c.read |= {"keep_window_size", "num_experts", "num_experts_per_tok", "dynamic_mask_ratio"}
    spec = assemble(c, "doge", traits, [mixer] * layers, [part] * layers)
    return changed(spec, lambda layer: msgspec.structs.replace(layer, beside=scales))


def _neurons(c: Fields, plain: Dense) -> FeedForward:
    """A dense part, beside it (`is_moe`) experts of one neuron each, found by pairs of √experts keys."""
    if not c.flag("is_moe", False):
        return plain
    number = c.size("num_experts", default=16384)
    return MixtureOfExperts(
        plain.hidden,
        number,
        c.size("num_experts_per_tok", default=min(64, number), most=number),
        1,
        shared=plain.intermediate,
        shared_bias=plain.bias,
        gated=False,
        router_rows=2 * isqrt(number),
        shared_gated=True,
    )

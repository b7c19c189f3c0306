"""Decoders that differ from Llama in switches, names and defaults, which are data; and what a few have of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from narrows.models.feedforward import FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.readers.build import FULL, PRE_NORMS, SLIDING, model, rotary_layers, stack, windowed
from narrows.models.readers.mtp import block_prediction, with_prediction
from narrows.models.readers.traits import Traits, attention_of, dense_of, experts_of, mixers_of, on
from narrows.models.readers.traits_table import TRAITS
from narrows.models.spec import Layer, ModelSpec, Norms


def read(c: Fields, model_type: str) -> ModelSpec:
    """Any of them."""
    return build(c, model_type, TRAITS[model_type])


def build(c: Fields, model_type: str, traits: Traits) -> ModelSpec:
    """The model of a config with these traits."""
    layers = c.layers("num_hidden_layers")
    mixers = mixers_of(c, traits, layers)
    feed_forwards: list[FeedForward]
    if traits.experts is None:
        feed_forwards = [dense_of(c, traits)] * layers
    else:
        first = traits.experts.first
        leading = c.size(first, default=traits.experts.first_default, least=0) if first else 0
        sparse = experts_of(c, traits.experts)
        c.read.add("intermediate_size")  # of dense layers, which there need not be
        plain = dense_of(c, traits) if leading else None
        feed_forwards = [plain if plain is not None and i < leading else sparse for i in range(layers)]
    return assemble(c, model_type, traits, mixers, feed_forwards)


def assemble(
    c: Fields,
    model_type: str,
    traits: Traits,
    mixers: Sequence[Attention],
    parts: Sequence[FeedForward],
    **rest: Any,
) -> ModelSpec:
    """The model of one mixer and one feed-forward per layer, with the frame that the traits describe."""
    return model(
        c,
        stack(mixers, parts, traits.norms),
        family=model_type,
        dialect=traits.dialect,
        tied=traits.tied,
        final_norm=traits.final_norm,
        final_norm_bias=traits.norms.bias,
        head_bias=on(c, traits.head_bias),
        **rest,
    )


def read_minimax_m2(c: Fields) -> ModelSpec:
    """MiniMax-M2: its files name prediction layers that they do not hold."""
    c.read |= {"mtp_transformer_layers", "num_mtp_modules", "use_mtp", "use_qk_norm", "shared_intermediate_size"}
    return build(c, "minimax_m2", TRAITS["minimax_m2"])


def read_starcoder2(c: Fields) -> ModelSpec:
    """StarCoder 2: its files name the kind of feed-forward and norm, of which the architecture has one."""
    c.read |= {"mlp_type", "norm_type"}
    return build(c, "starcoder2", TRAITS["starcoder2"])


def read_stablelm(c: Fields) -> ModelSpec:
    """StableLM: parallel branches share one norm, and a head is always hidden ÷ heads wide."""
    traits = TRAITS["stablelm"]
    if c.flag("use_parallel_residual", False):
        traits = msgspec.structs.replace(traits, norms=Norms(("input_layernorm",), bias=True))
    c.values = {name: value for name, value in c.values.items() if name != "head_dim"}
    return build(c, "stablelm", traits)


def read_apertus(c: Fields) -> ModelSpec:
    """Apertus: xIELU has two learned numbers."""
    spec = build(c, "apertus", TRAITS["apertus"])
    if c.word("hidden_act", "xielu") != "xielu":
        return spec
    mixer, layer = spec.groups[0].layer.mixer, spec.groups[0].layer
    part = msgspec.structs.replace(dense_of(c, TRAITS["apertus"]), activation=2)
    groups = stack([mixer] * spec.layers, [part] * spec.layers, layer.norms)
    return msgspec.structs.replace(spec, groups=groups)


def read_internlm3(c: Fields) -> ModelSpec:
    """InternLM 3, whose own files say `qkv_bias` and `bias`."""
    for old, new in (("qkv_bias", "attention_bias"), ("bias", "mlp_bias")):
        value = c.raw(old)
        if value is not None and not c.has(new):
            c.values = {**c.values, new: value}
    return build(c, "internlm3", TRAITS["internlm3"])


def read_smollm3(c: Fields) -> ModelSpec:
    """SmolLM 3: where windows are used at all, the layers without rotary positions slide."""
    layers, traits = c.layers("num_hidden_layers"), TRAITS["smollm3"]
    rotary = rotary_layers(c, layers)
    window = c.maybe_size("sliding_window", default=None)
    slides = c.flag("use_sliding_window", False) and window is not None
    kinds = c.kinds("layer_types", layers, (SLIDING, FULL)) or [
        SLIDING if slides and not rotary[i] else FULL for i in range(layers)
    ]
    mixers = windowed(attention_of(c, traits), window, kinds)
    groups = stack(mixers, [dense_of(c, traits)] * layers, PRE_NORMS)
    return model(c, groups, family="smollm3", tied=traits.tied)


def read_exaone4(c: Fields) -> ModelSpec:
    """EXAONE 4: every fourth layer is full, unless the file says otherwise; no window, no sliding layers."""
    pattern = c.raw("sliding_window_pattern", default=4)
    traits = TRAITS["exaone4"]
    if isinstance(pattern, int) and not isinstance(pattern, bool):
        traits = msgspec.structs.replace(traits, full_every=max(pattern, 1))
    return build(c, "exaone4", traits)


def read_cohere2(c: Fields) -> ModelSpec:
    """Command R7B and A: every fourth layer is full."""
    every = c.size("sliding_window_pattern", "_sliding_window_pattern", default=4)
    return build(c, "cohere2", msgspec.structs.replace(TRAITS["cohere2"], full_every=every))


def read_glm4_moe(c: Fields) -> ModelSpec:
    """GLM-4.5 to 4.7: a head is hidden ÷ heads wide, rounded down, where the file says nothing."""
    if not c.has("head_dim"):
        c.values = {**c.values, "head_dim": c.size("hidden_size") // c.size("num_attention_heads")}
    spec = build(c, "glm4_moe", TRAITS["glm4_moe"])
    return with_prediction(c, spec, spec.groups[-1].layer)


def read_ernie4_5_moe(c: Fields) -> ModelSpec:
    """ERNIE 4.5: every `moe_layer_interval`-th layer from one index to another is sparse."""
    traits = TRAITS["ernie4_5_moe"]
    spec, layers = build(c, "ernie4_5_moe", traits), c.layers("num_hidden_layers")
    every = c.size("moe_layer_interval", default=1)
    first, last = (
        c.size("moe_layer_start_index", default=1, least=0),
        c.size("moe_layer_end_index", default=-1, least=-1),
    )
    last = layers - 1 if last == -1 else last
    sparse, plain = spec.groups[0].layer.feed_forward, dense_of(c, traits)
    parts = [sparse if (i + 1) % every == 0 and first <= i <= last else plain for i in range(layers)]
    mixer = spec.groups[0].layer.mixer
    spec = msgspec.structs.replace(spec, groups=stack([mixer] * layers, parts, PRE_NORMS))
    return block_prediction(c, spec, Layer(mixer, plain, PRE_NORMS, spec.hidden))


def read_hunyuan_v1_moe(c: Fields) -> ModelSpec:
    """Hunyuan A13B: a shared expert as wide as a routed one; lists of one number are read as that number."""
    for name in ("num_experts", "moe_topk", "moe_intermediate_size", "num_shared_expert"):
        value = c.raw(name)
        if isinstance(value, list) and value and all(one == value[0] for one in value):
            c.values = {**c.values, name: value[0]}
    spec = build(c, "hunyuan_v1_moe", TRAITS["hunyuan_v1_moe"])
    layer = spec.groups[0].layer
    assert isinstance(layer.feed_forward, MixtureOfExperts)
    part = msgspec.structs.replace(layer.feed_forward, shared=layer.feed_forward.intermediate)
    return msgspec.structs.replace(spec, groups=stack([layer.mixer] * spec.layers, [part] * spec.layers, PRE_NORMS))


def read_exaone_moe(c: Fields) -> ModelSpec:
    """K-EXAONE: which layers are sparse can be listed."""
    pattern, traits = c.raw("sliding_window_pattern", default=4), TRAITS["exaone_moe"]
    if isinstance(pattern, int) and not isinstance(pattern, bool):
        traits = msgspec.structs.replace(traits, full_every=max(pattern, 1))
    spec, layers = build(c, "exaone_moe", traits), c.layers("num_hidden_layers")
    kinds = c.kinds("mlp_layer_types", layers, ("dense", "sparse"))
    if kinds is None or traits.experts is None:
        return spec
    sparse, plain = experts_of(c, traits.experts), dense_of(c, traits)
    mixers = [layer.mixer for layer in spec.each_layer]
    parts = [sparse if kind == "sparse" else plain for kind in kinds]
    return msgspec.structs.replace(spec, groups=stack(mixers, parts, PRE_NORMS))


def read_dots1(c: Fields) -> ModelSpec:
    """dots.llm1: layers from `max_window_layers` on slide."""
    layers, traits = c.layers("num_hidden_layers"), TRAITS["dots1"]
    spec = build(c, "dots1", traits)
    window = c.maybe_size("sliding_window", default=4096)
    first = c.size("max_window_layers", default=62, least=0)
    kinds = c.kinds("layer_types", layers, (SLIDING, FULL)) or [
        SLIDING if window is not None and i >= first else FULL for i in range(layers)
    ]
    parts = [layer.feed_forward for layer in spec.each_layer]
    groups = stack(windowed(attention_of(c, traits), window, kinds), parts, PRE_NORMS)
    return msgspec.structs.replace(spec, groups=groups)

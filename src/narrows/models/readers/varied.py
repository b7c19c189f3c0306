"""Decoders of 2025 and 2026 that vary a known one: norms, gates, windows, experts, kinds of layers in turn."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from narrows.models.feedforward import Dense, FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, GatedDeltaNet, Mixer, ShortConvolution
from narrows.models.readers.build import (
    FULL,
    LINEAR,
    PRE_NORMS,
    SLIDING,
    attention,
    dense,
    grouped,
    mixture,
    model,
    stack,
    windowed,
)
from narrows.models.readers.like_llama import build
from narrows.models.readers.mtp import with_prediction
from narrows.models.readers.traits import Experts, Traits
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.text import BadInput

_BIAS = ("attention_bias", False)
_TRAITS: dict[str, Traits] = {
    "iquestcoder": Traits(kv_heads=8, head_dim=128, qkv_bias=_BIAS, out_bias=_BIAS, mlp_bias=("mlp_bias", False)),
    # its norms have no weights
    "nanochat": Traits(
        dialect="nanochat", qkv_bias=_BIAS, out_bias=_BIAS, gated=False, norms=Norms(()), final_norm=False
    ),
    "vaultgemma": Traits(
        kv_heads=4,
        head_dim=256,
        qkv_bias=_BIAS,
        out_bias=_BIAS,
        norms=Norms(("input_layernorm", "pre_feedforward_layernorm")),
        tied=True,
        windows=True,
        window=4096,
        full_every=2,
    ),
    "kolibri1": Traits(
        dialect="deepseek",
        kv_heads=4,
        head_dim=128,
        qk_norm=True,
        norms=Norms((*PRE_NORMS.names, "post_self_attn_layernorm", "post_mlp_layernorm")),
        windows=True,
        window=513,
        full_every=5,
        experts=Experts(
            number_default=384,
            top_k_default=6,
            width="moe_intermediate_size",
            shared="shared_expert_intermediate_size",
            shared_default=512,
            shared_width=True,
            correction=True,
        ),
    ),
    "sarvam_moe": Traits(
        dialect="deepseek",
        kv_heads=4,
        head_dim=64,
        qkv_bias=_BIAS,
        qk_norm=("use_qk_norm", True),
        experts=Experts(
            number=("n_routed_experts", "num_local_experts", "num_experts"),
            number_default=128,
            top_k_default=6,
            width="moe_intermediate_size",
            shared="n_shared_experts",
            shared_default=1,
            first="first_k_dense_replace",
            first_default=1,
            correction=True,
        ),
    ),
}


def read(c: Fields, model_type: str) -> ModelSpec:
    """IQuest Coder, nanochat, VaultGemma, Kolibri 1: a row of the table."""
    return build(c, model_type, _TRAITS[model_type])


def read_sarvam_moe(c: Fields) -> ModelSpec:
    """Sarvam 30B: GLM 4.5's shape; its files may say `use_qkv_bias` and `num_shared_experts`."""
    for old, new in (("use_qkv_bias", "attention_bias"), ("num_shared_experts", "n_shared_experts")):
        value = c.raw(old)
        if c.has(old) and not c.has(new):
            c.values = {**c.values, new: value}
    spec = build(c, "sarvam_moe", _TRAITS["sarvam_moe"])
    return with_prediction(c, spec, spec.groups[-1].layer)


def read_mellum(c: Fields) -> ModelSpec:
    """Mellum 2: every layer full and sparse, unless the file lists them."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    full = attention(c, kv_heads=4, head_dim=128, qk_norm=True, qkv_bias=bias, out_bias=bias)
    kinds = c.kinds("layer_types", layers, (SLIDING, FULL)) or [FULL] * layers
    window = c.maybe_size("sliding_window", default=1024)
    mixers = windowed(full, window, kinds)
    sparse = mixture(c, full.hidden, c.size("moe_intermediate_size"), number=64, top_k=8)
    parts = _sorts(c, layers, sparse, ["sparse"] * layers)
    spec = model(c, stack(mixers, parts, PRE_NORMS), family="mellum", dialect="qwen3_next")
    c.read |= {"mtp_layer_types", "mtp_mlp_layer_types"}
    layer = Layer(windowed(full, window, [SLIDING])[0], sparse, PRE_NORMS, full.hidden)
    return with_prediction(c, spec, layer, own_vocab=False)


def _sorts(c: Fields, layers: int, sparse: MixtureOfExperts, usual: Sequence[str]) -> list[FeedForward]:
    """One feed-forward per layer by `mlp_layer_types`; a dense one only needs a width where there is one."""
    sorts = c.kinds("mlp_layer_types", layers, ("dense", "sparse")) or usual
    c.read.add("intermediate_size")
    plain = dense(c) if "dense" in sorts else None
    return [plain if plain is not None and sort == "dense" else sparse for sort in sorts]


def read_laguna(c: Fields) -> ModelSpec:
    """Laguna: a gate on the attention's output; layers may differ in their number of heads."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    stated = c.raw("gating", default=True)
    if stated not in (True, False, None, "per-head", "per-channel", "per-element"):
        raise BadInput("config field '{field}' must be true, false or a word for one kind", field=c.path + "gating")
    heads = c.raw("num_attention_heads_per_layer")
    if heads is None:
        heads = [c.size("num_attention_heads")] * layers
    if not isinstance(heads, list) or len(heads) != layers:
        raise BadInput(
            "config field '{field}' must have one number for each of {count} layers",
            field=c.path + "num_attention_heads_per_layer",
            count=layers,
        )
    kinds = c.kinds("layer_types", layers, (SLIDING, FULL)) or [FULL] * layers
    window = c.maybe_size("sliding_window", default=512)
    made: dict[tuple[int, str], Attention] = {}
    mixers = []
    for number, kind in zip(heads, kinds, strict=True):
        one = Fields({"num_attention_heads_per_layer": number}, c.path).size("num_attention_heads_per_layer")
        if (one, kind) not in made:
            view = Fields({**c.values, "num_attention_heads": one}, c.path)
            made[one, kind] = attention(
                view,
                kv_heads=8,
                head_dim=128,
                qk_norm=True,
                qkv_bias=bias,
                out_bias=bias,
                gate="head" if stated in (True, "per-head") else "channel",
                window=window if kind == SLIDING else None,
            )
            c.read |= view.read
        mixers.append(made[one, kind])
    sparse = mixture(
        c,
        c.size("hidden_size"),
        c.size("moe_intermediate_size"),
        number=256,
        top_k=8,
        shared=c.size("shared_expert_intermediate_size", default=512),
        correction=True,
        correction_learned=True,
    )
    parts = _sorts(c, layers, sparse, ["dense"] + ["sparse"] * (layers - 1))
    c.read |= {name for name in c.values if name.startswith(("moe_router", "moe_routed", "moe_apply"))}
    return model(c, stack(mixers, parts, PRE_NORMS), family="laguna", dialect="laguna")


def _delta(
    c: Fields, hidden: int, keys: tuple[int, int], values: tuple[int, int], *, apart: bool = False
) -> GatedDeltaNet:
    """The delta rule of a config; keys, values: default heads and head dim."""
    return GatedDeltaNet(
        hidden,
        c.maybe_size("linear_num_key_heads", default=keys[0]) or keys[0],
        c.maybe_size("linear_num_value_heads", default=values[0]) or values[0],
        c.maybe_size("linear_key_head_dim", default=keys[1]) or keys[1],
        c.maybe_size("linear_value_head_dim", default=values[1]) or values[1],
        c.size("linear_conv_kernel_dim", default=4),
        fused=False,
        apart=apart,
    )


_LARA = (LINEAR, SLIDING, LINEAR, FULL, SLIDING)


def read_lara_mini(c: Fields) -> ModelSpec:
    """Lara Mini: delta rule, windows and full attention in turn of five; routed experts and a shared one."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    kinds = c.kinds("layer_types", layers, (LINEAR, SLIDING, FULL)) or [_LARA[i % 5] for i in range(layers)]
    full = attention(c, kv_heads=4, head_dim=128, qk_norm=True, qkv_bias=bias, out_bias=bias)
    delta = _delta(c, full.hidden, (8, 128), (16, 128))
    mixers = _in_turn(c, full, delta, LINEAR, kinds, 512)
    shared = c.size("shared_expert_intermediate_size", default=512)
    c.read.add("intermediate_size")  # no layer is dense
    sparse = mixture(c, full.hidden, c.size("moe_intermediate_size"), number=128, top_k=4, shared=shared)
    groups = stack(mixers, [sparse] * layers, PRE_NORMS)
    return model(c, groups, family="lara_mini", dialect="qwen3_5", tied=True)


def _in_turn(
    c: Fields, full: Attention, other: Mixer, name: str, kinds: Sequence[str], window: int | None
) -> list[Mixer]:
    """One mixer per layer: another one where a layer's kind is `name`, else attention, full or over the window."""
    sliding = msgspec.structs.replace(full, window=c.maybe_size("sliding_window", default=window))
    of: dict[str, Mixer] = {name: other, FULL: full, SLIDING: sliding}
    return [of[kind] for kind in kinds]


_CONVOLUTION = "conv"
_LFM3_NORMS = ("operator_norm", "ffn_norm")
_LFM3_SANDWICH = ("post_operator_norm", "post_ffn_norm")


def read_lfm3(c: Fields) -> ModelSpec:
    """LFM 3: gated convolutions, gated attention over a window or everything, norms before and after each part."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    usual = [FULL if i % 4 == 2 else SLIDING if i % 4 == 0 and i else _CONVOLUTION for i in range(layers)]
    kinds = c.kinds("layer_types", layers, (_CONVOLUTION, SLIDING, FULL)) or usual
    full = attention(
        c,
        kv_heads=4,
        head_dim=128,
        qk_norm=True,
        qkv_bias=bias,
        out_bias=bias,
        gate="head" if c.flag("use_attention_gate", True) else "",
    )
    convolution = ShortConvolution(full.hidden, c.size("conv_L_cache", default=7), c.flag("conv_bias", False))
    mixers = _in_turn(c, full, convolution, _CONVOLUTION, kinds, 256)
    norms = Norms(_LFM3_NORMS + (_LFM3_SANDWICH if c.flag("use_sandwich_norm", True) else ()))
    return model(c, stack(mixers, [dense(c)] * layers, norms), family="lfm3", dialect="lfm3", tied=True)


_OLMO_FULL = Norms(("post_attention_layernorm", "post_feedforward_layernorm"))


def read_olmo_hybrid(c: Fields) -> ModelSpec:
    """OLMo Hybrid: three delta-rule layers to one of attention; their norms stand at different places."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    usual = [FULL if i % 4 == 3 else LINEAR for i in range(layers)]
    if FULL not in usual:
        usual[-1] = FULL
    kinds = c.kinds("layer_types", layers, (LINEAR, FULL)) or usual
    full = attention(c, kv_heads=None, qk_norm=True, qk_norm_heads=True, qkv_bias=bias, out_bias=bias)
    heads = c.maybe_size("linear_num_key_heads", default=None) or full.heads
    width = c.maybe_size("linear_key_head_dim", default=None) or int(0.75 * full.hidden / heads)
    if width < 1:
        raise BadInput(
            "config field '{field}' is missing, and a head would have no width; take the complete config.json",
            field=c.path + "linear_key_head_dim",
        )
    delta = _delta(c, full.hidden, (heads, width), (full.heads, 2 * width), apart=True)
    c.read |= {name for name in c.values if name.startswith(("linear_a_log", "linear_dt", "linear_allow"))}
    part = Dense(full.hidden, c.size("intermediate_size"))
    attending = Layer(full, part, _OLMO_FULL, full.hidden)
    recurrent = Layer(delta, part, PRE_NORMS, full.hidden)
    groups = grouped(attending if kind == FULL else recurrent for kind in kinds)
    return model(c, groups, family="olmo_hybrid", dialect="olmo_hybrid")

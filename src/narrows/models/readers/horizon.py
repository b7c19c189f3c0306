"""Decoders of 2026 with classes beside their files: K2 Horizon, Spark X2.5, Nanbeige 4.2, Solar Open 2."""

from __future__ import annotations

import msgspec

from narrows.models.feedforward import FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import KimiDelta, Looped, Mixer
from narrows.models.readers.build import (
    FULL,
    LINEAR,
    PRE_NORMS,
    attention,
    dense,
    full_every,
    mixture,
    model,
    routed,
    stack,
    windowed,
)
from narrows.models.spec import ModelSpec
from narrows.models.tensors import Tensor
from narrows.text import BadInput


def read_k2_horizon(c: Fields) -> ModelSpec:
    """K2 Horizon: Llama with norms over groups of channels; the large ones have experts for values as well (MoVA).

    There, every token's values come from some of several projections; keys and values are kept as usual.
    """
    layers = c.layers("num_hidden_layers")
    if c.flag("use_sliding_window", False) or c.flag("query_key_norm", False):
        raise BadInput("this k2_horizon config has windows or norms on queries, which narrows does not read yet")
    c.read |= {"layernorm_num_groups", "sliding_window", "max_window_layers", "rope_head_dim", "router_scaling_factor"}
    c.read |= {"router_score_func", "layer_types"}
    bias = c.flag("attention_bias", False)
    gate = "channel" if c.raw("attention_gate_func") else ""
    full = attention(c, qkv_bias=bias, out_bias=bias, gate=gate)
    plain = dense(c, bias=c.flag("mlp_bias", False))
    number = c.maybe_size("num_experts", default=0, least=0) or 0
    if not number:
        c.read |= {"num_experts_per_tok", "moe_intermediate_size", "num_shared_experts", "mova_num_experts"}
        c.read |= {"mova_num_experts_per_tok", "moe_gate_bias", "decoder_sparse_step", "mlp_only_layers"}
        return model(c, stack([full] * layers, [plain] * layers, PRE_NORMS), family="k2_horizon", dialect="k2_horizon")
    width = c.size("moe_intermediate_size")
    sparse = MixtureOfExperts(
        full.hidden,
        number,
        c.size("num_experts_per_tok", most=number),
        width,
        shared=width * (c.maybe_size("num_shared_experts", default=0, least=0) or 0),
        router_bias=c.flag("moe_gate_bias", False),
    )
    parts: list[FeedForward] = routed(c, layers, sparse, plain)
    values = c.maybe_size("mova_num_experts", default=0, least=0) or 0
    chosen = full
    if values:
        top = c.size("mova_num_experts_per_tok", most=values)
        rows = full.kv_heads * full.head_dim
        beside = (
            Tensor("attention.v_router", (values, full.hidden), "plain"),
            Tensor("attention.v_router.bias", (values,), "vector"),
            Tensor("attention.v_experts", (rows, full.hidden), "linear", full.kv_heads, values, top),
        )
        # of keys and values, only keys have one projection
        chosen = msgspec.structs.replace(full, k_is_v=True, beside=beside)
    mixers: list[Mixer] = [chosen if part is sparse else full for part in parts]
    return model(c, stack(mixers, parts, PRE_NORMS), family="k2_horizon", dialect="k2_horizon")


def read_spark2_5(c: Fields) -> ModelSpec:
    """Spark X2.5: three layers with windows to one without, a gate for every head, GELU."""
    layers = c.layers("num_hidden_layers")
    gate = "head" if c.flag("headwise_attn_output_gate", True) else ""
    bias = c.flag("attention_bias", False)
    full = attention(c, head_dim=256, qkv_bias=bias, out_bias=bias, gate=gate)
    mixers = windowed(full, c.size("sliding_window", default=512), full_every(c, layers, 4))
    c.read |= {"gate_attn_act_mode"}
    part = dense(c, bias=c.flag("mlp_bias", False))
    groups = stack(mixers, [part] * layers, PRE_NORMS)
    return model(c, groups, family="spark2_5", dialect="spark2_5", tied=True)


def read_nanbeige(c: Fields) -> ModelSpec:
    """Nanbeige 4.2: all layers run `num_loops` times, each time with keys and values of its own."""
    layers, loops = c.layers("num_hidden_layers"), c.size("num_loops", default=1, most=1000)
    bias = c.flag("attention_bias", False)
    own = attention(c, qkv_bias=bias, out_bias=bias)
    mixer: Mixer = own if loops == 1 else Looped(own, loops)
    c.read |= {"loop_loss_weights", "skip_loop_final_norm", "kv_channels"}
    part = dense(c, bias=c.flag("mlp_bias", False))
    return model(c, stack([mixer] * layers, [part] * layers, PRE_NORMS), family="nanbeige")


def read_solar_open2(c: Fields) -> ModelSpec:
    """Solar Open 2: Kimi's delta attention, in the layers that the file lists gated softmax attention; experts."""
    layers = c.layers("num_hidden_layers", default=48)
    sizes = c.nested("linear_attn_config") if c.raw("linear_attn_config") else Fields({}, "linear_attn_config.")
    if sizes.raw("num_kv_heads") is not None or c.flag("use_full_proj", False) or sizes.flag("use_full_proj", False):
        raise BadInput("this solar_open2 config has KV heads or gates of another kind, which narrows does not read yet")
    bias = c.flag("attention_bias", False)
    gate = "channel" if c.flag("use_gqa_gate", True) else ""
    full = attention(c, kv_heads=8, head_dim=128, qkv_bias=bias, qk_norm=c.flag("use_qk_norm", False), gate=gate)
    delta = KimiDelta(
        full.hidden,
        sizes.size("num_heads", default=full.heads),
        sizes.size("head_dim", default=128),
        sizes.size("short_conv_kernel_size", default=4),
    )
    kinds = c.kinds("layer_types", layers, (LINEAR, FULL))
    c.read.add("gqa_interval")
    at = c.indices("gqa_layers") if c.raw("gqa_layers") is not None else None
    if kinds is None:
        # vLLM: every `gqa_interval`-th layer, unless they are listed
        whole = range(c.size("gqa_interval") - 1, layers, c.size("gqa_interval")) if at is None else at
        kinds = [FULL if i in whole else LINEAR for i in range(layers)]
    width = c.size("moe_intermediate_size", default=1280)
    sparse = mixture(
        c,
        full.hidden,
        width,
        number=320,
        top_k=8,
        names=("n_routed_experts",),
        shared=width * (c.maybe_size("n_shared_experts", default=1, least=0) or 0),
        correction=True,
    )
    first = c.size("first_k_dense_replace", default=0, least=0)
    c.read |= {"intermediate_size", "use_rope", "use_gqa_gate_bias", "kda_allow_neg_eigval", "num_nextn_predict_layers"}
    if c.flag("use_gqa_gate_bias", False):
        raise BadInput("this solar_open2 config has KV heads or gates of another kind, which narrows does not read yet")
    plain = dense(c) if first else None
    parts: list[FeedForward] = [plain if plain is not None and i < first else sparse for i in range(layers)]
    mixers: list[Mixer] = [full if kind == FULL else delta for kind in kinds]
    return model(c, stack(mixers, parts, PRE_NORMS), family="solar_open2", dialect="solar_open2")

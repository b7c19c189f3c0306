"""Qwen 2 to 3-Next: biases on q, k and v (2), norms on q and k (3), mixtures of experts, linear attention (3-Next)."""

from __future__ import annotations

from typing import Any

from narrows.models.feedforward import MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, GatedDeltaNet, Mixer
from narrows.models.readers.build import (
    FULL,
    LINEAR,
    PRE_NORMS,
    SLIDING,
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


def sliding_from(c: Fields, layers: int) -> list[str]:
    """`use_sliding_window` lets the layers from `max_window_layers` on slide; off by default."""
    first = c.size("max_window_layers", default=28, least=0)
    slides = c.flag("use_sliding_window", False)
    given = c.kinds("layer_types", layers, (SLIDING, FULL))
    return given or [SLIDING if slides and i >= first else FULL for i in range(layers)]


def window_of(c: Fields) -> int | None:
    """The window, where windows are used at all; 0 in a file means none."""
    if not c.flag("use_sliding_window", False):
        c.read.add("sliding_window")
        return None
    return c.maybe_size("sliding_window", default=4096, least=0) or None


def experts(c: Fields, default: int, top_k: int, shared: int = 0) -> MixtureOfExperts:
    """Routed experts, and a gated shared one of width `shared`."""
    width = c.size("moe_intermediate_size")
    return mixture(c, c.size("hidden_size"), width, number=default, top_k=top_k, shared=shared, shared_gate=shared > 0)


def read_qwen2(c: Fields) -> ModelSpec:
    """Qwen 2 and 2.5."""
    layers = c.layers("num_hidden_layers")
    mixers = windowed(attention(c, kv_heads=32, qkv_bias=True), window_of(c), sliding_from(c, layers))
    return model(c, stack(mixers, [dense(c)] * layers, PRE_NORMS), family="qwen2")


def read_qwen2_moe(c: Fields) -> ModelSpec:
    """Qwen 1.5-MoE and 2-MoE: a gated shared expert beside the routed ones."""
    layers = c.layers("num_hidden_layers")
    bias = c.flag("qkv_bias", True)
    first_full = c.size("max_window_layers", default=28, least=0)
    slides = c.flag("use_sliding_window", False)
    # unlike in the dense models, every other one of the *first* layers slides
    kinds = c.kinds("layer_types", layers, (SLIDING, FULL)) or [
        SLIDING if slides and i % 2 == 0 and i < first_full else FULL for i in range(layers)
    ]
    mixers = windowed(attention(c, kv_heads=16, qkv_bias=bias), window_of(c), kinds)
    sparse = experts(c, 60, 4, c.size("shared_expert_intermediate_size"))
    return model(c, stack(mixers, routed(c, layers, sparse, dense(c)), PRE_NORMS), family="qwen2_moe")


def read_qwen3(c: Fields) -> ModelSpec:
    """Qwen 3, dense."""
    layers = c.layers("num_hidden_layers")
    bias = c.flag("attention_bias", False)
    full = attention(c, kv_heads=32, head_dim=128, qk_norm=True, qkv_bias=bias, out_bias=bias)
    mixers = windowed(full, window_of(c), sliding_from(c, layers))
    return model(c, stack(mixers, [dense(c)] * layers, PRE_NORMS), family="qwen3")


def read_qwen3_moe(c: Fields) -> ModelSpec:
    """Qwen 3, mixture of experts; where windows are used at all, every layer slides."""
    layers = c.layers("num_hidden_layers")
    bias = c.flag("attention_bias", False)
    c.read.add("use_qk_norm")  # always on, whatever the file says
    mixer = attention(c, kv_heads=4, qk_norm=True, qkv_bias=bias, out_bias=bias, window=window_of(c))
    feed_forwards = routed(c, layers, experts(c, 128, 8), dense(c))
    return model(c, stack([mixer] * layers, feed_forwards, PRE_NORMS), family="qwen3_moe")


def delta_nets(c: Fields, layers: int, kv_heads: int, **rest: Any) -> tuple[list[Mixer], Attention]:
    """Three gated delta nets to one gated full attention, unless the file says otherwise; and that attention.

    kv_heads: of the attention, by default. rest: what the delta net has besides its sizes.
    """
    kinds = full_every(c, layers, c.size("full_attention_interval", default=4), LINEAR)
    bias = c.flag("attention_bias", False)
    full = attention(c, kv_heads=kv_heads, head_dim=256, qk_norm=True, output_gate=True, qkv_bias=bias, out_bias=bias)
    delta = GatedDeltaNet(
        full.hidden,
        c.size("linear_num_key_heads", default=16),
        c.size("linear_num_value_heads", default=32),
        c.size("linear_key_head_dim", default=128),
        c.size("linear_value_head_dim", default=128),
        c.size("linear_conv_kernel_dim", default=4),
        **rest,
    )
    return [full if kind == FULL else delta for kind in kinds], full


def read_qwen3_next(c: Fields) -> ModelSpec:
    """Qwen 3-Next: delta nets and gated attention, all with routed and shared experts."""
    layers = c.layers("num_hidden_layers")
    mixers, _ = delta_nets(c, layers, 2)
    sparse = experts(c, 512, 10, c.size("shared_expert_intermediate_size", default=512))
    feed_forwards = routed(c, layers, sparse, dense(c))
    return model(c, stack(mixers, feed_forwards, PRE_NORMS), family="qwen3_next", dialect="qwen3_next")

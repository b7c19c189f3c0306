"""What distinguishes one Llama-like decoder from another, as data; and how a config is read with it.

Source of every default: the config classes of transformers 5 (Apache-2.0).
"""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.models.feedforward import Dense, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.readers.build import PRE_NORMS, attention, full_every, mixture, windowed
from narrows.models.spec import Norms

Switch = bool | tuple[str, bool]
"""Fixed by the architecture, or a config field with its default."""


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """One architecture.

    kv_heads, head_dim: defaults (None: as many as heads; hidden ÷ heads). qk_norm: a norm on queries and keys, of
    one head or (qk_norm_heads) of all, over each or (qk_norm_across) over all at once, with a bias or without.
    norms: around the parts of a layer.
    norms_bias: they and the final norm are LayerNorms with a bias. window: the default of `sliding_window` where the
    architecture has windows. full_every: every n-th layer sees everything (0: every layer slides).
    """

    dialect: str = "llama"
    kv_heads: int | None = None
    head_dim: int | None = None
    qkv_bias: Switch = False
    out_bias: Switch = False
    mlp_bias: Switch = False
    qk_norm: Switch = False
    qk_norm_heads: bool = False
    qk_norm_across: bool = False
    qk_norm_bias: bool = False
    gated: bool = True
    inner_norms: bool = False
    norms: Norms = PRE_NORMS
    final_norm: bool = True
    tied: bool = False
    head_bias: Switch = False
    windows: bool = False
    window: int | None = None
    full_every: int = 0
    experts: Experts | None = None


class Experts(msgspec.Struct, frozen=True, kw_only=True):
    """The mixture of experts of an architecture, by the names its config has for it, with defaults.

    width: field of one expert's width. shared: field with the number of shared experts (each as wide as a routed
    one), or with their common width where `shared_width`. first: field with the number of leading dense layers.
    """

    number: tuple[str, ...] = ("num_experts", "num_local_experts")
    number_default: int = 8
    top_k: tuple[str, ...] = ("num_experts_per_tok",)
    top_k_default: int = 2
    width: str = "intermediate_size"
    shared: str = ""
    shared_default: int = 0
    shared_width: bool = False
    shared_bias: Switch = False
    first: str = ""
    first_default: int = 0
    correction: bool = False
    correction_learned: bool = False


def on(c: Fields, switch: Switch) -> bool:
    """Whether a switch is on in this config."""
    return switch if isinstance(switch, bool) else c.flag(*switch)


def attention_of(c: Fields, traits: Traits, **rest: Any) -> Attention:
    """The attention of a config; windows apart."""
    return attention(
        c,
        **({} if traits.kv_heads is None else {"kv_heads": traits.kv_heads}),
        head_dim=traits.head_dim,
        qkv_bias=on(c, traits.qkv_bias),
        out_bias=on(c, traits.out_bias),
        qk_norm=on(c, traits.qk_norm),
        qk_norm_heads=traits.qk_norm_heads,
        qk_norm_across=traits.qk_norm_across,
        qk_norm_bias=traits.qk_norm_bias,
        inner_norm=traits.inner_norms,
        **rest,
    )


def mixers_of(c: Fields, traits: Traits, layers: int) -> list[Attention]:
    """One attention per layer, with its window where it slides."""
    full = attention_of(c, traits)
    if not traits.windows:
        return [full] * layers
    window = c.maybe_size("sliding_window", default=traits.window)
    return windowed(full, window, full_every(c, layers, traits.full_every))


def dense_of(c: Fields, traits: Traits) -> Dense:
    """The feed-forward of a dense layer."""
    return Dense(
        c.size("hidden_size"),
        c.size("intermediate_size"),
        traits.gated,
        on(c, traits.mlp_bias),
        inner_norm=traits.inner_norms,
    )


def experts_of(c: Fields, experts: Experts) -> MixtureOfExperts:
    """The mixture of experts of a sparse layer."""
    width = c.size(experts.width)
    shared = 0
    if experts.shared:
        shared = c.maybe_size(experts.shared, default=experts.shared_default, least=0) or 0
        shared = shared if experts.shared_width else shared * width
    return mixture(
        c,
        c.size("hidden_size"),
        width,
        number=experts.number_default,
        top_k=experts.top_k_default,
        names=experts.number,
        chosen=experts.top_k,
        shared=shared,
        shared_bias=on(c, experts.shared_bias),
        correction=experts.correction,
        correction_learned=experts.correction_learned,
    )

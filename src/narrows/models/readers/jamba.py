"""Jamba: one attention layer in eight, Mamba elsewhere; every other layer a mixture of experts."""

from __future__ import annotations

from narrows.models.feedforward import FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Mamba, Mixer
from narrows.models.readers.build import attention, dense, model, stack
from narrows.models.spec import ModelSpec, Norms
from narrows.text import BadInput

_NORMS = Norms(("input_layernorm", "pre_ff_layernorm"))


def read_jamba(c: Fields) -> ModelSpec:
    """Jamba 1.x."""
    layers = c.layers("num_hidden_layers")
    full = attention(c, kv_heads=8)
    rank = c.raw("mamba_dt_rank", default="auto")
    if isinstance(rank, str) and rank != "auto":
        raise BadInput("config field 'mamba_dt_rank' must be a whole number or 'auto'")
    mamba = Mamba(
        full.hidden,
        c.size("mamba_expand", default=2) * full.hidden,
        c.size("mamba_d_state", default=16),
        c.size("mamba_d_conv", default=4),
        -(-full.hidden // 16) if rank in ("auto", None) else c.size("mamba_dt_rank"),
        conv_bias=c.flag("mamba_conv_bias", True),
        proj_bias=c.flag("mamba_proj_bias", False),
    )
    period = c.size("attn_layer_period", default=8)
    offset = c.size("attn_layer_offset", default=min(4, period - 1), least=0, most=period - 1)
    mixers: list[Mixer] = [full if i % period == offset else mamba for i in range(layers)]

    plain = dense(c)
    number = c.size("num_experts", default=16)
    sparse = MixtureOfExperts(
        full.hidden,
        number,
        c.size("num_experts_per_tok", default=min(2, number), most=max(2, number)),
        c.size("intermediate_size"),
    )
    period = c.size("expert_layer_period", default=2)
    offset = c.size("expert_layer_offset", default=min(1, period - 1), least=0, most=period - 1)
    feed_forwards: list[FeedForward] = [
        sparse if sparse.experts > 1 and i % period == offset else plain for i in range(layers)
    ]
    return model(c, stack(mixers, feed_forwards, _NORMS), family="jamba", dialect="jamba")

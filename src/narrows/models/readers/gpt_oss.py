"""gpt-oss: windows of 128 on every other layer, sinks, biases everywhere, experts stored in MXFP4."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.build import FULL, PRE_NORMS, SLIDING, attention, mixture, model, stack, windowed
from narrows.models.spec import ModelSpec


def read_gpt_oss(c: Fields) -> ModelSpec:
    """gpt-oss 20b and 120b."""
    layers = c.layers("num_hidden_layers")
    kinds = c.kinds("layer_types", layers, (SLIDING, FULL)) or [(SLIDING, FULL)[i % 2] for i in range(layers)]
    bias = c.flag("attention_bias", True)
    full = attention(c, kv_heads=8, head_dim=64, sinks=True, qkv_bias=bias, out_bias=bias)
    mixers = windowed(full, c.maybe_size("sliding_window", default=128), kinds)
    experts = mixture(
        c,
        full.hidden,
        c.size("intermediate_size"),
        number=128,
        top_k=4,
        names=("num_local_experts",),
        chosen=("num_experts_per_tok", "experts_per_token"),
        bias=True,
        router_bias=True,
    )
    groups = stack(mixers, [experts] * layers, PRE_NORMS)
    return model(c, groups, family="gpt_oss", dialect="gpt_oss")

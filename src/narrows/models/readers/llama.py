"""Llama and the decoders that follow it closely: Mistral, Ministral, Mixtral."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.build import FULL, PRE_NORMS, SLIDING, attention, dense, mixture, model, stack, windowed
from narrows.models.spec import ModelSpec


def read_llama(c: Fields) -> ModelSpec:
    """Llama 1-3 and the many models that use its architecture."""
    layers = c.layers("num_hidden_layers")
    bias = c.flag("attention_bias", False)
    mixer = attention(c, qkv_bias=bias, out_bias=bias)
    groups = stack([mixer] * layers, [dense(c, bias=c.flag("mlp_bias", False))] * layers, PRE_NORMS)
    return model(c, groups, family="llama")


def read_mistral(c: Fields) -> ModelSpec:
    """Mistral: every layer slides over `sliding_window` tokens; an absent field means 4096, null means none."""
    layers = c.layers("num_hidden_layers")
    window = c.maybe_size("sliding_window", default=4096)
    mixer = attention(c, kv_heads=8, window=window)
    return model(c, stack([mixer] * layers, [dense(c)] * layers, PRE_NORMS), family="mistral")


def read_ministral(c: Fields) -> ModelSpec:
    """Ministral: Mistral with a kind per layer."""
    layers = c.layers("num_hidden_layers")
    window = c.maybe_size("sliding_window", default=4096)
    kinds = c.kinds("layer_types", layers, (SLIDING, FULL)) or [SLIDING if window else FULL] * layers
    mixers = windowed(attention(c, kv_heads=8), window, kinds)
    return model(c, stack(mixers, [dense(c)] * layers, PRE_NORMS), family="ministral")


def read_mixtral(c: Fields) -> ModelSpec:
    """Mixtral: Mistral's attention (no window unless the file has one), every layer a mixture of experts."""
    layers = c.layers("num_hidden_layers")
    mixer = attention(c, kv_heads=8, window=c.maybe_size("sliding_window", default=None))
    experts = mixture(c, mixer.hidden, c.size("intermediate_size"), number=8, top_k=2, names=("num_local_experts",))
    groups = stack([mixer] * layers, [experts] * layers, PRE_NORMS)
    return model(c, groups, family="mixtral", dialect="mixtral")

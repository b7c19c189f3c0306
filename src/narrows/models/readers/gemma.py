"""Gemma 1-3: tied head, wide heads; windows on every other layer (2) or five of six (3); a SigLIP tower (3)."""

from __future__ import annotations

import msgspec

from narrows.models.fields import Fields
from narrows.models.readers.build import (
    FULL,
    PRE_NORMS,
    SANDWICH_NORMS,
    SLIDING,
    attention,
    dense,
    from_the_top,
    full_every,
    model,
    stack,
    windowed,
    with_defaults,
)
from narrows.models.readers.towers import projectors, vision
from narrows.models.spec import ModelSpec


def read_gemma(c: Fields) -> ModelSpec:
    """Gemma 1."""
    layers = c.layers("num_hidden_layers")
    bias = c.flag("attention_bias", False)
    mixer = attention(c, kv_heads=16, head_dim=256, qkv_bias=bias, out_bias=bias)
    return model(c, stack([mixer] * layers, [dense(c)] * layers, PRE_NORMS), family="gemma", tied=True)


def read_gemma2(c: Fields) -> ModelSpec:
    """Gemma 2: layers 0, 2, 4 … slide. The hub's files do not say so: it is the architecture's default."""
    layers = c.layers("num_hidden_layers")
    kinds = c.kinds("layer_types", layers, (SLIDING, FULL)) or [(SLIDING, FULL)[i % 2] for i in range(layers)]
    bias = c.flag("attention_bias", False)
    full = attention(c, kv_heads=4, head_dim=256, qkv_bias=bias, out_bias=bias)
    mixers = windowed(full, c.maybe_size("sliding_window", default=4096), kinds)
    return model(c, stack(mixers, [dense(c)] * layers, SANDWICH_NORMS), family="gemma2", tied=True)


_GEMMA3_DEFAULTS = {
    "vocab_size": 262208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "max_position_embeddings": 131072,
}
"""transformers' Gemma3TextConfig; the hub's multimodal files leave many of them out."""


def read_gemma3_text(c: Fields) -> ModelSpec:
    """Gemma 3's decoder: every sixth layer sees everything, the others a window."""
    with_defaults(c, _GEMMA3_DEFAULTS)
    layers = c.layers("num_hidden_layers")
    pattern = c.size("sliding_window_pattern", "_sliding_window_pattern", default=6)
    kinds = full_every(c, layers, pattern)
    bias = c.flag("attention_bias", False)
    full = attention(c, kv_heads=4, head_dim=256, qk_norm=True, qkv_bias=bias, out_bias=bias)
    mixers = windowed(full, c.maybe_size("sliding_window", default=4096), kinds)
    return model(c, stack(mixers, [dense(c)] * layers, SANDWICH_NORMS), family="gemma3", tied=True)


def read_gemma3(c: Fields) -> ModelSpec:
    """Gemma 3 with its vision tower."""
    text = c.nested("text_config")
    from_the_top(c, text)
    # whether the head is tied stands at the top; what the text part says of it is not read
    text.values = {**text.values, "tie_word_embeddings": c.raw("tie_word_embeddings", default=True)}
    spec = read_gemma3_text(text)
    c.defaulted += text.defaulted
    body = vision(c.nested("vision_config"), "siglip_vision_model", "vision_tower.")
    patches = max(1, body.grid // c.size("mm_tokens_per_image", default=256))
    towers = (body.parts.tower(patches=patches), projectors.gemma3(c, body, spec).tower("projector"))
    return msgspec.structs.replace(spec, towers=towers, dialect="gemma3")

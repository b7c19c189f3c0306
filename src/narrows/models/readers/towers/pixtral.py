"""Pixtral's vision transformer, and the patch merger of the Mistral 3 family that follows it."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.towers.encoder import Body
from narrows.models.readers.towers.parts import Parts


def pixtral(c: Fields, prefix: str) -> Body:
    """RMS norms, a gated feed-forward part, rotary positions."""
    hidden, inner = c.size("hidden_size", default=1024), c.size("intermediate_size", default=4096)
    layers, patch = c.layers("num_hidden_layers", default=24), c.size("patch_size", default=16, most=2**20)
    heads = c.size("num_attention_heads", default=16)
    parts = Parts(prefix)
    parts.add("patch_conv", hidden, c.size("num_channels", default=3, most=4096), patch, patch)
    parts.add("ln_pre", hidden)
    layer = "transformer.layers.{}."
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        parts.add(f"{layer}attention.{name}", hidden, hidden, repeats=layers)
    parts.gated(f"{layer}feed_forward.", hidden, inner, repeats=layers)
    for name in ("attention_norm", "ffn_norm"):
        parts.add(layer + name, hidden, repeats=layers)
    return Body(parts, hidden, layers, heads, inner, (patch, patch))

"""Llama 3.2 Vision's tower: tiles of an image with learned positions, then layers over all tiles."""

from __future__ import annotations

from typing import Any

from narrows.models.fields import Fields
from narrows.models.readers.towers.encoder import Body
from narrows.models.readers.towers.parts import Parts, pair
from narrows.text import BadInput


def mllama(c: Fields, prefix: str) -> Body:
    """The tower; it puts out `vision_output_dim` channels: the last layer's and some earlier ones'."""
    hidden, inner = c.size("hidden_size", default=1280), c.size("intermediate_size", default=5120)
    layers, wide = (
        c.layers("num_hidden_layers", default=32),
        c.size("num_global_layers", default=8, least=0, most=10_000),
    )
    heads, tiles = c.size("attention_heads", "num_attention_heads", default=16), c.size("max_num_tiles", default=4)
    patch, image = pair(c, "patch_size", 14), pair(c, "image_size", 448)
    count = (image[0] // patch[0]) ** 2 + 1
    ratios: Any = c.raw("supported_aspect_ratios")
    if ratios is not None and not (isinstance(ratios, list) and len(ratios) <= 10_000):
        raise BadInput("config field '{field}' must be a list", field=c.path + "supported_aspect_ratios")
    kinds = (8 if ratios is None else len(ratios)) + 1
    parts = Parts(prefix)
    parts.add("patch_embedding", hidden, c.size("num_channels", default=3, most=4096), *patch)
    parts.parameter("class_embedding", hidden)
    parts.parameter("gated_positional_embedding.gate", 1)
    parts.parameter("gated_positional_embedding.embedding", count, hidden)
    parts.add("gated_positional_embedding.tile_embedding", kinds, tiles * count * hidden)
    for side in ("pre", "post"):
        parts.parameter(f"{side}_tile_positional_embedding.gate", 1)
        parts.add(f"{side}_tile_positional_embedding.embedding", kinds, tiles * hidden)
        parts.add(f"layernorm_{side}", hidden, bias=True)
    for stem, repeats in (("transformer.layers.{}.", layers), ("global_transformer.layers.{}.", wide)):
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            parts.add(f"{stem}self_attn.{name}", hidden, hidden, repeats=repeats)
        parts.add(stem + "mlp.fc1", inner, hidden, repeats=repeats, bias=True)
        parts.add(stem + "mlp.fc2", hidden, inner, repeats=repeats, bias=True)
        for name in ("input_layernorm", "post_attention_layernorm"):
            parts.add(stem + name, hidden, repeats=repeats, bias=True)
    for name in ("gate_attn", "gate_ffn"):
        parts.parameter("global_transformer.layers.{}." + name, 1, repeats=wide)
    out = c.size("vision_output_dim", default=7680)
    return Body(parts, hidden, layers, heads, inner, patch, count - 1, out)

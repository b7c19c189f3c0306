"""Vision towers and projectors beside a decoder. Engines keep them whole on every rank."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.towers.parts import Parts
from narrows.models.spec import Tower
from narrows.text import BadInput

_QWEN_PIXELS = 16_777_216
"""The largest image of Qwen3-VL's and Qwen 3.5's processors (`longest_edge`, an area): 16,384 tokens of 32 × 32."""


def qwen3_vision(c: Fields, *, deepstack: bool) -> Tower:
    """Qwen3-VL's and Qwen3.5's vision transformer with its merger; deepstack: mergers for several depths (VL)."""
    hidden, inner = c.size("hidden_size", default=1152), c.size("intermediate_size", default=4304)
    depth, merge = c.layers("depth", default=27), c.size("spatial_merge_size", default=2, most=64) ** 2
    patch, frames = c.size("patch_size", default=16), c.size("temporal_patch_size", default=2)
    out = c.size("out_hidden_size", default=3584)
    parts = Parts("model.visual.")
    parts.add("patch_embed.proj", hidden, c.size("in_channels", default=3), frames, patch, patch, bias=True)
    parts.add("pos_embed", c.size("num_position_embeddings", default=2304), hidden)
    for name in ("norm1", "norm2"):
        parts.add(f"blocks.{{}}.{name}", hidden, repeats=depth, bias=True)
    for name, rows, columns in (
        ("attn.qkv", 3 * hidden, hidden),
        ("attn.proj", hidden, hidden),
        ("mlp.linear_fc1", inner, hidden),
        ("mlp.linear_fc2", hidden, inner),
    ):
        parts.add(f"blocks.{{}}.{name}", rows, columns, repeats=depth, bias=True)
    levels = 0
    if deepstack:
        stated = c.raw("deepstack_visual_indexes", default=[8, 16, 24])
        if not isinstance(stated, list):
            raise BadInput(
                "config field '{field}' must be a list of layer numbers", field=c.path + "deepstack_visual_indexes"
            )
        levels = len(stated)
    for name, norm, repeats in (("merger", hidden, 1), ("deepstack_merger_list.{}", hidden * merge, levels)):
        parts.add(f"{name}.norm", norm, repeats=repeats, bias=True)
        parts.add(f"{name}.linear_fc1", hidden * merge, hidden * merge, repeats=repeats, bias=True)
        parts.add(f"{name}.linear_fc2", out, hidden * merge, repeats=repeats, bias=True)
    return parts.tower(patches=merge, largest=_QWEN_PIXELS // (merge * patch**2), rotary=True)


def llama4_vision(c: Fields, text_hidden: int) -> tuple[Tower, Tower]:
    """Llama 4's vision transformer with its adapter, and the projector."""
    hidden, inner = c.size("hidden_size", default=768), c.size("intermediate_size", default=5632)
    layers, patch = c.layers("num_hidden_layers", default=34), c.size("patch_size", default=14)
    side = c.size("image_size", default=448) // patch
    parts = Parts("vision_model.")
    parts.add("class_embedding", hidden, suffix="")
    parts.add("positional_embedding_vlm", side * side + 1, hidden, suffix="")
    parts.add("patch_embedding.linear", hidden, c.size("num_channels", default=3) * patch * patch)
    for name in ("layernorm_pre", "layernorm_post"):
        parts.add(name, hidden, bias=True)
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        parts.add(f"model.layers.{{}}.self_attn.{name}", hidden, hidden, repeats=layers, bias=True)
    parts.add("model.layers.{}.mlp.fc1", inner, hidden, repeats=layers, bias=True)
    parts.add("model.layers.{}.mlp.fc2", hidden, inner, repeats=layers, bias=True)
    for name in ("input_layernorm", "post_attention_layernorm"):
        parts.add(f"model.layers.{{}}.{name}", hidden, repeats=layers, bias=True)
    out = c.size("projector_output_dim", default=4096)
    parts.add("vision_adapter.mlp.fc1", c.size("projector_input_dim", default=4096), inner)
    parts.add("vision_adapter.mlp.fc2", out, out)
    projector = Parts("multi_modal_projector.")
    projector.add("linear_1", text_hidden, c.size("vision_output_dim", default=7680))
    return parts.tower(), projector.tower("projector")


def gemma4_vision(c: Fields, text_hidden: int) -> tuple[Tower, Tower]:
    """Gemma 4's vision transformer and the projection into the decoder."""
    hidden, inner = c.size("hidden_size", default=768), c.size("intermediate_size", default=3072)
    layers, patch = c.layers("num_hidden_layers", default=16), c.size("patch_size", default=16)
    heads, width = c.size("num_attention_heads", default=12), c.size("head_dim", default=64)
    kv, bias = c.size("num_key_value_heads", default=12), c.flag("attention_bias", False)
    parts = Parts("model.vision_tower.")
    parts.add("patch_embedder.input_proj", hidden, 3 * patch * patch)
    table = c.size("position_embedding_size", default=10240)
    parts.add("patch_embedder.position_embedding_table", 2, table, hidden, suffix="")
    layer = "encoder.layers.{}."
    for name, rows, columns in (
        ("q_proj", heads * width, hidden),
        ("k_proj", kv * width, hidden),
        ("v_proj", kv * width, hidden),
        ("o_proj", hidden, heads * width),
    ):
        parts.add(f"{layer}self_attn.{name}.linear", rows, columns, repeats=layers, bias=bias)
    for name in ("q_norm", "k_norm"):
        parts.add(f"{layer}self_attn.{name}", width, repeats=layers)
    for name, rows, columns in (("gate_proj", inner, hidden), ("up_proj", inner, hidden), ("down_proj", hidden, inner)):
        parts.add(f"{layer}mlp.{name}.linear", rows, columns, repeats=layers)
    for side in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
        parts.add(f"{layer}{side}_layernorm", hidden, repeats=layers)
    projector = Parts("model.embed_vision.")
    projector.add("embedding_projection", text_hidden, hidden)
    return parts.tower(), projector.tower("projector")

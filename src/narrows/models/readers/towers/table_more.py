"""More vision transformers by the model type of their config (see `table`).

Source of every default: transformers 5's config classes, or those beside the files on the hub; names as the files have.
"""

from __future__ import annotations

from typing import Any

from narrows.models.readers.towers.encoder import Encoder

_NO_IMAGE = ("", 0)
_MOON: dict[str, Any] = {
    "hidden": ("hidden_size", 1152),
    "layers": ("num_hidden_layers", 27),
    "heads": ("num_attention_heads", 16),
    "inner": ("intermediate_size", 4304),
    "channels": ("", 3),
    "patch": ("patch_size", 14),
    "image": _NO_IMAGE,
    "patches": "patch_embed.proj",
    "position": "",
    "post_norm": "encoder.final_layernorm",
    "layer": "encoder.blocks.{}.",
    "norms": ("norm0", "norm1"),
    "attention": ("wqkv", "wo"),
    "mlp": ("mlp.fc0", "mlp.fc1"),
}

MORE: dict[str, Encoder] = {
    "kimi_k25_vision": Encoder(**_MOON),
    "moonvit": Encoder(**_MOON),
    "dots_vit": Encoder(
        hidden=("embed_dim", 1536),
        layers=("num_hidden_layers", 42),
        heads=("num_attention_heads", 12),
        inner=("intermediate_size", 4224),
        patch=("patch_size", 14),
        image=_NO_IMAGE,
        patches="patch_embed.patchifier.proj",
        position="",
        pre_norm="patch_embed.patchifier.norm",
        post_norm="post_trunk_norm",
        norm_bias=False,
        layer="blocks.{}.",
        norms=("norm1", "norm2"),
        attention=("attn.qkv", "attn.proj"),
        qkv_bias=("use_bias", False),
        out_bias=("use_bias", False),
        mlp=("mlp.fc1", "mlp.fc3", "mlp.fc2"),
        mlp_bias=("use_bias", False),
    ),
    "hunyuan_vl_vision": Encoder(
        hidden=("hidden_size", 1152),
        layers=("num_hidden_layers", 27),
        heads=("num_attention_heads", 16),
        inner=("intermediate_size", 4304),
        image=("max_image_size", 2048),
        extra=1,
        post_norm="",
        layer="layers.{}.",
        attention=tuple(f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "o_proj")),
    ),
    "step3_vision_encoder": Encoder(
        hidden=("hidden_size", 1792),
        layers=("num_hidden_layers", 63),
        heads=("num_attention_heads", 16),
        inner=("intermediate_size", 15360),
        patch=("patch_size", 14),
        image=("image_size", 728),
        class_token="embeddings.class_embedding",
        extra=1,
        post_norm="",
        attention=("self_attn.qkv_proj", "self_attn.out_proj"),
    ),
}

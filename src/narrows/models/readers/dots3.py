"""dots 3 Note: eyes whose later layers are mixtures of ever more experts, ears, and its own decoder."""

from __future__ import annotations

from typing import Any

from narrows.models.fields import Fields
from narrows.models.readers.families import Family
from narrows.models.readers.multimodal import text_of
from narrows.models.readers.several import together
from narrows.models.readers.towers.parts import Parts, whole_numbers
from narrows.models.spec import ModelSpec

_EXPERTS = [-1] * 25 + list(range(4, 65, 4)) + [64]
"""Experts of each layer of the tower; −1: a dense layer."""


def read_dots3_note(c: Fields) -> ModelSpec:
    """The decoder and both towers."""
    family = Family(text="dots3_note_text", names="model.language_model")
    text = text_of(c, family)
    seen, heard = _eyes(c.nested("vision_config")), _ears(c.nested("audio_config"))
    c.read.add("audio_config")
    return together(c, family, text, "dots3_note", [seen.tower(), heard.tower("audio tower")])


def _counts(c: Fields, layers: int) -> list[int]:
    """Experts of every layer; 0 for a dense one."""
    if c.raw("pyramid_num_routed") is not None:
        counts = [max(one, 0) for one in whole_numbers(c, "pyramid_num_routed", least=-1, most=2**20)]
    elif c.raw("mlp_layer_types") is None:
        counts = [max(one, 0) for one in _EXPERTS]
    else:
        kinds = c.kinds("mlp_layer_types", layers, ("dense", "sparse")) or []
        usual, own = c.size("num_local_experts", default=64), c.raw("per_layer_config")
        counts = [_own(c, own, i, usual) if kind == "sparse" else 0 for i, kind in enumerate(kinds)]
    c.check_layers("pyramid_num_routed", len(counts), layers)
    return counts


def _own(c: Fields, entries: Any, index: int, usual: int) -> int:
    if entries is None:
        return usual
    own = c.nested("per_layer_config")
    key = next((key for key in (str(index), f"{index:02}") if own.raw(key) is not None), None)
    return usual if key is None else own.nested(key).size("num_local_experts", default=usual, most=2**20)


def _eyes(c: Fields) -> Parts:
    hidden, layers = c.size("embed_dim", "hidden_size", default=1536), c.layers("num_hidden_layers", default=42)
    heads, patch = c.size("num_heads", "num_attention_heads", default=24), c.size("patch_size", default=14, most=2**20)
    width = c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    parts = Parts("model.vision_tower.")
    parts.add("patch_embed.proj", hidden, c.size("num_channels", default=3, most=4096), patch, patch, bias=True)
    parts.add("patch_embed.norm", hidden)
    layer, bias = "blocks.{}.", c.flag("use_bias" if c.has("use_bias") else "attention_bias", False)
    for name in ("norm1", "norm2"):
        parts.add(layer + name, hidden, repeats=layers)
    parts.add(layer + "attn.qkv", 3 * hidden, hidden, repeats=layers, bias=bias)
    parts.add(layer + "attn.proj", hidden, hidden, repeats=layers, bias=bias)
    for name in ("q_norm", "k_norm"):
        parts.add(f"{layer}attn.{name}", width, repeats=layers)
    counts = _counts(c, layers)
    dense, sparse = c.size("intermediate_size", default=4224), c.size("moe_intermediate_size", default=2112)
    mlp_bias = c.flag("mlp_bias", False)
    parts.gated(layer + "mlp.", hidden, dense, repeats=counts.count(0), bias=mlp_bias)
    for index, count in enumerate(counts):
        if count:
            parts.add(f"blocks.{index}.mlp.gate", count, hidden)
            parts.gated(f"blocks.{index}.mlp.experts.{{}}.", hidden, sparse, repeats=count)
    merged = hidden * c.size("adapter_merge_size", default=2, most=1024) ** 2
    parts.add("merger.ln_q", hidden, bias=True)
    parts.mlp("merger.mlp.", merged, merged, c.size("adapter_out_dim", default=5120), names=("0", "2"))
    parts.add("norm", hidden)
    return parts


def _ears(c: Fields) -> Parts:
    hidden, layers = c.size("hidden_size", default=1280), c.layers("num_hidden_layers", default=32)
    inner, narrow = c.size("intermediate_size", default=5120), c.size("downsample_hidden_size", default=480)
    features = c.size("feature_size", default=128)
    parts = Parts("model.audio_tower.")
    for index, inputs in enumerate((1, narrow, narrow)):
        parts.add(f"conv_stem.convs.{index}", narrow, inputs, 3, 3, bias=True)
    parts.add("conv_stem.conv_out", hidden, narrow * ((features + 7) // 8))
    layer, bias = "layers.{}.", c.flag("attention_bias", True)
    for name in ("q_proj", "v_proj", "o_proj"):
        parts.add(f"{layer}self_attn.{name}", hidden, hidden, repeats=layers, bias=bias)
    parts.add(layer + "self_attn.k_proj", hidden, hidden, repeats=layers)
    for name in ("input_layernorm", "post_attention_layernorm"):
        parts.add(layer + name, hidden, repeats=layers)
    parts.add(layer + "mlp.gate_up_proj", 2 * inner, hidden, repeats=layers, bias=True)
    parts.add(layer + "mlp.down_proj", hidden, inner, repeats=layers, bias=True)
    parts.add("layer_norm", hidden)
    out = c.size("adapter_out_dim", default=5120)
    parts.add("adapter.norm", hidden, bias=True)
    parts.mlp("adapter.", hidden, out, out)
    return parts

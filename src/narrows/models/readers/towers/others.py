"""Vision towers that no other is like: LFM3's, RADIO's, Molmo's, Pix2Struct's."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.towers.encoder import Body
from narrows.models.readers.towers.parts import Parts, pair, whole_numbers
from narrows.text import BadInput

_CONVOLUTION, _FULL = "conv", "full_attention"


def lfm3_vl(c: Fields, prefix: str) -> Body:
    """LFM3-VL: gated convolutions over space, attention in every other layer."""
    hidden, inner = c.size("hidden_size", default=1024), c.size("intermediate_size", default=2560)
    layers, heads = c.layers("num_hidden_layers", default=14), c.size("num_attention_heads", default=16)
    kv, width = c.size("num_key_value_heads", default=8), c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    patch, frames = pair(c, "patch_size", 16), c.size("temporal_patch_size", default=2, most=1024)
    kinds = c.kinds("layer_types", layers, (_CONVOLUTION, _FULL)) or [
        _CONVOLUTION if i < 2 or i % 2 else _FULL for i in range(layers)
    ]
    full, kernel = kinds.count(_FULL), c.size("conv_kernel_size", default=3, most=1024)
    parts = Parts(prefix)
    channels = c.size("in_channels", default=3, most=4096)
    parts.add("patch_embed", hidden, channels * frames * patch[0] * patch[1])
    parts.add("embedding_norm", hidden)
    layer = "layers.{}."
    for name in ("operator_norm", "ffn_norm"):
        parts.add(layer + name, hidden, repeats=layers)
    for name in ("w1", "w3"):
        parts.add(f"{layer}feed_forward.{name}", inner, hidden, repeats=layers)
    parts.add(layer + "feed_forward.w2", hidden, inner, repeats=layers)
    parts.add(layer + "conv.in_proj", 3 * hidden, hidden, repeats=layers - full)
    parts.add(layer + "conv.spatial_conv", hidden, 1, kernel, kernel, repeats=layers - full)
    parts.add(layer + "conv.out_proj", hidden, hidden, repeats=layers - full)
    for name, rows in (("q_proj", hidden), ("k_proj", kv * width), ("v_proj", kv * width), ("out_proj", hidden)):
        parts.add(f"{layer}self_attn.{name}", rows, hidden, repeats=full)
    for name in ("q_norm", "k_norm"):
        parts.add(f"{layer}self_attn.{name}", width, repeats=full)
    return Body(parts, hidden, layers, heads, inner, patch)


def radio(c: Fields, prefix: str) -> Body:
    """RADIO: patches of images and of videos, class and register tokens, factors of both branches."""
    hidden, layers = c.size("hidden_size", default=1280), c.layers("num_hidden_layers", default=32)
    heads, patch = c.size("num_attention_heads", default=16), c.size("patch_size", default=16, most=2**20)
    channels = c.size("num_channels", default=3, most=4096)
    side = c.size("max_img_size", default=2048, most=2**20) // patch
    frames = c.maybe_size("video_temporal_patch_size", default=2, most=1024)
    still = channels * patch**2
    parts = Parts(prefix)
    parts.add("embeddings.patch_projection", hidden, still)
    if frames is not None:
        parts.add("embeddings.video_patch_projection", hidden, frames * still)
    parts.parameter("embeddings.position_embedding", 1, side * side, hidden)
    tokens = c.size("num_cls_tokens", default=3, least=0) + c.size("num_registers", default=7, least=0)
    parts.parameter("embeddings.cls_register_token", tokens, hidden)
    layer, bias = "encoder.layer.{}.", c.flag("qkv_bias", True)
    for name in ("q_proj", "k_proj", "v_proj"):
        parts.add(f"{layer}attention.{name}", hidden, hidden, repeats=layers, bias=bias)
    parts.add(layer + "attention.o_proj", hidden, hidden, repeats=layers, bias=True)
    for index in "12":
        parts.add(f"{layer}norm{index}", hidden, repeats=layers, bias=True)
        parts.parameter(f"{layer}layer_scale{index}.lambda1", hidden, repeats=layers)
    inner = int(hidden * c.factor("mlp_ratio", 4.0))
    if c.flag("use_swiglu_ffn", False):
        inner = (int(inner * 2 / 3) + 7) // 8 * 8
        parts.gated(layer + "mlp.", hidden, inner, repeats=layers, bias=True)
    else:
        parts.add(layer + "mlp.fc1", inner, hidden, repeats=layers, bias=True)
        parts.add(layer + "mlp.fc2", hidden, inner, repeats=layers, bias=True)
    return Body(parts, hidden, layers, heads, inner, (patch, patch))


def molmo2(c: Fields, prefix: str) -> Body:
    """Molmo 2: the layers that are looked at, without those behind them."""
    hidden, inner = c.size("hidden_size", default=1152), c.size("intermediate_size", default=4304)
    layers, heads = c.layers("num_hidden_layers", default=25), c.size("num_attention_heads", default=16)
    patch = c.size("image_patch_size", "patch_size", default=14, most=2**20)
    rows, columns = pair(c, "image_default_input_size" if c.has("image_default_input_size") else "image_size", 378)
    stated = c.maybe_size("image_num_pos", "num_position_embeddings", default=None)
    count = (rows // patch) * (columns // patch) if stated is None else stated
    parts = Parts(prefix)
    parts.parameter("positional_embedding", count, hidden)
    parts.add("patch_embedding", hidden, patch**2 * c.size("num_channels", default=3, most=4096), bias=True)
    layer = "layers.{}."
    attention(c, parts, layer + "self_attn.", hidden, hidden, layers)
    for name in ("layer_norm1", "layer_norm2"):
        parts.add(layer + name, hidden, repeats=layers, bias=True)
    parts.add(layer + "mlp.fc1", inner, hidden, repeats=layers, bias=True)
    parts.add(layer + "mlp.fc2", hidden, inner, repeats=layers, bias=True)
    return Body(parts, hidden, layers, heads, inner, (patch, patch))


def attention(c: Fields, parts: Parts, stem: str, inputs: int, hidden: int, repeats: int = 1) -> None:
    """Molmo 2's: heads of a width of their own, from `inputs` to `hidden` channels."""
    heads, kv = c.size("num_attention_heads", default=16), c.size("num_key_value_heads", default=16)
    width, bias = c.size("head_dim", default=72), c.flag("attention_bias", True)
    for name, rows in (("q_proj", heads), ("k_proj", kv), ("v_proj", kv)):
        parts.add(stem + name, rows * width, inputs, repeats=repeats, bias=bias)
    parts.add(stem + "o_proj", hidden, heads * width, repeats=repeats, bias=bias)


def pix2struct(c: Fields, prefix: str) -> Body:
    """Pix2Struct: patches of any size, with their row and column; a gated feed-forward part without biases."""
    return _struct(c, prefix, "encoder.layer.{}.", ("seq_len", 4096), ("d_ff", 2048), ("d_kv", 64), (768, 12, 12))


def kosmos_2_5(c: Fields, prefix: str) -> Body:
    """Kosmos-2.5's, of the same kind."""
    layer, rows = "encoder.layer.{}.", ("max_num_patches", 4096)
    return _struct(c, prefix, layer, rows, ("intermediate_size", 3968), ("head_dim", 64), (1536, 18, 24))


def _struct(
    c: Fields,
    prefix: str,
    layer: str,
    table: tuple[str, int],
    width: tuple[str, int],
    head: tuple[str, int],
    defaults: tuple[int, int, int],
) -> Body:
    hidden, layers = c.size("hidden_size", default=defaults[0]), c.layers("num_hidden_layers", default=defaults[1])
    heads = c.size("num_attention_heads", default=defaults[2])
    inner, channels = c.size(width[0], default=width[1]), heads * c.size(head[0], default=head[1])
    parts = Parts(prefix)
    parts.add("embeddings.patch_projection", hidden, c.size("patch_embed_hidden_size", default=768), bias=True)
    for name in ("row_embedder", "column_embedder"):
        parts.add(f"embeddings.{name}", c.size(table[0], default=table[1]), hidden)
    for name in ("query", "key", "value"):
        parts.add(f"{layer}attention.{name}", channels, hidden, repeats=layers)
    parts.add(layer + "attention.output", hidden, channels, repeats=layers)
    for name in ("wi_0", "wi_1"):
        parts.add(f"{layer}mlp.{name}", inner, hidden, repeats=layers)
    parts.add(layer + "mlp.wo", hidden, inner, repeats=layers)
    for name in ("pre_attention_layer_norm", "pre_mlp_layer_norm"):
        parts.add(layer + name, hidden, repeats=layers)
    parts.add("layernorm", hidden)
    return Body(parts, hidden, layers, heads, inner, (0, 0))


def davit(c: Fields, prefix: str) -> Body:
    """Florence-2's: stages of halving sides, each with blocks of attention over windows and over channels."""
    widths = whole_numbers(c, "embed_dim", default=[128, 256, 512, 1024])
    stages = len(widths)
    depths = whole_numbers(c, "depths", default=[1, 1, 9, 1], count=stages, most=10_000)
    sides = whole_numbers(c, "patch_size", default=[7, 3, 3, 3], count=stages, most=2**20)
    first = c.raw("patch_prenorm", default=[False, True, True, True])
    if not isinstance(first, list) or len(first) != stages:
        raise BadInput("config field '{field}' must be a list", field=c.path + "patch_prenorm")
    grow, bias = c.factor("mlp_ratio", 4.0), c.flag("qkv_bias", True)
    parts, before = Parts(prefix), c.size("in_channels", default=3, most=4096)
    for i, (width, depth, side) in enumerate(zip(widths, depths, sides, strict=True)):
        parts.add(f"convs.{i}.conv", width, before, side, side, bias=True)
        parts.add(f"convs.{i}.norm", before if first[i] else width, bias=True)
        inner = int(width * grow)
        for block, over in (("spatial_block", "window_attn"), ("channel_block", "channel_attn")):
            stem = f"blocks.{i}.{{}}.{block}."
            for index in "12":
                parts.add(f"{stem}conv{index}", width, 1, 3, 3, repeats=depth, bias=True)
                parts.add(f"{stem}norm{index}", width, repeats=depth, bias=True)
            parts.add(f"{stem}{over}.qkv", 3 * width, width, repeats=depth, bias=bias)
            parts.add(f"{stem}{over}.proj", width, width, repeats=depth, bias=True)
            parts.add(f"{stem}ffn.fc1", inner, width, repeats=depth, bias=True)
            parts.add(f"{stem}ffn.fc2", width, inner, repeats=depth, bias=True)
        before = width
    return Body(parts, widths[-1], sum(depths), 1, inner, (sides[0], sides[0]))

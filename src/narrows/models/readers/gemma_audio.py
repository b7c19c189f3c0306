"""What Gemma 3n and Gemma 4 hear with: convolutions, then a Conformer whose attention looks back a little.

Source: the classes of transformers 5 (Apache-2.0).
"""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.towers.parts import Parts, whole_numbers
from narrows.models.spec import Tower
from narrows.text import BadInput


def _conformer(
    parts: Parts, layer: str, hidden: int, heads: int, kernel: int, layers: int, names: dict[str, str]
) -> None:
    """The layers of both: two feed-forwards around attention and a convolution. names: of modules, by what they are."""

    def add(name: str, *shape: int) -> None:
        parts.add(layer + names.get(name, name), *shape, repeats=layers)

    for feed in ("first", "second"):
        add(f"{feed}.pre_layer_norm", hidden)
        add(f"{feed}.ffw_layer_1", 4 * hidden, hidden)
        add(f"{feed}.ffw_layer_2", hidden, 4 * hidden)
        add(f"{feed}.post_layer_norm", hidden)
    for name in ("norm_before", "norm_after", "norm_last", "lconv1d.pre_layer_norm", "lconv1d.conv_norm"):
        add(name, hidden)
    for name in ("q_proj", "k_proj", "v_proj", "post", "relative"):
        add(name, hidden, hidden)
    parts.parameter(layer + names["scale"], hidden // heads, repeats=layers)
    add("lconv1d.linear_start", 2 * hidden, hidden)
    add("lconv1d.linear_end", hidden, hidden)
    add("lconv1d.depthwise_conv1d", hidden, 1, kernel)


_FIRST = {
    **{
        f"{one}.{name}": f"{to}.{name}"
        for one, to in (("first", "ffw_layer_start"), ("second", "ffw_layer_end"))
        for name in ("pre_layer_norm", "ffw_layer_1", "ffw_layer_2", "post_layer_norm")
    },
    "norm_before": "attention.pre_attn_norm",
    "norm_after": "attention.post_norm",
    "norm_last": "norm",
    **{name: f"attention.attn.{name}" for name in ("q_proj", "k_proj", "v_proj")},
    "post": "attention.post",
    "relative": "attention.attn.relative_position_embedding.pos_proj",
    "scale": "attention.attn.per_dim_scale",
}
_SECOND = {
    **{
        f"{one}.{name}": f"{to}.{name}"
        for one, to in (("first", "feed_forward1"), ("second", "feed_forward2"))
        for name in ("pre_layer_norm", "post_layer_norm")
    },
    **{
        f"{one}.{name}": f"{to}.{name}.linear"
        for one, to in (("first", "feed_forward1"), ("second", "feed_forward2"))
        for name in ("ffw_layer_1", "ffw_layer_2")
    },
    "norm_before": "norm_pre_attn",
    "norm_after": "norm_post_attn",
    "norm_last": "norm_out",
    **{name: f"self_attn.{name}.linear" for name in ("q_proj", "k_proj", "v_proj", "post")},
    "relative": "self_attn.relative_k_proj",
    "scale": "self_attn.per_dim_scale",
    **{f"lconv1d.{name}": f"lconv1d.{name}.linear" for name in ("linear_start", "linear_end")},
}


def gemma3n_audio(c: Fields, prefix: str) -> tuple[Parts, int]:
    """The tower, and how wide it ends."""
    hidden, layers = c.size("hidden_size", default=1536), c.layers("conf_num_hidden_layers", default=12)
    heads, kernel = c.size("conf_num_attention_heads", default=8), c.size("conf_conv_kernel_size", default=5)
    c.divide(hidden, heads, "hidden_size", "conf_num_attention_heads")
    first, second = whole_numbers(c, "sscp_conv_channel_size", default=[128, 32], count=2)
    bins = c.size("input_feat_size", default=128)
    kernels, strides = (_pairs(c, name, usual) for name, usual in (("kernel", 3), ("stride", 2)))
    parts = Parts(prefix)
    last = 1
    for index, width in enumerate((first, second)):
        parts.add(f"subsample_conv_projection.conv_{index}.conv", width, last, *kernels[index])
        parts.add(f"subsample_conv_projection.conv_{index}.norm", width)
        last = width
        bins = max(1, (bins + 2 - kernels[index][1]) // strides[index][1] + 1)
    parts.add("subsample_conv_projection.input_proj_linear", hidden, second * bins)
    _conformer(parts, "conformer.{}.", hidden, heads, kernel, layers, _FIRST)
    return parts, hidden


def _pairs(c: Fields, what: str, usual: int) -> list[list[int]]:
    """Two pairs of numbers, one for each convolution."""
    name = f"sscp_conv_{what}_size"
    value = c.raw(name, default=[[usual, usual]] * 2)
    if not isinstance(value, list) or len(value) != 2:
        raise BadInput("config field '{field}' must be a list of whole numbers", field=c.path + name)
    return [whole_numbers(Fields({name: one}, c.path), name, count=2, most=1024) for one in value]


def gemma4_audio(c: Fields, text_hidden: int) -> tuple[Tower, Tower]:
    """The tower, and what leads from it into the decoder."""
    hidden, layers = c.size("hidden_size", default=1024), c.layers("num_hidden_layers", default=12)
    heads, kernel = c.size("num_attention_heads", default=8), c.size("conv_kernel_size", default=5)
    c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    first, second = whole_numbers(c, "subsampling_conv_channels", default=[128, 32], count=2)
    parts = Parts("model.audio_tower.")
    for index, (width, last) in enumerate(((first, 1), (second, first))):
        parts.add(f"subsample_conv_projection.layer{index}.conv", width, last, 3, 3)
        parts.add(f"subsample_conv_projection.layer{index}.norm", width)
    parts.add("subsample_conv_projection.input_proj_linear", hidden, first // 4 * second)
    _conformer(parts, "layers.{}.", hidden, heads, kernel, layers, _SECOND)
    out = c.size("output_proj_dims", default=1536)
    parts.add("output_proj", out, hidden, bias=True)
    projector = Parts("model.embed_audio.")
    projector.add("embedding_projection", text_hidden, out)
    return parts.tower("audio tower"), projector.tower("audio projector")

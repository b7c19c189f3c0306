"""Segment Anything's vision transformer: windows with relative positions, some global layers, a neck."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.towers.encoder import Body
from narrows.models.readers.towers.parts import Parts, pair


def sam(c: Fields, prefix: str, *, by_ratio: bool = False) -> Body:
    """The encoder with its neck, which ends `output_channels` wide. by_ratio: `mlp_ratio` may say the inner width."""
    hidden, layers = c.size("hidden_size", default=768), c.layers("num_hidden_layers", default=12)
    heads = c.size("num_attention_heads", default=12)
    inner = c.maybe_size("mlp_dim", default=None if by_ratio else 3072)
    if inner is None:
        inner = int(hidden * c.factor("mlp_ratio", 4.0))
    patch, image = pair(c, "patch_size", 16), pair(c, "image_size", 1024)
    side = image[0] // patch[0]
    parts = Parts(prefix)
    parts.add("patch_embed.projection", hidden, c.size("num_channels", default=3, most=4096), *patch, bias=True)
    if c.flag("use_abs_pos", True):
        parts.parameter("pos_embed", 1, side, side, hidden)
    layer = "layers.{}."
    for name in ("layer_norm1", "layer_norm2"):
        parts.add(layer + name, hidden, repeats=layers, bias=True)
    parts.add(layer + "attn.qkv", 3 * hidden, hidden, repeats=layers, bias=c.flag("qkv_bias", True))
    parts.add(layer + "attn.proj", hidden, hidden, repeats=layers, bias=True)
    if c.flag("use_rel_pos", True):
        _relative(c, parts, layers, side, hidden // heads)
    parts.add(layer + "mlp.lin1", inner, hidden, repeats=layers, bias=True)
    parts.add(layer + "mlp.lin2", hidden, inner, repeats=layers, bias=True)
    out = c.size("output_channels", default=256)
    neck(parts, "neck.", hidden, out)
    return Body(parts, hidden, layers, heads, inner, patch, side**2, out)


def _relative(c: Fields, parts: Parts, layers: int, side: int, width: int) -> None:
    """Tables of relative positions, as long as what a layer sees: the image, or a window."""
    window = c.size("window_size", default=14, least=0, most=2**20)
    stated = c.indices("global_attn_indexes") if c.raw("global_attn_indexes") is not None else {2, 5, 8, 11}
    whole = len([i for i in range(layers) if i in stated])
    for count, seen in ((whole, side), (layers - whole, window or side)):
        for axis in "hw":
            parts.parameter(f"layers.{{}}.attn.rel_pos_{axis}", max(2 * seen - 1, 0), width, repeats=count)


def neck(parts: Parts, stem: str, hidden: int, out: int) -> None:
    """Two convolutions with norms."""
    parts.add(stem + "conv1", out, hidden, 1, 1)
    parts.add(stem + "layer_norm1", out, bias=True)
    parts.add(stem + "conv2", out, out, 3, 3)
    parts.add(stem + "layer_norm2", out, bias=True)

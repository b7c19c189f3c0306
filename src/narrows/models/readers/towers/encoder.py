"""The vision transformer most towers are, as data: what distinguishes one from another, and its tensors."""

from __future__ import annotations

import msgspec

from narrows.models.fields import Fields
from narrows.models.readers.towers.parts import Parts, pair
from narrows.models.readers.traits import Switch, on
from narrows.text import BadInput

Size = tuple[str, int]
"""A config field and its default."""


class Encoder(msgspec.Struct, frozen=True, kw_only=True):
    """One architecture of vision transformers: its config's fields with defaults, and the names in its file.

    inner: width of the feed-forward part; ratio: the field of that width as a multiple of the hidden size, where the
    other says nothing, or is not there.
    patches: the embedding of patches, a convolution, or (flat) a linear layer; frames: frames of one patch.
    class_token: a learned token, with `extra` rows of the position table. position: that table, with one row per
    patch of an image, or (rows) of a size of its own; "" for none. attention: names of q, k, v and output, or of a
    fused q, k, v and output. mlp: names of two matrices, or three of a gated one. scales: learned factors of both
    branches. norm_kind: a field that says whether layers have RMS norms
    (norm_usual: where it says nothing). qk_norms: norms of the whole width, or
    (head_norms) of one head.
    """

    inside: str = ""
    hidden: Size = ("hidden_size", 768)
    layers: Size = ("num_hidden_layers", 12)
    heads: Size = ("num_attention_heads", 12)
    inner: Size = ("intermediate_size", 3072)
    ratio: tuple[str, float] | None = None
    channels: Size = ("num_channels", 3)
    patch: Size = ("patch_size", 16)
    image: Size = ("image_size", 224)
    frames: Size | None = None
    patches: str = "embeddings.patch_embedding"
    patch_bias: Switch = True
    flat: bool = False
    class_token: str = ""
    extra: int = 0
    position: str = "embeddings.position_embedding.weight"
    position_used: Switch = True
    rows: Size | None = None
    pre_norm: str = ""
    post_norm: str = "post_layernorm"
    norm_bias: bool = True
    norm_kind: str = ""
    norm_usual: str = "layer_norm"
    layer: str = "encoder.layers.{}."
    norms: tuple[str, str] = ("layer_norm1", "layer_norm2")
    attention: tuple[str, ...] = tuple(f"self_attn.{name}" for name in ("q_proj", "k_proj", "v_proj", "out_proj"))
    qkv_bias: Switch = True
    out_bias: Switch = True
    kv_heads: Size | None = None
    qk_norms: tuple[str, ...] = ()
    qk_norm_used: Switch = True
    head_norms: bool = False
    qk_norm_bias: bool = False
    mlp: tuple[str, ...] = ("mlp.fc1", "mlp.fc2")
    mlp_bias: Switch = True
    scales: tuple[str, ...] = ()


class Body(msgspec.Struct, frozen=True):
    """What was read of a tower: its parts so far, to add to, and the sizes that what follows it needs."""

    parts: Parts
    hidden: int
    layers: int
    heads: int
    inner: int
    patch: tuple[int, int]
    grid: int = 0
    """Patches of an image; 0 where the config does not say."""
    out: int = 0
    """Width of what it puts out where that is not the hidden size."""

    @property
    def width(self) -> int:
        """Of what it puts out."""
        return self.out or self.hidden


def encode(c: Fields, e: Encoder, prefix: str) -> Body:
    """The tensors of a vision transformer."""
    hidden, layers = c.size(e.hidden[0], default=e.hidden[1]), c.layers(e.layers[0], default=e.layers[1])
    heads = c.size(e.heads[0], default=e.heads[1])
    inner = _inner(c, e, hidden)
    patch = pair(c, *e.patch)
    frames = c.size(e.frames[0], default=e.frames[1], most=1024) if e.frames else 0
    channels = c.size(e.channels[0], default=e.channels[1], most=4096) if e.channels[0] else e.channels[1]
    parts = Parts(prefix + e.inside)
    grid = _embeddings(c, e, parts, hidden, (channels, frames, *patch))
    if e.pre_norm:
        parts.add(e.pre_norm, hidden, bias=e.norm_bias)
    norm_bias = e.norm_bias if not e.norm_kind else _layer_norm(c, e.norm_kind, e.norm_usual)
    for name in e.norms:
        parts.add(e.layer + name, hidden, repeats=layers, bias=norm_bias)
    _attention(c, e, parts, hidden, heads, layers)
    bias = on(c, e.mlp_bias)
    *ups, down = e.mlp
    for name in ups:
        parts.add(e.layer + name, inner, hidden, repeats=layers, bias=bias)
    parts.add(e.layer + down, hidden, inner, repeats=layers, bias=bias)
    for name in e.scales:
        parts.parameter(e.layer + name, hidden, repeats=layers)
    if e.post_norm:
        parts.add(e.post_norm, hidden, bias=e.norm_bias)
    return Body(parts, hidden, layers, heads, inner, patch, grid)


def _inner(c: Fields, e: Encoder, hidden: int) -> int:
    if e.ratio is None:
        return c.size(e.inner[0], default=e.inner[1])
    stated = c.maybe_size(e.inner[0], default=None) if e.inner[0] else None
    if stated is not None:
        return stated
    inner = int(hidden * c.factor(*e.ratio))
    if not inner:
        raise BadInput("config field '{field}' must be a number", field=c.path + e.ratio[0])
    return inner


def _layer_norm(c: Fields, name: str, usual: str) -> bool:
    return c.choice(name, ("layer_norm", "rms_norm"), usual) == "layer_norm"


def _embeddings(c: Fields, e: Encoder, parts: Parts, hidden: int, patch: tuple[int, int, int, int]) -> int:
    """Patches, the class token and positions; returns the patches of an image."""
    channels, frames, height, width = patch
    bias = on(c, e.patch_bias)
    if not e.patches:
        pass
    elif e.flat:
        parts.add(e.patches, hidden, channels * (frames or 1) * height * width, bias=bias)
    else:
        parts.add(e.patches, hidden, channels, *((frames,) if frames else ()), height, width, bias=bias)
    if e.class_token:
        parts.parameter(e.class_token, hidden)
    grid = 0
    if e.image[0]:
        rows, columns = pair(c, *e.image)
        grid = (rows // height) * (columns // width)
    if e.position and on(c, e.position_used):
        count = c.size(e.rows[0], default=e.rows[1]) if e.rows else grid + e.extra
        if not count:
            raise BadInput(
                "config field '{field}' is smaller than a patch; the file contradicts itself",
                field=c.path + e.image[0],
            )
        parts.parameter(e.position, count, hidden)
    return grid


def _attention(c: Fields, e: Encoder, parts: Parts, hidden: int, heads: int, layers: int) -> None:
    width = c.divide(hidden, heads, e.hidden[0], e.heads[0])
    kv = hidden
    if e.kv_heads:
        kv_heads = c.size(e.kv_heads[0], default=e.kv_heads[1])
        c.divide(heads, kv_heads, e.heads[0], e.kv_heads[0])
        kv = width * kv_heads
    *ins, out = e.attention
    outs = (hidden + 2 * kv,) if len(ins) == 1 else (hidden, kv, kv)
    bias = on(c, e.qkv_bias)
    for name, rows in zip(ins, outs, strict=True):
        parts.add(e.layer + name, rows, hidden, repeats=layers, bias=bias)
    parts.add(e.layer + out, hidden, hidden, repeats=layers, bias=on(c, e.out_bias))
    if e.qk_norms and on(c, e.qk_norm_used):
        for name in e.qk_norms:
            parts.add(e.layer + name, width if e.head_norms else hidden, repeats=layers, bias=e.qk_norm_bias)

"""Encoders of sound: Whisper's, conformers, wav2vec 2.0's; each as a tower with the names of its file."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from narrows.models.fields import Fields, shown
from narrows.models.mixers.base import linear
from narrows.models.readers.seq2seq import Sides, attention_of, encoder_layers
from narrows.models.readers.seq2seq_parts import QUIET, apart, encoder, frame
from narrows.models.spec import Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput


class Gathered:
    """Collects the tensors of a tower, `repeats` of each, with names that begin with `prefix`.

    Convolutions and tables stay unquantized and whole; linear weights are cut as `shards` says.
    """

    def __init__(self, prefix: str = "", repeats: int = 1, found: list[tuple[str, int, Tensor]] | None = None) -> None:
        self.prefix = prefix
        self.repeats = repeats
        self.found: list[tuple[str, int, Tensor]] = [] if found is None else found

    def below(self, prefix: str, repeats: int = 1) -> Gathered:
        """The same collection, further down."""
        return Gathered(self.prefix + prefix, self.repeats * repeats, self.found)

    def add(self, name: str, tensor: Tensor) -> None:
        """One tensor by its full name."""
        if self.repeats:
            self.found.append((self.prefix + name, self.repeats, tensor))

    def linear(
        self, name: str, out: int, inner: int, *, bias: bool = True, shards: int = 1, bias_shards: int | None = None
    ) -> None:
        """A weight [out, inner] and its bias."""
        for tensor in linear(f"sound.{name}", out, inner, shards=shards, bias=bias, bias_shards=bias_shards):
            self.add(f"{name}.{'bias' if tensor.use == 'vector' else 'weight'}", tensor)

    def conv(self, name: str, *shape: int, bias: bool = True) -> None:
        """A convolution [out, in, width …] and its bias."""
        self.add(f"{name}.weight", Tensor(f"sound.{name}", shape, "plain"))
        if bias:
            self.add(f"{name}.bias", Tensor(f"sound.{name}.bias", shape[:1], "vector"))

    def norm(self, name: str, width: int, *, bias: bool = True) -> None:
        """A norm: weight and bias."""
        for part in ("weight", "bias")[: 2 if bias else 1]:
            self.add(f"{name}.{part}", Tensor(f"norm.{name}.{part}", (width,), "vector"))

    def batch_norm(self, name: str, width: int) -> None:
        """A norm by statistics of the training data, which are stored too."""
        self.norm(name, width)
        for part in ("running_mean", "running_var"):
            self.add(f"{name}.{part}", Tensor(f"norm.{name}.{part}", (width,), "buffer"))

    def attention(
        self, width: int, heads: int, names: Sequence[str], *, bias: bool = True, key_bias: bool = True
    ) -> None:
        """q, k, v and output projections, `width` wide all of them, by these names."""
        q, k, v, o = names
        for name in (q, k, v):
            self.linear(name, width, width, bias=bias and (key_bias or name != k), shards=heads)
        self.linear(o, width, width, bias=bias, shards=heads, bias_shards=1)

    def tower(self, name: str = "encoder") -> Tower:
        """What was collected."""
        return Tower(name, tuple(self.found), reads=True)


def kept_whole(tower: Tower, name: str) -> Tower:
    """An encoder of sound beside a decoder: engines keep it whole on every rank, and leave it unquantized."""
    rows = tuple(
        (
            pattern,
            repeats,
            msgspec.structs.replace(tensor, shards=1, use="plain" if tensor.use == "linear" else tensor.use),
        )
        for pattern, repeats, tensor in tower.tensors
    )
    return Tower(name, rows)


def whisper_encoder(
    c: Fields,
    prefix: str = "model.encoder.",
    *,
    bins: int = 128,
    known: bool = True,
    last: str = "layer_norm",
    more: Gathered | None = None,
) -> Tower:
    """Whisper's: two convolutions, positions, and layers like BART's whose keys have no bias.

    bins: the default of `num_mel_bins`. known: positions are stored. last: name of the last norm. more: what stands
    before the layers in place of the two convolutions, whose keys then have a bias (Qwen 3).
    """
    c.read |= QUIET
    hidden, bins = c.size("d_model"), c.size("num_mel_bins", default=bins)
    sides = Sides(offset=0, final_norm=True)
    mixer = msgspec.structs.replace(attention_of(c, sides, "encoder"), key_bias=more is not None)
    positions = c.size("max_source_positions", default=1500)
    outer = frame(1, hidden, tied=True, positions=positions if known else 0)[1:]
    before = Gathered("model.encoder.") if more is None else more
    if more is None:
        before.conv("conv1", hidden, bins, 3)
        before.conv("conv2", hidden, hidden, 3)
    Gathered("model.encoder.", found=before.found).norm(last, hidden)
    tower = encoder(encoder_layers(c, sides, mixer), "bart.encoder", outer, before.found)
    return renamed(tower, "model.encoder.", prefix)


def qwen3_encoder(c: Fields, prefix: str) -> Tower:
    """Qwen 3's: three convolutions over time and frequency, and layers like Whisper's."""
    hidden, bins = c.size("d_model"), c.size("num_mel_bins", default=128)
    wide = c.size("downsample_hidden_size", default=480)
    for _ in range(3):
        bins = (bins + 1) // 2
    before = Gathered("model.encoder.")
    for i, channels in enumerate((1, wide, wide), 1):
        before.conv(f"conv2d{i}", wide, channels, 3, 3)
    before.linear("conv_out", hidden, wide * bins, bias=False)
    return whisper_encoder(c, prefix, known=False, last="ln_post", more=before)


def renamed(tower: Tower, old: str, new: str) -> Tower:
    """The tower with another beginning of its names."""
    rows = tuple((pattern.replace(old, new, 1), repeats, tensor) for pattern, repeats, tensor in tower.tensors)
    return msgspec.structs.replace(tower, tensors=rows)


def parakeet_encoder(c: Fields) -> Tower:
    """Parakeet's Fast Conformer: convolutions that halve the sound several times, then conformer layers."""
    c.read |= QUIET | _CONFORMER_QUIET
    hidden, inner = c.size("hidden_size", default=1024), c.size("intermediate_size", default=4096)
    heads, layers = c.size("num_attention_heads", default=8), c.layers("num_hidden_layers", default=24)
    c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    kernel, channels = (
        c.size("subsampling_conv_kernel_size", default=3),
        c.size("subsampling_conv_channels", default=256),
    )
    stride, factor = c.size("subsampling_conv_stride", default=2), c.size("subsampling_factor", default=8)
    halvings = factor.bit_length() - 1
    left = c.size("num_mel_bins", default=80) // stride**halvings
    out = Gathered("model.encoder.")
    out.conv("subsampling.layers.0", channels, 1, kernel, kernel)
    for i in range(halvings - 1):
        out.conv(f"subsampling.layers.{2 + 3 * i}", channels, 1, kernel, kernel)
        out.conv(f"subsampling.layers.{3 + 3 * i}", channels, channels, 1, 1)
    out.linear("subsampling.linear", hidden, channels * left)
    layer = out.below("layers.{}.", layers)
    bias = c.flag("attention_bias", True)
    for name in ("feed_forward1", "feed_forward2"):
        layer.linear(f"{name}.linear1", inner, hidden, bias=bias, shards=inner)
        layer.linear(f"{name}.linear2", hidden, inner, bias=bias, shards=inner, bias_shards=1)
    for name in ("bias_u", "bias_v"):
        layer.add(f"self_attn.{name}", Tensor(f"sound.{name}", (heads, hidden // heads), "vector", heads))
    layer.attention(hidden, heads, [f"self_attn.{k}_proj" for k in "qkvo"], bias=bias)
    layer.linear("self_attn.relative_k_proj", hidden, hidden, bias=False, shards=heads)
    bias = c.flag("convolution_bias", True)
    layer.conv("conv.pointwise_conv1", 2 * hidden, hidden, 1, bias=bias)
    layer.conv("conv.depthwise_conv", hidden, 1, c.size("conv_kernel_size", default=9), bias=bias)
    layer.batch_norm("conv.norm", hidden)
    layer.conv("conv.pointwise_conv2", hidden, hidden, 1, bias=bias)
    for name in ("feed_forward1", "self_att", "conv", "feed_forward2", "out"):
        layer.norm(f"norm_{name}", hidden)
    return out.tower()


_CONFORMER_QUIET = frozenset(
    "dropout_positions layerdrop max_position_embeddings num_key_value_heads scale_input".split()  # noqa: SIM905
)


def seamless_encoder(c: Fields, second: bool) -> Tower:
    """SeamlessM4T's conformer, and the adapter that shortens what it gives."""
    hidden, inner = c.size("hidden_size"), c.size("speech_encoder_intermediate_size", default=4096)
    heads, layers = c.size("speech_encoder_attention_heads", default=16), c.layers("speech_encoder_layers", default=24)
    head = c.divide(hidden, heads, "hidden_size", "speech_encoder_attention_heads")
    width = c.size("feature_projection_input_dim", default=160)
    out = Gathered("speech_encoder.")
    out.norm("feature_projection.layer_norm", width)
    out.linear("feature_projection.projection", hidden, width)

    def feed(where: Gathered, name: str) -> None:
        where.linear(f"{name}.intermediate_dense", inner, hidden, shards=inner)
        where.linear(f"{name}.output_dense", hidden, inner, shards=inner, bias_shards=1)

    names = [f"self_attn.linear_{k}" for k in ("q", "k", "v", "out")]
    layer = out.below("encoder.layers.{}.", layers)
    for name in ("ffn1", "ffn2"):
        layer.norm(f"{name}_layer_norm", hidden)
        feed(layer, name)
    layer.norm("self_attn_layer_norm", hidden)
    layer.attention(hidden, heads, names)
    kind = c.word("position_embeddings_type", "relative_key" if second else "relative")
    if not second and kind == "relative":
        layer.linear("self_attn.linear_pos", hidden, hidden, bias=False, shards=heads)
        for name in ("pos_bias_u", "pos_bias_v"):
            layer.add(f"self_attn.{name}", Tensor(f"sound.{name}", (heads, head), "vector", heads))
    if second and kind == "relative_key":
        rows = c.size("left_max_position_embeddings", default=64) + c.size("right_max_position_embeddings", default=8)
        layer.add("self_attn.distance_embedding.weight", Tensor("sound.distance", (rows + 1, head), "table"))
    layer.norm("conv_module.layer_norm", hidden)
    layer.conv("conv_module.pointwise_conv1", 2 * hidden, hidden, 1, bias=False)
    kernel = c.size("conv_depthwise_kernel_size", default=31)
    layer.conv("conv_module.depthwise_conv", hidden, 1, kernel, bias=False)
    (layer.norm if second else layer.batch_norm)(f"conv_module.{'depthwise_layer' if second else 'batch'}_norm", hidden)
    layer.conv("conv_module.pointwise_conv2", hidden, hidden, 1, bias=False)
    layer.norm("final_layer_norm", hidden)
    out.norm("encoder.layer_norm", hidden)
    feed(out, "intermediate_ffn")
    if c.flag("add_adapter", True):
        adapter = out.below("adapter.layers.{}.", c.size("num_adapter_layers", default=1, least=0, most=1000))
        kernel = c.size("adaptor_kernel_size", default=8)
        for name in ("residual", "self_attn"):
            adapter.norm(f"{name}_layer_norm", hidden)
            adapter.conv(f"{name}_conv", 2 * hidden, hidden, kernel)
        adapter.attention(hidden, heads, names)
        adapter.norm("ffn_layer_norm", hidden)
        feed(adapter, "ffn")
    out.norm("inner_layer_norm", hidden)
    return out.tower()


def numbers(c: Fields, name: str, default: list[int]) -> list[int]:
    """A list of whole numbers, up to a hundred of them."""
    value = c.raw(name, default=default)
    fine = isinstance(value, list) and 0 < len(value) <= 100
    if not fine or any(isinstance(n, bool) or not isinstance(n, int) or not 0 < n < 2**31 for n in value):
        raise BadInput("config field '{field}' must be a list of whole numbers above 0", field=c.path + name)
    return list(value)


def wave_layers(c: Fields, out: Gathered, hidden: int, *, position_name: str) -> None:
    """What wav2vec 2.0 and its kin make of a wave before their layers: convolutions, a projection, positions."""
    widths = numbers(c, "conv_dim", [512] * 7)
    kernels = numbers(c, "conv_kernel", [10, 3, 3, 3, 3, 2, 2])
    numbers(c, "conv_stride", [5, 2, 2, 2, 2, 2, 2])
    kind = c.raw("feat_extract_norm", default="group")
    if kind not in ("group", "layer"):
        raise BadInput(
            "config field '{field}' must be one of: {known}", field=c.path + "feat_extract_norm", known="group, layer"
        )
    if len(kernels) != len(widths):
        raise apart(c, "conv_dim", "conv_kernel")
    if any(_chance(c, name, usual) for name, usual in (("mask_time_prob", 0.05), ("mask_feature_prob", 0.0))):
        out.add("masked_spec_embed", Tensor("sound.masked", (hidden,), "vector"))
    bias, before = c.flag("conv_bias", False), 1
    feature = "feature_encoder" if position_name == "pos_conv_embed" else "feature_extractor"
    for i, (width, kernel) in enumerate(zip(widths, kernels, strict=True)):
        name = f"{feature}.conv_layers.{i}."
        out.conv(f"{name}conv", width, before, kernel, bias=bias)
        if kind == "layer" or i == 0:
            out.norm(f"{name}layer_norm", width)
        before = width
    out.norm("feature_projection.layer_norm", before)
    out.linear("feature_projection.projection", hidden, before)
    kernel, groups = c.size("num_conv_pos_embeddings", default=128), c.size("num_conv_pos_embedding_groups", default=16)
    c.divide(hidden, groups, "hidden_size", "num_conv_pos_embedding_groups")
    conv = out.below(f"{position_name}.conv.")
    conv.add("bias", Tensor("sound.position.bias", (hidden,), "vector"))
    conv.add("parametrizations.weight.original0", Tensor("sound.position.scale", (1, 1, kernel), "plain"))
    conv.add("parametrizations.weight.original1", Tensor("sound.position", (hidden, hidden // groups, kernel), "plain"))


def _chance(c: Fields, name: str, default: float) -> bool:
    """Whether a probability is above 0."""
    value = c.raw(name, default=default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadInput(
            "config field '{field}' is {value}; it must be a number from 0 to 1",
            field=c.path + name,
            value=shown(value),
        )
    return value > 0


def wave_encoder_layer(c: Fields, layer: Gathered, hidden: int, inner: int, heads: int) -> None:
    """One layer of wav2vec 2.0 and its kin."""
    c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    layer.attention(hidden, heads, [f"attention.{k}" for k in ("q_proj", "k_proj", "v_proj", "out_proj")])
    layer.norm("layer_norm", hidden)
    layer.linear("feed_forward.intermediate_dense", inner, hidden, shards=inner)
    layer.linear("feed_forward.output_dense", hidden, inner, shards=inner, bias_shards=1)
    layer.norm("final_layer_norm", hidden)

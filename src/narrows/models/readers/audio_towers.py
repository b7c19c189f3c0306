"""More encoders of sound, and the projectors that bring what they hear into a decoder."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.seq2seq_parts import apart
from narrows.models.readers.sound import Gathered, numbers
from narrows.models.spec import Tower
from narrows.models.tensors import Tensor


def projector(prefix: str, *layers: tuple[str, int, int], bias: bool = True) -> Tower:
    """Linear layers by name, [out, in]."""
    out = Gathered(prefix)
    for name, rows, columns in layers:
        out.linear(name, rows, columns, bias=bias)
    return Tower("projector", tuple(out.found))


def glm_encoder(c: Fields) -> Tower:
    """GLM-ASR's: Whisper's convolutions, then layers with rotary positions."""
    hidden, inner = c.size("hidden_size", default=1280), c.size("intermediate_size", default=5120)
    heads, layers = c.size("num_attention_heads", default=20), c.layers("num_hidden_layers", default=32)
    kv = c.maybe_size("num_key_value_heads", default=None) or heads
    width = c.maybe_size("head_dim", default=None) or hidden // heads
    out = Gathered("model.audio_tower.")
    out.conv("conv1", hidden, c.size("num_mel_bins", default=128), 3)
    out.conv("conv2", hidden, hidden, 3)
    layer = out.below("layers.{}.", layers)
    for name, rows, bias in (("q", heads, True), ("k", kv, False), ("v", kv, True)):
        layer.linear(f"self_attn.{name}_proj", rows * width, hidden, bias=bias)
    layer.linear("self_attn.o_proj", hidden, heads * width)
    _two(layer, hidden, inner)
    for name in ("input_layernorm", "post_attention_layernorm"):
        layer.norm(name, hidden)
    out.norm("norm", hidden)
    return out.tower()


def _two(layer: Gathered, hidden: int, inner: int) -> None:
    """A feed-forward of two matrices."""
    layer.linear("mlp.fc1", inner, hidden)
    layer.linear("mlp.fc2", hidden, inner)


def realtime_encoder(c: Fields) -> Tower:
    """Voxtral Realtime's: causal, with a window, gated."""
    hidden, inner = c.size("hidden_size", default=1280), c.size("intermediate_size", default=5120)
    heads, width = c.size("num_attention_heads", default=32), c.size("head_dim", default=64)
    kv = c.maybe_size("num_key_value_heads", default=None) or heads
    out = Gathered("model.audio_tower.")
    out.conv("embedder.conv1", hidden, c.size("num_mel_bins", default=128), 3)
    out.conv("embedder.conv2", hidden, hidden, 3)
    layer = out.below("layers.{}.", c.layers("num_hidden_layers", default=32))
    for name, rows, bias in (("q", heads, True), ("k", kv, False), ("v", kv, True)):
        layer.linear(f"self_attn.{name}_proj", rows * width, hidden, bias=bias)
    layer.linear("self_attn.o_proj", hidden, heads * width)
    for name in ("self_attn_layer_norm", "final_layer_norm"):
        layer.norm(name, hidden, bias=False)
    layer.linear("mlp.gate_proj", inner, hidden, bias=False)
    layer.linear("mlp.up_proj", inner, hidden, bias=False)
    layer.linear("mlp.down_proj", hidden, inner)
    out.norm("norm", hidden, bias=False)
    return out.tower()


def granite_encoder(c: Fields) -> Tower:
    """Granite Speech's conformer, which predicts characters on the way."""
    hidden, layers = c.size("hidden_dim", default=1024), c.layers("num_layers", default=10)
    heads, width = c.size("num_heads", default=8), c.size("dim_head", default=128)
    inner, wide = hidden * c.size("feedforward_mult", default=4), hidden * c.size("conv_expansion_factor", default=2)
    characters = c.size("output_dim", default=42)
    out = Gathered("model.encoder.")
    out.linear("input_linear", hidden, c.size("input_dim", default=160))
    layer = out.below("layers.{}.", layers)
    for name in ("ff1", "ff2"):
        layer.norm(f"{name}.pre_norm", hidden)
        layer.linear(f"{name}.up_proj", inner, hidden)
        layer.linear(f"{name}.down_proj", hidden, inner)
    layer.norm("attn.pre_norm", hidden)
    layer.linear("attn.to_q", heads * width, hidden, bias=False)
    layer.linear("attn.to_kv", 2 * heads * width, hidden, bias=False)
    layer.linear("attn.to_out", hidden, heads * width)
    rows = 2 * c.size("max_pos_emb", default=512) + 1
    layer.add("attn.rel_pos_emb.weight", Tensor("sound.relative", (rows, width), "table"))
    layer.norm("conv.norm", hidden)
    layer.conv("conv.up_conv", 2 * wide, hidden, 1)
    layer.conv("conv.depth_conv.conv", wide, 1, c.size("conv_kernel_size", default=15), bias=False)
    layer.batch_norm("conv.batch_norm", wide)
    layer.conv("conv.down_conv", hidden, wide, 1)
    layer.norm("post_norm", hidden)
    out.linear("out", characters, hidden)
    out.linear("out_mid", hidden, characters)
    return out.tower()


def query_projector(c: Fields, text_hidden: int, queries: int) -> Tower:
    """BLIP-2's query transformer: every `cross_attention_frequency`-th layer looks at what was heard."""
    hidden, inner = c.size("hidden_size", default=768), c.size("intermediate_size", default=3072)
    layers, every = c.layers("num_hidden_layers", default=12), c.size("cross_attention_frequency", default=2)
    heard = c.size("encoder_hidden_size", default=1408)
    c.divide(hidden, c.size("num_attention_heads", default=12), "hidden_size", "num_attention_heads")
    out = Gathered("model.projector.")
    out.add("query", Tensor("sound.queries", (1, queries, hidden), "vector"))
    out.norm("qformer.layernorm", hidden)
    crossed = -(-layers // every)
    for part, repeats, source in (("attention", layers, hidden), ("crossattention", crossed, heard)):
        layer = out.below(f"qformer.encoder.layer.{{}}.{part}.", repeats)
        layer.linear("attention.query", hidden, hidden)
        layer.linear("attention.key", hidden, source)
        layer.linear("attention.value", hidden, source)
        layer.linear("output.dense", hidden, hidden)
        layer.norm("output.LayerNorm", hidden)
    layer = out.below("qformer.encoder.layer.{}.", layers)
    layer.linear("intermediate_query.dense", inner, hidden)
    layer.linear("output_query.dense", hidden, inner)
    layer.norm("output_query.LayerNorm", hidden)
    out.linear("linear", text_hidden, hidden)
    return Tower("projector", tuple(out.found))


def fun_encoder(c: Fields) -> Tower:
    """Fun-ASR's: memory layers over stacked frames; the last layer of each of two tasks has a norm."""
    hidden, inner = c.size("hidden_size", default=512), c.size("intermediate_size", default=2048)
    layers, kernel = c.layers("num_hidden_layers", default=70), c.size("fsmn_kernel_size", default=11)
    width = c.size("num_mel_bins", default=80) * c.size("num_stacked_frames", default=7)
    marks = c.size("num_timestamp_prediction_layers", default=20, least=0)
    out = Gathered("model.audio_tower.")
    for name, repeats, source in (("0", 1, width), ("{}", layers - 1, hidden)):
        _fun_layer(out.below(f"layers.{name}.", repeats), hidden, inner, source, kernel)
    normed = {index for index in (layers - marks - 1, layers - 1) if 0 <= index < layers}
    out.below("layers.{}.", len(normed)).norm("final_layernorm", hidden)
    return out.tower()


def _fun_layer(layer: Gathered, hidden: int, inner: int, source: int, kernel: int) -> None:
    for name in "qkv":
        layer.linear(f"self_attn.{name}_proj", hidden, source)
    layer.linear("self_attn.o_proj", hidden, hidden)
    if kernel:
        layer.conv("self_attn.fsmn.conv", hidden, 1, kernel, bias=False)
    _two(layer, hidden, inner)
    layer.norm("input_layernorm", source)
    layer.norm("post_attention_layernorm", hidden)


def fun_projector(c: Fields, heard: int) -> Tower:
    """Two linear layers, and layers like the encoder's without memory."""
    hidden, middle = c.size("hidden_size", default=1024), c.size("projector_hidden_size", default=2048)
    out = Gathered("model.multi_modal_projector.")
    out.linear("linear_1", middle, heard)
    out.linear("linear_2", hidden, middle)
    layer = out.below("layers.{}.", c.layers("num_hidden_layers", default=2))
    _fun_layer(layer, hidden, c.size("intermediate_size", default=256), hidden, 0)
    return Tower("projector", tuple(out.found))


def wave_tower(c: Fields) -> Tower:
    """OmniASR's wav2vec 2.0: a norm after every convolution."""
    hidden, inner = c.size("hidden_size", default=1024), c.size("intermediate_size", default=4096)
    widths = numbers(c, "conv_dim", [512] * 7)
    kernels = numbers(c, "conv_kernel", [10, 3, 3, 3, 3, 2, 2])
    if len(widths) != len(kernels):
        raise apart(c, "conv_dim", "conv_kernel")
    groups, before = c.size("num_conv_pos_embedding_groups", default=16), 1
    c.divide(hidden, groups, "hidden_size", "num_conv_pos_embedding_groups")
    out, bias = Gathered("model.audio_tower."), c.flag("conv_bias", True)
    for i, (width, kernel) in enumerate(zip(widths, kernels, strict=True)):
        out.conv(f"subsampling.conv_layers.{i}.conv", width, before, kernel, bias=bias)
        out.norm(f"subsampling.conv_layers.{i}.layer_norm", width)
        before = width
    out.norm("subsampling.layer_norm", before)
    out.linear("subsampling.projection", hidden, before)
    out.conv("encode_positions.conv", hidden, hidden // groups, c.size("num_conv_pos_embeddings", default=128))
    layer = out.below("layers.{}.", c.layers("num_hidden_layers", default=24))
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        layer.linear(f"attention.{name}", hidden, hidden)
    layer.linear("feed_forward.intermediate_dense", inner, hidden)
    layer.linear("feed_forward.output_dense", hidden, inner)
    for name in ("layer_norm", "final_layer_norm"):
        layer.norm(name, hidden)
    out.norm("layer_norm", hidden)
    return out.tower()


def tokenizer(c: Fields, prefix: str, *, up: bool = False) -> list[tuple[str, int, Tensor]]:
    """VibeVoice's: stages of ConvNeXt blocks between convolutions that shorten the sound; up: the way back."""
    depths = numbers(c, "depths", [3, 3, 3, 3, 3, 3, 8])
    ratios = numbers(c, "downsampling_ratios", [2, 2, 4, 5, 5, 8])
    if len(depths) != len(ratios) + 1 or len(ratios) > 20:
        raise apart(c, "depths", "downsampling_ratios")
    width, kernel = c.size("num_filters", default=32), c.size("kernel_size", default=7)
    latent, channels = c.size("hidden_size", default=64), c.size("channels", default=1)
    spread = c.size("ffn_expansion", default=4)
    out = Gathered(prefix)

    def stage(name: str, depth: int, wide: int) -> None:
        block = out.below(f"{name}stage.{{}}.", depth)
        for scale in ("gamma", "ffn_gamma"):
            block.add(scale, Tensor(f"sound.{scale}", (wide,), "vector"))
        block.norm("norm", wide, bias=False)
        block.norm("ffn_norm", wide, bias=False)
        block.linear("ffn.linear1", spread * wide, wide)
        block.linear("ffn.linear2", wide, spread * wide)
        block.conv("mixer.conv", wide, 1, kernel)

    if up:
        depths, ratios = depths[::-1], ratios[::-1]
    widths = [width * 2**i for i in range(len(depths))]
    widths = widths[::-1] if up else widths
    out.conv("stem.conv.conv", widths[0], latent if up else channels, kernel)
    stage("stem.", depths[0], widths[0])
    for i, ratio in enumerate(ratios):
        name, pair = f"conv_layers.{i}.", (widths[i + 1], widths[i])
        if up:
            # a transposed convolution is stored [in, out, width], and its bias is as wide as what comes out
            out.conv(f"{name}convtr.convtr", *pair[::-1], 2 * ratio, bias=False)
            out.add(f"{name}convtr.convtr.bias", Tensor("sound.convtr.bias", pair[:1], "vector"))
        else:
            out.conv(f"{name}conv.conv", *pair, 2 * ratio)
        stage(name, depths[i + 1], widths[i + 1])
    out.conv("head.conv", channels if up else latent, widths[-1], kernel)
    return out.found

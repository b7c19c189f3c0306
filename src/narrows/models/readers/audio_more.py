"""Decoders beside more than an encoder: VibeVoice, Kyutai's recogniser with its codec, Nemotron 3.5 Transcribe."""

from __future__ import annotations

import math

from narrows.models.feedforward import Dense
from narrows.models.fields import Fields
from narrows.models.readers.audio import beside, with_towers
from narrows.models.readers.audio_towers import projector, tokenizer
from narrows.models.readers.build import PRE_NORMS, attention
from narrows.models.readers.seq2seq_parts import apart, frame, whole_model
from narrows.models.readers.sound import Gathered, numbers
from narrows.models.spec import Layer, ModelSpec, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput


def read_vibevoice(c: Fields) -> ModelSpec:
    """VibeVoice: two tokenizers of sound, and a small diffusion head that speaks."""
    spec = beside(c, "vibevoice", tied=False, usual="qwen2")
    c.read.add("diffusion_loss_weight")
    heard, meant = c.nested("audio_config"), c.nested("semantic_model_config")
    rows = tokenizer(heard, "model.audio_tower.encoder.") + tokenizer(heard, "model.audio_tower.decoder.", up=True)
    rows += tokenizer(meant, "model.semantic_tokenizer_encoder.")
    joined = Gathered("model.")
    for name, part in (("multi_modal_projector", heard), ("semantic_connector", meant)):
        width = part.size("hidden_size", default=64)
        joined.linear(f"{name}.linear_1", spec.hidden, width)
        joined.norm(f"{name}.act", spec.hidden, bias=False)
        joined.linear(f"{name}.linear_2", spec.hidden, spec.hidden)
    head = _diffusion(c.nested("diffusion_head_config"), spec.hidden)
    towers = (
        Tower("audio encoder", tuple(rows)),
        Tower("projector", tuple(joined.found)),
        Tower("diffusion head", tuple(head)),
    )
    return with_towers(spec, *towers)


def _diffusion(c: Fields, text_hidden: int) -> list[tuple[str, int, Tensor]]:
    hidden, inner = c.size("hidden_size", default=text_hidden), c.size("intermediate_size", default=4608)
    latent, steps = c.size("latent_size", default=64), c.size("frequency_embedding_size", default=256)
    bias = c.flag("mlp_bias", False)
    out = Gathered("model.")
    for name in ("latent_scaling_factor", "latent_bias_factor"):
        out.add(name, Tensor(f"sound.{name}", (), "vector"))
    out = out.below("diffusion_head.")
    out.linear("noisy_images_proj", hidden, latent, bias=False)
    out.linear("cond_proj", hidden, hidden, bias=False)
    out.linear("timestep_proj.fc1", hidden, steps, bias=False)
    out.linear("timestep_proj.fc2", hidden, hidden, bias=False)
    layer = out.below("layers.{}.", c.layers("num_hidden_layers", default=4))
    layer.linear("ffn.gate_proj", inner, hidden, bias=bias)
    layer.linear("ffn.up_proj", inner, hidden, bias=bias)
    layer.linear("ffn.down_proj", hidden, inner, bias=bias)
    layer.norm("norm", hidden, bias=False)
    layer.linear("linear", 3 * hidden, hidden, bias=False)
    out.linear("final_layer.linear_1", 2 * hidden, hidden, bias=False)
    out.linear("final_layer.linear_2", latent, hidden, bias=False)
    return out.found


def read_kyutai_speech_to_text(c: Fields) -> ModelSpec:
    """Kyutai's recogniser: text and the codes of every codebook share one embedding; a window on every layer."""
    layers, vocab, books = c.layers("num_hidden_layers"), c.size("vocab_size"), c.size("num_codebooks", default=32)
    own = attention(c, kv_heads=None, window=c.maybe_size("sliding_window", default=375))
    wide = c.size("ffn_dim", default=11264)
    feed = Dense(own.hidden, c.divide(wide, 2, "ffn_dim", "2"))
    # one row more, for padding
    rows = vocab + books * c.size("codebook_vocab_size", default=2049) + 1
    c.read |= {"audio_bos_token_id", "audio_pad_token_id", "frame_size"}
    tied = c.flag("tie_word_embeddings", False)
    if tied:
        # the head predicts text, and the embedding has rows for sound too
        raise apart(c, "tie_word_embeddings", "num_codebooks")
    return whole_model(
        c,
        [Layer(own, feed, PRE_NORMS, own.hidden)] * layers,
        frame(rows, own.hidden, tied=False, head=vocab, final_norm=True, bias=False),
        family="kyutai_speech_to_text",
        dialect="kyutai",
        vocab=vocab,
        tied=False,
        max_length=c.size("max_position_embeddings", default=750),
        towers=(_codec(c.nested("codec_config")),),
    )


def _codec(c: Fields) -> Tower:
    """Mimi: convolutions and a transformer on both sides of residual codebooks."""
    hidden, channels = c.size("hidden_size", default=512), c.size("audio_channels", default=1)
    first, kernel = c.size("num_filters", default=64), c.size("kernel_size", default=7)
    last = c.size("last_kernel_size", default=3)
    ratios = numbers(c, "upsampling_ratios", [8, 6, 5, 4])
    if len(ratios) > 20:
        raise BadInput(
            "config field '{field}' must be a list of whole numbers above 0", field=c.path + "upsampling_ratios"
        )
    deep = c.size("num_residual_layers", default=1, least=0, most=100)
    found = Gathered("codec_model.")

    def residual(out: Gathered, index: int, wide: int) -> None:
        narrow = max(wide // c.size("compress", default=2), 1)
        out.conv(f"layers.{index}.block.1.conv", narrow, wide, c.size("residual_kernel_size", default=3))
        out.conv(f"layers.{index}.block.3.conv", wide, narrow, 1)
        if c.flag("use_conv_shortcut", False):
            out.conv(f"layers.{index}.shortcut.conv", wide, wide, 1)

    out, index, wide = found.below("encoder.encoder_seanet."), 1, first
    out.conv("layers.0.conv", first, channels, kernel)
    for ratio in reversed(ratios):
        for _ in range(deep):
            residual(out, index, wide)
            index += 1
        out.conv(f"layers.{index + 1}.conv", 2 * wide, wide, 2 * ratio)
        index, wide = index + 2, 2 * wide
    out.conv(f"layers.{index + 1}.conv", hidden, wide, last)
    out, index = found.below("decoder.decoder_seanet."), 1
    out.conv("layers.0.conv", wide, hidden, kernel)
    for ratio in ratios:
        out.conv(f"layers.{index + 1}.conv", wide, wide // 2, 2 * ratio, bias=False)
        out.add(f"layers.{index + 1}.conv.bias", Tensor("sound.convtr.bias", (wide // 2,), "vector"))
        index, wide = index + 2, wide // 2
        for _ in range(deep):
            residual(out, index, wide)
            index += 1
    out.conv(f"layers.{index + 1}.conv", channels, wide, last)
    for side in ("encoder", "decoder"):
        _codec_layers(c, found.below(f"{side}.{side}_transformer.layers.{{}}."), hidden)
    _rate(c, found, hidden, ratios)
    width = c.size("vector_quantization_hidden_dimension", default=256)
    _books(c, found.below("quantizer."), hidden, width)
    return Tower("codec", tuple(found.found))


def _codec_layers(c: Fields, out: Gathered, hidden: int) -> None:
    heads = c.size("num_attention_heads", default=8)
    kv = c.maybe_size("num_key_value_heads", default=None) or heads
    width = c.maybe_size("head_dim", default=None) or max(hidden // heads, 1)
    inner, bias = c.size("intermediate_size", default=2048), c.flag("attention_bias", False)
    layer = out.below("", c.layers("num_hidden_layers", default=8))
    for name, rows in (("q", heads), ("k", kv), ("v", kv)):
        layer.linear(f"self_attn.{name}_proj", rows * width, hidden, bias=bias)
    layer.linear("self_attn.o_proj", hidden, heads * width, bias=bias)
    layer.linear("mlp.fc1", inner, hidden, bias=False)
    layer.linear("mlp.fc2", hidden, inner, bias=False)
    for name in PRE_NORMS.names:
        layer.norm(name, hidden)
    for name in ("self_attn_layer_scale", "mlp_layer_scale"):
        layer.add(f"{name}.scale", Tensor("sound.scale", (hidden,), "vector"))


def _rate(c: Fields, out: Gathered, hidden: int, ratios: list[int]) -> None:
    """A convolution each way between the rate of frames and that of codes, where they differ."""
    sampled, hop = c.size("sampling_rate", default=24000), math.prod(ratios)
    frames = -(-sampled // hop)
    stated = c.raw("frame_rate", default=sampled / (2 * hop))
    if isinstance(stated, bool) or not isinstance(stated, int | float) or not 0 < stated <= 2**31:
        raise BadInput("config field '{field}' must be a number above 0", field=c.path + "frame_rate")
    if stated == frames:
        return
    kernel = 2 * max(int(frames / stated), 1)
    groups = c.size("upsample_groups", default=512)
    out.conv("encoder.downsample.conv", hidden, hidden, kernel, bias=False)
    out.conv(
        "decoder.upsample.conv", hidden, c.divide(hidden, groups, "hidden_size", "upsample_groups"), kernel, bias=False
    )


def _books(c: Fields, out: Gathered, hidden: int, width: int) -> None:
    """Residual vector quantizers: one for meaning, the others for sound. Codebooks are statistics, not parameters."""
    number, meant = c.size("num_quantizers", default=32), c.size("num_semantic_quantizers", default=1)
    rows, dim = c.size("codebook_size", default=2048), c.maybe_size("codebook_dim", default=None) or hidden
    for kind, count in (("semantic", meant), ("acoustic", max(number - meant, 0))):
        part = out.below(f"{kind}_residual_vector_quantizer.")
        if width != hidden:
            part.conv("input_proj", width, hidden, 1, bias=False)
            part.conv("output_proj", hidden, width, 1, bias=False)
        book = part.below("layers.{}.codebook.", count)
        book.add("cluster_usage", Tensor("sound.usage", (rows,), "buffer"))
        book.add("embed_sum", Tensor("sound.codebook", (rows, dim), "buffer"))


def read_nemo_speechlm(c: Fields) -> ModelSpec:
    """Nemotron 3.5 Transcribe: two encoders (what is said, and who says it) and one more that finds when."""
    spec = beside(c, "nemo_speechlm", tied=False, usual="nemotron_h")
    both = c.nested("audio_config")
    heard, who = both.nested("asr_config"), both.nested("diarization_config")
    out = Gathered("model.audio_tower.")
    width = _stacked(heard, out.below("asr_encoder."), hidden=1280, inner=5120, layers=32, heads=10, normed=True)
    faces = who.nested("audio_config")
    inside = out.below("diarization_model.")
    seen = _stacked(faces, inside.below("model.audio_tower."), hidden=512, inner=2048, layers=31, heads=8, normed=False)
    head = who.nested("head_config")
    small, speakers = head.size("hidden_size", default=192), head.size("num_speakers", default=8)
    inside.add("silence_embeds", Tensor("sound.silence", (seen,), "vector"))
    inside.linear("model.proj", small, head.size("audio_hidden_size", default=512))
    inside.conv("model.upsampler.conv", small * head.size("subsampling_factor", default=8), small, 3)
    inside.linear("classifier.dense", small, small)
    inside.linear("classifier.out_proj", speakers, small)
    out.norm("asr_norm", width)
    out.norm("speaker_norm", speakers)
    towers = [
        Tower("audio encoder", tuple(out.found)),
        projector("model.", ("multi_modal_projector", spec.hidden, width)),
    ]
    if c.raw("word_timestamp_config") is None:
        c.values = {**c.values, "word_timestamp_config": {}}
    towers.append(_words(c.nested("word_timestamp_config"), width))
    return with_towers(spec, *towers)


def _words(c: Fields, heard: int) -> Tower:
    """The encoder that finds when each word is said."""
    out = Gathered("model.word_timestamp_encoder.")
    width = c.size("hidden_size", default=1280)
    factor = c.size("upsampling_factor", default=2)
    out.conv("upsampler", heard, width, factor, bias=False)
    out.add("upsampler.bias", Tensor("sound.ups.bias", (width,), "vector"))
    _stacked(c, out, hidden=1280, inner=640, layers=2, heads=16, normed=True, stacks=False)
    Gathered("", found=out.found).conv("word_timestamp_head", c.size("vocab_size", default=23863), width, 1)
    return Tower("word timestamps", tuple(out.found))


def _stacked(
    c: Fields, out: Gathered, *, hidden: int, inner: int, layers: int, heads: int, normed: bool, stacks: bool = True
) -> int:
    """Layers over stacked frames, with these defaults; normed: queries and keys have norms. Gives the width."""
    hidden, inner = c.size("hidden_size", default=hidden), c.size("intermediate_size", default=inner)
    heads = c.size("num_attention_heads", default=heads)
    kv = c.maybe_size("num_key_value_heads", default=None) or heads
    width = c.maybe_size("head_dim", default=None) or max(hidden // heads, 1)
    if stacks:
        frames = c.size("subsampling_factor", default=8) * c.size("num_mel_bins", default=128)
        out.linear("embedder.projection", hidden, frames, bias=False)
    out.norm("input_layer_norm", hidden)
    layer = out.below("layers.{}.", c.layers("num_hidden_layers", default=layers))
    for name, rows in (("q", heads), ("k", kv), ("v", heads)):
        layer.linear(f"self_attn.{name}_proj", rows * width, hidden, bias=False)
    layer.linear("self_attn.o_proj", hidden, heads * width)
    for name in ("q_norm", "k_norm") if normed else ():
        layer.norm(f"self_attn.{name}", width)
    layer.linear("mlp.fc1", inner, hidden)
    layer.linear("mlp.fc2", hidden, inner)
    for name in ("layer_norm1", "layer_norm2"):
        layer.norm(name, hidden)
    out.norm("layer_norm", hidden)
    return hidden

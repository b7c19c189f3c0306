"""Encoder-decoders that hear: Whisper and its kin. The encoder reads sound, the decoder writes text."""

from __future__ import annotations

import msgspec

from narrows.models.feedforward import Dense
from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.mixers.base import linear
from narrows.models.readers.build import attention
from narrows.models.readers.seq2seq import SIDES, Sides, attention_of, build, decoder_layers
from narrows.models.readers.seq2seq_parts import (
    QUIET,
    class_of,
    crossing,
    decoder_alone,
    encoder,
    frame,
    whole_model,
)
from narrows.models.readers.sound import (
    Gathered,
    numbers,
    parakeet_encoder,
    seamless_encoder,
    wave_encoder_layer,
    wave_layers,
    whisper_encoder,
)
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.models.tensors import Tensor
from narrows.text import BadInput, Text

_MASKING = frozenset(
    """
    apply_spec_augment classifier_proj_size mask_feature_length mask_feature_min_masks mask_feature_prob
    mask_time_length mask_time_min_masks mask_time_prob median_filter_width use_weighted_layer_sum
    """.split()  # noqa: SIM905
)
"""Of training, and of classes that classify."""


def read_whisper(c: Fields) -> ModelSpec:
    """Whisper: sound of 30 seconds, always as many tokens of the encoder; keys without a bias."""
    c.read |= _MASKING | QUIET
    alone, hidden, vocab = decoder_alone(c), c.size("d_model"), c.size("vocab_size")
    sides = Sides(final_norm=True)
    own = msgspec.structs.replace(attention_of(c, sides, "decoder"), key_bias=False)
    heard, longest = c.size("max_source_positions", default=1500), c.size("max_target_positions", default=448)
    mixer = crossing(own, hidden, tokens=heard, encoded=not alone)
    tied = c.flag("tie_word_embeddings", True)
    c.read |= {"encoder_layers", "encoder_attention_heads", "encoder_ffn_dim", "num_mel_bins", "num_hidden_layers"}
    return whole_model(
        c,
        decoder_layers(c, sides, mixer),
        frame(vocab, hidden, tied=tied, positions=longest, final_norm=True),
        family="whisper",
        dialect="whisper",
        vocab=vocab,
        tied=tied,
        max_length=longest,
        towers=() if alone else (whisper_encoder(c, bins=80),),
    )


def read_speech_to_text(c: Fields) -> ModelSpec:
    """Speech2Text: convolutions that halve the sound, then layers like BART's on both sides."""
    hidden, channels = c.size("d_model"), c.size("conv_channels", default=1024)
    c.values = {**c.values, "max_position_embeddings": c.size("max_target_positions", default=1024)}
    kernels = numbers(c, "conv_kernel_sizes", [5, 5])
    c.size("num_conv_layers", default=2, least=len(kernels), most=len(kernels))
    before = c.size("input_feat_per_channel", default=80) * c.size("input_channels", default=1)
    out = Gathered("model.encoder.conv.conv_layers.")
    for i, kernel in enumerate(kernels):
        last = i == len(kernels) - 1
        out.conv(str(i), 2 * hidden if last else channels, before if i == 0 else channels // 2, kernel)
    c.read |= {"max_source_positions"}
    spec = build(c, "speech_to_text", Sides(final_norm=True), more=out.found)
    # text and sound share no embedding
    decoder = tuple(row for row in spec.frame if row[1].role != "embedding.shared")
    rows = tuple(row for row in spec.towers[0].tensors if row[2].role != "embedding") if spec.towers else ()
    towers = tuple(msgspec.structs.replace(tower, tensors=rows) for tower in spec.towers)
    return msgspec.structs.replace(spec, frame=decoder, towers=towers, dialect="bart.decoder")


def _seamless(c: Fields, family: str) -> ModelSpec:
    """From text, or from speech where the class says so; classes that speak have more parts."""
    name = class_of(c)
    if name and not name.endswith(("ForTextToText", "ForSpeechToText")):
        raise BadInput(
            "class {name} also makes speech, which narrows does not read yet; the same config with the class "
            "{other} in 'architectures' tells what translating to text takes",
            name=name[:60],
            other="SeamlessM4TForSpeechToText",
        )
    c.read |= {key for key in c.values if key.startswith(_SPOKEN)}
    spec = build(c, family, SIDES[family])
    if not name:
        note = Text("the file names no class; it is read as the one that translates text to text")
        return msgspec.structs.replace(spec, assumptions=(note,))
    if not name.endswith("ForSpeechToText"):
        return spec
    return msgspec.structs.replace(spec, towers=(seamless_encoder(c, family.endswith("v2")),))


_SPOKEN = (
    *("t2u_", "vocoder_", "unit_", "upsample_", "resblock_", "speech_encoder_", "adaptor_", "num_conv_pos_"),
    *(
        "lang_embed",
        "spkr_embed",
        "var_pred",
        "variance_",
        "leaky_relu",
        "sampling_rate",
        "add_adapter",
        "feature_proj",
    ),
    *("num_adapter", "position_embeddings_type", "conv_depthwise", "left_max", "right_max", "max_source", "rotary_emb"),
    *("char_vocab", "num_hidden_layers", "max_new_tokens"),
)
"""Beginnings of the names of fields of the parts that speak, and of the speech encoder."""


def read_seamless_m4t(c: Fields) -> ModelSpec:
    """SeamlessM4T."""
    return _seamless(c, "seamless_m4t")


def read_seamless_m4t_v2(c: Fields) -> ModelSpec:
    """SeamlessM4T v2."""
    return _seamless(c, "seamless_m4t_v2")


def read_speecht5(c: Fields) -> ModelSpec:
    """SpeechT5 as a recogniser: wav2vec 2.0's encoder with relative positions, and a decoder of text."""
    name = class_of(c)
    if name and not name.endswith("ForSpeechToText"):
        raise BadInput(
            "class {name} makes speech, which narrows does not read; use one that ends in ForSpeechToText",
            name=name[:60],
        )
    c.read |= _MASKING | QUIET | {key for key in c.values if key.startswith(_OTHER_NETS)}
    hidden, vocab = c.size("hidden_size"), c.size("vocab_size")
    sides = Sides(width="hidden_size")
    own = attention_of(c, sides, "decoder")
    tied = c.flag("tie_word_embeddings", True)
    out = Gathered("speecht5.encoder.prenet.")
    wave_layers(c, out, hidden, position_name="pos_conv_embed")
    heads, inner = c.size("encoder_attention_heads"), c.size("encoder_ffn_dim")
    wrapped = Gathered("speecht5.encoder.wrapped_encoder.", found=out.found)
    wrapped.norm("layer_norm", hidden)
    wave_encoder_layer(c, wrapped.below("layers.{}.", c.layers("encoder_layers")), hidden, inner, heads)
    reach = c.size("encoder_max_relative_position", default=160)
    wrapped.add("embed_positions.pe_k.weight", Tensor("sound.relative", (2 * reach, hidden // heads), "table"))
    return whole_model(
        c,
        decoder_layers(c, sides, crossing(own, hidden)),
        frame(vocab, hidden, tied=tied),
        family="speecht5",
        dialect="speecht5",
        vocab=vocab,
        tied=tied,
        max_length=c.size("max_text_positions", default=450),
        towers=(wrapped.tower(),),
    )


_OTHER_NETS = (
    *("speech_decoder_", "speaker_", "guided_", "use_guided", "reduction_factor", "max_speech", "num_mel_bins"),
    *("positional_dropout", "feat_proj_dropout", "feat_extract_activation", "num_feat_extract_layers"),
)


def read_moonshine(c: Fields) -> ModelSpec:
    """Moonshine: rotary positions, a gated decoder, an encoder that takes sound of any length."""
    hidden, vocab, inner = c.size("hidden_size"), c.size("vocab_size"), c.size("intermediate_size")

    def side(name: str) -> Attention:
        heads = c.size(f"{name}_num_attention_heads", default=8)
        kv = c.maybe_size(f"{name}_num_key_value_heads", default=None) or heads
        c.divide(heads, kv, f"{name}_num_attention_heads", f"{name}_num_key_value_heads")
        # rounded down, as the class does
        width = c.maybe_size("head_dim", default=None) or hidden // heads
        return Attention(hidden, heads, kv, width, qkv_bias=c.flag("attention_bias", False))

    c.read |= {"encoder_hidden_act", "decoder_hidden_act", "pad_head_dim_to_multiple_of", "num_hidden_layers"}
    c.read |= {"num_attention_heads", "num_key_value_heads"}
    own, hearing = side("decoder"), side("encoder")
    tied = c.flag("tie_word_embeddings", True)
    names = ("input_layernorm", "post_attention_layernorm", "final_layernorm")
    # gate and up are one matrix with one bias
    gated = Dense(hidden, inner, True, True)
    layer = Layer(crossing(own, hidden), gated, Norms(names), hidden)
    out = Gathered("model.encoder.")
    out.conv("conv1", hidden, 1, 127, bias=False)
    out.conv("conv2", 2 * hidden, hidden, 7)
    out.conv("conv3", hidden, 2 * hidden, 3)
    out.norm("groupnorm", hidden)
    reading = Layer(hearing, Dense(hidden, inner, False, True), Norms(names[:2]), hidden)
    layers = [reading] * c.layers("encoder_num_hidden_layers", default=6)
    outer = frame(1, hidden, tied=True, final_norm=True, bias=False)[1:]
    return whole_model(
        c,
        [layer] * c.layers("decoder_num_hidden_layers", default=6),
        frame(vocab, hidden, tied=tied, final_norm=True, bias=False),
        family="moonshine",
        dialect="moonshine",
        vocab=vocab,
        tied=tied,
        max_length=c.size("max_position_embeddings", default=512),
        towers=(encoder(layers, "moonshine.encoder", outer, out.found),),
    )


def _heard_by_conformer(c: Fields, text: Fields, family: str, *, positions: bool, tied: bool, vocab: int) -> ModelSpec:
    """A Fast Conformer, and a decoder whose positions are learned or (Canary) computed."""
    text.read |= QUIET
    hearing = c.nested("encoder_config")
    tower = parakeet_encoder(hearing)
    bias = text.flag("attention_bias", True)
    own = attention(text, kv_heads=None, qkv_bias=bias, out_bias=bias)
    hidden, longest = own.hidden, text.size("max_position_embeddings", default=1024)
    feed = Dense(hidden, text.size("intermediate_size"), gated=False, bias=True)
    norms = Norms(("input_layernorm", "post_attention_layernorm", "final_layernorm"), bias=True)
    layer = Layer(crossing(own, hidden), feed, norms, hidden)
    one = c.flag("tie_word_embeddings", tied)
    projection = linear("embedding.encoder", hidden, hearing.size("hidden_size", default=1024), bias=True)
    around = frame(
        vocab,
        hidden,
        tied=one,
        positions=longest if positions else 0,
        embedding_norm=True,
        final_norm=True,
        more=[("embedding", tensor) for tensor in projection] if positions else (),
    )
    return whole_model(
        c,
        [layer] * text.layers("num_hidden_layers"),
        (*around, ("head", Tensor("head.bias", (vocab,), "vector", vocab))),
        family=family,
        dialect="canary",
        vocab=vocab,
        tied=one,
        max_length=longest,
        towers=(tower,),
    )


def read_canary(c: Fields) -> ModelSpec:
    """Canary."""
    text = c.nested("decoder_config")
    c.read.add("vocab_size")
    return _heard_by_conformer(c, text, "canary", positions=False, tied=True, vocab=text.size("vocab_size"))


_COHERE = {"hidden_size": 1280, "num_hidden_layers": 48, "intermediate_size": 5120, "num_mel_bins": 128}


def read_cohere_asr(c: Fields) -> ModelSpec:
    """Cohere's recogniser, with numbers of its own for what the encoder's config leaves out."""
    hearing = c.nested("encoder_config")
    hearing.values = {**_COHERE, **hearing.values}
    return _heard_by_conformer(c, c, "cohere_asr", positions=True, tied=False, vocab=c.size("vocab_size"))


def read_dia(c: Fields) -> ModelSpec:
    """Dia: reads text, and writes speech as several codes at a time."""
    reading, writing = c.nested("encoder_config"), c.nested("decoder_config")
    c.read |= QUIET | {"delay_pattern"}
    source, bytes_known = reading.size("hidden_size", default=1024), reading.size("vocab_size", default=256)
    inner = attention(reading, kv_heads=16, head_dim=128)
    own = attention(writing, kv_heads=4, head_dim=128)
    cross = Attention(
        own.hidden,
        writing.size("cross_num_attention_heads", default=16),
        writing.size("cross_num_key_value_heads", default=16),
        writing.size("cross_head_dim", default=128),
    )
    rows = writing.size("vocab_size", default=1028) * writing.size("num_channels", default=9)
    seen = writing.size("cross_hidden_size", default=source)
    mixer = crossing(own, seen, cross=cross)
    feed = Dense(own.hidden, writing.size("intermediate_size", default=8192))
    layer = Layer(mixer, feed, Norms(("pre_sa_norm", "pre_ca_norm", "pre_mlp_norm")), own.hidden)
    other = Dense(source, reading.size("intermediate_size", default=4096))
    reader = Layer(inner, other, Norms(("pre_sa_norm", "post_sa_norm")), source)
    return whole_model(
        c,
        [layer] * writing.layers("num_hidden_layers", default=18),
        frame(rows, own.hidden, tied=False, final_norm=True, bias=False),
        family="dia",
        dialect="dia",
        vocab=rows,
        tied=False,
        max_length=writing.size("max_position_embeddings", default=3072),
        towers=(
            encoder(
                [reader] * reading.layers("num_hidden_layers", default=12),
                "dia.encoder",
                frame(bytes_known, source, tied=True, final_norm=True, bias=False),
            ),
        ),
    )

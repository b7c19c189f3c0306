"""Decoders behind an encoder, and of sound: Llama 3.2 Vision's text part, TrOCR, MusicGen, Moshi."""

from __future__ import annotations

import msgspec

from narrows.models.feedforward import Dense
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, Chain, CrossAttention
from narrows.models.readers.build import PRE_NORMS, attention, dense, grouped, model, stack, untied
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.models.tensors import Tensor
from narrows.text import BadInput, Text

_ENCODED = Text(
    "the keys and values of what an encoder puts out are left out of the cache: without an input there are none"
)
_ROWS_FOR_PICTURES = 8


def read_mllama_text_model(c: Fields) -> ModelSpec:
    """Llama 3.2 Vision's decoder: the layers that the file names attend to the picture instead of the text."""
    layers = c.layers("num_hidden_layers")
    full = attention(c, kv_heads=8)
    cross = CrossAttention(full.hidden, full.heads, full.kv_heads, full.head_dim, full.hidden, qk_norm=True)
    at = c.indices("cross_attention_layers")
    if c.raw("cross_attention_layers") is None:
        at = frozenset((3, 8, 13, 18, 23, 28, 33, 38))
    part = dense(c)
    gates = tuple(Tensor(f"cross.{name}_gate", (1,), "vector") for name in ("attention", "mlp"))
    plain = Layer(full, part, PRE_NORMS, full.hidden)
    seeing = Layer(cross, part, PRE_NORMS, full.hidden, beside=gates)
    untied(c)
    return model(
        c,
        grouped(seeing if i in at else plain for i in range(layers)),
        family="mllama_text_model",
        dialect="mllama",
        embedding_rows=c.size("vocab_size") + _ROWS_FOR_PICTURES,
        assumptions=(_ENCODED,) if at else (),
    )


_OWN_NORMS = ("self_attn_layer_norm", "final_layer_norm")


def read_trocr(c: Fields) -> ModelSpec:
    """TrOCR's decoder: BART's shape; every layer attends to the picture too."""
    layers, hidden = c.layers("decoder_layers", "num_hidden_layers", default=12), c.size("d_model", "hidden_size")
    heads = c.size("decoder_attention_heads", "num_attention_heads", default=16)
    width = c.divide(hidden, heads, "d_model", "decoder_attention_heads")
    own = Attention(hidden, heads, heads, width, qkv_bias=True, out_bias=True)
    part = Dense(hidden, c.size("decoder_ffn_dim", default=4096), gated=False, bias=True)
    encoder = c.maybe_size("cross_attention_hidden_size", default=None) or hidden
    mixer = Chain(hidden, (own, CrossAttention(hidden, heads, heads, width, encoder, bias=True)))
    norms = (*_OWN_NORMS, "encoder_attn_layer_norm")
    learned = c.flag("use_learned_position_embeddings", True)
    length = c.size("max_position_embeddings", default=512)
    c.read |= {"decoder_layerdrop", "scale_embedding", "use_learned_position_embeddings", "activation_dropout"}
    return model(
        c,
        stack([mixer] * layers, [part] * layers, Norms(norms, bias=True)),
        family="trocr",
        dialect="trocr",
        tied=True,
        # the first two positions are never used
        positions=length + 2 if learned else 0,
        embedding_norm=c.flag("layernorm_embedding", True),
        final_norm=False,
        assumptions=(_ENCODED,),
    )


def read_musicgen_decoder(c: Fields) -> ModelSpec:
    """MusicGen's decoder: an embedding and a head per codebook; every layer attends to the text too."""
    return _musicgen(c, "musicgen_decoder", crossing=True)


def read_musicgen_melody_decoder(c: Fields) -> ModelSpec:
    """MusicGen Melody's decoder: text and melody stand before the sound, so nothing is attended to across."""
    return _musicgen(c, "musicgen_melody_decoder", crossing=False)


def _musicgen(c: Fields, family: str, *, crossing: bool) -> ModelSpec:
    layers, hidden = c.layers("num_hidden_layers"), c.size("hidden_size")
    heads = c.size("num_attention_heads", default=16)
    width = c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    own = Attention(hidden, heads, heads, width)
    mixer: Attention | Chain = own
    norms: tuple[str, ...] = _OWN_NORMS
    if crossing:
        mixer = Chain(hidden, (own, CrossAttention(hidden, heads, heads, width, hidden)))
        norms = (*_OWN_NORMS, "encoder_attn_layer_norm")
    part = Dense(hidden, c.size("ffn_dim", default=4096), gated=False)
    books = c.size("num_codebooks", default=4, most=1024)
    c.read |= {"layerdrop", "activation_dropout", "initializer_factor", "scale_embedding", "audio_channels"}
    c.read |= {"add_cross_attention", "cross_attention_hidden_size"}
    untied(c)
    return model(
        c,
        stack([mixer] * layers, [part] * layers, Norms(norms, bias=True)),
        family=family,
        dialect="musicgen",
        codebooks=books,
        embedding_rows=c.size("vocab_size") + 1,
        final_norm_bias=True,
        assumptions=(_ENCODED,) if crossing else (),
    )


def read_moshi(c: Fields) -> ModelSpec:
    """Moshi's large decoder alone, as transformers' causal class builds it; it slides over its window everywhere."""
    layers = c.layers("num_hidden_layers")
    full = attention(c, kv_heads=None, window=c.maybe_size("sliding_window", default=3000))
    c.divide(full.hidden, full.heads, "hidden_size", "num_attention_heads")
    inner = c.size("ffn_dim", default=22528)
    if inner % 2:
        raise BadInput("config field '{field}' is odd: it holds the gate and what is gated", field=c.path + "ffn_dim")
    part = Dense(full.hidden, inner // 2)
    c.read |= {"audio_vocab_size", "num_codebooks", "audio_encoder_config", "depth_decoder_config"}
    untied(c)
    spec = model(
        c,
        stack([full] * layers, [part] * layers, PRE_NORMS),
        family="moshi",
        dialect="moshi",
        embedding_rows=c.size("vocab_size") + 1,
    )
    if c.raw("depth_decoder_config") is None and c.raw("audio_encoder_config") is None:
        return spec
    note = Text("the decoder alone: the depth decoder and the audio codec beside it are left out")
    return msgspec.structs.replace(spec, assumptions=(note,))

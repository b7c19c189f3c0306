"""Encoder-decoders put together from two models: an encoder of text or sound, and a decoder of BERT's family."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from narrows.models.fields import Fields
from narrows.models.mixers.base import linear
from narrows.models.readers.bert import BERTS, head, inside, layers_of, pooler
from narrows.models.readers.build import OF_THE_WHOLE
from narrows.models.readers.seq2seq_parts import encoder, whole_model
from narrows.models.readers.sound import Gathered, wave_encoder_layer, wave_layers
from narrows.models.spec import ModelSpec, Tower
from narrows.text import BadInput


def half_of(c: Fields, name: str, known: Collection[str]) -> tuple[Fields, str]:
    """One half of the config, of an architecture that can be one."""
    half = c.nested(name)
    kind = half.raw("model_type")
    if not isinstance(kind, str) or kind not in known:
        raise BadInput(
            "config field '{field}' is {value}; narrows reads halves of these architectures: {known}",
            field=half.path + "model_type",
            value=str(kind)[:60],
            known=", ".join(known),
        )
    return half, kind


_HALVES = {name: bert for name, bert in BERTS.items() if name != "xmod"}
_WAVES = ("wav2vec2", "hubert")


def together(c: Fields, family: str, tower: Tower, source: int) -> ModelSpec:
    """The decoder beside an encoder `source` wide; where widths differ, a projection joins them."""
    half, kind = half_of(c, "decoder", _HALVES)
    bert = BERTS[kind]
    half.values = {**half.values, "is_decoder": True}
    last, tied = head(half, bert)
    # a decoder that its file leaves without cross-attention is built without it, though it then sees no encoder
    layers = layers_of(half, bert, crossed=half.flag("add_cross_attention", True), encoded=True)
    hidden = layers[0].hidden
    if source != hidden:
        weight, bias = linear("joint", hidden, source, bias=True)
        rows = (("enc_to_dec_proj.weight", 1, weight), ("enc_to_dec_proj.bias", 1, bias))
        tower = msgspec.structs.replace(tower, tensors=(*tower.tensors, *rows))
    c.read.update(OF_THE_WHOLE)
    return whole_model(
        c,
        layers,
        (*inside(half, bert), *last),
        family=family,
        dialect=f"{bert.dialect}.decoder",
        vocab=half.size("vocab_size"),
        tied=tied,
        max_length=half.size("max_position_embeddings"),
        towers=(tower,),
    )


def read_encoder_decoder(c: Fields) -> ModelSpec:
    """Two models of BERT's family."""
    half, kind = half_of(c, "encoder", _HALVES)
    bert = BERTS[kind]
    layers = layers_of(half, bert, crossed=False)
    hidden = layers[0].hidden
    outer = [*inside(half, bert), *(pooler(hidden) if bert.pooled else [])]
    tower = encoder(layers, f"{bert.dialect}.encoder", outer)
    return together(c, "encoder-decoder", tower, hidden)


def read_speech_encoder_decoder(c: Fields) -> ModelSpec:
    """wav2vec 2.0 or HuBERT, and a decoder."""
    half, _ = half_of(c, "encoder", _WAVES)
    hidden, inner = half.size("hidden_size"), half.size("intermediate_size")
    heads, layers = half.size("num_attention_heads"), half.layers("num_hidden_layers")
    out = Gathered("encoder.")
    if half.flag("add_adapter", False) or half.raw("adapter_attn_dim") is not None:
        raise BadInput(
            "this wav2vec2 encoder has an adapter ('{field}'), which narrows does not read yet; use one without",
            field=half.path + ("add_adapter" if half.flag("add_adapter", False) else "adapter_attn_dim"),
        )
    wave_layers(half, out, hidden, position_name="encoder.pos_conv_embed")
    out.norm("encoder.layer_norm", hidden)
    wave_encoder_layer(half, out.below("encoder.layers.{}.", layers), hidden, inner, heads)
    return together(c, "speech-encoder-decoder", out.tower(), hidden)

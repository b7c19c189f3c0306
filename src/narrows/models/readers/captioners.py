"""Small models that write what they see, with decoders of their own: BLIP, Kosmos, Pix2Struct."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from narrows.models.feedforward import Dense
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, Mixer
from narrows.models.readers.build import from_the_top, model, outside, stack
from narrows.models.readers.families import Family
from narrows.models.readers.seq2seq_parts import crossing
from narrows.models.readers.several import together
from narrows.models.readers.towers import vision
from narrows.models.readers.towers.parts import Parts
from narrows.models.spec import Layer, LayerGroup, ModelSpec, Norms, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput


def read(c: Fields, model_type: str) -> ModelSpec:
    """Any of them."""
    return _READERS[model_type](c)


def _text(c: Fields, *, either: bool = False) -> Fields:
    """The decoder's fields, which say whether its head is the embedding (either: they, or the top)."""
    text = c.nested("text_config")
    if either and c.flag("tie_word_embeddings", True):
        text.values = {**text.values, "tie_word_embeddings": True}
    from_the_top(c, text)
    text.defaulted = c.defaulted
    return text


def _linears(parts: Parts, stem: str, names: str, out: int, inputs: int, repeats: int, bias: bool) -> None:
    for name in names.split():
        parts.add(stem + name, out, inputs, repeats=repeats, bias=bias)


def _blip(c: Fields) -> ModelSpec:
    """BLIP: BERT as a decoder, every layer of which looks at the picture."""
    text = _text(c, either=True)
    hidden, heads = text.size("hidden_size", default=768), text.size("num_attention_heads", default=8)
    layers, inner = text.layers("num_hidden_layers", default=12), text.size("intermediate_size", default=3072)
    width = text.divide(hidden, heads, "hidden_size", "num_attention_heads")
    own = Attention(hidden, heads, heads, width, qkv_bias=True, out_bias=True)
    mixer: Mixer = own
    norms: tuple[str, ...] = ("attention", "output")
    body = vision(c.nested("vision_config"), "blip_vision_model", "vision_model.")
    if text.flag("is_decoder", True):
        # the patches, and the token before them
        mixer = crossing(own, body.hidden, tokens=body.grid + 1)
        norms = ("attention", "crossattention", "output")
    spec = model(
        text,
        stack([mixer] * layers, [Dense(hidden, inner, False, True)] * layers, Norms(norms, bias=True)),
        family="blip",
        dialect="blip",
        vocab=30524,
        positions=text.size("max_position_embeddings", default=512),
        embedding_norm=True,
        final_norm=False,
        head_bias=True,
        tied=True,
    )
    text.read |= {"encoder_hidden_size", "projection_dim"}  # the tower's width, whatever it says; of other heads
    head = Parts("text_decoder.cls.predictions.")
    head.add("transform.dense", hidden, hidden, bias=True)
    head.add("transform.LayerNorm", hidden, bias=True)
    if not spec.head_tied:
        head.parameter("decoder.bias", spec.vocab)
    c.read |= {"projection_dim", "image_text_hidden_size", "label_smoothing", "logit_scale_init_value"}
    c.read |= {"initializer_factor"}
    towers = [body.parts.tower(), head.tower("head")]
    return together(c, Family(names="text_decoder"), spec, "blip", towers)


def _kosmos(c: Fields, name: str, vocab: int, sizes: tuple[int, int, int, int], inner_norm: bool) -> ModelSpec:
    """The decoder; its inner norms have biases. sizes: width, layers, heads, inner width."""
    text = _text(c, either=inner_norm)
    if text.flag("add_cross_attention", False):
        raise BadInput(
            "this {family} config adds cross-attention, which narrows does not read yet; use a plain decoder",
            family=name,
        )
    hidden, layers = text.size("embed_dim", "hidden_size", default=sizes[0]), text.layers("layers", default=sizes[1])
    heads, inner = text.size("attention_heads", default=sizes[2]), text.size("ffn_dim", default=sizes[3])
    width = text.divide(hidden, heads, "embed_dim", "attention_heads")
    mixer = Attention(hidden, heads, heads, width, qkv_bias=True, out_bias=True, inner_norm=inner_norm)
    part = Dense(hidden, inner, False, True, inner_norm=True)
    norms = Norms(("self_attn_layer_norm", "final_layer_norm"), bias=True)
    biases = [Tensor("mlp.inner_norm.bias", (inner,), "vector", inner)]
    if inner_norm:
        biases.append(Tensor("attention.inner_norm.bias", (hidden,), "vector", heads))
    groups = (LayerGroup(layers, Layer(mixer, part, norms, hidden, beside=tuple(biases)), 0),)
    return model(text, groups, family=name, dialect="kosmos", vocab=vocab, final_norm_bias=True, tied=True)


def _latent_queries(c: Fields, source: int, hidden: int, count: int) -> Tower:
    parts = Parts("image_to_text_projection.")
    parts.add("dense", hidden, source, bias=True)
    parts.parameter("latent_query", c.size("latent_query_num", default=count), hidden)
    _linears(parts, "x_attn.", "k_proj v_proj q_proj out_proj", hidden, hidden, 1, True)
    return parts.tower("projector")


def _kosmos_2(c: Fields) -> ModelSpec:
    """Kosmos-2: norms inside attention and feed-forward parts."""
    spec = _kosmos(c, "kosmos-2", 65037, (2048, 24, 32, 8192), True)
    body = vision(c.nested("vision_config"), "kosmos_2_vision_model", "vision_model.")
    towers = [body.parts.tower(), _latent_queries(c, body.hidden, spec.hidden, 64)]
    return together(c, Family(names="text_model"), spec, "kosmos-2", towers)


def _kosmos_2_5(c: Fields) -> ModelSpec:
    """Kosmos-2.5: Pix2Struct's tower, and a mark on what comes from a picture."""
    spec = _kosmos(c, "kosmos-2.5", 108481, (1536, 24, 16, 6144), False)
    body = vision(c.nested("vision_config"), "kosmos_2_5_vision_model", "vision_model.")
    segments = outside(before=[Tensor("before.segments", (2, spec.hidden), "table")])
    spec = msgspec.structs.replace(spec, extra=segments)
    towers = [body.parts.tower(), _latent_queries(c, body.hidden, spec.hidden, 2048)]
    return together(c, Family(names="text_model"), spec, "kosmos-2.5", towers)


def _pix2struct(c: Fields) -> ModelSpec:
    """Pix2Struct: a decoder like T5's, relative positions in its first layer."""
    text = _text(c)
    text.values = {**text.values, "tie_word_embeddings": c.flag("tie_word_embeddings", False)}
    hidden, layers = text.size("hidden_size", default=768), text.layers("num_layers", default=12)
    heads, inner = text.size("num_heads", default=12), text.size("d_ff", default=2048)
    # what attends is as wide as the layer, whatever d_kv says
    width = text.divide(hidden, heads, "hidden_size", "num_heads")
    text.read |= {"d_kv", "relative_attention_max_distance"}
    own = Attention(hidden, heads, heads, width)
    buckets = text.size("relative_attention_num_buckets", default=32)
    table = Tensor("attention.relative", (buckets, heads), "table", heads)
    first = crossing(msgspec.structs.replace(own, beside=(table,)), hidden, cross=own)
    mixers = [first, *[crossing(own, hidden)] * (layers - 1)]
    norms = Norms(("self_attention", "encoder_decoder_attention", "mlp"))
    groups = stack(mixers, [Dense(hidden, inner)] * layers, norms)
    spec = model(text, groups, family="pix2struct", dialect="pix2struct", vocab=50244)
    body = vision(c.nested("vision_config"), "pix2struct_vision_model", "encoder.")
    c.read |= {"is_vqa", "initializer_factor"}
    return together(c, Family(names="decoder"), spec, "pix2struct", [body.parts.tower()])


_READERS: dict[str, Callable[[Fields], ModelSpec]] = {
    "blip": _blip,
    "kosmos-2": _kosmos_2,
    "kosmos-2.5": _kosmos_2_5,
    "pix2struct": _pix2struct,
}

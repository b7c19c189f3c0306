"""BART and the encoder-decoders that differ from it in switches and names, which are data."""

from __future__ import annotations

import msgspec

from narrows.models.feedforward import Dense, FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, Mixer
from narrows.models.mixers.base import linear
from narrows.models.readers.seq2seq_parts import QUIET, Rows, crossing, decoder_alone, encoder, frame, whole_model
from narrows.models.readers.traits import Switch, on
from narrows.models.spec import Layer, ModelSpec, Norms, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """One architecture. Source of the switches: its classes in transformers 5 (Apache-2.0).

    offset: rows of the learned positions beyond those that are counted (None: positions are computed).
    positions: fields with the longest encoder and decoder. embedding_norm: a norm after the embedding. final_norm:
    one after the last layer. bias: of attention. self_norm, cross_norm, feed_norm: names of a layer's norms.
    """

    dialect: str = "bart"
    width: str = "d_model"
    offset: int | None = None
    positions: tuple[str, str] = ("max_position_embeddings", "max_position_embeddings")
    embedding_norm: bool = False
    final_norm: bool = False
    bias: Switch = True
    self_norm: str = "self_attn_layer_norm"
    cross_norm: str = "encoder_attn_layer_norm"
    feed_norm: str = "final_layer_norm"


_SEAMLESS = Sides(
    dialect="seamless",
    width="hidden_size",
    final_norm=True,
    cross_norm="cross_attention_layer_norm",
    feed_norm="ffn_layer_norm",
)

SIDES: dict[str, Sides] = {
    "bart": Sides(offset=2, embedding_norm=True),
    "plbart": Sides(offset=2, embedding_norm=True),
    "mvp": Sides(offset=2, embedding_norm=True),
    "mbart": Sides(offset=2, embedding_norm=True, final_norm=True),
    "marian": Sides(offset=0),
    "fsmt": Sides(dialect="fsmt", offset=2),
    "pegasus": Sides(offset=0, final_norm=True),
    "blenderbot": Sides(offset=0, final_norm=True),
    "blenderbot-small": Sides(offset=0, embedding_norm=True),
    "m2m_100": Sides(final_norm=True),
    "nllb-moe": Sides(
        dialect="nllb_moe", final_norm=True, cross_norm="cross_attention_layer_norm", feed_norm="ff_layer_norm"
    ),
    "bigbird_pegasus": Sides(dialect="bigbird_pegasus", offset=0, embedding_norm=True, bias=("use_bias", False)),
    "pegasus_x": Sides(final_norm=True, bias=False),
    "led": Sides(
        dialect="led",
        offset=0,
        embedding_norm=True,
        positions=("max_encoder_position_embeddings", "max_decoder_position_embeddings"),
    ),
    "seamless_m4t": _SEAMLESS,
    "seamless_m4t_v2": _SEAMLESS,
}
"""By `model_type`."""


def read(c: Fields, model_type: str) -> ModelSpec:
    """Any of them."""
    return build(c, model_type, SIDES[model_type])


def attention_of(c: Fields, sides: Sides, side: str) -> Attention:
    """The attention of one side, `encoder` or `decoder`."""
    hidden, heads = c.size(sides.width), c.size(f"{side}_attention_heads")
    bias = on(c, sides.bias)
    width = c.divide(hidden, heads, sides.width, f"{side}_attention_heads")
    return Attention(hidden, heads, heads, width, qkv_bias=bias, out_bias=bias)


def feeds_of(c: Fields, sides: Sides, side: str, layers: int) -> list[FeedForward]:
    """One feed-forward per layer of one side; every `{side}_sparse_step`-th is sparse where there are experts."""
    hidden, inner = c.size(sides.width), c.size(f"{side}_ffn_dim")
    plain = Dense(hidden, inner, gated=False, bias=True)
    if sides.dialect != "nllb_moe":
        return [plain] * layers
    experts = c.size("num_experts", default=128)
    bias = c.flag("router_bias", False)
    sparse = MixtureOfExperts(hidden, experts, min(2, experts), inner, bias=True, router_bias=bias, gated=False)
    step = c.size(f"{side}_sparse_step", default=4, least=0)
    return [sparse if step and (i + 1) % step == 0 else plain for i in range(layers)]


def decoder_layers(c: Fields, sides: Sides, mixer: Mixer) -> list[Layer]:
    """The decoder's."""
    layers = c.layers("decoder_layers")
    norms = Norms((sides.self_norm, sides.cross_norm, sides.feed_norm), bias=True)
    return [Layer(mixer, feed, norms, mixer.hidden) for feed in feeds_of(c, sides, "decoder", layers)]


def encoder_layers(c: Fields, sides: Sides, mixer: Attention) -> list[Layer]:
    """The encoder's."""
    layers = c.layers("encoder_layers")
    norms = Norms((sides.self_norm, sides.feed_norm), bias=True)
    return [Layer(mixer, feed, norms, mixer.hidden) for feed in feeds_of(c, sides, "encoder", layers)]


class Tables(msgspec.Struct, frozen=True):
    """Rows of the embeddings of encoder and decoder, and of the head.

    tied: the head is the decoder's table; together: so is the encoder's, where the head is. third: where nothing is
    tied, there is a table beside the three that all of them were once tied to.
    """

    encoder: int
    decoder: int
    head: int
    tied: bool
    together: bool = True
    third: bool = True


def tables_of(c: Fields) -> Tables:
    """One vocabulary for both sides."""
    rows = c.size("vocab_size")
    return Tables(rows, rows, rows, c.flag("tie_word_embeddings", True))


def build(
    c: Fields,
    model_type: str,
    sides: Sides,
    tables: Tables | None = None,
    more: Rows = (),
    encoder_tokens: int | None = None,
) -> ModelSpec:
    """The model of a config with these traits. more: further tensors of the encoder."""
    alone, hidden = decoder_alone(c), c.size(sides.width)
    c.read |= QUIET | {"num_hidden_layers"}
    tables = tables_of(c) if tables is None else tables
    one = tables.tied and tables.together and not alone
    longest = c.size(sides.positions[1])
    mixer = attention_of(c, sides, "decoder")
    cross = crossing(mixer, hidden, tokens=encoder_tokens, encoded=not alone)
    around = frame(
        tables.decoder,
        hidden,
        tied=tables.tied,
        head=tables.head,
        shared=tables.encoder if tables.third and not tables.tied and not alone else 0,
        positions=0 if sides.offset is None else longest + sides.offset,
        embedding_norm=sides.embedding_norm,
        final_norm=sides.final_norm,
    )
    towers: tuple[Tower, ...] = ()
    if alone:
        c.read |= {f"encoder_{part}" for part in ("layers", "attention_heads", "ffn_dim")} | {sides.positions[0]}
    else:
        own = frame(
            tables.encoder,
            hidden,
            tied=True,
            positions=0 if sides.offset is None else c.size(sides.positions[0]) + sides.offset,
            embedding_norm=sides.embedding_norm,
            final_norm=sides.final_norm,
        )
        layers = encoder_layers(c, sides, attention_of(c, sides, "encoder"))
        towers = (encoder(layers, f"{sides.dialect}.encoder", own[1 if one else 0 :], more),)
    return whole_model(
        c,
        decoder_layers(c, sides, cross),
        around,
        family=model_type,
        dialect=sides.dialect if one else f"{sides.dialect}.decoder",
        vocab=tables.head,
        tied=tables.tied,
        max_length=longest,
        towers=towers,
    )


def read_led(c: Fields) -> ModelSpec:
    """LED: a Longformer encoder has projections of its own for tokens that see everything."""
    hidden, layers = c.size("d_model"), c.layers("encoder_layers")
    heads = c.size("encoder_attention_heads")
    name = "led.encoder.layers.{}.self_attn.longformer_self_attn."
    more = [
        (f"{name}{word}_global{'.bias' if t.use == 'vector' else '.weight'}", layers, t)
        for word in ("query", "key", "value")
        for t in linear(f"attention.{word}_global", hidden, hidden, shards=heads, bias=True)
    ]
    return build(c, "led", SIDES["led"], more=more)


def read_pegasus_x(c: Fields) -> ModelSpec:
    """PEGASUS-X: global tokens beside the text, with a norm in every layer of the encoder."""
    hidden, layers = c.size("d_model"), c.layers("encoder_layers")
    name = "model.encoder.layers.{}.global_self_attn_layer_norm"
    tokens = c.size("num_global_tokens", default=32)
    more = [
        ("model.encoder.embed_global.weight", 1, Tensor("embedding.global", (tokens, hidden), "table")),
        *(
            (f"{name}.{part}", layers, Tensor(f"norm.global.{part}", (hidden,), "vector"))
            for part in ("weight", "bias")
        ),
    ]
    return build(c, "pegasus_x", SIDES["pegasus_x"], more=more)


def read_mvp(c: Fields) -> ModelSpec:
    """MVP: BART; where `use_prompt` is on, with prompts that are learned for every layer of the decoder.

    transformers 5.24 builds none for the encoder, whatever the file holds.
    """
    spec = build(c, "mvp", SIDES["mvp"])
    length, middle = c.size("prompt_length", default=100), c.size("prompt_mid_dim", default=800)
    if not c.flag("use_prompt", False) or not spec.towers:
        return spec
    hidden, rows = spec.hidden, []
    for part in ("self", "cross"):
        name, layers = f"model.decoder.{part}_attn_prompt.", c.layers("decoder_layers")
        rows.append((f"{name}prompt_embedding.weight", 1, Tensor("prompt", (length, hidden), "table")))
        for index, out, inner in ((0, middle, hidden), (2, layers * 2 * hidden, middle)):
            up, bias = linear("prompt", out, inner, bias=True)
            rows += [(f"{name}prompt_trans.{index}.weight", 1, up), (f"{name}prompt_trans.{index}.bias", 1, bias)]
    tower = spec.towers[0]
    return msgspec.structs.replace(spec, towers=(msgspec.structs.replace(tower, tensors=(*tower.tensors, *rows)),))


def read_marian(c: Fields) -> ModelSpec:
    """Marian: both sides can have a vocabulary each; alone, a decoder embeds its own and predicts the other."""
    rows = c.size("vocab_size")
    other = c.maybe_size("decoder_vocab_size", default=None) or rows
    tied = c.flag("tie_word_embeddings", True)
    if c.flag("share_encoder_decoder_embeddings", True):
        tables = Tables(rows, rows if tied else other, rows, tied)
        if decoder_alone(c):
            tables = Tables(rows, other, rows, tied)
    else:
        head = rows if decoder_alone(c) else other
        tables = Tables(rows, other, head, tied, together=False, third=False)
    return build(c, "marian", SIDES["marian"], tables)


def read_fsmt(c: Fields) -> ModelSpec:
    """FSMT: a vocabulary for each language; the head is the decoder's own, unless everything is tied."""
    source, target = c.size("src_vocab_size"), c.size("tgt_vocab_size")
    tables = Tables(source, target, target, c.flag("tie_word_embeddings", False), third=False)
    padding = c.size("pad_token_id", default=1, least=0)
    return build(c, "fsmt", msgspec.structs.replace(SIDES["fsmt"], offset=padding + 1), tables)


def read_bigbird_pegasus(c: Fields) -> ModelSpec:
    """BigBird-PEGASUS: a decoder alone never ties its head."""
    tables = tables_of(c)
    if decoder_alone(c):
        tables = msgspec.structs.replace(tables, tied=False)
    return build(c, "bigbird_pegasus", SIDES["bigbird_pegasus"], tables)


def read_prophetnet(c: Fields) -> ModelSpec:
    """ProphetNet: predicts several tokens ahead, with positions relative to each."""
    alone, hidden, vocab = decoder_alone(c), c.size("hidden_size"), c.size("vocab_size")
    c.read |= QUIET
    longest, buckets = c.size("max_position_embeddings"), c.size("num_buckets", default=32)
    ngram, crossed = c.size("ngram", default=2), c.flag("add_cross_attention", True)
    tied = c.flag("tie_word_embeddings", True)

    def attention(side: str) -> Attention:
        heads = c.size(f"num_{side}_attention_heads")
        width = c.divide(hidden, heads, "hidden_size", f"num_{side}_attention_heads")
        return Attention(hidden, heads, heads, width, qkv_bias=True, out_bias=True)

    def stack(side: str, mixer: Mixer, names: tuple[str, ...]) -> list[Layer]:
        feed = Dense(hidden, c.size(f"{side}_ffn_dim"), gated=False, bias=True)
        return [Layer(mixer, feed, Norms(names, bias=True), hidden)] * c.layers(f"num_{side}_layers")

    own = attention("decoder")
    relative = tuple(linear("attention.relative", buckets * own.heads, hidden, shards=own.heads, bias=True))
    if not crossed:
        raise BadInput(
            "config field '{field}' must be one of: {known}", field=c.path + "add_cross_attention", known="true"
        )
    mixer = crossing(msgspec.structs.replace(own, beside=relative), hidden, cross=own, encoded=not alone)
    names = ("self_attn_layer_norm", "cross_attn_layer_norm", "feed_forward_layer_norm")
    ahead = ("embedding", Tensor("position_embedding.ngram", (ngram, hidden), "table"))
    around = frame(
        vocab,
        hidden,
        tied=tied,
        shared=0 if tied else vocab,
        positions=longest,
        embedding_norm=True,
        more=(ahead,),
    )
    towers: tuple[Tower, ...] = ()
    if alone:
        c.read |= {"num_encoder_layers", "num_encoder_attention_heads", "encoder_ffn_dim"}
    else:
        layers = stack("encoder", attention("encoder"), (names[0], names[2]))
        outer = frame(vocab, hidden, tied=True, positions=longest, embedding_norm=True)
        towers = (encoder(layers, "prophetnet.encoder", outer[1 if tied else 0 :]),)
    return whole_model(
        c,
        stack("decoder", mixer, names),
        around,
        family="prophetnet",
        dialect="prophetnet" if tied else "prophetnet.decoder",
        vocab=vocab,
        tied=tied,
        max_length=longest,
        towers=towers,
    )

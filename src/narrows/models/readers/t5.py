"""T5 and its kin: positions as a learned bias by distance, no biases anywhere else, layers of numbered parts."""

from __future__ import annotations

import msgspec

from narrows.models.feedforward import Dense, FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.readers.seq2seq_parts import QUIET, Rows, crossing, decoder_alone, encoder, frame, whole_model
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.models.tensors import Tensor
from narrows.text import BadInput

_GATED = {"t5": False, "longt5": False, "mt5": True, "umt5": True, "pop2piano": True}
"""Whether the feed-forward is gated where the file does not say."""


def is_gated(c: Fields, family: str) -> bool:
    """`is_gated_act`, or the first word of `feed_forward_proj`."""
    stated = c.raw("feed_forward_proj")
    usual = _GATED[family] if stated is None else str(stated).split("-")[0] == "gated"
    return c.flag("is_gated_act", usual)


def read(c: Fields, model_type: str) -> ModelSpec:
    """T5, mT5, umT5."""
    gated = is_gated(c, model_type)
    return build(c, model_type, "t5_gated" if gated else "t5", gated=gated, every=model_type == "umt5")


def _norms(parts: int) -> Norms:
    return Norms(tuple(f"layer.{i}.layer_norm" for i in range(parts)))


def _layers(c: Fields) -> tuple[int, int]:
    """Layers of encoder and decoder: as many in both, unless the file says otherwise."""
    first = c.layers("num_layers")
    return first, c.layers("num_decoder_layers", default=first) if c.raw("num_decoder_layers") is not None else first


def _own(c: Fields) -> Attention:
    hidden, heads = c.size("d_model"), c.size("num_heads")
    return Attention(hidden, heads, heads, c.size("d_kv"))


def _table(c: Fields, role: str = "attention.relative") -> Tensor:
    """Biases by distance, for every head."""
    heads = c.size("num_heads")
    return Tensor(role, (c.size("relative_attention_num_buckets", default=32), heads), "table", heads)


def build(
    c: Fields,
    family: str,
    dialect: str,
    *,
    gated: bool = False,
    every: bool = False,
    reading: tuple[Attention, Attention] | None = None,
    feeds: tuple[list[FeedForward], list[FeedForward]] | None = None,
    more: Rows = (),
    head_tied: bool | None = None,
    untie_all: bool = False,
) -> ModelSpec:
    """The model of a config. every: each layer has a table of relative positions, not only the first.

    reading: mixers of the encoder's first layer and of the others. feeds: feed-forwards of encoder and decoder.
    more: further tensors of the encoder. head_tied: fixed by the class (None: by `tie_word_embeddings`). untie_all:
    where the head is not tied, neither are the embeddings.
    """
    if decoder_alone(c):
        raise BadInput("a {family} model is an encoder-decoder, and the config says that it is not", family=family)
    c.read |= QUIET | {"hidden_size", "num_hidden_layers", "num_attention_heads", "head_dim"}
    own, vocab = _own(c), c.size("vocab_size")
    hidden = own.hidden
    encoders, decoders = _layers(c)
    if feeds is None:
        plain: FeedForward = Dense(hidden, c.size("d_ff"), gated)
        feeds = [plain] * encoders, [plain] * decoders
    head = msgspec.structs.replace(own, beside=(_table(c),))
    first = crossing(head, hidden, cross=own)
    others = first if every else crossing(own, hidden)
    if reading is None:
        reading = head, head if every else own
    layers = [Layer(others if i else first, feed, _norms(3), hidden) for i, feed in enumerate(feeds[1])]
    inner = [Layer(reading[1 if i else 0], feed, _norms(2), hidden) for i, feed in enumerate(feeds[0])]
    tied = c.flag("tie_word_embeddings", True) if head_tied is None else head_tied
    apart = untie_all and not tied
    outer = frame(vocab, hidden, tied=True, final_norm=True, bias=False)[0 if apart else 1 :]
    return whole_model(
        c,
        layers,
        frame(vocab, hidden, tied=tied, shared=vocab if apart else 0, final_norm=True, bias=False),
        family=family,
        dialect=f"{dialect}.decoder" if apart else dialect,
        vocab=vocab,
        tied=tied,
        max_length=c.maybe_size("n_positions", default=None) or 0,
        towers=(encoder(inner, f"{dialect}.encoder", outer, more),),
    )


def read_pop2piano(c: Fields) -> ModelSpec:
    """Pop2Piano: a T5 that reads sound, with an embedding of composers; its head is never tied."""
    gated = is_gated(c, "pop2piano")
    composers = Tensor("embedding.composers", (c.size("composer_vocab_size", default=21), c.size("d_model")), "table")
    more = (("mel_conditioner.embedding.weight", 1, composers),)
    c.read.add("tie_word_embeddings")
    dialect = "t5_gated" if gated else "t5"
    return build(c, "pop2piano", dialect, gated=gated, more=more, head_tied=False)


def read_longt5(c: Fields) -> ModelSpec:
    """LongT5: an encoder that looks around locally, and with `transient-global` also at summaries of blocks."""
    gated, kind = is_gated(c, "longt5"), c.raw("encoder_attention_type", default="local")
    if kind not in ("local", "transient-global"):
        raise BadInput(
            "config field '{field}' must be one of: {known}",
            field="encoder_attention_type",
            known="local, transient-global",
        )
    c.read |= {"local_radius", "global_block_size", "tie_word_embeddings"}
    first, others = [_table(c)], []
    if kind == "transient-global":
        summary = Tensor("attention.global_norm", (c.size("d_model"),), "vector")
        first += [_table(c, "attention.global_relative"), summary]
        others.append(summary)
    own = _own(c)
    return build(
        c,
        "longt5",
        f"longt5_{'local' if kind == 'local' else 'global'}{'_gated' if gated else ''}",
        gated=gated,
        reading=(
            msgspec.structs.replace(own, beside=tuple(first)),
            msgspec.structs.replace(own, beside=tuple(others)),
        ),
        head_tied=True,
    )


def read_switch_transformers(c: Fields) -> ModelSpec:
    """Switch Transformers: some layers of each side send every token to one of many experts."""
    hidden, inner, experts = c.size("d_model"), c.size("d_ff"), c.size("num_experts", default=8)
    plain = Dense(hidden, inner, gated=False)
    bias = c.flag("router_bias", False)
    sparse = MixtureOfExperts(hidden, experts, 1, inner, router_bias=bias, gated=False)

    def side(name: str, layers: int) -> list[FeedForward]:
        some = c.size(f"num_sparse_{name}_layers", default=3, least=0)
        step = layers // some if some else layers
        c.read.add(f"{name}_sparse_step")
        # the second layer of every step, as the class does: even a file that asks for no sparse layer gets one
        return [sparse if step == 1 or (step and i % step == 1) else plain for i in range(layers)]

    encoders, decoders = _layers(c)
    feeds = side("encoder", encoders), side("decoder", decoders)
    return build(c, "switch_transformers", "switch", feeds=feeds, untie_all=True)

"""BERT's family as language models: encoders that see all tokens at once, or decoders where `is_decoder` is on."""

from __future__ import annotations

import msgspec

from narrows.models.class_heads import note_of
from narrows.models.feedforward import Dense
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, Mixer, Uncached
from narrows.models.mixers.base import linear
from narrows.models.readers.seq2seq_parts import class_of, crossing, norm, whole_model
from narrows.models.readers.traits import Switch, on
from narrows.models.spec import Layer, ModelSpec, Norms, Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput

Frame = list[tuple[str, Tensor]]


class Bert(msgspec.Struct, frozen=True, kw_only=True):
    """One architecture. Source of the switches: its classes in transformers 5 (Apache-2.0).

    attention_norm, feed_norm: names of a layer's norms, of the attentions and of the feed-forward. embedding_norm,
    final_norm: there is one. types: token types by default (0: there are none). inner, outer: fields with the width
    of embedding and head, where they are not as wide as the layers, and its default (0: as wide). transform: there is
    a dense layer before the head. shared_bias: the head has a bias that is kept beside the one of its matrix. pooled:
    the encoder alone has a pooler; always_pooled: so has the language model. positions: there is a table of them.
    gated: so are the feed-forwards, without biases before the gate.
    """

    dialect: str = "bert"
    attention_norm: str = "output.LayerNorm"
    feed_norm: str = "output.LayerNorm"
    embedding_norm: bool = True
    final_norm: Switch = False
    types: int = 2
    inner: tuple[str, int] | None = None
    outer: tuple[str, int] | None = None
    transform: bool = True
    shared_bias: bool = True
    qkv_bias: Switch = True
    pooled: bool = True
    always_pooled: bool = False
    ties: bool = True
    positions: Switch = True
    gated: bool = False


_ROBERTA = Bert(dialect="roberta")

BERTS: dict[str, Bert] = {
    "bert": Bert(),
    "ernie": Bert(dialect="ernie"),
    "roc_bert": Bert(dialect="roc_bert"),
    "bert-generation": Bert(dialect="bert-generation", types=0, transform=False, pooled=False),
    "big_bird": Bert(dialect="big_bird", qkv_bias=("use_bias", True), always_pooled=True),
    "megatron-bert": Bert(
        dialect="megatron-bert", attention_norm="ln", feed_norm="ln", embedding_norm=False, final_norm=True
    ),
    "roformer": Bert(dialect="roformer", inner=("embedding_size", 0), outer=("embedding_size", 0), pooled=False),
    "electra": Bert(
        dialect="electra", inner=("embedding_size", 128), outer=("embedding_size", 128), shared_bias=False, pooled=False
    ),
    "rembert": Bert(
        dialect="rembert",
        inner=("input_embedding_size", 256),
        outer=("output_embedding_size", 1664),
        shared_bias=False,
        ties=False,
    ),
    "roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "data2vec-text": Bert(dialect="data2vec-text"),
    "roberta-prelayernorm": Bert(
        dialect="roberta-prelayernorm",
        attention_norm="LayerNorm",
        feed_norm="intermediate.LayerNorm",
        final_norm=True,
    ),
    "xlm-roberta-xl": Bert(
        dialect="roberta",
        attention_norm="self_attn_layer_norm",
        feed_norm="LayerNorm",
        embedding_norm=False,
        final_norm=True,
        types=1,
    ),
    "xmod": Bert(dialect="roberta", final_norm=("pre_norm", False)),
    "distilbert": Bert(
        dialect="distilbert",
        attention_norm="sa_layer_norm",
        feed_norm="output_layer_norm",
        types=0,
        shared_bias=False,
        pooled=False,
    ),
    "mpnet": Bert(dialect="mpnet", attention_norm="LayerNorm", types=0),
    "deberta-v2": Bert(dialect="deberta-v2", types=0, pooled=False, positions=("position_biased_input", True)),
    "jina_embeddings_v3": Bert(dialect="roberta", pooled=True, types=1),
}
"""By `model_type`."""

_LANGUAGE_MODELS = ("ForCausalLM", "ForMaskedLM", "LMHeadModel", "Decoder")
_QUIET = frozenset(
    """
    adapter_reuse_layer_norm attention_type block_size cross_attention_hidden_size default_language directionality
    enable_cls is_decoder ln_before_adapter num_random_blocks pooler_fc_size pooler_num_attention_heads
    pooler_num_fc_layers pooler_size_per_head pooler_type position_embedding_type rescale_embeddings rotary_value
    summary_last_dropout
    """.split()  # noqa: SIM905
)


def layers_of(c: Fields, bert: Bert, *, crossed: bool, encoded: bool = False) -> list[Layer]:
    """The layers; crossed: with attention over an encoder as wide as they are, which is there (`encoded`) or not."""
    c.read |= _QUIET
    hidden, heads = c.size("hidden_size"), c.size("num_attention_heads")
    own = Attention(
        hidden,
        heads,
        heads,
        c.divide(hidden, heads, "hidden_size", "num_attention_heads"),
        qkv_bias=on(c, bert.qkv_bias),
        out_bias=True,
    )
    mixer: Mixer = Uncached(own)
    if crossed:
        mixer = crossing(own, hidden, encoded=encoded)
    elif c.flag("is_decoder", False):
        mixer = own
    around = ("attention", "crossattention") if crossed else ("attention",)
    names = [f"{part}.{bert.attention_norm}" for part in around] + [bert.feed_norm]
    if c.flag("adapter_layer_norm", False):
        names.append("output.adapter_layer_norm")
    feed = Dense(hidden, c.size("intermediate_size"), bert.gated, bias=not bert.gated, down_bias=True)
    return [Layer(mixer, feed, Norms(tuple(names), bias=True), hidden)] * c.layers("num_hidden_layers")


def _width(c: Fields, field: tuple[str, int] | None, hidden: int) -> int:
    """The width of embedding or head; null in the file is as wide as the layers."""
    return hidden if field is None else c.maybe_size(field[0], default=field[1] or None) or hidden


def inside(c: Fields, bert: Bert) -> Frame:
    """What stands around the layers without a head: embeddings with their norm, and the last norm."""
    hidden, rows = c.size("hidden_size"), c.size("vocab_size")
    width = _width(c, bert.inner, hidden)
    longest = c.size("max_position_embeddings")
    turned = bert.dialect == "roformer"
    across = c.divide(hidden, c.size("num_attention_heads"), "hidden_size", "num_attention_heads") if turned else width
    found: Frame = [
        ("embedding", Tensor("embedding", (rows, width), "table", rows)),
    ]
    if on(c, bert.positions) and _tabled(c):
        found.append(("embedding", Tensor("position_embedding", (longest, across), "table")))
    if bert.types:
        found.append(
            ("embedding", Tensor("token_types", (c.size("type_vocab_size", default=bert.types), width), "table"))
        )
    if c.flag("use_task_id", False):
        tasks = c.size("task_type_vocab_size", default=3)
        found.append(("embedding", Tensor("token_types.task", (tasks, width), "table")))
    c.read.add("task_type_vocab_size")
    if bert.dialect == "roc_bert":
        found += _seen_and_heard(c, hidden)
    if bert.inner and (width != hidden or bert.dialect == "rembert"):
        found += [("embedding", tensor) for tensor in linear("embedding.in", hidden, width, bias=True)]
    if bert.embedding_norm:
        found += norm("norms", "embedding_norm", width, True)
    if on(c, bert.final_norm):
        found += norm("norms", "final_norm", hidden, True)
    return found


def _tabled(c: Fields) -> bool:
    """Whether positions have a table of their own: not where they are rotated, or where distance weighs (ALiBi)."""
    kind = c.raw("position_embedding_type")
    if kind not in (None, "absolute", "rotary", "alibi"):
        raise BadInput(
            "config field '{field}' is {value}, and narrows reads only: {known}",
            field=c.path + "position_embedding_type",
            value=str(kind)[:40],
            known="absolute, rotary, alibi",
        )
    return kind in (None, "absolute")


def _seen_and_heard(c: Fields, hidden: int) -> Frame:
    """RoCBert: embeddings of how a character sounds and looks, mixed with the usual one."""
    found: Frame = []
    total = hidden
    for kind, rows, width in (("pronunciation", 910, 768), ("shape", 24858, 512)):
        count, wide = c.size(f"{kind}_vocab_size", default=rows), c.size(f"{kind}_embed_dim", default=width)
        found.append(("embedding", Tensor(f"token_types.{kind}", (count, wide), "table")))
        total += wide if c.flag(f"enable_{kind}", True) else 0
    if c.flag("concat_input", True):
        found += [("embedding", tensor) for tensor in linear("embedding.in", hidden, total, bias=True)]
    return found


def pooler(hidden: int) -> Frame:
    """A dense layer over the first token."""
    return [("head", tensor) for tensor in linear("pooler", hidden, hidden, bias=True)]


def head(c: Fields, bert: Bert) -> tuple[Frame, bool]:
    """The head of a language model, and whether its matrix is the embedding."""
    hidden, rows = c.size("hidden_size"), c.size("vocab_size")
    width = _width(c, bert.outer, hidden)
    tied = c.flag("tie_word_embeddings", True) and bert.ties
    found: Frame = pooler(hidden) if bert.always_pooled else []
    if bert.transform:
        found += [("head", tensor) for tensor in linear("head.dense", width, hidden, bias=True)]
        found += norm("head", "head.norm", width, True)
    if not tied:
        found.append(("head", Tensor("head", (rows, width), "plain", rows)))
    if bert.shared_bias:
        found.append(("head", Tensor("head.shared.bias", (rows,), "vector", rows)))
    if not (bert.shared_bias and tied):
        found.append(("head", Tensor("head.bias", (rows,), "vector", rows)))
    return found, tied


def adapters(c: Fields, before: str) -> tuple[Tower, ...]:
    """X-MOD: in every layer a small feed-forward part for each language."""
    languages = c.raw("languages", default=["en_XX"])
    if not isinstance(languages, list) or len(languages) > 1000:
        raise BadInput("config field '{field}' must be a list of languages", field=c.path + "languages")
    hidden, layers = c.size("hidden_size"), c.layers("num_hidden_layers")
    narrow = hidden // c.size("adapter_reduction_factor", default=2)
    rows = []
    for language in dict.fromkeys(map(str, languages)):
        name = f"{before}encoder.layer.{{}}.output.adapter_modules.{language[:40]}."
        for part, out, inner in (("dense1", narrow, hidden), ("dense2", hidden, narrow)):
            weight, bias = linear("adapter", out, inner, bias=True)
            rows += [(f"{name}{part}.weight", layers, weight), (f"{name}{part}.bias", layers, bias)]
    return (Tower("adapters", tuple(rows), reads=True),) if rows else ()


def _lora(c: Fields, *, pooled: bool) -> tuple[Tower, ...]:
    """Jina's third embeddings: every matrix and table has low-rank changes for each of several tasks."""
    tasks, rank = c.raw("lora_adaptations"), c.maybe_size("lora_rank", default=4)
    c.read |= {"lora_main_params_trainable", "lora_p", "lora_dropout_p", "lora_alpha", "task_instructions"}
    if not isinstance(tasks, list) or not tasks or rank is None:
        return ()
    hidden, inner, layers = c.size("hidden_size"), c.size("intermediate_size"), c.layers("num_hidden_layers")
    sides = [("mixer.Wqkv", layers, 3 * hidden, hidden), ("mixer.out_proj", layers, hidden, hidden)]
    sides += [("mlp.fc1", layers, inner, hidden), ("mlp.fc2", layers, hidden, inner)]
    sides += [("word_embeddings", 1, c.size("vocab_size"), hidden)]
    sides += [("token_type_embeddings", 1, c.size("type_vocab_size", default=2), hidden)]
    sides += [("pooler.dense", 1, hidden, hidden)] if pooled else []
    rows = []
    for name, repeats, out, width in sides:
        for side, shape in (("A", (len(tasks), rank, width)), ("B", (len(tasks), out, rank))):
            stored = f"roberta.{name}.{{}}.lora_{side}" if repeats > 1 else f"roberta.{name}.lora_{side}"
            rows.append((stored, repeats, Tensor(f"adapter.{side}", shape, "vector")))
    return (Tower("adapters", tuple(rows), reads=True),)


def _jina(c: Fields, bert: Bert) -> Bert:
    """Jina's second embeddings: BERT with gated feed-forwards, and distances in place of positions."""
    c.read |= {"emb_pooler", "attn_implementation"}
    if "qk-post-norm" in str(c.raw("auto_map")):
        raise BadInput("Jina's BERT with norms of queries and keys is not read yet")
    return msgspec.structs.replace(bert, dialect="jina-bert", gated=True)


def read(c: Fields, model_type: str) -> ModelSpec:
    """Any of them, as a language model."""
    bert, name = BERTS[model_type], class_of(c)
    if c.raw("feed_forward_type", default="original") in ("geglu", "reglu"):
        bert, name = _jina(c, bert), name.removeprefix("Jina")
    bare = note_of(name, model_type) if name else None
    if name and bare is None and not name.endswith(_LANGUAGE_MODELS):
        raise BadInput(
            "class {name} has no language-model head; narrows reads this family as a language model only: give the "
            "config of one, or take 'architectures' out of the file",
            name=name[:60],
        )
    last, tied = head(c, bert)
    if bare is not None:
        # a classifier begins with a layer like the pooler
        last = pooler(c.size("hidden_size")) if bert.pooled else []
    crossed = c.flag("add_cross_attention", False) and c.flag("is_decoder", False)
    spec = whole_model(
        c,
        layers_of(c, bert, crossed=crossed),
        (*inside(c, bert), *last),
        family=model_type,
        dialect=bert.dialect,
        vocab=c.size("vocab_size"),
        tied=tied,
        max_length=c.size("max_position_embeddings"),
        towers=adapters(c, "roberta.") if model_type == "xmod" else _lora(c, pooled=bert.pooled and bare is not None),
    )
    return spec if bare is None else msgspec.structs.replace(spec, assumptions=(bare,))

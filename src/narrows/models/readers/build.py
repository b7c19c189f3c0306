"""What readers share: grouping layers, the attention most decoders have, and the frame around the layers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from narrows.models.feedforward import Dense, FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, Mixer
from narrows.models.quantization import read_precision
from narrows.models.readers.tying import text_says
from narrows.models.spec import Layer, LayerGroup, ModelSpec, Norms
from narrows.models.tensors import Tensor
from narrows.precision import format_of

OF_THE_WHOLE = ("torch_dtype", "dtype", "quantization_config")
"""What the top of a multimodal config says of its decoder too."""
PRE_NORMS = Norms(("input_layernorm", "post_attention_layernorm"))
SANDWICH_NORMS = Norms(
    (
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    )
)

SLIDING, FULL, LINEAR = "sliding_attention", "full_attention", "linear_attention"


def grouped(layers: Iterable[Layer]) -> tuple[LayerGroup, ...]:
    """Layers in order, equal neighbours folded into one group."""
    groups: list[LayerGroup] = []
    for layer, run in groupby(layers):
        first = groups[-1].first + groups[-1].repeat if groups else 0
        groups.append(LayerGroup(sum(1 for _ in run), layer, first))
    return tuple(groups)


def attention(c: Fields, *, kv_heads: Any = ..., head_dim: int | None = None, **rest: Any) -> Attention:
    """The attention of a Llama-like config. `head_dim`: the architecture's default, hidden ÷ heads if None.

    `kv_heads`: the architecture's default number of KV heads; as many as heads if not given.
    """
    hidden, heads = c.size("hidden_size"), c.size("num_attention_heads")
    kv = c.maybe_size("num_key_value_heads", default=heads if kv_heads is ... else kv_heads)
    kv = heads if kv is None else kv
    c.divide(heads, kv, "num_attention_heads", "num_key_value_heads")
    width = c.maybe_size("head_dim", default=head_dim)
    if width is None:
        width = c.divide(hidden, heads, "hidden_size", "num_attention_heads")
    return Attention(hidden, heads, kv, width, **rest)


def windowed(full: Attention, window: int | None, kinds: Sequence[str]) -> list[Attention]:
    """One attention per layer: over the window where the layer slides, over everything elsewhere."""
    sliding = Attention(
        **{name: getattr(full, name) for name in full.__struct_fields__ if name != "window"}, window=window
    )
    return [sliding if kind == SLIDING else full for kind in kinds]


def indexed_as_full(c: Fields) -> None:
    """Attention that picks tokens by an indexer is full attention in `layer_types`: the indexer is told elsewhere."""
    kinds = c.raw("layer_types")
    if isinstance(kinds, list):
        c.values = {**c.values, "layer_types": [FULL if kind == "indexed_attention" else kind for kind in kinds]}


def full_every(c: Fields, layers: int, every: int, other: str = SLIDING) -> list[str]:
    """Kinds of layers by `layer_types`, else every `every`-th one full (0: none) and the rest of the other kind."""
    return c.kinds("layer_types", layers, (other, FULL)) or [
        FULL if every and (i + 1) % every == 0 else other for i in range(layers)
    ]


def rotary_layers(c: Fields, layers: int) -> list[Any]:
    """Which layers rotate positions: by `no_rope_layers` (1: they do), else by `no_rope_layer_interval`."""
    every, stated = c.size("no_rope_layer_interval", default=4), c.raw("no_rope_layers")
    if isinstance(stated, list) and len(stated) == layers:
        return stated
    return [(i + 1) % every != 0 for i in range(layers)]


def from_the_top(c: Fields, text: Fields) -> None:
    """Give a decoder's fields what the top of the file says of the whole, where they are silent themselves."""
    for name in OF_THE_WHOLE:
        value = c.raw(name)
        if text.stated(name) is None:
            text.values = {**text.values, name: value}


def with_defaults(c: Fields, defaults: Mapping[str, int]) -> None:
    """Give a config the architecture's numbers where it is silent, and note that they are defaults."""
    for name, value in defaults.items():
        if not c.has(name):
            c.values = {**c.values, name: value}
            c.defaulted.append(c.path + name)


def text_part(c: Fields, *, tied: bool | None = False) -> Fields:
    """The decoder's fields of a multimodal config, with what only the top of the file says.

    tied: the default of `tie_word_embeddings` at the top, where it counts (None: it counts in the text part; see
    `tying` for files of which it does not).
    """
    text = c.nested("text_config")
    from_the_top(c, text)
    if tied is not None and not text_says(c):
        text.values = {**text.values, "tie_word_embeddings": c.raw("tie_word_embeddings", default=tied)}
    text.defaulted = c.defaulted
    return text


def state_format(c: Fields, *names: str) -> str | None:
    """The format that a file asks recurrent state to be kept in, if it names one."""
    stated = c.stated(*names)
    if stated is None or stated == "auto":
        return None
    return format_of(stated if isinstance(stated, str) else "?").name


def untied(c: Fields) -> None:
    """Of an architecture whose class never ties the head, whatever the file says."""
    c.flag("tie_word_embeddings", False)
    c.values = {**c.values, "tie_word_embeddings": False}


def dense(c: Fields, **rest: Any) -> Dense:
    """A gated feed-forward of `intermediate_size`."""
    return Dense(c.size("hidden_size"), c.size("intermediate_size"), **rest)


def stack(mixers: Sequence[Mixer], feed_forwards: Sequence[FeedForward | None], norms: Norms) -> tuple[LayerGroup, ...]:
    """Layer groups from one mixer and one feed-forward per layer."""
    made: dict[tuple[int, int], Layer] = {}
    layers = []
    for mixer, feed_forward in zip(mixers, feed_forwards, strict=True):
        key = (id(mixer), id(feed_forward))
        if key not in made:
            made[key] = Layer(mixer, feed_forward, norms, mixer.hidden)
        layers.append(made[key])
    return grouped(layers)


def mixture(
    c: Fields,
    hidden: int,
    width: int,
    *,
    number: int,
    top_k: int,
    names: Sequence[str] = ("num_experts", "num_local_experts"),
    chosen: Sequence[str] = ("num_experts_per_tok",),
    **rest: Any,
) -> MixtureOfExperts:
    """Experts `width` wide. number, top_k: the architecture's defaults; names, chosen: fields that say otherwise."""
    count = c.size(*names, default=number)
    return MixtureOfExperts(hidden, count, c.size(*chosen, default=min(top_k, count), most=count), width, **rest)


def which_sparse(c: Fields, layers: int, first: int, every: int = 1) -> list[bool]:
    """Which layers have experts: by `mlp_layer_types`, else every `every`-th one from `first` on."""
    kinds = c.kinds("mlp_layer_types", layers, ("dense", "sparse"))
    return [i >= first and i % every == 0 for i in range(layers)] if kinds is None else [k == "sparse" for k in kinds]


def routed(c: Fields, count: int, sparse: MixtureOfExperts, plain: Dense) -> list[FeedForward]:
    """Which layers are sparse in the Qwen MoE configs: every `decoder_sparse_step`-th, unless listed as plain."""
    step = c.size("decoder_sparse_step", default=1)
    only_dense = c.indices("mlp_only_layers")
    return [sparse if (i + 1) % step == 0 and i not in only_dense else plain for i in range(count)]


def model(
    c: Fields,
    groups: tuple[LayerGroup, ...],
    *,
    family: str,
    dialect: str = "llama",
    tied: bool = False,
    vocab: Any = ...,
    **rest: Any,
) -> ModelSpec:
    """The frame around the layers. `tied`, `vocab`: the architecture's defaults."""
    vocabulary = c.size("vocab_size") if vocab is ... else c.size("vocab_size", default=vocab)
    return ModelSpec(
        name="",
        architecture="",
        family=family,
        vocab=vocabulary,
        hidden=groups[0].layer.hidden,
        max_length=c.maybe_size("max_position_embeddings", "n_positions", default=None) or 0,
        groups=groups,
        precision=read_precision(c),
        dialect=dialect,
        head_tied=c.flag("tie_word_embeddings", tied),
        **rest,
    )


def outside(*, before: Iterable[Tensor] = (), after: Iterable[Tensor] = ()) -> tuple[tuple[str, Tensor], ...]:
    """`ModelSpec.extra`: tensors before the first layer (roles begin with `before.`) and after the last one."""
    return (*(("embedding", one) for one in before), *(("head", one) for one in after))

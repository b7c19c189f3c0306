"""Inkling 1 and 2: attention with short convolutions and learned relative positions; Inkling 2 Mini loops layers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from narrows.models.feedforward import Dense, FeedForward, MixtureOfExperts
from narrows.models.fields import MOST_LAYERS, Fields
from narrows.models.mixers import Attention, ConvolvedAttention
from narrows.models.readers.build import PRE_NORMS, grouped, mixture, model, untied, which_sparse
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.models.tensors import Tensor
from narrows.text import BadInput

_SLIDING, _FULL = "hybrid_sliding", "hybrid"
_FULL_NORMS = Norms(("q_input_layernorm", "k_input_layernorm", "v_input_layernorm", "post_attention_layernorm"))


class _Heads(msgspec.Struct, frozen=True):
    """Defaults of the two kinds of attention: heads, KV heads, head dim; the window."""

    full: tuple[int, int, int]
    sliding: tuple[int, int, int]
    window: int


def _attentions(c: Fields, of: _Heads, *, scaled: bool) -> dict[str, ConvolvedAttention]:
    """The attention of a full and of a sliding layer."""
    hidden, conv = c.size("hidden_size"), c.size("conv_kernel_size", "sconv_kernel_size", default=4)
    window = c.size("sliding_window_size", "sliding_window", default=of.window)
    relative, extent = c.size("d_rel", default=16), c.size("rel_extent", default=1024)
    found = {}
    for kind, prefix, usual in ((_FULL, "", of.full), (_SLIDING, "swa_", of.sliding)):
        names = [f"{prefix}{name}" for name in ("num_attention_heads", "num_key_value_heads", "head_dim")]
        heads, kv, width = (c.size(name, default=value) for name, value in zip(names, usual, strict=True))
        c.divide(heads, kv, names[0], names[1])
        slides = kind == _SLIDING
        own = Attention(
            hidden,
            heads,
            kv,
            width,
            window if slides else None,
            qk_norm=not scaled,
            gate="channel" if scaled else "",
        )
        found[kind] = ConvolvedAttention(
            own, conv, relative, window if slides else extent, scaled=scaled, dynamic=scaled and not slides
        )
    c.read |= {"log_scaling_n_floor", "log_scaling_alpha", "number_of_conv_states", "unpadded_vocab_size"}
    return found


def _kinds(c: Fields, layers: int) -> list[str]:
    """Every sixth layer sees everything, unless the file says otherwise."""
    local = c.indices("local_layer_ids") if c.raw("local_layer_ids") is not None else None
    usual = [_SLIDING if (i in local if local is not None else (i + 1) % 6) else _FULL for i in range(layers)]
    return c.kinds("layer_types", layers, (_SLIDING, _FULL)) or usual


def read_inkling_text(c: Fields) -> ModelSpec:
    """Inkling's decoder: routed and shared experts, which the router scores together."""
    layers = c.layers("num_hidden_layers")
    of = _attentions(c, _Heads((64, 8, 128), (64, 16, 128), 512), scaled=False)
    hidden, older = of[_FULL].hidden, c.maybe_size("dense_intermediate_size", default=None)
    # the hub's files call the experts' width `intermediate_size` where they name the dense layers' apart
    narrow = ("intermediate_size",) if older else ("moe_intermediate_size",)
    width, number = c.size(*narrow, default=3072), c.size("n_routed_experts", "num_local_experts", default=256)
    shared = c.size("n_shared_experts", default=2, least=0)
    router = (
        Tensor("router", (number + shared, hidden), "plain"),
        Tensor("router.scale", (1,), "vector", format="float32"),
    )
    sparse = MixtureOfExperts(
        hidden,
        number,
        c.size("num_experts_per_tok", default=min(6, number), most=number),
        width,
        shared=shared * width,
        correction=True,
        router=router,
    )
    c.read |= {"intermediate_size", "moe_intermediate_size", "dense_intermediate_size"}
    first = c.size("dense_mlp_idx", default=0, least=0)
    at = which_sparse(c, layers, first)
    plain = None if all(at) else Dense(hidden, older or c.size("intermediate_size"))
    scale = (Tensor("mlp.scale", (1,), "vector"),)
    made: dict[tuple[str, bool], Layer] = {}
    found = []
    for kind, one in zip(_kinds(c, layers), at, strict=True):
        if (kind, one) not in made:
            part: FeedForward = sparse if one or plain is None else plain
            made[kind, one] = Layer(of[kind], part, PRE_NORMS, hidden, beside=() if one else scale)
        found.append(made[kind, one])
    c.read |= _UNREAD
    untied(c)
    norm = (("norms", Tensor("input.norm", (hidden,), "vector")),)
    return model(c, grouped(found), family="inkling_text", dialect="inkling", extra=norm)


_UNREAD = {
    *("shared_expert_sink", "logits_mup_width_multiplier", "embedding_multiplier", "rms_norm_eps_moe_gate"),
    *("num_mtp_layers", "chain_hidden_post_norm", "mtp_hidden_states_first", "mtp_local_layer_ids"),
    *("qk_l2_clip_threshold", "rel_l2_clip_threshold", "mlp_gate_softcap", "mlp_up_softcap"),
}


class _Second(msgspec.Struct, frozen=True):
    """What the models of the second generation share: attentions, experts, width."""

    attentions: dict[str, ConvolvedAttention]
    experts: MixtureOfExperts

    def layer(self, kind: str, index: int, extra: tuple[Tensor, ...] = ()) -> Layer:
        """One layer: a learned query picks its inputs among the outputs of earlier blocks (not in the first layer)."""
        hidden = self.experts.hidden
        picks = [Tensor("residual.mlp", (hidden,), "vector", format="float32")]
        if index:
            shape = (hidden,) if kind == _SLIDING else (3, hidden)
            picks.append(Tensor("residual.attention", shape, "vector", format="float32"))
        norms = PRE_NORMS if kind == _SLIDING else _FULL_NORMS
        return Layer(self.attentions[kind], self.experts, norms, hidden, beside=(*picks, *extra))


def _second(c: Fields, heads: _Heads, experts: tuple[int, int]) -> _Second:
    """experts: default number and width."""
    of = _attentions(c, heads, scaled=True)
    part = mixture(
        c,
        of[_FULL].hidden,
        c.size("moe_intermediate_size", "intermediate_size", default=experts[1]),
        number=experts[0],
        top_k=8,
        names=("n_routed_experts", "num_local_experts"),
        correction=True,
    )
    c.read |= _UNREAD | {"n_layers_per_attn_res_block"}
    untied(c)
    return _Second(of, part)


def _framed(c: Fields, layers: list[Layer], family: str, beside: tuple[tuple[str, Tensor], ...] = ()) -> ModelSpec:
    """The embedding has as many rows as the vocabulary, the head as many as there are words in it."""
    hidden, rows = layers[0].hidden, c.size("vocab_size")
    words = c.size("unpadded_vocab_size", default=200058)
    extra = (
        ("norms", Tensor("input.norm", (hidden,), "vector")),
        ("norms", Tensor("residual.final", (hidden,), "vector", format="float32")),
        *beside,
    )
    spec = model(c, grouped(layers), family=family, dialect="inkling2", embedding_rows=rows, extra=extra)
    return msgspec.structs.replace(spec, vocab=words)


def _made(build: Callable[[str, int], Layer], kinds: list[str]) -> list[Layer]:
    """Layers by kind, of which equal ones are one object."""
    known: dict[Layer, Layer] = {}
    found = []
    for index, kind in enumerate(kinds):
        layer = build(kind, index)
        found.append(known.setdefault(layer, layer))
    return found


def read_inkling2_text(c: Fields) -> ModelSpec:
    """Inkling 2 Small's decoder."""
    of = _second(c, _Heads((48, 8, 128), (48, 8, 128), 1024), (384, 2304))
    kinds = _kinds(c, c.layers("num_hidden_layers"))
    return _framed(c, _made(of.layer, kinds), "inkling2_text")


def read_inkling2_loop_text(c: Fields) -> ModelSpec:
    """Inkling 2 Mini's decoder: a run of layers is passed several times, each pass with a cache of its own."""
    of = _second(c, _Heads((24, 8, 128), (24, 8, 128), 1024), (128, 1152))
    kinds = _kinds(c, c.layers("num_hidden_layers"))
    loop = c.nested("loop_config") if c.raw("loop_config") else Fields({})
    start, end, passes, rank = (
        loop.size(inner, default=c.size(outer, default=value))
        for inner, outer, value in (
            ("core_start", "loop_layer_index_start", 6),
            ("core_end", "loop_layer_index_end", 18),
            ("num_passes", "loop_num_passes", 3),
            ("gate_rank", "loop_gate_rank", 64),
        )
    )
    if end < start:
        raise BadInput(
            "config field '{field}' ends the loop before it starts; the file contradicts itself",
            field=c.path + "loop_layer_index_end",
        )
    looped = range(len(kinds))[start:end]
    if len(kinds) + (passes - 1) * len(looped) > MOST_LAYERS:
        raise BadInput(
            "config field '{field}' is {value}; narrows lays out at most {most} layers",
            field=c.path + "loop_num_passes",
            value=passes,
            most=MOST_LAYERS,
        )
    hidden = of.experts.hidden
    gates = tuple(
        tensor
        for name in ("q", "k", "v", "mlp")
        for tensor in (
            Tensor(f"gate.{name}_down", (rank, 2 * hidden)),
            Tensor(f"gate.{name}_forget", (hidden, rank), format="float32"),
            Tensor(f"gate.{name}_message", (hidden, rank), format="float32"),
        )
    )
    layers = _made(lambda kind, index: of.layer(kind, index, gates if index in looped else ()), kinds)
    # every further pass has the weights of the first and a cache of its own, which stands after the others
    again = [msgspec.structs.replace(layers[i], owner=i, borrowed=("",)) for i in looped]
    query = Tensor("residual.message", (end - start, 4, hidden), "vector", format="float32")
    return _framed(c, layers + again * (passes - 1), "inkling2_loop_text", (("norms", query),))

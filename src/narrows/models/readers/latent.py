"""More decoders with latent attention: A.X K1 and K2, Hunyuan 4, dots 3 Note, Ling and Ring hybrids."""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.models.feedforward import Dense, FeedForward, MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import KimiDelta, LatentAttention, Mixer, linear
from narrows.models.readers.build import (
    FULL,
    LINEAR,
    PRE_NORMS,
    SLIDING,
    dense,
    full_every,
    grouped,
    mixture,
    model,
    outside,
    stack,
    untied,
    which_sparse,
)
from narrows.models.readers.deepseek import Ranks, latent_attention, sparse_layers
from narrows.models.spec import Layer, ModelSpec
from narrows.models.tensors import Tensor
from narrows.text import BadInput

INDEXED = "indexed_attention"


def _needs_query_rank(c: Fields, mixer: LatentAttention) -> None:
    if mixer.q_rank is None:
        raise BadInput(
            "config field '{field}' is null, and narrows needs a number there; take the config.json of the "
            "original model",
            field=c.path + "q_lora_rank",
        )


def read_axk1(c: Fields) -> ModelSpec:
    """A.X K1: DeepSeek-V3 with a norm on the output of the experts."""
    mixer = latent_attention(c)
    _needs_query_rank(c, mixer)
    parts, _ = sparse_layers(c, 192)
    after = Tensor("norm.post_mlp_layernorm", (mixer.hidden,), "vector")
    layers = [
        Layer(mixer, part, PRE_NORMS, mixer.hidden, beside=(after,) if isinstance(part, MixtureOfExperts) else ())
        for part in parts
    ]
    return model(c, grouped(layers), family="axk1", dialect="axk1")


def read_axk2(c: Fields) -> ModelSpec:
    """A.X K2: a sparse indexer, a gate made with the queries, low-rank gates on the norms of sparse layers."""
    usual = latent_attention(c, Ranks(384, 128, 64, 32, 64, index=(16, 128)))
    _needs_query_rank(c, usual)
    mixer, hidden = msgspec.structs.replace(usual, query_gate=True), usual.hidden
    parts, _ = sparse_layers(c, 128)
    rank = c.size("gated_norm_rank", default=16)
    c.kinds("layer_types", len(parts), (INDEXED,))

    def gate(name: str) -> tuple[Tensor, ...]:
        return (
            Tensor(f"norm_gate.{name}.down", (rank, hidden), "plain"),
            Tensor(f"norm_gate.{name}.up", (hidden, rank), "plain"),
        )

    first, second = gate("input_layernorm"), gate("post_attention_layernorm")
    layers = [
        Layer(
            mixer,
            part,
            PRE_NORMS,
            hidden,
            beside=first + second if isinstance(part, MixtureOfExperts) else first,
        )
        for part in parts
    ]
    return model(c, grouped(layers), family="axk2", dialect="axk2")


def hyper_connections(hidden: int, streams: int, rows: int, scales: int) -> tuple[Tensor, ...]:
    """Two hyper-connections of a layer (Zhu et al. 2024): maps from all residual streams to `rows` weights of them."""
    return tuple(
        Tensor(f"hyper.{part}.{name}", shape, "plain" if len(shape) == 2 else "vector", format="float32")
        for part in ("attention", "mlp")
        for name, shape in (("map", (rows, streams * hidden)), ("base", (rows,)), ("scale", (scales,)))
    )


def hyper_head(hidden: int, streams: int) -> tuple[Tensor, ...]:
    """What merges the residual streams before the last norm."""
    return (
        Tensor("after.hyper.map", (streams, streams * hidden), "plain", format="float32"),
        Tensor("after.hyper.base", (streams,), "vector", format="float32"),
        Tensor("after.hyper.scale", (1,), "vector", format="float32"),
    )


def read_hy_v4(c: Fields) -> ModelSpec:
    """Hunyuan 4: sparse indexers shared by layers, sinks and a gate, several residual streams."""
    usual = latent_attention(c, Ranks(1536, nope=192, value=256, index=(16, 128)))
    _needs_query_rank(c, usual)
    hidden, heads = usual.hidden, usual.heads
    beside = (
        *linear("mla.gate", heads * usual.value, hidden, shards=heads),
        Tensor("mla.sinks", (heads,), "vector", heads, format="float32"),
    )
    indexing = msgspec.structs.replace(usual, beside=beside)
    sharing = msgspec.structs.replace(indexing, index_heads=0, index_dim=0)
    parts, _ = sparse_layers(c, 256)
    c.kinds("layer_types", len(parts), (INDEXED,))
    kinds = c.kinds("indexer_types", len(parts), ("full", "shared")) or [
        "full" if i == 0 or (i - 1) % 4 == 0 else "shared" for i in range(len(parts))
    ]
    streams = c.size("hc_mult", default=4, most=1024)
    hyper = hyper_connections(hidden, streams, 2 * streams, 2)
    c.read |= {"hc_magnitude", "hc_eps", "learnable_sink_init"}
    layers = [
        Layer(indexing if kind == "full" else sharing, part, PRE_NORMS, hidden, beside=hyper)
        for kind, part in zip(kinds, parts, strict=True)
    ]
    return model(c, grouped(layers), family="hy_v4", dialect="hy_v4", extra=outside(after=hyper_head(hidden, streams)))


_SLIDING_SIZES = {
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "q_lora_rank": 1024,
    "kv_lora_rank": 1024,
    "head_dim": 256,
    "qk_nope_head_dim": 192,
    "v_head_dim": 128,
}
"""Of dots 3 Note's sliding layers, where the file has no `swa_…` (transformers' Dots3NoteTextConfig)."""
_DOTS3 = Ranks(1024, index=(64, 128))


def _own_sizes(c: Fields, kinds: list[str]) -> list[dict[str, Any]]:
    """Sizes of each layer that differ from the model's: by layer, or by the `swa_…` fields of older files."""
    stated = c.raw("per_layer_config")
    named = {name: c.size(f"swa_{name}", default=value) for name, value in _SLIDING_SIZES.items()}
    rope = named["head_dim"] - named["qk_nope_head_dim"]
    named["qk_rope_head_dim"] = c.size("swa_qk_rope_head_dim", default=max(rope, 1))
    if stated is None:
        return [named if kind == SLIDING else {} for kind in kinds]
    found: list[dict[str, Any]] = [{} for _ in kinds]
    entries: dict[Any, Any] = stated if isinstance(stated, dict) else {None: None}
    for key, value in entries.items():
        if not (isinstance(key, str) and key.isdecimal() and int(key) < len(kinds) and isinstance(value, dict)):
            raise BadInput("config field '{field}' must be an object of fields", field=c.path + "per_layer_config")
        found[int(key)] = value
    return found


def read_dots3_note_text(c: Fields) -> ModelSpec:
    """dots 3 Note's decoder: latent attention with an indexer or over a window, each with sizes of its own."""
    layers = c.layers("num_hidden_layers")
    slides = c.flag("use_sliding_window", True)
    indexed = c.raw("use_dsa")
    usual = [INDEXED if not slides or i < 2 or i % 4 == 1 else SLIDING for i in range(layers)]
    kinds = c.kinds("layer_types", layers, (INDEXED, SLIDING, FULL)) or usual
    # older files call layers with an indexer full
    old_files = indexed is True or (indexed is None and not c.has("per_layer_config"))
    kinds = [
        INDEXED if kind == FULL and old_files else FULL if kind == INDEXED and indexed is False else kind
        for kind in kinds
    ]
    window = c.maybe_size("sliding_window", default=None) or c.size("sliding_window_size", default=512)
    if isinstance(c.raw("moe_layer_freq"), list) and c.raw("mlp_layer_types") is None:
        c.values = {**c.values, "mlp_layer_types": _listed(c, layers)}
        c.values.pop("moe_layer_freq")
    parts = _dots3_parts(c)
    made: dict[str, LatentAttention] = {}
    mixers = []
    for kind, sizes in zip(kinds, _own_sizes(c, kinds), strict=True):
        key = f"{kind} {sorted(map(str, sizes.items()))}"
        if key not in made:
            made[key] = _dots3_attention(c, kind, sizes, window)
        mixers.append(made[key])
    c.read |= {name for name in c.values if name.startswith("swa_")}
    return model(c, stack(mixers, parts, PRE_NORMS), family="dots3_note", dialect="dots3_note")


def _listed(c: Fields, layers: int) -> list[str]:
    """`moe_layer_freq` as a list: 1 for a sparse layer; the first `first_k_dense_replace` are dense all the same."""
    given = c.raw("moe_layer_freq")
    first = c.size("first_k_dense_replace", default=1, least=0)
    c.check_layers("moe_layer_freq", len(given), layers)
    return ["sparse" if i >= first and one else "dense" for i, one in enumerate(given)]


def _dots3_parts(c: Fields) -> list[FeedForward]:
    """Experts whose shared one has a width of its own."""
    parts, sparse = sparse_layers(c, 256)
    number = c.maybe_size("n_shared_experts", default=1, least=0) or 0
    width = c.size("moe_shared_expert_intermediate_size", "shared_experts_intermediate_size", default=1536)
    own = msgspec.structs.replace(sparse, shared=number * width)
    return [own if isinstance(part, MixtureOfExperts) else part for part in parts]


def _dots3_attention(c: Fields, kind: str, sizes: dict[str, Any], window: int) -> LatentAttention:
    own = Fields({**c.values, **sizes}, c.path)
    ranks = _DOTS3 if kind == INDEXED else msgspec.structs.replace(_DOTS3, index=None)
    mixer = latent_attention(own, ranks)
    c.read |= own.read
    _needs_query_rank(c, mixer)
    beside = (
        Tensor("mla.rope_norm", (mixer.rope,), "vector"),
        *linear("mla.head_gate", mixer.heads, mixer.hidden, shards=mixer.heads),
    )
    return msgspec.structs.replace(mixer, beside=beside, window=window if kind == SLIDING else None)


def read_bailing_hybrid(c: Fields) -> ModelSpec:
    """Ling and Ring hybrids: five layers of delta attention to one of latent attention with a gate per head."""
    layers = c.layers("num_hidden_layers")
    every = c.size("layer_group_size", default=6)
    kinds = full_every(c, layers, every, LINEAR)
    full = latent_attention(c, Ranks(None))
    gate = tuple(linear("mla.head_gate", full.heads, full.hidden, shards=full.heads))
    full = msgspec.structs.replace(full, beside=gate)
    delta = KimiDelta(
        full.hidden,
        c.size("linear_num_heads", default=full.heads),
        # what transformers writes out says `linear_head_dim`, and repeats another size as `head_dim`
        c.size("linear_head_dim", "head_dim", default=128),
        c.size("linear_conv_kernel_dim", "short_conv_kernel_size", default=4),
        low_rank=False,
    )
    mixers: list[Mixer] = [full if kind == FULL else delta for kind in kinds]
    width = c.size("moe_intermediate_size")
    sparse = mixture(
        c,
        full.hidden,
        width,
        number=512,
        top_k=8,
        chosen=("num_experts_per_token", "num_experts_per_tok"),
        shared=width * c.size("num_shared_experts", "n_shared_experts", default=1, least=0),
        correction=True,
    )
    first = c.size("first_k_dense_replace", default=2, least=0)
    plain: Dense = dense(c)
    parts: list[FeedForward] = [sparse if one else plain for one in which_sparse(c, layers, first)]
    c.read |= {"num_expert_group", "moe_renormalize", "short_conv_kernel_size", "kda_safe_gate", "kda_lower_bound"}
    c.read |= {"mtp_loss_scaling_factor", "head_dim"}
    c.values = {**c.values, "max_position_embeddings": c.raw("model_max_length", "max_position_embeddings")}
    untied(c)
    return model(c, stack(mixers, parts, PRE_NORMS), family="bailing_hybrid", dialect="bailing_hybrid")

"""Qwen 4 experimental: delta nets and indexed attention, four residual streams, tables of hashed n-grams.

Source: the classes of transformers 5 (Apache-2.0).
"""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.models.feedforward import MixtureOfExperts
from narrows.models.fields import Fields
from narrows.models.mixers import Attention, GatedDeltaNet, IndexedAttention, Mixer, linear
from narrows.models.readers.build import (
    grouped,
    indexed_as_full,
    model,
    outside,
    state_format,
    text_part,
    with_defaults,
)
from narrows.models.readers.qwen import delta_nets, experts
from narrows.models.readers.vision import qwen3_vision
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.models.tensors import StateRow, Tensor
from narrows.text import BadInput

_MOST_HEADS = 2000
"""Heads of n-grams over all layers; each has a table of a prime number of rows, found by trial division."""
_DEFAULTS = {
    "vocab_size": 248320,
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_attention_heads": 16,
    "max_position_embeddings": 32768,
    "moe_intermediate_size": 512,
}
"""transformers' Qwen4ExpTextConfig."""


def _streams(role: str, hidden: int, count: int, rank: int, *, injects: bool) -> list[Tensor]:
    """What mixes the residual streams before a part, through a narrow product, and puts its output back into them."""
    wide = count * hidden
    found = [Tensor(f"{role}.norm", (wide,), "vector")]
    found += linear(f"{role}.down", rank, wide) + linear(f"{role}.up", wide, rank)
    return found + (linear(f"{role}.inject", count, wide) if injects else [])


def _numbered(c: Fields, layers: int) -> list[int]:
    """Layers with n-grams, from 0 on; the file counts from 1."""
    stated: Any = c.raw("ple_layer_ids")
    if stated is None:
        return []
    good = isinstance(stated, list) and all(type(one) is int and 1 <= one <= layers for one in stated)
    if not good:
        raise BadInput("config field '{field}' must be a list of layer numbers", field=c.path + "ple_layer_ids")
    return sorted({one - 1 for one in stated})


def _prime(number: int) -> bool:
    if number < 4:
        return number > 1
    return all(number % one for one in (2, 3)) and all(
        number % one and number % (one + 2) for one in range(5, int(number**0.5) + 1, 6)
    )


def _rows(base: int, first: int, heads: int) -> list[int]:
    """The sizes of `heads` tables: primes from `base` on, of which the first `first` are another layer's."""
    found: list[int] = []
    number = base - 1
    while len(found) < first + heads:
        number += 1
        if _prime(number):
            found.append(number)
    return found[first:]


def _grams(c: Fields, hidden: int, streams: int, index: int) -> tuple[Tensor, ...]:
    """The n-grams of the `index`-th layer that has them: a hashed table, products with it, a convolution."""
    size, each = c.size("ngram_size", default=3, least=2, most=64), c.size("heads_per_ngram", default=8, most=1024)
    heads, wide = (size - 1) * each, streams * hidden
    width = c.maybe_size("ple_embed_dim", default=None) or hidden
    kernel = c.size("ple_conv_kernel_size", default=4, most=1024)
    base, divisor = (
        c.size("ngram_vocab_size_base", default=20_000_000),
        c.size("make_ngram_vocab_size_divisible_by", default=128),
    )
    if heads * (index + 1) > _MOST_HEADS:
        raise BadInput(
            "config field '{field}' makes more tables than narrows looks up", field=c.path + "heads_per_ngram"
        )
    rows = -(-sum(_rows(base, index * heads, heads)) // divisor) * divisor
    return (
        Tensor("ngram.table", (rows, width // heads), "table", width // heads),
        Tensor("ngram.multipliers", (size,), "buffer", format="int64"),
        Tensor("ngram.sizes", (heads,), "buffer", format="int64"),
        Tensor("ngram.offsets", (heads,), "buffer", format="int64"),
        *linear("ngram.key", wide, width),
        *linear("ngram.value", hidden, width),
        *(Tensor(f"ngram.norm_{name}", (wide,), "vector") for name in ("key", "query", "conv")),
        Tensor("ngram.conv", (wide, 1, kernel), "vector"),
    )


def _kept(c: Fields, hidden: int, streams: int) -> tuple[StateRow, ...]:
    """Of the convolution, whose taps are `ngram_size` tokens apart: its last inputs; and the tokens of an n-gram."""
    size, kernel = c.size("ngram_size", default=3, least=2, most=64), c.size("ple_conv_kernel_size", default=4)
    return (
        StateRow("n-gram convolution", (kernel - 1) * size * streams * hidden, 1),
        StateRow("n-gram tokens", size - 1, 1, "int64"),
    )


def _attending(c: Fields, full: Attention) -> IndexedAttention:
    heads, width = c.size("indexer_n_heads"), c.size("indexer_head_dim")
    c.size("indexer_kv_heads", default=1, most=1)
    c.read.add("indexer_compress_ratio")
    return IndexedAttention(full, heads, width, c.size("indexer_budget"))


def read_qwen4_exp_text(c: Fields) -> ModelSpec:
    """The decoder."""
    with_defaults(c, _DEFAULTS)
    layers = c.layers("num_hidden_layers")
    indexed_as_full(c)
    plain, full = delta_nets(c, layers, 2, fused=False, state_format=state_format(c, "mamba_ssm_dtype"))
    indexed = _attending(c, full) if any(mixer is full for mixer in plain) else None
    mixers: list[Mixer] = [indexed if mixer is full and indexed is not None else mixer for mixer in plain]
    part: MixtureOfExperts = experts(c, 512, 10, c.size("shared_expert_intermediate_size", default=512))
    hidden, streams, rank = full.hidden, c.size("hc_count", default=4, most=1024), c.size("hc_lowrank", default=320)
    hyper = tuple(
        tensor
        for side in ("attention", "mlp")
        for tensor in _streams(f"hyper.{side}", hidden, streams, rank, injects=True)
    )
    at = _numbered(c, layers)
    grams = {index: _grams(c, hidden, streams, number) for number, index in enumerate(at)}
    kept = _kept(c, hidden, streams)
    remembering: dict[int, Mixer] = {}
    for index in at:
        own = mixers[index]
        if not isinstance(own, GatedDeltaNet):
            raise BadInput(
                "config field '{field}' names a layer of attention; the class has n-grams at delta nets only",
                field=c.path + "ple_layer_ids",
            )
        mixers[index] = remembering.setdefault(id(own), msgspec.structs.replace(own, further=kept))
    made: dict[tuple[int, int], Layer] = {}
    found = [
        made.setdefault(
            (id(mixer), index if index in grams else -1),
            Layer(mixer, part, Norms(()), hidden, beside=(*hyper, *grams.get(index, ()))),
        )
        for index, mixer in enumerate(mixers)
    ]
    c.read |= {"output_gate_type", "seed", "split_ngram_parts", "number_of_conv_states", "intermediate_size"}
    c.read |= {"ple_embed_dim", "ple_conv_kernel_size", "ngram_size", "heads_per_ngram", "ngram_vocab_size_base"}
    c.read |= {"make_ngram_vocab_size_divisible_by", "attn_output_gate", "indexer_n_heads", "indexer_kv_heads"}
    c.read |= {"indexer_head_dim", "indexer_budget", "indexer_compress_ratio", "mtp_num_hidden_layers"}
    return model(
        c,
        grouped(found),
        family="qwen4_exp",
        dialect="qwen4_exp",
        final_norm=False,
        extra=outside(after=_streams("after.hyper", hidden, streams, rank, injects=False)),
    )


def read_qwen4_exp(c: Fields) -> ModelSpec:
    """With its vision tower."""
    spec = read_qwen4_exp_text(text_part(c))
    tower = qwen3_vision(c.nested("vision_config"), deepstack=False)
    c.read |= {name for name in c.values if name.endswith(("_token_id", "_token_index"))}
    return msgspec.structs.replace(spec, dialect="model.language_model/qwen4_exp", towers=(tower, *spec.towers))

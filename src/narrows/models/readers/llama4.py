"""Llama 4: three layers of four attend within chunks; sparse layers with one shared expert; a vision tower."""

from __future__ import annotations

import msgspec

from narrows.models.feedforward import Dense, FeedForward
from narrows.models.fields import Fields
from narrows.models.mixers import Mixer
from narrows.models.readers.build import FULL, PRE_NORMS, attention, mixture, model, rotary_layers, stack, text_part
from narrows.models.readers.vision import llama4_vision
from narrows.models.spec import ModelSpec

_CHUNKED = "chunked_attention"


def read_llama4_text(c: Fields) -> ModelSpec:
    """The decoder. A chunk of attention is at most as long as a window of its size."""
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    full = attention(c, kv_heads=8, head_dim=128, qkv_bias=bias, out_bias=bias)
    chunk = c.maybe_size("attention_chunk_size", default=8192)
    rotary = rotary_layers(c, layers)
    kinds = c.kinds("layer_types", layers, (_CHUNKED, FULL)) or [
        _CHUNKED if chunk is not None and rotary[i] else FULL for i in range(layers)
    ]
    within = msgspec.structs.replace(full, window=chunk, chunked=True)
    mixers: list[Mixer] = [within if kind == _CHUNKED else full for kind in kinds]
    width = c.size("intermediate_size")
    sparse = mixture(c, full.hidden, width, number=16, top_k=1, names=("num_local_experts",), shared=width)
    plain = Dense(full.hidden, c.size("intermediate_size_mlp", default=16384))
    step = c.size("interleave_moe_layer_step", default=1)
    given = c.raw("moe_layers") is not None
    chosen = c.indices("moe_layers") if given else frozenset(range(step - 1, layers, step))
    parts: list[FeedForward] = [sparse if i in chosen else plain for i in range(layers)]
    c.read.add("use_qk_norm")  # a norm without a weight
    return model(c, stack(mixers, parts, PRE_NORMS), family="llama4", dialect="llama4")


def read_llama4(c: Fields) -> ModelSpec:
    """With the vision tower."""
    spec = read_llama4_text(text_part(c, tied=None))
    towers = llama4_vision(c.nested("vision_config"), spec.hidden)
    return msgspec.structs.replace(spec, dialect="llama4_vl", towers=towers)

"""GLM-5.3 Flash: three delta nets to one latent attention that picks pools of tokens, four residual streams.

Source: the classes of transformers 5 (Apache-2.0).
"""

from __future__ import annotations

import msgspec

from narrows.models.fields import Fields
from narrows.models.mixers import KimiDelta, Mixer
from narrows.models.readers.build import (
    LINEAR,
    PRE_NORMS,
    full_every,
    grouped,
    indexed_as_full,
    model,
    with_defaults,
)
from narrows.models.readers.deepseek import Ranks, indexers, latent_attention, sparse_layers
from narrows.models.readers.latent import hyper_connections
from narrows.models.spec import Layer, ModelSpec

_RANKS = Ranks(1536, nope=256, rope=0, value=256, index=(32, 128))


def read_glm5_next_text(c: Fields) -> ModelSpec:
    """The decoder."""
    with_defaults(c, {"first_k_dense_replace": 3})
    layers = c.layers("num_hidden_layers")
    indexed_as_full(c)
    pool = c.size("index_kpool", default=16)
    indexing = msgspec.structs.replace(latent_attention(c, _RANKS), index_pool=pool)
    sharing = msgspec.structs.replace(indexing, index_heads=0, index_dim=0, index_pool=0)
    own = c.nested("linear_attn_config") if c.raw("linear_attn_config") else Fields({})
    delta = KimiDelta(
        indexing.hidden,
        own.size("num_heads", default=c.size("linear_num_heads", default=64)),
        own.size("head_dim", default=c.size("linear_head_dim", default=128)),
        own.size("short_conv_kernel_size", default=c.size("linear_conv_kernel_dim", default=4)),
    )
    full = indexers(c, layers)
    mixers: list[Mixer] = [
        delta if kind == LINEAR else indexing if full[index] else sharing
        for index, kind in enumerate(full_every(c, layers, 4, LINEAR))
    ]
    parts, _ = sparse_layers(c, 288)
    hidden, streams = indexing.hidden, c.size("hc_mult", default=4, most=1024)
    hyper = hyper_connections(hidden, streams, streams * (2 + streams), 3)
    made: dict[tuple[int, int], Layer] = {}
    found = [
        made.setdefault((id(mixer), id(part)), Layer(mixer, part, PRE_NORMS, hidden, beside=hyper))
        for mixer, part in zip(mixers, parts, strict=True)
    ]
    own.read |= {"gate_lower_bound", "kda_layers", "full_attn_layers"}
    c.read |= {"linear_lower_bound", "hc_eps", "hc_sinkhorn_iters", "index_kpool_always_select_tail", "swiglu_limit"}
    return model(c, grouped(found), family="glm5_next", dialect="glm5_next")

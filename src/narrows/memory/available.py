"""What an engine will say at its start: bytes it has for KV cache, with an interval, and where it would stop."""

from __future__ import annotations

from typing import Literal

import msgspec

from narrows.calibration import Coefficients, coefficients
from narrows.deployment import Deployment
from narrows.memory.ledger import Reserve, reserve
from narrows.memory.paging import Paging, paging
from narrows.memory.shard import Shard, binding_shard, shards
from narrows.quantity import Quantity

Stage = Literal["share", "load", "kv", "graphs", "started"]


class Start(msgspec.Struct, frozen=True):
    """One start of an engine, predicted.

    stage: where it stops. share: less is free than the engine's share, because the process itself takes some. load:
    weights, or the profiled batch beside them, exceed the device. kv: what is left for the cache does not hold one
    sequence of max_length tokens (engines refuse to start). graphs: what lies outside the engine's share does not
    hold the graphs. started: none of these.
    kv: bytes per device for KV cache and state, 80 % interval; below 0 if weights and reserve exceed the share.
    blocks: pages of the pool. tokens: the "KV cache size" in tokens that this version's log would state.
    """

    stage: Stage
    weights: int
    reserve: Reserve
    kv: Quantity
    blocks: int
    tokens: int
    shard: Shard
    pages: Paging


def start(deployment: Deployment, given: Coefficients | None = None) -> Start:
    """Predict the start of a deployment. given: coefficients in place of the engine's file."""
    known = coefficients(deployment.engine.name) if given is None else given
    kept = reserve(deployment, known)
    shard = binding_shard(shards(deployment), deployment.budget - kept.claimed, deployment.max_length)
    room = deployment.budget - shard.weights
    pool = room - kept.claimed
    pages = paging(deployment, shard.stage)
    blocks, needed = pages.blocks(pool), pages.blocks_per_request(deployment.max_length)
    context = known["context_bytes"]
    outside = int(deployment.usable - deployment.budget - context.value)
    stage: Stage = "started"
    if shard.weights + kept.tables + kept.activations + kept.runtime + context.value > deployment.usable:
        stage = "load"
    elif not deployment.engine.whole_prompts and deployment.usable - context.low < deployment.budget:
        stage = "share"
    elif blocks < needed:
        stage = "kv"
    elif deployment.graphs and not kept.graphs_inside and kept.graphs > max(0, outside) + kept.activations:
        # the profiled batch is gone when graphs are captured, but its memory stays with the allocator
        stage = "graphs"
    return Start(
        stage=stage,
        weights=shard.weights + kept.tables,
        reserve=kept,
        kv=Quantity(pool, "B", "predicted", room - kept.high, room - kept.low),
        blocks=blocks,
        tokens=stated_tokens(deployment, pages, pool),
        shard=shard,
        pages=pages,
    )


def stated_tokens(deployment: Deployment, pages: Paging, kv_bytes: int) -> int:
    """The "KV cache size" in tokens that this version states for a pool: its meaning changed (`Engine`)."""
    if deployment.engine.tokens_as_concurrency:
        return pages.tokens(kv_bytes, deployment.max_length)
    return pages.blocks(kv_bytes) // max(1, len(pages.groups)) * pages.block


def predicted_kv(deployment: Deployment) -> Quantity:
    """Bytes per device that the engine will have for KV cache and state, with an 80 % interval."""
    return start(deployment).kv

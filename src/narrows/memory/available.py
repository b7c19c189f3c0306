"""What an engine will say at its start: bytes it has for KV cache, with an interval, and where it would stop."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from narrows.calibration import Coefficients, coefficients
from narrows.deployment import Deployment
from narrows.memory.activations import peak
from narrows.memory.capacity import pages_of, stated_tokens
from narrows.memory.ledger import binding, claim, pool_of, reserve
from narrows.memory.reserve import Reserve
from narrows.memory.shard import Shard, shards
from narrows.quantity import Quantity

Stage = Literal["share", "load", "kv", "graphs", "started"]


class Start(msgspec.Struct, frozen=True):
    """One start of an engine, predicted.

    stage: where it stops. share: less is free than the engine's share, because the process itself takes some. load:
    weights, or the profiled batch beside them, exceed the device. kv: what is left for the cache does not hold one
    sequence of max_length tokens (engines refuse to start). graphs: what lies outside the engine's share does not
    hold the graphs. started: none of these.
    kv: bytes per device for KV cache and state, 80 % interval; below 0 if weights and reserve exceed the share.
    exceeds: the cache that the share leaves exceeds what is free of the device, where the engine does not look before.
    graphs_may_fail: it starts, but where graphs take as much as an old driver lets them, they find no room.
    blocks: pages of the pool. tokens: the "KV cache size" in tokens that this version's log would state.
    """

    stage: Stage
    weights: int
    reserve: Reserve
    kv: Quantity
    blocks: int
    tokens: int
    shard: Shard
    pages: Any
    exceeds: bool = False
    graphs_may_fail: bool = False


def start(deployment: Deployment, given: Coefficients | None = None) -> Start:
    """Predict the start of a deployment. given: coefficients in place of the engine's file."""
    known = coefficients(deployment.engine.name) if given is None else given
    kept = reserve(deployment, given)
    shard = binding(deployment, shards(deployment), kept)
    pool = pool_of(deployment, shard, kept)
    share = claim(deployment, shard, kept)
    pages = pages_of(deployment, shard)
    free = deployment.usable - deployment.memory_in_use
    blocks, needed = pages.blocks(pool), pages.blocks_per_request(deployment.max_length)
    context = known["context_bytes"]
    tokens = stated_tokens(deployment, pages, pool)
    exceeds = _exceeds(deployment, share, kept, known)
    stage: Stage = "started"
    if deployment.engine.name == "sglang":
        from narrows.memory.sglang import sglang_stage

        stage = sglang_stage(deployment, shard.weights, pool, tokens, kept)
    elif deployment.memory_in_use and _refused(deployment, share, known):
        stage = "share"
    elif shard.weights + kept.tables + kept.activations + kept.runtime + context.value > free:
        stage = "load"
    elif _refused(deployment, share, known):
        stage = "share"
    elif blocks < needed or exceeds:
        stage = "kv"
    elif deployment.graphs and not kept.graphs_inside and kept.graphs > _spare(deployment, share, kept, known):
        stage = "graphs"
    may_fail = (
        stage == "started"
        and deployment.engine.name == "vllm"
        and deployment.graphs
        and not kept.graphs_inside
        and kept.graphs_high > _spare(deployment, share, kept, known)
    )
    return Start(
        stage=stage,
        weights=shard.weights + kept.tables,
        reserve=kept,
        kv=_interval(deployment, pool, kept),
        blocks=blocks,
        tokens=tokens,
        shard=shard,
        pages=pages,
        exceeds=exceeds,
        graphs_may_fail=may_fail,
    )


def _refused(deployment: Deployment, share: int, known: Coefficients) -> bool:
    """Whether the engine finds less free than its share when it starts; part of what is used is its own context."""
    free = deployment.usable - known["context_bytes"].low - deployment.memory_in_use
    return deployment.engine.checks_free and free < share


def _outside(deployment: Deployment, share: int, known: Coefficients) -> int:
    """Bytes that are there beside the engine's share; negative by how much it and what is beside it exceed the device.

    What others hold within the share has been taken off the cache.
    """
    beside = deployment.memory_in_use if deployment.kv_cache_bytes is not None else deployment.others_outside
    return int(deployment.usable - share - known["context_bytes"].value - beside)


def _exceeds(deployment: Deployment, share: int, kept: Reserve, known: Coefficients) -> bool:
    """Whether a version that does not look finds no room for the cache that its share leaves.

    It is allocated when the memory of the profiled step is free again.
    """
    if deployment.engine.name != "vllm" or deployment.engine.checks_free:
        return False
    return _outside(deployment, share, known) + _profiled(deployment, kept, known) < 0


def _spare(deployment: Deployment, share: int, kept: Reserve, known: Coefficients) -> int:
    """Bytes for graphs: what lies outside the share, and what of the profiled step's memory they may have.

    From 0.8 on, sampling is warmed up beside the graphs and needs its part once more. Source: vLLM's
    compile_or_warm_up_model (Apache-2.0).
    """
    again = _profiled(deployment, kept, known)
    if not deployment.engine.whole_prompts:
        again = max(0, again - peak(deployment, known).sampling)
    return max(0, _outside(deployment, share, known)) + again


def _profiled(deployment: Deployment, kept: Reserve, known: Coefficients) -> int:
    """Bytes of the profiled step that are free after it. What was reserved beside them lies between live tensors."""
    return min(kept.activations, peak(deployment, known).largest)


def _interval(deployment: Deployment, pool: int, kept: Reserve) -> Quantity:
    if deployment.kv_cache_bytes is not None:
        return Quantity(pool, "B", "exact" if pool >= 0 else "predicted")
    more = int(deployment.usable_more * deployment.utilization)
    return Quantity(pool, "B", "predicted", pool + kept.claimed - kept.high, pool + kept.claimed - kept.low + more)


def predicted_kv(deployment: Deployment) -> Quantity:
    """Bytes per device that the engine will have for KV cache and state, with an 80 % interval."""
    return start(deployment).kv

"""How much work fits beside the weights: the largest batch, the longest length, and how memory grows while serving."""

from __future__ import annotations

import msgspec

from narrows.deployment import MOST_LENGTH, Deployment
from narrows.memory.ledger import Ledger, ledger, reserve
from narrows.memory.shard import Shard, binding_shard, shards


class Capacity(msgspec.Struct, frozen=True):
    """What fits at the deployment's length.

    pool: bytes per device left for KV and state on the binding rank (negative: weights and reserve do not fit).
    max_batch: whole sequences of max_length tokens. concurrency: the same, not rounded. max_length: tokens, at
    the batch asked for. kv_tokens: tokens of all sequences together at that concurrency.
    """

    shard: Shard
    pool: int
    max_batch: int
    concurrency: float
    max_length: int
    kv_tokens: int


def capacity(deployment: Deployment, batch: int = 1) -> Capacity:
    """Largest batch at the deployment's max_length, and longest length at `batch`. All ranks must have room."""
    room = deployment.budget - reserve(deployment).claimed
    found = shards(deployment)
    length = deployment.max_length
    shard = binding_shard(found, room, length)
    pool = room - shard.weights
    each = shard.sequence_bytes(length)
    concurrency = max(0.0, pool / each) if each else 0.0
    limit = deployment.model.max_length or MOST_LENGTH
    return Capacity(
        shard=shard,
        pool=pool,
        max_batch=max(0, pool // each) if each else 0,
        concurrency=concurrency,
        max_length=min(longest(one, room - one.weights, batch, max(limit, length)) for one in found),
        kv_tokens=max(0, pool * length // each) if each else 0,
    )


def longest(shard: Shard, pool: int, batch: int, limit: int) -> int:
    """The largest length ≤ `limit` at which `batch` sequences fit in `pool` bytes; 0 if none does."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        if batch * shard.sequence_bytes(middle) <= pool:
            low = middle
        else:
            high = middle - 1
    return low


MOMENTS = ("loaded", "first prefill", "mid-decode", "peak")


def growth(deployment: Deployment, batch: int, prompt: int) -> list[tuple[str, Ledger]]:
    """The ledger from idle to peak, for `batch` sequences with prompts of `prompt` tokens.

    loaded: weights and runtime. first prefill: the prompts' KV, graphs, and the activation peak, which the engine's
    allocator keeps from then on. mid-decode: half of the generation. peak: every sequence at max_length.
    """
    peak = deployment.max_length
    prompt = min(prompt, peak)
    kept = reserve(deployment)
    shard = binding_shard(shards(deployment), deployment.budget - kept.claimed, peak)
    moments = []
    for name, length in zip(MOMENTS, (0, prompt, (prompt + peak) // 2, peak), strict=True):
        one = ledger(deployment, batch if length else 0, length, shard=shard)
        if not length:
            freed = one.activations + one.graphs
            one = msgspec.structs.replace(one, activations=0, graphs=0, free=one.free + freed)
        moments.append((name, one))
    return moments

"""How much work fits beside the weights: the largest batch, the longest length, and how memory grows while serving."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from narrows.deployment import MOST_LENGTH, Deployment
from narrows.memory.largest import largest
from narrows.memory.ledger import Ledger, binding, ledger, pool_of, reserve
from narrows.memory.paging import Paging, paging
from narrows.memory.shard import Shard, shards

if TYPE_CHECKING:
    from narrows.memory.llamacpp import Cells
    from narrows.memory.sglang import TokenPools


class Capacity(msgspec.Struct, frozen=True):
    """What fits at the deployment's length.

    pool: bytes per device left for KV and state on the binding rank (negative: weights and reserve do not fit).
    in_memory: whole sequences of max_length tokens, by bytes and by the engine's pages; max_batch: as many of them as
    the engine runs at once (max_num_seqs). max_length: tokens, at the
    batch asked for. blocks: pages of the pool. concurrency, kv_tokens: as this engine's log would state them.
    """

    shard: Shard
    pages: Any
    pool: int
    blocks: int
    max_batch: int
    in_memory: int
    concurrency: float
    max_length: int
    kv_tokens: int


def capacity(deployment: Deployment, batch: int = 1) -> Capacity:
    """Largest batch at the deployment's max_length, and longest length at `batch`. All ranks must have room."""
    kept = reserve(deployment)
    found = shards(deployment)
    length = deployment.max_length
    shard = binding(deployment, found, kept)
    pages = pages_of(deployment, shard)
    pool = pool_of(deployment, shard, kept)
    blocks = pages.blocks(pool)
    each = shard.sequence_bytes(length)
    limit = max(deployment.model.max_length or MOST_LENGTH, length)
    in_memory = min(max(0, pool // each) if each else 0, pages.requests(pool, length))
    by_bytes = min(longest(one, pool_of(deployment, one, kept), batch, limit) for one in found)
    return Capacity(
        shard=shard,
        pages=pages,
        pool=pool,
        blocks=blocks,
        max_batch=min(in_memory, deployment.max_num_seqs),
        in_memory=in_memory,
        concurrency=pages.concurrency(pool, length),
        max_length=pages.longest(pool, by_bytes, batch),
        kv_tokens=stated_tokens(deployment, pages, pool),
    )


def pages_of(deployment: Deployment, shard: Shard) -> Paging | Cells | TokenPools:
    """The layout of the pool on the rank of `shard`."""
    if deployment.engine.name == "llama.cpp":
        from narrows.memory.llamacpp import Cells, LlamaShard

        assert isinstance(shard, LlamaShard)
        return Cells(shard)
    if deployment.engine.name == "sglang":
        from narrows.memory.sglang import token_pools

        return token_pools(deployment, shard.stage)
    return paging(deployment, shard.stage)


def stated_tokens(deployment: Deployment, pages: Paging | Cells | TokenPools, kv_bytes: int) -> int:
    """The "KV cache size" in tokens that this version states for a pool: its meaning changed (`Engine`)."""
    if deployment.engine.tokens_as_concurrency:
        return pages.tokens(kv_bytes, deployment.max_length)
    return pages.blocks(kv_bytes) // max(1, pages.group_count) * pages.block


def longest(shard: Shard, pool: int, batch: int, limit: int) -> int:
    """The largest length ≤ `limit` at which `batch` sequences fit in `pool` bytes; 0 if none does."""
    return largest(limit, lambda length: batch * shard.sequence_bytes(length) <= pool)


MOMENTS = ("loaded", "first prefill", "mid-decode", "peak")


def growth(deployment: Deployment, batch: int, prompt: int) -> list[tuple[str, Ledger]]:
    """The ledger from idle to peak, for `batch` sequences with prompts of `prompt` tokens.

    loaded: weights and runtime. first prefill: the prompts' KV, graphs, and the activation peak, which the engine's
    allocator keeps from then on. mid-decode: half of the generation. peak: every sequence at max_length.
    """
    peak = deployment.max_length
    # llama.cpp allocates at its start what others fill as they serve
    prompt = peak if deployment.engine.name == "llama.cpp" else min(prompt, peak)
    shard = binding(deployment, shards(deployment), reserve(deployment))
    moments = []
    loaded = peak if deployment.engine.name == "llama.cpp" else 0
    for name, length in zip(MOMENTS, (loaded, prompt, (prompt + peak) // 2, peak), strict=True):
        one = ledger(deployment, batch if length else 0, length, shard=shard)
        if not length:
            freed = one.activations + one.graphs
            one = msgspec.structs.replace(one, activations=0, graphs=0, free=one.free + freed)
        moments.append((name, one))
    return moments

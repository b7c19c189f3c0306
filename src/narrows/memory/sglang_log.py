"""What SGLang's log says of its pools, without the times and ranks before it."""

from __future__ import annotations

from narrows.deployment import Deployment
from narrows.memory.sglang import TokenPools


def log_lines(deployment: Deployment, pools: TokenPools, kv_bytes: int) -> tuple[str, ...]:
    """What the engine's log will say of pools in so many bytes, without the times and ranks before it."""
    tokens, windows, slots = pools.tokens(kv_bytes), pools.window_tokens(kv_bytes), pools.state_slots(kv_bytes)
    if not tokens:
        return ()
    found = []
    if pools.state:
        # the pool has one slot more than it gives out
        size = _gb((slots + 1) * pools.state)
        found.append(f"Mamba Cache is allocated. max_mamba_cache_size: {slots}, conv_state and ssm_state: {size} GB")
    if pools.windowed and pools.whole:
        found.append(f"Use sliding window memory pool. full_layer_tokens={tokens}, swa_layer_tokens={windows}")
    if pools.windowed:
        found.append(_allocated(windows, pools.windowed, pools.window_keys))
    if pools.whole:
        found.append(_allocated(tokens, pools.whole, pools.keys))
    chunk, length = deployment.max_num_batched_tokens, deployment.max_length
    found.append(f"max_total_num_tokens={tokens}, chunked_prefill_size={chunk}, context_len={length}")
    return tuple(found)


def _allocated(tokens: int, each: int, keys: int) -> str:
    both = f"K size: {_gb(tokens * keys)} GB, V size: {_gb(tokens * (each - keys))} GB"
    return f"KV Cache is allocated. #tokens: {tokens}, " + (both if keys else f"KV size: {_gb(tokens * each)} GB")


def _gb(size: int) -> str:
    """GiB, which SGLang's logs write as GB."""
    return f"{size / 2**30:.2f}"

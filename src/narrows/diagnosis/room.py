"""Changes that leave more of the memory to the KV cache, each confirmed before it is offered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from narrows.diagnosis.mends import Mend
from narrows.diagnosis.predicted import Predicted
from narrows.diagnosis.situation import HIGHEST_SHARE, SHORTEST, Situation, share_text, share_up
from narrows.engines.version import parse_version
from narrows.text import Text
from narrows.units import binary

_WITHOUT_NULL_BLOCK: Final = (0, 32, 0)
"""From this version on the engine's estimate of the longest length leaves its null block out, seen in its logs."""


def shorter(s: Situation) -> Mend | None:
    """The longest request that the pool admits, in whole blocks."""
    length = s.length
    if length is None:
        return None
    longest = stated_length(s)
    if longest is None and s.made.deployment is not None:
        longest = predicted_length(s, length)
    if longest is None or not SHORTEST <= longest < length:
        return None
    flags: dict[str, str | None] = {"--max-model-len": str(longest)}
    options: dict[str, int] = {"max_length": longest}
    if s.old and s.batched_tokens and s.engine and longest <= s.engine.chunk_above[0] < length:
        # below that length V0 would profile whole prompts again
        flags |= {"--enable-chunked-prefill": "", "--max-num-batched-tokens": str(s.batched_tokens)}
        options["max_num_batched_tokens"] = s.batched_tokens
    text = Text("requests of at most {n} tokens, prompt and answer together", n=longest)
    found = s.tried(**options)
    if found is None or found.starts:
        kept = s.mend(flags, text, tokens=s.kv_tokens, kv=s.terms.kv_cache)
        return kept if found is None else s.mend_by(flags, text, found)
    confirmed = predicted_length(s, longest)
    if confirmed is None or confirmed < SHORTEST:
        return None
    text = Text("requests of at most {n} tokens, prompt and answer together", n=confirmed)
    return s.mend_by({"--max-model-len": str(confirmed)}, text, s.tried(max_length=confirmed))


def stated_length(s: Situation) -> int | None:
    """The longest length by the engine's own figures: its estimate, or what its pool holds, in whole blocks.

    Newer versions leave the null block out of their estimate, V0 has none; between them it is taken off here.
    """
    said = s.seen.estimated_max_len or (s.seen.kv_tokens if s.seen.needed_bytes is None else None)
    if said is None:
        return None
    block = s.settings.block_size or (s.base.pages.block if s.base else 16)
    version = parse_version(s.engine.version) if s.engine is not None else None
    exact = s.old or (version is not None and version >= _WITHOUT_NULL_BLOCK)
    if s.seen.estimated_max_len is not None and s.base is not None and not exact:
        return min(said // block * block, predicted_length(s, s.length or said) or said)
    return said // block * block if exact else (said // block - 1) * block


def without_others(s: Situation) -> Mend:
    """The start alone on its device; with a shorter length where even that is predicted to lack room for one."""
    text, length = Text("end the processes that hold the device, then start as before"), s.length
    alone = s.tried(memory_in_use=None)
    if alone is None or alone.starts or length is None:
        return s.mend({}, text)
    longest = predicted_length(s, length, memory_in_use=None)
    if longest is None or longest < SHORTEST:
        return s.mend({}, text)
    shorter = s.mend_by(
        {"--max-model-len": str(longest)},
        Text(
            "end the processes that hold the device; even alone it takes requests of at most {n} tokens, not {length}",
            n=longest,
            length=length,
        ),
        s.tried(memory_in_use=None, max_length=longest),
    )
    return shorter or s.mend({}, text)


def predicted_length(s: Situation, limit: int, **options: Any) -> int | None:
    """The largest length below `limit` that is predicted to start, in whole blocks, with these options."""

    def starts(blocks: int) -> bool:
        found = s.tried(max_length=blocks * block, **options)
        return found is not None and found.starts

    block = s.base.pages.block if s.base else 16
    low, high = 0, limit // block
    while low < high:
        middle = (low + high + 1) // 2
        if starts(middle):
            low = middle
        else:
            high = middle - 1
    return low * block or None


def higher_share(s: Situation) -> Mend | None:
    """The smallest share of the memory that holds one request of the longest length."""
    if s.pool or s.share is None or s.total is None:
        return None
    free = s.terms.free_at_start
    most = min(HIGHEST_SHARE, free / s.total if free is not None and not s.old else 1.0)

    def mend(share: float, found: Predicted | None) -> Mend | None:
        flags = {"--gpu-memory-utilization": share_text(share)}
        text = Text("{more} more of the device for the engine", more=binary((share - (s.share or 0)) * (s.total or 0)))
        if found is not None:
            return s.mend_by(flags, text, found)
        extra = (share - (s.share or 0)) * (s.total or 0)
        kv = (s.terms.kv_cache or 0) + int(extra)
        each = s.token_bytes
        return s.mend(flags, text, tokens=int(kv / each) if each else None, kv=kv)

    if s.base is None:
        if s.seen.needed_bytes is None or s.terms.kv_cache is None:
            return None
        share = share_up(s.share + (s.seen.needed_bytes - s.terms.kv_cache) / s.total)
        return mend(share, None) if s.share < share <= most else None
    for step in range(int(s.share * 100) + 1, int(most * 100 + 1e-6) + 1):
        found = s.tried(utilization=step / 100)
        if found is not None and found.starts:
            return mend(step / 100, found)
    return None


def larger_pool(s: Situation) -> Mend | None:
    """Where the user fixed the pool in bytes: the bytes that one request of the longest length needs."""
    if not s.pool or s.length is None:
        return None
    if s.base is not None:
        pages = s.base.pages
        needed = (pages.blocks_per_request(s.length) + 1) * pages.block_bytes
    elif s.seen.needed_bytes is not None:
        needed = s.seen.needed_bytes + 2**24  # printed to a hundredth of a GiB, and a block for the engine
    else:
        return None
    if s.total is not None and needed > HIGHEST_SHARE * s.total - (s.weights or 0):
        return None
    return s.either(
        {"--kv-cache-memory-bytes": str(needed)},
        Text("{size} for the KV cache", size=binary(needed)),
        tokens=s.length,
        kv=needed,
        kv_cache_memory_bytes=needed,
    )


def eight_bits(s: Situation) -> Mend | None:
    """KV cache in 8 bits, where it has 16."""
    wide = s.base.deployment.kv.bits > 8 if s.base else s.settings.kv_cache_dtype in (None, "auto")
    capability = s.made.accelerator.compute_capability if s.made.accelerator else None
    if not wide or s.on_cpu or (capability is not None and float(capability) < 8):
        return None
    doubled = 2 * s.kv_tokens if s.kv_tokens is not None and s.base is None else None
    if doubled is not None and s.length is not None and doubled < s.length:
        return None
    return s.either(
        {"--kv-cache-dtype": "fp8"},
        Text("KV cache in 8 bits, half the bytes per token, at some cost in quality"),
        tokens=doubled,
        kv=s.terms.kv_cache,
        kv_cache_dtype="fp8",
    )


def relieves(s: Situation) -> Callable[[Predicted], bool]:
    """Whether a change lowers the peak before the cache, weights and activations, by what was short."""
    before = s.law.start.weights + s.law.start.reserve.activations if s.law else 0

    def holds(found: Predicted) -> bool:
        return before - found.start.weights - found.start.reserve.activations >= s.deficit

    return holds


def fewer_tokens_and_shorter(s: Situation, holds: Callable[[Predicted], bool]) -> Mend | None:
    """A smaller step and a shorter length together, where neither alone suffices."""
    now, length = s.batched_tokens, s.length
    if now is None or length is None or s.made.deployment is None or s.on_cpu or s.old:
        return None
    step = 1 << (now - 1).bit_length() - 1
    while step >= 256:
        longest = length // 2
        found = s.tried(max_num_batched_tokens=step)
        if found is not None and holds(found):
            while longest >= SHORTEST:
                found = s.tried(max_num_batched_tokens=step, max_length=longest)
                if found is not None and found.starts and holds(found):
                    flags = {"--max-num-batched-tokens": str(step), "--max-model-len": str(longest)}
                    text = Text(
                        "a step of {n} tokens, and requests of at most {longest} tokens", n=step, longest=longest
                    )
                    return s.mend_by(flags, text, found)
                longest //= 2
        step //= 2
    return None


def more_ranks(s: Situation, holds: Callable[[Predicted], bool] = lambda found: found.starts) -> Mend | None:
    """The smallest tensor-parallel size that starts, then pipeline parallelism."""
    ranks = s.settings.tensor_parallel or 1
    if s.on_cpu or s.pool:
        return None
    text = Text("weights and KV heads shared by {n} devices", n=2 * ranks)
    if s.made.deployment is None:
        return s.mend({"--tensor-parallel-size": str(2 * ranks)}, text)
    for wanted in (2, 4, 8, 16):
        if wanted > ranks:
            text = Text("weights and KV heads shared by {n} devices", n=wanted)
            tried = s.tried(tensor_parallel=wanted)
            if tried is not None and tried.starts and holds(tried):
                return s.mend_by({"--tensor-parallel-size": str(wanted)}, text, tried)
    return None


def eager(s: Situation) -> Mend | None:
    """No CUDA graphs, where their memory comes out of the engine's share."""
    if s.settings.enforce_eager or s.base is None or not s.base.start.reserve.graphs_inside:
        return None
    return s.mend_by({"--enforce-eager": ""}, Text("no CUDA graphs: slower decode"), s.tried(enforce_eager=True))


def fewer_tokens(s: Situation, holds: Callable[[Predicted], bool] = lambda found: found.starts) -> Mend | None:
    """A smaller step: the profiled batch, and with it the activation peak, shrinks."""
    now = s.batched_tokens
    if now is None or s.on_cpu:
        return None
    flags: dict[str, str | None] = {}
    if s.old and not s.settings.enable_chunked_prefill:
        flags["--enable-chunked-prefill"] = ""
    step = 1 << (now - 1).bit_length() - 1
    while step >= 256:
        found = s.tried(max_num_batched_tokens=step)
        if s.made.deployment is None or (found is not None and found.starts and holds(found)):
            flags["--max-num-batched-tokens"] = str(step)
            text = Text("a step of {n} tokens: a smaller activation peak, prefill in more steps", n=step)
            return s.mend(flags, text) if s.made.deployment is None else s.mend_by(flags, text, found)
        step //= 2
    return None


def fewer_sequences(s: Situation, holds: Callable[[Predicted], bool] = lambda found: found.starts) -> Mend | None:
    """Fewer sequences at once: fewer logits are sampled, fewer graphs captured."""
    now = s.sequences
    if now is None or s.on_cpu:
        return None
    many = 256 if now > 256 else now // 2
    while many >= 8:
        found = s.tried(max_num_seqs=many)
        if s.made.deployment is None or (found is not None and found.starts and holds(found)):
            flags = {"--max-num-seqs": str(many)}
            text = Text("at most {n} sequences at once", n=many)
            return s.mend(flags, text) if s.made.deployment is None else s.mend_by(flags, text, found)
        many //= 2
    return None


def fp8_weights(s: Situation) -> Mend | None:
    """Weights in 8 bits, made while loading, where the device computes so and holds the 16-bit ones first."""
    capability = s.made.accelerator.compute_capability if s.made.accelerator else None
    if s.base is None or s.weights is None or s.total is None or s.weights > 0.95 * s.total:
        return None
    if capability is None or float(capability) < 8.9 or s.made.options["quantization"] is not None:
        return None
    text = Text("weights in 8 bits, made while loading, at some cost in quality")
    return s.mend_by({"--quantization": "fp8"}, text, s.tried(quantization="fp8"))

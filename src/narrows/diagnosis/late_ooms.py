"""Causes where an allocation failed once the KV cache had its share: cache, graphs, sampler, real load, the host."""

from __future__ import annotations

import re
from typing import Final

from narrows.diagnosis import room
from narrows.diagnosis.found import Found
from narrows.diagnosis.mends import Mend
from narrows.diagnosis.short_of import HEADROOM, crowded, figures, halved, said, share_less
from narrows.diagnosis.situation import CONTEXT, Situation
from narrows.text import Text
from narrows.units import GIB, binary, gib

_KILLED: Final = re.compile(
    r"^(?:[^\n]{0,120}: {1,4}\d{1,9} )?Killed\b"
    r"|Failed core proc\(s\): \{[^}]{0,200}: (?:-9|137)\b"
    r"|[Ee]xit(?:ed)?(?: with)?(?: code| status| Code)?:? {0,10}\(?(?:137|-9)\b"
    r"|\bOOMKilled\b"
)


def sampler(s: Situation) -> Found | None:
    """Sampling all sequences at once: max_num_seqs × vocabulary."""
    seen = s.seen
    if "warming up sampler" not in (seen.error or "") and not (seen.stage == "warm-up" and s.seen.oom):
        return None
    if "sampler" not in (seen.error or "") and not said(s, "_dummy_sampler_run"):
        return None
    many = s.sequences
    if many is None:
        return None
    vocab = s.made.model.vocab if s.made.model else None
    text = (
        Text(
            "warming up the sampler with {many} sequences × {vocab} logits in 32 bits, with copies to sort, does not "
            "fit beside weights and KV cache",
            many=many,
            vocab=vocab,
        )
        if vocab
        else Text(
            "warming up the sampler with {many} sequences × the vocabulary, in 32 bits with copies to sort, does not "
            "fit beside weights and KV cache",
            many=many,
        )
    )
    return Found("sampler-warm-up", text, [_sampled(s, many), share_less(s, max(s.deficit, HEADROOM))])


def _sampled(s: Situation, many: int) -> Mend | None:
    """At most 256 sequences, or so few that the logits that are saved exceed what was short."""
    fewer = 256 if many > 256 else many // 2
    if s.made.model is not None:
        each = s.made.model.vocab * 4 * 3
        while fewer > 8 and (many - fewer) * each < s.deficit:
            fewer //= 2
    if fewer < 1:
        return None
    flags = {"--max-num-seqs": str(fewer)}
    text = Text("at most {n} sequences at once", n=fewer)
    return s.either(flags, text, max_num_seqs=fewer) or s.mend(flags, text, tokens=s.seen.kv_tokens)


def killed(s: Situation) -> Found | None:
    """The host ended the process: where the device's memory is the host's, the pool was too large for both."""
    lines = [s.seen.error or "", *(line.text for line in s.seen.evidence if "error" in line.fields)]
    if s.seen.oom is not None or not any(_KILLED.search(line) for line in lines):
        return None
    if not s.unified:
        return Found(
            "killed-by-the-host",
            Text(
                "the host ended the process (signal 9), most often because its own memory, not the device's, ran out",
            ),
            [],
        )
    pool = s.terms.kv_cache or (int(s.base.kv.value) if s.base else None)
    mends: list[Mend | None] = [_pool_for_work(s, pool)]
    if s.share is not None and s.total is not None:
        mends.append(share_less(s, max(2 * GIB, (pool or 0) // 2)))
    return Found(
        "unified-memory",
        Text(
            "device and host share one memory of {total}: the engine took {pool} for KV cache and left the system and "
            "its own processes too little, so the host ended it",
            total=gib(s.total),
            pool=gib(pool),
        )
        if s.total and pool
        else Text(
            "device and host share one memory: the engine left the system and its own processes too little of it, so "
            "the host ended it"
        ),
        mends,
    )


def _pool_for_work(s: Situation, pool: int | None) -> Mend | None:
    """A pool for the work there is: sequences × length, at most half of what was taken."""
    each = s.token_bytes or (s.base.pages.block_bytes / s.base.pages.block if s.base else None)
    if each is None or s.length is None:
        return None
    wanted = int(each * (s.length + 256) * min(s.sequences or 16, 16))
    size = -(-min(wanted, pool // 2 if pool else wanted) // 2**20) * 2**20
    flags = {"--kv-cache-memory-bytes": str(size)}
    return s.either(
        flags,
        Text("{size} for the KV cache, whatever the share of the memory", size=binary(size)),
        tokens=int(size / each),
        kv=size,
        kv_cache_memory_bytes=size,
    )


def cache(s: Situation) -> Found | None:
    """The pool was sized, and could not be allocated: something took memory since it was measured."""
    if s.seen.stage != "kv allocation" or s.seen.oom is None:
        return None
    return Found(
        "cache-not-allocated",
        Text(
            "the KV cache was sized and then could not be allocated: {tried} more was wanted, and {free} of {total} "
            "was free; another process took memory meanwhile, or the share is too high",
            **figures(s),
        ),
        [share_less(s, s.deficit + HEADROOM // 2)],
    )


def graphs(s: Situation) -> Found | None:
    """CUDA graphs are captured after the cache is sized, and find no room."""
    if s.seen.stage != "graph capture" or s.seen.oom is None:
        return None
    size = s.terms.graphs or s.terms.graphs_estimated or (s.law.start.reserve.graphs if s.law else 0) or GIB
    size = max(size, s.deficit + HEADROOM // 4)
    inside = s.engine is not None and s.engine.graphs_in_budget
    shown = {"share": f"{s.share:g}" if s.share is not None else "?", **figures(s)}
    text = (
        Text(
            "capturing CUDA graphs needs more than the engine set aside for them: {tried} more was wanted, and {free} "
            "of {total} was free at a share of {share}",
            **shown,
        )
        if inside
        else Text(
            "CUDA graphs are captured after the KV cache has taken the engine's share ({share}), out of what it "
            "leaves: {tried} more was wanted, and {free} of {total} was free",
            **shown,
        )
    )
    keeps = {"enforce_eager": True}
    without = s.either({"--enforce-eager": ""}, Text("no CUDA graphs: slower decode"), tokens=s.seen.kv_tokens, **keeps)
    return Found("graph-capture", text, [share_less(s, size), without])


def warm_up(s: Situation) -> Found | None:
    """The last runs before serving."""
    if s.seen.stage != "warm-up" or s.seen.oom is None:
        return None
    return Found(
        "warm-up",
        Text(
            "the warm-up after sizing the KV cache found too little outside the engine's share: {tried} more was "
            "wanted, and {free} of {total} was free",
            **figures(s),
        ),
        [share_less(s, s.deficit + HEADROOM), room.fewer_sequences(s)],
    )


def under_load(s: Situation) -> Found | None:
    """The start passed, and a real batch allocates more than was measured."""
    if s.seen.stage != "under load" or s.seen.oom is None:
        return None
    if (s.seen.oom.other_processes or 0) > CONTEXT:
        return crowded(s, s.seen.oom.other_processes or 0)
    return Found(
        "headroom-outside-the-share",
        Text(
            "the start passed, and under load {tried} more was wanted with {free} of {total} free: allocations after "
            "the start (larger batches, logprobs, fragmentation, communication) lie outside the engine's share "
            "of {share}",
            share=f"{s.share:g}" if s.share is not None else "?",
            **figures(s),
        ),
        [share_less(s, s.deficit + HEADROOM), halved(s), room.fewer_sequences(s)],
    )


def somewhere(s: Situation) -> Found | None:
    """Out of memory at a place that the log does not tell."""
    oom = s.seen.oom
    if oom is None or oom.tried is None:
        return None
    if s.others is not None and s.others > CONTEXT:
        return crowded(s, s.others)
    text = Text(
        "out of memory at a stage that the log does not show: {tried} more was wanted, and {free} of {total} was free",
        **figures(s),
    )
    return Found("out-of-memory", text, [share_less(s, s.deficit + HEADROOM)] if s.seen.engine != "llama.cpp" else [])

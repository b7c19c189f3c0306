"""A server that stands, and is slow because its KV cache is full: no log line says so."""

from __future__ import annotations

from typing import Final

from narrows.diagnosis import room
from narrows.diagnosis.found import Found
from narrows.diagnosis.mends import Mend
from narrows.diagnosis.situation import Situation
from narrows.text import Text

_FULL: Final = 0.95


def cache_full(s: Situation) -> Found | None:
    """KV cache used up while requests wait, or preemptions: the server is capacity-bound."""
    serving = s.seen.serving
    if serving is None:
        return None
    usage, waiting, preempted = serving.peak_kv_usage or 0.0, serving.peak_waiting or 0, serving.preemptions or 0
    if not ((usage >= _FULL and waiting > 0) or preempted > 0):
        return None
    percent = f"{100 * usage:.0f}"
    text = (
        Text(
            "capacity-bound: {preempted} preemptions; a preempted request is computed again",
            preempted=preempted,
        )
        if preempted and serving.peak_kv_usage is None
        else Text(
            "capacity-bound: KV cache {percent} % used, {preempted} preemptions; a preempted request is computed again",
            percent=percent,
            preempted=preempted,
        )
        if preempted
        else Text(
            "capacity-bound: KV cache {percent} % used while {waiting} requests waited; the engine then preempts and "
            "computes again, without a line in the log",
            percent=percent,
            waiting=waiting,
        )
    )
    more = [room.higher_share(s), _double(s), _ranks(s)]
    # one at a time where several ran costs more than any other change
    concurrency = _concurrency(s)
    throttled = concurrency is not None and concurrency < 2 <= (serving.running or 0)
    return Found("kv-cache-full", text, [*more, _fewer(s)] if throttled else [_fewer(s), *more])


def _concurrency(s: Situation) -> float | None:
    return s.seen.max_concurrency or (s.base.concurrency if s.base else None)


def _fewer(s: Situation) -> Mend | None:
    """As many sequences as fit at the full length: then nothing is preempted."""
    concurrency, now = _concurrency(s), s.sequences
    if concurrency is None or concurrency < 1 or (now is not None and now <= concurrency):
        return None
    many = int(concurrency)
    flags = {"--max-num-seqs": str(many)}
    text = (
        Text("one sequence at a time, which fits at full length: no preemption, a longer queue")
        if many == 1
        else Text("at most {n} sequences at once, which all fit at full length: no preemption, a longer queue", n=many)
    )
    found = s.tried(max_num_seqs=many)
    if found is not None and found.starts:
        return s.mend_by(flags, text, found)
    return s.mend(flags, text, tokens=s.kv_tokens, kv=s.terms.kv_cache)


def _double(s: Situation) -> Mend | None:
    """More room per token: a larger pool where it is fixed in bytes, else 8 bits."""
    if s.pool:
        size = 2 * s.pool
        if s.total is not None and size + (s.weights or 0) > s.total * 0.9:
            return None
        doubled = 2 * s.kv_tokens if s.kv_tokens is not None else None
        flags = {"--kv-cache-memory-bytes": str(size)}
        return s.either(flags, Text("twice the KV cache"), tokens=doubled, kv=size, kv_cache_memory_bytes=size)
    return room.eight_bits(s)


def _ranks(s: Situation) -> Mend | None:
    return room.more_ranks(s)

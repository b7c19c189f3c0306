"""What the rules for failed allocations share: the figures of one, and changes that leave room for it."""

from __future__ import annotations

from typing import Final

from narrows.diagnosis.found import Found
from narrows.diagnosis.mends import Mend
from narrows.diagnosis.situation import CONTEXT, Situation, share_down, share_text
from narrows.text import Text
from narrows.units import GIB, binary, gib

HEADROOM: Final = GIB
"""Left outside the budget for what is allocated after the start."""


def figures(s: Situation) -> dict[str, str]:
    """Of the failed allocation, for a sentence."""
    oom = s.seen.oom
    unknown = "?"
    return {
        "tried": binary(oom.tried) if oom and oom.tried is not None else unknown,
        "free": binary(oom.free) if oom and oom.free is not None else unknown,
        "total": gib(s.total) if s.total is not None else unknown,
    }


def share_less(s: Situation, size: int) -> Mend | None:
    """A share lower by these bytes, so that they lie outside it."""
    if s.pool:
        smaller = (s.pool - size) // 2**20 * 2**20
        if smaller <= 0:
            return None
        flags = {"--kv-cache-memory-bytes": str(smaller)}
        return s.either(
            flags, Text("{size} less for the KV cache", size=binary(size)), kv=smaller, kv_cache_memory_bytes=smaller
        )
    if s.share is None or s.seen.engine not in ("vllm", None):
        return None
    total = s.total
    share = share_down(s.share - size / total) if total else share_down(min(0.9, s.share - 0.05))
    if share < 0.05:
        return None
    flags = {"--gpu-memory-utilization": share_text(share)}
    text = Text("{size} of the device kept free for what runs beside the engine's share", size=binary(size))
    if s.made.deployment is not None:
        return s.mend_by(flags, text, s.tried(utilization=share))
    kv = s.terms.kv_cache
    if kv is None or total is None or s.token_bytes is None:
        return s.mend(flags, text)
    left = kv - int((s.share - share) * total)
    if left <= 0:
        return None
    return s.mend(flags, text, tokens=int(left / s.token_bytes), kv=left)


def said(s: Situation, *words: str) -> bool:
    """Whether a kept line holds one of the words."""
    lines = [s.seen.error or "", *(line.text for line in s.seen.evidence if "error" in line.fields or not line.fields)]
    return any(word in line.lower() for line in lines for word in words)


def crowded(s: Situation, others: int) -> Found:
    """Other processes hold the memory that was wanted."""
    total = s.total or 0
    return Found(
        "others-hold-memory",
        Text(
            "other processes hold {others} of the device's {total}; the next {tried} did not fit beside them",
            others=gib(others),
            total=gib(total),
            tried=binary(s.seen.oom.tried or 0) if s.seen.oom else "?",
        ),
        [
            s.mend({}, Text("end the processes that hold the device, then start as before")),
            share_less(s, others + CONTEXT // 2),
        ],
    )


def halved(s: Situation) -> Mend | None:
    """A smaller step, by rule: nothing predicts what it needs."""
    now = s.batched_tokens or (s.length if s.old else None)
    smaller = 2048 if now is None or now > 4096 else max(256, now // 2)
    flags = {"--max-num-batched-tokens": str(smaller)}
    if s.old:
        flags["--enable-chunked-prefill"] = ""
    text = Text("a step of {n} tokens: a smaller activation peak, prefill in more steps", n=smaller)
    return s.mend(flags, text)

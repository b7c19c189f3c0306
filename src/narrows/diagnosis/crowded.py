"""Causes where the engine's share is spent before the cache gets any of it: by others, by weights, by its reserve."""

from __future__ import annotations

from narrows.diagnosis import room
from narrows.diagnosis.found import Found
from narrows.diagnosis.mends import Mend
from narrows.diagnosis.situation import CONTEXT, HIGHEST_SHARE, Situation, share_down, share_text, share_up
from narrows.text import Text
from narrows.units import gib


def share_not_free(s: Situation) -> Found | None:
    """The engine asks for a share of the device that is not free when it starts."""
    free, total, wanted = s.terms.free_at_start, s.terms.total, s.terms.requested
    if free is None or not total or wanted is None or wanted <= free or s.terms.kv_cache is not None:
        return None
    if s.seen.stage not in ("load", None):
        return None
    held = total - free
    figures = {
        "wanted": gib(wanted),
        "share": f"{s.share:g}" if s.share is not None else "?",
        "total": gib(total),
        "free": gib(free),
        "held": gib(held),
    }
    if s.on_cpu:
        text = Text(
            "the engine wants {wanted} ({share} of the machine's {total}), and {free} is available: the system and "
            "other programs hold {held}",
            **figures,
        )
    elif held > CONTEXT:
        text = Text(
            "the engine wants {wanted} ({share} of {total}), and {free} is free: other processes hold {held} of this "
            "device",
            **figures,
        )
    else:
        text = Text(
            "the engine wants {wanted} ({share} of {total}), and {free} is free: the process's own "
            "context takes {held}",
            **figures,
        )
    fits = share_down(free / total)
    smaller: Mend | None = None
    if fits >= 0.01:
        smaller = _smaller(s, fits)
    others = room.without_others(s) if held > CONTEXT else None
    return Found("share-not-free", text, [smaller, others])


def _smaller(s: Situation, fits: float) -> Mend | None:
    """The share that is free, or as much less as what lies beside the share (graphs, sampling) needs."""
    said = Text("the share that is free now, rounded down")
    flags = {"--gpu-memory-utilization": share_text(fits)}
    if s.made.deployment is None or s.on_cpu:
        return s.either(flags, said, utilization=fits) or s.mend(flags, said)
    for percent in range(round(fits * 100), 0, -1):
        found = s.tried(utilization=percent / 100)
        if found is not None and found.starts:
            if percent / 100 < fits:
                said = Text("of the share that is free now, as much as leaves room for graphs and sampling beside it")
            return s.mend_by({"--gpu-memory-utilization": share_text(percent / 100)}, said, found)
        if found is not None and found.stage in ("kv", "load"):
            # a smaller share helps neither
            return None
    return None


def no_blocks(s: Situation) -> Found | None:
    """The cache gets nothing: "No available memory for the cache blocks"."""
    if s.seen.stage != "kv allocation" or "No available memory for the cache blocks" not in (s.seen.error or ""):
        return None
    weights, budget = s.weights, s.budget
    if weights is not None and budget is not None and weights >= budget:
        return Found(
            "weights-exceed-share",
            Text(
                "weights take {weights}, more than the engine's {budget} ({share} of the device): nothing is left for "
                "KV cache",
                weights=gib(weights),
                budget=gib(budget),
                share=f"{s.share:g}",
            ),
            _wider(s),
        )
    held = _held(s)
    if held:
        return _others(s, held)
    if weights is not None and budget is not None and s.share is not None:
        return Found(
            "share-too-small",
            Text(
                "of the engine's {budget} ({share} of the device) weights take {weights}, and activations, graphs and "
                "runtime the remaining {rest}: nothing is left for KV cache",
                budget=gib(budget),
                share=f"{s.share:g}",
                weights=gib(weights),
                rest=gib(budget - weights),
            ),
            _wider(s),
        )
    return Found(
        "share-too-small",
        Text(
            "weights, activations and runtime take all of the engine's share of the device, {share}", share=s.share or 0
        )
        if s.share is not None
        else Text("weights, activations and runtime take all of the engine's share of the device"),
        _wider(s),
    )


def _held(s: Situation) -> int:
    """Bytes that others must hold: seen, or what the prediction had left where the engine found nothing."""
    if s.others and s.counts_others:
        return s.others
    if s.law is not None and s.law.stage == "started" and (s.law.kv.low or 0) > CONTEXT // 2:
        return int(s.law.kv.value)
    return 0


def _wider(s: Situation) -> list[Mend | None]:
    found = [
        room.higher_share(s),
        room.fewer_tokens(s) if s.base is not None else None,
        room.fewer_sequences(s) if s.base is not None else None,
        room.shorter(s),
        room.eager(s),
        room.fp8_weights(s),
        room.more_ranks(s),
    ]
    if any(found) or s.base is not None or s.share is None or s.share >= HIGHEST_SHARE:
        return found
    flags = {"--gpu-memory-utilization": share_text(HIGHEST_SHARE)}
    return [s.mend(flags, Text("as large a share as leaves room for what runs beside it")), *found]


def _others(s: Situation, held: int) -> Found:
    total, share = s.total, s.share
    known = bool(s.others) and s.counts_others
    mends: list[Mend | None] = []
    if known and total is not None and share is not None:
        wider = share_up(share + held / total)
        if wider <= 0.97:
            text = Text("the share of others ({held}) and its own together: this version counts both", held=gib(held))
            flags = {"--gpu-memory-utilization": share_text(wider)}
            found = s.tried(utilization=wider)
            mends.append(s.mend_by(flags, text, found) if found else s.mend(flags, text))
    text = (
        Text("end the other processes first, then start as before; the shares of all must stay below 1")
        if s.counts_others
        else Text(
            "start as before when the other process has ended or has all of its memory; the shares of all must stay "
            "below 1"
        )
    )
    mends.append(s.mend({}, text))
    alone = s.tried(memory_in_use=None)
    if alone is not None and alone.starts and not s.old and s.counts_others:
        size = int(alone.kv.low or alone.kv.value) // 2**20 * 2**20
        flags = {"--kv-cache-memory-bytes": str(size)}
        mends.append(
            s.mend_by(flags, Text("a pool fixed in bytes, whatever others hold"), s.tried(kv_cache_memory_bytes=size))
        )
    return Found("others-hold-memory", _held_sentence(s, held, known), mends)


def _held_sentence(s: Situation, held: int, known: bool) -> Text:
    share = f"{s.share:g}" if s.share is not None else "?"
    if known:
        return Text(
            "other processes hold {held} of this device, and the engine's share of {share} counts what they hold: "
            "nothing of it is left for KV cache",
            held=gib(held),
            share=share,
        )
    if s.counts_others:
        return Text(
            "alone on the device this start would have {held} for KV cache, and the engine found none: other processes "
            "hold memory that its share of {share} counts",
            held=gib(held),
            share=share,
        )
    return Text(
        "this start should have {held} for KV cache, and the engine found none: this version leaves out what others "
        "hold when it starts, but counts what they take while it loads and measures, and one must have taken it",
        held=gib(held),
    )

"""Whether a load fits, what the engine does with it, and why: in codes for programs and a sentence for people."""

from __future__ import annotations

from typing import Literal

import msgspec

from narrows.deployment import Deployment
from narrows.engines.on_load import refuses
from narrows.memory import Capacity, Start, capacity, reserve
from narrows.memory.ledger import share_of
from narrows.text import Text
from narrows.units import binary

Verdict = Literal[
    "fits", "weights do not fit", "no room for one sequence", "this load does not fit", "the engine does not start"
]
Starts = Literal[
    "starts",
    "starts, but will preempt at this load",
    "fails at load",
    "fails at KV allocation",
    "fails at graph capture",
    "starts, but may fail at graph capture",
    "fails: its share of the memory is not free",
]


def verdict_of(fits: bool, room: Capacity, load: int) -> Verdict:
    """The verdict on `load` sequences."""
    if fits:
        return "fits"
    if room.pool < 0:
        return "weights do not fit"
    if room.max_batch == 0:
        return "no room for one sequence"
    return "this load does not fit" if room.max_batch < load else "the engine does not start"


def starts_of(deployment: Deployment, begun: Start, room: Capacity, load: int) -> Starts:
    """What the engine does at its start, and under `load` sequences of the longest length."""
    if refuses(deployment.model, deployment.engine.name):
        return "fails at load"
    if begun.stage == "started" and begun.graphs_may_fail and room.max_batch >= load:
        return "starts, but may fail at graph capture"
    if begun.stage == "started":
        return "starts" if room.max_batch >= load else "starts, but will preempt at this load"
    failures: dict[str, Starts] = {
        "load": "fails at load",
        "kv": "fails at KV allocation",
        "graphs": "fails at graph capture",
        "share": "fails: its share of the memory is not free",
    }
    return failures[begun.stage]


def overrun(gpu_name: str, free: int) -> list[Text]:
    """That the peak of a load that fits the engine's own count is more than the device has. free: bytes per device."""
    if free >= 0:
        return []
    return [
        Text(
            "{gpu}: a step as large as the one it profiles would take {size} more than is free beside what others "
            "hold; this version does not count them, and may run out of memory under load",
            gpu=gpu_name,
            size=binary(-free),
        )
    ]


_AS_GOOD_AS = 1.05
"""Pages that take so many times what they keep are not told apart from it."""


def reason_of(deployment: Deployment, room: Capacity, load: int, verdict: Verdict) -> Text:
    """Why, in one sentence with the figures that decide."""
    if verdict == "the engine does not start" and deployment.memory_in_use:
        return _held(deployment)
    if verdict == "weights do not fit" and deployment.memory_in_use:
        kept = reserve(deployment)
        return Text(
            "weights take {weights} and the engine's reserve {reserve}, and other processes hold {held}, of {usable} "
            "of one {gpu}, of which {engine} may use {budget}",
            weights=binary(room.shard.weights),
            reserve=binary(kept.claimed),
            held=binary(deployment.memory_in_use),
            usable=binary(deployment.usable),
            budget=binary(share_of(deployment, kept)),
            engine=deployment.engine.name,
            gpu=deployment.accelerator.name,
        )
    if verdict == "weights do not fit":
        kept = reserve(deployment)
        return Text(
            "weights take {weights} and the engine's reserve {reserve}, of {budget} that {engine} may use on one {gpu}",
            weights=binary(room.shard.weights),
            reserve=binary(kept.claimed),
            budget=binary(share_of(deployment, kept)),
            engine=deployment.engine.name,
            gpu=deployment.accelerator.name,
        )
    if verdict == "the engine does not start":
        return Text(
            "at a share of {share} too little of the {usable} stays free for the CUDA context and what is outside it",
            share=f"{deployment.utilization:g}",
            usable=binary(deployment.usable),
        )
    needed = load * room.shard.sequence_bytes(deployment.max_length)
    bounds = bound_of(deployment, room) if room.in_memory < load else None
    if bounds is not None:
        return Text(
            "{flag} bounds the KV cache: {batch} × {length} tokens need more, and memory would hold {held} of them",
            flag=bounds[0],
            batch=load,
            length=deployment.max_length,
            held=bounds[1],
        )
    if load > room.max_batch == 1 < room.in_memory:
        return Text(
            "the engine runs one sequence at a time (max_num_seqs); memory would hold {held}", held=room.in_memory
        )
    if load > room.max_batch and room.in_memory > room.max_batch:
        return Text(
            "the engine runs at most {most} sequences at once (max_num_seqs); memory would hold {held}",
            most=room.max_batch,
            held=room.in_memory,
        )
    paged = load * room.pages.request_bytes(deployment.max_length)
    figures: dict[str, str | int] = {
        "batch": load,
        "length": deployment.max_length,
        "needed": binary(needed),
        "pool": binary(room.pool),
    }
    # windows keep the tokens in flight besides, and the pages of hybrids are padded
    larger = paged > _AS_GOOD_AS * needed
    if larger:
        figures["paged"] = binary(paged)
    if verdict == "fits" and room.max_batch < room.in_memory:
        figures |= {"most": room.max_batch, "held": room.in_memory}
        if larger:
            return Text(
                "{batch} × {length} tokens take {paged} of {pool} in the engine's pages ({needed} of KV cache and "
                "state); more than {most} the engine does not run at once (max_num_seqs), though memory would hold "
                "{held}",
                **figures,
            )
        return Text(
            "{batch} × {length} tokens take {needed} of {pool}; more than {most} the engine does not run at once "
            "(max_num_seqs), though memory would hold {held}",
            **figures,
        )
    if verdict == "fits" and larger:
        return Text(
            "{batch} × {length} tokens take {paged} of the {pool} left for KV cache and state, in the engine's pages "
            "({needed} of them hold what is kept)",
            **figures,
        )
    if verdict == "fits":
        return Text("{batch} × {length} tokens take {needed} of the {pool} left for KV cache and state", **figures)
    if larger:
        return Text(
            "{batch} × {length} tokens need {paged} in the engine's pages ({needed} of KV cache and state), and {pool} "
            "is left beside weights and reserve",
            **figures,
        )
    return Text(
        "{batch} × {length} tokens need {needed} for KV cache and state, and {pool} is left beside weights and reserve",
        **figures,
    )


def bound_of(deployment: Deployment, room: Capacity) -> tuple[str, int] | None:
    """(The flag that keeps the KV cache smaller than the memory, sequences that memory would hold), if one does."""
    if deployment.max_total_tokens is not None:
        flag, changed = "--max-total-tokens", msgspec.structs.replace(deployment, max_total_tokens=None)
    elif deployment.kv_cache_bytes is not None:
        flag, changed = "--kv-cache-memory-bytes", msgspec.structs.replace(deployment, kv_cache_bytes=None)
    else:
        return None
    held = capacity(changed).in_memory
    return (flag, held) if held > room.in_memory else None


def _held(deployment: Deployment) -> Text:
    """Why an engine does not start beside others, by the law of its version."""
    figures = {
        "held": binary(deployment.memory_in_use),
        "usable": binary(deployment.usable),
        "share": f"{deployment.utilization:g}",
        "budget": binary(share_of(deployment, reserve(deployment))),
        "engine": deployment.engine.label,
    }
    if deployment.engine.checks_free:
        return Text(
            "other processes hold {held} of {usable}: {engine} refuses to start where less is free than its share, "
            "{budget} ({share})",
            **figures,
        )
    if deployment.others_inside:
        return Text(
            "other processes hold {held} of {usable}, and what the engine takes for its share of {share} does not fit "
            "beside them",
            **figures,
        )
    return Text(
        "other processes hold {held} of {usable}: {engine} does not see them, and what it takes for its share, "
        "{budget} ({share}), does not fit beside them",
        **figures,
    )

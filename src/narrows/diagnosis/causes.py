"""The cause of a start's outcome: rules, from the most telling line to the most general."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from narrows.diagnosis import arguments, capacity, crowded, late_ooms, ooms, other_engines, serving
from narrows.diagnosis.found import Found
from narrows.diagnosis.mends import Mend
from narrows.diagnosis.situation import Situation
from narrows.text import Text


class Cause(msgspec.Struct, frozen=True):
    """Why: a stable id, one sentence with the figures that decide, and the stage where the start stopped."""

    id: str
    text: Text
    stage: str | None


Rule = Callable[[Situation], Found | None]

_VLLM: Final[tuple[Rule, ...]] = (
    arguments.heads,
    arguments.blocks,
    arguments.beyond_the_model,
    arguments.no_bfloat16,
    arguments.refused,
    capacity.upgraded,
    crowded.share_not_free,
    capacity.profile_follows_length,
    capacity.too_long,
    crowded.no_blocks,
    late_ooms.sampler,
    late_ooms.killed,
    ooms.at_load,
    ooms.multimodal,
    ooms.profiling,
    late_ooms.cache,
    late_ooms.graphs,
    late_ooms.warm_up,
    late_ooms.under_load,
    late_ooms.somewhere,
)
_OTHERS: Final[tuple[Rule, ...]] = (
    other_engines.static_share,
    other_engines.compute_buffer,
    other_engines.cache_buffer,
    other_engines.weights_buffer,
    late_ooms.somewhere,
)


_WITHOUT_FIGURES: Final = {
    "share-not-free": Text("the engine wants more memory than is free on this device"),
    "others-hold-memory": Text("other processes hold memory of this device, and what is left is too little"),
    "cache-not-allocated": Text("the KV cache was sized and then could not be allocated"),
    "graph-capture": Text("capturing CUDA graphs found too little memory beside the KV cache"),
    "warm-up": Text("the warm-up after sizing the KV cache found too little memory outside the engine's share"),
    "headroom-outside-the-share": Text(
        "the start passed, and under load the memory outside the engine's share ran out"
    ),
    "out-of-memory": Text("out of memory at a stage that the log does not show"),
    "multimodal-profiling": Text("profiling the vision encoder with the largest images allowed ran out of memory"),
    "activation-peak": Text("the activation peak of the profiled step does not fit beside the weights"),
    "weights-leave-no-room": Text("weights take nearly all of the device: the profiled batch has no room"),
    "compute-buffer": Text("weights and KV cache fit, the compute buffer does not"),
}
"""Where the log lacks a figure of the sentence: the same without figures."""


def _said(found: Found) -> Text:
    if "?" in found.text.params.values():
        return _WITHOUT_FIGURES.get(found.id, found.text)
    return found.text


def diagnose(situation: Situation) -> tuple[Cause | None, tuple[Mend, ...]]:
    """The cause and its mends, the least costly first. None and no mends for a start that is healthy."""
    seen = situation.seen
    if seen.outcome in ("started", "serving"):
        found = serving.cache_full(situation)
        return (None, ()) if found is None else (Cause(found.id, found.text, "under load"), _distinct(found.mends))
    if seen.outcome == "failed":
        for rule in _VLLM if seen.engine in ("vllm", None) else _OTHERS:
            found = rule(situation)
            if found is not None:
                return Cause(found.id, _said(found), seen.stage), _distinct(found.mends)
    return _unexplained(situation), ()


def _unexplained(situation: Situation) -> Cause:
    seen = situation.seen
    if seen.outcome == "unknown":
        text = Text("the log ends before the engine is ready, and without an error; give the whole log")
        return Cause("incomplete-log", text, seen.stage)
    if seen.error:
        return Cause("other-error", Text("not a matter of memory: {error}", error=seen.error.rstrip(".")), seen.stage)
    return Cause("other-error", Text("the start failed, and the log does not say why; give the whole log"), seen.stage)


def _distinct(mends: Iterable[Mend | None]) -> tuple[Mend, ...]:
    kept: dict[str, Mend] = {}
    for mend in mends:
        if mend is not None:
            kept.setdefault(mend.command + mend.change + (str(mend.text) if not mend.change else ""), mend)
    return tuple(kept.values())

"""Causes where an allocation failed before the KV cache was sized: weights, the profiled batch, images."""

from __future__ import annotations

import re
from typing import Final

from narrows.calibration import coefficients
from narrows.diagnosis import room
from narrows.diagnosis.found import Found
from narrows.diagnosis.mends import Mend
from narrows.diagnosis.short_of import crowded, figures, halved, said
from narrows.diagnosis.situation import CONTEXT, Situation
from narrows.engines.version import parse_version
from narrows.memory.activations import peak
from narrows.text import Text
from narrows.units import binary, gib

_SEES: Final = re.compile(r"(?:VL|Vision|Llava|Image|Omni|Pixtral|Mllama|InternVL|MiniCPMV|Phi3V|GLM4V|Glm4v)", re.I)


def at_load(s: Situation) -> Found | None:
    """Weights do not fit the device, or others hold it."""
    if s.seen.stage != "load" or s.seen.oom is None:
        return None
    others, total, weights = s.others or 0, s.total, s.law.start.weights if s.law else None
    if others > CONTEXT and (weights is None or total is None or weights < 0.97 * total):
        return crowded(s, others)
    text = (
        Text(
            "weights of {weights} per device do not fit its {total}",
            weights=gib(weights),
            total=gib(total or 0),
        )
        if weights is not None and total is not None
        else Text(
            "weights do not fit the device: {tried} more was wanted, and {free} of {total} was free",
            tried=binary(s.seen.oom.tried or 0),
            free=binary(s.seen.oom.free or 0),
            total=gib(total or 0),
        )
    )
    return Found("weights-exceed-device", text, elsewhere(s))


def elsewhere(s: Situation) -> list[Mend | None]:
    """What helps where the weights are too much: more devices, or fewer bits."""
    quantized = s.mend(
        {},
        Text("a quantized checkpoint of this model (4 or 8 bits), or a device with more memory; 'narrows fit' tells"),
    )
    return [room.fp8_weights(s), room.more_ranks(s), quantized]


def _full_of_weights(s: Situation) -> bool:
    """Whether weights leave the profiled batch less than a twentieth of the device."""
    return s.weights is not None and s.total is not None and s.weights > 0.95 * s.total


def multimodal(s: Situation) -> Found | None:
    """Profiling of images: the encoder runs with as many and as large ones as are allowed."""
    if s.seen.stage != "profiling" or s.seen.oom is None or _full_of_weights(s):
        return None
    towers = s.made.model is not None and any(tower.served and not tower.reads for tower in s.made.model.towers)
    name = f"{s.seen.architecture or ''} {s.seen.model or ''}"
    told = said(s, "multimodal", "encoder", "visual")
    if not (towers or told or _SEES.search(name)):
        return None
    if s.law is not None and s.engine is not None and not told:
        moments = peak(s.law.deployment, coefficients(s.engine.name))
        if moments.vision < moments.forward // 2:
            return None
    version = parse_version(s.engine.version) if s.engine else None
    one = "image=1" if version is not None and version < (0, 9, 0) else '{"image": 1, "video": 0}'
    none = "image=0" if version is not None and version < (0, 9, 0) else '{"image": 0, "video": 0}'
    return Found(
        "multimodal-profiling",
        Text(
            "profiling runs the vision encoder with the most and largest images allowed: {tried} more was wanted, and "
            "{free} of {total} was free",
            **figures(s),
        ),
        [
            s.mend({"--limit-mm-per-prompt": one}, Text("one image per prompt, no video: a smaller profiled batch")),
            room.fewer_tokens(s, room.relieves(s)) if s.base else halved(s),
            s.mend({"--limit-mm-per-prompt": none}, Text("text only: images are neither profiled nor served")),
        ],
    )


def profiling(s: Situation) -> Found | None:
    """The profiled batch does not fit beside the weights."""
    if s.seen.stage != "profiling" or s.seen.oom is None:
        return None
    if (s.others or 0) > CONTEXT:
        return crowded(s, s.others or 0)
    if _full_of_weights(s):
        return Found(
            "weights-leave-no-room",
            Text(
                "weights take {weights} of the device's {total}: the profiled batch has no room ({tried} was wanted, "
                "{free} was free)",
                weights=gib(s.weights or 0),
                **figures(s),
            ),
            elsewhere(s),
        )
    tokens = s.batched_tokens
    text = (
        Text(
            "the activation peak of a profiled step of {tokens} tokens does not fit beside the weights: {tried} more "
            "was wanted, and {free} of {total} was free",
            tokens=tokens,
            **figures(s),
        )
        if tokens is not None
        else Text(
            "the activation peak of the profiled step does not fit beside the weights: {tried} more was wanted, and "
            "{free} of {total} was free",
            **figures(s),
        )
    )
    mends = [
        room.fewer_tokens(s, room.relieves(s)) if s.base else halved(s),
        room.fewer_sequences(s, room.relieves(s)) if s.base else None,
        room.more_ranks(s, room.relieves(s)),
    ]
    if s.base and not any(mends[:2]):
        mends.insert(0, room.fewer_tokens_and_shorter(s, room.relieves(s)))
    if not any(mends):
        mends = elsewhere(s)
    return Found("activation-peak", text, mends)

"""Inkling: patches folded step by step into the decoder's width, codes of sound, its own decoder."""

from __future__ import annotations

import math
from itertools import pairwise

from narrows.models.fields import Fields
from narrows.models.readers.families import Family
from narrows.models.readers.multimodal import text_of
from narrows.models.readers.several import together
from narrows.models.readers.towers.parts import Parts
from narrows.models.spec import ModelSpec
from narrows.text import BadInput

Scale = tuple[int, int, int]
"""Frames, side and channels of what one step makes of a patch."""


def read_inkling_mm_model(c: Fields) -> ModelSpec:
    """The decoder, eyes and ears; nothing is tied."""
    family = Family(text="inkling_text", names="model.language_model", tied="never")
    text = text_of(c, family)
    seen = _eyes(c.nested("vision_config"), text.hidden)
    a, heard = c.nested("audio_config"), Parts("model.audio_tower.")
    codes = a.size("n_mel_bins", "num_codebooks", default=80) * a.size("mel_vocab_size", "codebook_size", default=256)
    heard.add("embed_audio_tokens.embed_audio_tokens", codes, text.hidden)
    heard.add("norm", text.hidden)
    c.read |= {"audio_config", "mtp_config"}
    return together(c, family, text, "inkling_mm_model", [seen.tower(), heard.tower("audio tower")])


def _eyes(c: Fields, out: int) -> Parts:
    layers, channels = (
        c.layers("n_layers", "num_hidden_layers", default=24),
        c.size("num_channels", default=3, most=4096),
    )
    patch, frames = c.size("patch_size", default=40, most=65536), c.size("temporal_patch_size", default=2, most=65536)
    steps = _plan(c, frames, patch, layers, channels)
    parts = Parts("model.vision_tower.")
    for i, (before, after) in enumerate(pairwise(steps)):
        folded = (after[0] // before[0]) * (after[1] // before[1]) ** 2
        last = i == layers - 1
        width = out if last else after[2]
        parts.add(f"encoder_layers.{i}.projection", width, before[2] * folded)
        if not last:
            parts.add(f"encoder_layers.{i}.layer_norm", width)
    parts.add("final_norm", out)
    return parts


def _plan(c: Fields, frames: int, patch: int, layers: int, channels: int) -> list[Scale]:
    """What each layer makes: of the possible scales, the one nearest to an even growth of elements.

    Scales fold the side first, prime factor by prime factor (the largest first), then frames; channels grow so that
    nothing is lost, in steps of 64, and where frames are folded by 64 for every element.
    Source: the plan of transformers' Inkling (Apache-2.0).
    """
    scales: list[Scale] = [(1, 1, channels)]
    side = 1
    for factor in _factors(patch):
        side *= factor
        scales.append((1, side, -(-(side**2) * channels // 64) * 64))
    depth = 1
    for factor in _factors(frames):
        depth *= factor
        scales.append((depth, side, side**2 * channels * depth * 64))
    if layers < len(scales):
        raise BadInput(
            "config field '{field}' is {value}; narrows reads towers with at least {least} layers, one for every fold",
            field=c.path + "num_hidden_layers",
            value=layers,
            least=len(scales),
        )
    whole, sizes = math.log(patch**2 * frames * channels), [math.log(t * s * s) for t, s, _ in scales]
    chosen = [
        min(range(len(scales)), key=lambda i: round(abs(whole * n / layers - sizes[i]), 5)) for n in range(layers + 1)
    ]
    chosen[0], chosen[-1] = 0, len(scales) - 1
    return [scales[i] for i in chosen]


def _factors(number: int) -> list[int]:
    """Prime factors, the largest first."""
    found, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return sorted([*found, *([number] if number > 1 else [])], reverse=True)

"""Mixers: how a layer lets tokens see each other. Each states its tensors and what it caches."""

from __future__ import annotations

from narrows.models.mixers.attention import INDEX_KEY, Attention, LatentAttention
from narrows.models.mixers.base import linear
from narrows.models.mixers.combined import NoMixer, Parallel
from narrows.models.mixers.cross import Bidirectional, SelfAndCross
from narrows.models.mixers.linear_attention import KimiDelta, Lightning, ShortConvolution
from narrows.models.mixers.recurrent import GatedDeltaNet, Mamba, Mamba2

Mixer = (
    Attention
    | LatentAttention
    | Mamba
    | Mamba2
    | GatedDeltaNet
    | KimiDelta
    | Lightning
    | ShortConvolution
    | Parallel
    | NoMixer
    | SelfAndCross
    | Bidirectional
)

__all__ = [
    "INDEX_KEY",
    "Attention",
    "Bidirectional",
    "GatedDeltaNet",
    "KimiDelta",
    "LatentAttention",
    "Lightning",
    "Mamba",
    "Mamba2",
    "Mixer",
    "NoMixer",
    "Parallel",
    "SelfAndCross",
    "ShortConvolution",
    "linear",
]

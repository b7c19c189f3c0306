"""Mixers: how a layer lets tokens see each other. Each states its tensors and what it caches."""

from __future__ import annotations

from narrows.models.mixers.attention import Attention, LatentAttention
from narrows.models.mixers.base import linear
from narrows.models.mixers.recurrent import GatedDeltaNet, Mamba

Mixer = Attention | LatentAttention | Mamba | GatedDeltaNet

__all__ = ["Attention", "GatedDeltaNet", "LatentAttention", "Mamba", "Mixer", "linear"]

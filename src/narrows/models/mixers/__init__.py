"""Mixers: how a layer lets tokens see each other. Each states its tensors and what it caches."""

from __future__ import annotations

from narrows.models.mixers.attention import INDEX_KEY, Attention, LatentAttention
from narrows.models.mixers.base import linear
from narrows.models.mixers.bidirectional import RememberingAttention, Uncached
from narrows.models.mixers.chosen import IndexedAttention, MixtureOfAttention
from narrows.models.mixers.combined import Chain, NoMixer, Parallel
from narrows.models.mixers.compressed import SHARED, CompressedAttention
from narrows.models.mixers.convolved import CompressedConvolution, ConvolvedAttention
from narrows.models.mixers.crossed import CrossAttention
from narrows.models.mixers.linear_attention import KimiDelta, Lightning, ShortConvolution
from narrows.models.mixers.looped import Looped
from narrows.models.mixers.recurrences import GatedRecurrence, MatrixMemory, Rwkv4
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
    | Chain
    | CrossAttention
    | IndexedAttention
    | MixtureOfAttention
    | ConvolvedAttention
    | CompressedConvolution
    | RememberingAttention
    | Uncached
    | GatedRecurrence
    | Rwkv4
    | MatrixMemory
    | NoMixer
    | Looped
    | CompressedAttention
)

__all__ = [
    "INDEX_KEY",
    "SHARED",
    "Attention",
    "Chain",
    "CompressedAttention",
    "CompressedConvolution",
    "ConvolvedAttention",
    "CrossAttention",
    "GatedDeltaNet",
    "GatedRecurrence",
    "IndexedAttention",
    "KimiDelta",
    "LatentAttention",
    "Lightning",
    "Looped",
    "Mamba",
    "Mamba2",
    "MatrixMemory",
    "Mixer",
    "MixtureOfAttention",
    "NoMixer",
    "Parallel",
    "RememberingAttention",
    "Rwkv4",
    "ShortConvolution",
    "Uncached",
    "linear",
]

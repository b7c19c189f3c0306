"""Attention that looks both ways, or that remembers hidden states instead of keys and values."""

from __future__ import annotations

from narrows.models.mixers.attention import AroundAttention
from narrows.models.mixers.base import Stateless, linear
from narrows.models.tensors import CacheRow, Tensor


class Uncached(AroundAttention, frozen=True, tag="uncached"):
    """Attention over the whole input at once (XLM): every step computes all keys and values anew."""

    def cache(self) -> list[CacheRow]:
        """Nothing."""
        return []


class RememberingAttention(Stateless, frozen=True, tag="remembering_attention"):
    """XLNet's relative attention: it keeps the hidden states of earlier tokens and projects them anew each time.

    memory: tokens kept (None: all); keeps: whether any are.
    """

    hidden: int
    heads: int
    head_dim: int
    memory: int | None = None
    keeps: bool = True

    def tensors(self) -> list[Tensor]:
        """q, k, v, o and relative positions, three biases and two segments per head."""
        width, heads = self.heads * self.head_dim, self.heads
        return [
            *(t for side in "qkv" for t in linear(f"attention.{side}", width, self.hidden, shards=heads)),
            *linear("attention.o", self.hidden, width, shards=heads),
            *linear("attention.relative", width, self.hidden, shards=heads),
            *(Tensor(f"attention.{k}_bias", (heads, self.head_dim), "vector", heads) for k in ("r_r", "r_s", "r_w")),
            Tensor("attention.segments", (2, heads, self.head_dim), "vector", heads),
        ]

    def cache(self) -> list[CacheRow]:
        """The layer's input, once for all heads."""
        return [CacheRow("memory", 1, self.hidden, self.memory)] if self.keeps else []

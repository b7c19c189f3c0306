"""Layers that a forward pass runs more than once."""

from __future__ import annotations

from narrows.models.mixers.attention import AroundAttention
from narrows.models.tensors import CacheRow


class Looped(AroundAttention, frozen=True, tag="looped"):
    """Attention of a layer that runs `loops` times for every token: one set of weights, a cache for every turn."""

    loops: int

    @property
    def window(self) -> int | None:
        """Of the attention."""
        return self.attention.window

    def cache(self) -> list[CacheRow]:
        """The attention's, once for every turn."""
        return self.attention.cache() * self.loops

"""Layers that a forward pass runs more than once."""

from __future__ import annotations

import msgspec

from narrows.models.mixers.attention import Attention
from narrows.models.tensors import CacheRow, StateRow, Tensor


class Looped(msgspec.Struct, frozen=True, tag="looped"):
    """Attention of a layer that runs `loops` times for every token, each time with keys and values of its own."""

    attention: Attention
    loops: int

    @property
    def hidden(self) -> int:
        """Width of the layer."""
        return self.attention.hidden

    @property
    def window(self) -> int | None:
        """Of the attention."""
        return self.attention.window

    def tensors(self) -> list[Tensor]:
        """Those of the attention: every turn uses the same weights."""
        return self.attention.tensors()

    def cache(self) -> list[CacheRow]:
        """The attention's, once for every turn."""
        return self.attention.cache() * self.loops

    def state(self) -> list[StateRow]:
        """None."""
        return []

"""Layers with two mixers side by side, or with none."""

from __future__ import annotations

import msgspec

from narrows.models.mixers.attention import Attention
from narrows.models.mixers.recurrent import Mamba2
from narrows.models.tensors import CacheRow, StateRow, Tensor


class Parallel(msgspec.Struct, frozen=True, tag="parallel"):
    """Attention and a state space on the same input, their outputs added (Falcon-H1)."""

    attention: Attention
    recurrent: Mamba2

    @property
    def hidden(self) -> int:
        """Width of the layer."""
        return self.attention.hidden

    @property
    def window(self) -> int | None:
        """Of the attention."""
        return self.attention.window

    def tensors(self) -> list[Tensor]:
        """Those of both."""
        return self.attention.tensors() + self.recurrent.tensors()

    def cache(self) -> list[CacheRow]:
        """The attention's."""
        return self.attention.cache()

    def state(self) -> list[StateRow]:
        """The state space's."""
        return self.recurrent.state()


class NoMixer(msgspec.Struct, frozen=True, tag="none"):
    """A layer that is a feed-forward part only (Nemotron-H)."""

    hidden: int

    def tensors(self) -> list[Tensor]:
        """None."""
        return []

    def cache(self) -> list[CacheRow]:
        """Nothing."""
        return []

    def state(self) -> list[StateRow]:
        """None."""
        return []

"""Layers with several mixers, or with none."""

from __future__ import annotations

import msgspec

from narrows.models.mixers.attention import AroundAttention, Attention, LatentAttention
from narrows.models.mixers.base import Stateless
from narrows.models.mixers.crossed import CrossAttention
from narrows.models.mixers.recurrent import Mamba, Mamba2
from narrows.models.tensors import CacheRow, StateRow, Tensor


class Parallel(AroundAttention, frozen=True, tag="parallel"):
    """Attention and a state space on the same input, their outputs added (Falcon-H1)."""

    recurrent: Mamba2

    @property
    def window(self) -> int | None:
        """Of the attention."""
        return self.attention.window

    def tensors(self) -> list[Tensor]:
        """Those of both."""
        return self.attention.tensors() + self.recurrent.tensors()

    def state(self) -> list[StateRow]:
        """The state space's."""
        return self.recurrent.state()


class Chain(msgspec.Struct, frozen=True, tag="chain"):
    """Several mixers one after another in one layer (Zamba, LongCat-Flash, decoders behind an encoder).

    link: tensors between them. renamed: (prefix, its replacement) of roles that such a layer names differently.
    """

    hidden: int
    parts: tuple[Attention | LatentAttention | CrossAttention | Mamba | Mamba2, ...]
    link: tuple[Tensor, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    def tensors(self) -> list[Tensor]:
        """Those of all parts, and the links."""
        found = []
        for tensor in (tensor for part in self.parts for tensor in part.tensors()):
            role = tensor.role
            for old, new in self.renamed:
                role = new + role.removeprefix(old) if role.startswith(old) else role
            found.append(tensor if role == tensor.role else msgspec.structs.replace(tensor, role=role))
        return [*found, *self.link]

    def cache(self) -> list[CacheRow]:
        """Those of all parts."""
        return [row for part in self.parts for row in part.cache()]

    def state(self) -> list[StateRow]:
        """Those of all parts."""
        return [row for part in self.parts for row in part.state()]


class NoMixer(Stateless, frozen=True, tag="none"):
    """A layer that is a feed-forward part only (Nemotron-H)."""

    hidden: int

    def tensors(self) -> list[Tensor]:
        """None."""
        return []

"""What mixers and feed-forwards are built from: linear weights, and what a mixer is that says no more of itself."""

from __future__ import annotations

import msgspec

from narrows.models.tensors import CacheRow, StateRow, Tensor


class Stateless(msgspec.Struct, frozen=True):
    """A mixer that caches no tokens and keeps no state, unless it says otherwise."""

    def cache(self) -> list[CacheRow]:
        """Nothing grows with length."""
        return []

    def state(self) -> list[StateRow]:
        """None."""
        return []


def linear(
    role: str, out: int, inner: int, *, shards: int = 1, bias: bool = False, bias_shards: int | None = None
) -> list[Tensor]:
    """A linear weight [out, inner] and, if it has one, its bias [out]."""
    found = [Tensor(role, (out, inner), shards=shards)]
    if bias:
        found.append(Tensor(f"{role}.bias", (out,), "vector", shards if bias_shards is None else bias_shards))
    return found

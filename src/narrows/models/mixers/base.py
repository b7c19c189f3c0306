"""What every mixer and feed-forward is built from: linear weights."""

from __future__ import annotations

from narrows.models.tensors import Tensor


def linear(
    role: str, out: int, inner: int, *, shards: int = 1, bias: bool = False, bias_shards: int | None = None
) -> list[Tensor]:
    """A linear weight [out, inner] and, if it has one, its bias [out]."""
    found = [Tensor(role, (out, inner), shards=shards)]
    if bias:
        found.append(Tensor(f"{role}.bias", (out,), "vector", shards if bias_shards is None else bias_shards))
    return found

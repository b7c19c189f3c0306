"""Attention to what an encoder put out."""

from __future__ import annotations

import msgspec

from narrows.models.mixers.base import linear
from narrows.models.tensors import CacheRow, StateRow, Tensor


class CrossAttention(msgspec.Struct, frozen=True, tag="cross_attention"):
    """Queries of the decoder against keys and values of an encoder's output.

    encoder: width of that output. qk_norm: an RMS norm of head_dim on queries and keys (Llama 3.2 Vision).
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    encoder: int
    bias: bool = False
    qk_norm: bool = False

    def tensors(self) -> list[Tensor]:
        """Four projections, two of them from the encoder's width, and norms."""
        q, kv, heads = self.heads * self.head_dim, self.kv_heads * self.head_dim, self.kv_heads
        found = [
            *linear("cross.q", q, self.hidden, shards=self.heads, bias=self.bias),
            *(t for side in "kv" for t in linear(f"cross.{side}", kv, self.encoder, shards=heads, bias=self.bias)),
            *linear("cross.o", self.hidden, q, shards=self.heads, bias=self.bias, bias_shards=1),
        ]
        if self.qk_norm:
            found += [Tensor(f"cross.{side}_norm", (self.head_dim,), "vector") for side in "qk"]
        return found

    def cache(self) -> list[CacheRow]:
        """Nothing that grows with the decoder's tokens: keys and values are as many as the encoder puts out."""
        return []

    def state(self) -> list[StateRow]:
        """None without an input of the encoder."""
        return []

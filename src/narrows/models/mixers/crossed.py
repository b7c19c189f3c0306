"""Attention to what an encoder put out."""

from __future__ import annotations

from narrows.models.mixers.base import Stateless, linear
from narrows.models.tensors import CacheRow, Tensor


class CrossAttention(Stateless, frozen=True, tag="cross_attention"):
    """Queries of the decoder against keys and values of an encoder's output.

    encoder: width of that output. qk_norm: an RMS norm of head_dim on queries and keys (Llama 3.2 Vision). key_bias:
    keys have a bias where queries and values do (Whisper's have none). out_bias: so has the output (None: as the
    others). merged: the projections are those of the self-attention before it (T5Gemma 2). cached: every sequence has
    an encoder's output, so that keys and values of it are kept (not where one can do without, as Llama 3.2 Vision
    without a picture, or where a decoder was taken out of an encoder-decoder). tokens: how many tokens the encoder
    always gives (Whisper: 1500; None: as many as it is given).
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    encoder: int
    bias: bool = False
    qk_norm: bool = False
    key_bias: bool = True
    out_bias: bool | None = None
    merged: bool = False
    cached: bool = False
    tokens: int | None = None

    def tensors(self) -> list[Tensor]:
        """Four projections, two of them from the encoder's width, and norms."""
        if self.merged:
            return []
        q, kv, heads = self.heads * self.head_dim, self.kv_heads * self.head_dim, self.kv_heads
        out_bias = self.bias if self.out_bias is None else self.out_bias
        found = [
            *linear("cross.q", q, self.hidden, shards=self.heads, bias=self.bias),
            *linear("cross.k", kv, self.encoder, shards=heads, bias=self.bias and self.key_bias),
            *linear("cross.v", kv, self.encoder, shards=heads, bias=self.bias),
            *linear("cross.o", self.hidden, q, shards=self.heads, bias=out_bias, bias_shards=1),
        ]
        if self.qk_norm:
            found += [Tensor(f"cross.{side}_norm", (self.head_dim,), "vector") for side in "qk"]
        return found

    def cache(self) -> list[CacheRow]:
        """Nothing that grows with the decoder's tokens: keys and values are as many as the encoder puts out."""
        if not self.cached:
            return []
        return [
            CacheRow(f"cross {side}", self.kv_heads, self.head_dim, encoder=True, fixed=self.tokens)
            for side in ("keys", "values")
        ]

"""Softmax attention that works on a choice: of earlier blocks (MiniMax M3), of experts for its heads (JetMoE)."""

from __future__ import annotations

from narrows.models.mixers.attention import INDEX_KEY, AroundAttention
from narrows.models.mixers.base import Stateless, linear
from narrows.models.tensors import CacheRow, Tensor


class IndexedAttention(AroundAttention, frozen=True, tag="indexed_attention"):
    """Attention to the blocks that an indexer picks; it caches one more key per token (MiniMax M3).

    index_heads, index_dim: of the indexer's queries; its key has one head. index_top_k: tokens in
    the blocks it picks (0: all).
    """

    index_heads: int
    index_dim: int
    index_top_k: int = 0

    def tensors(self) -> list[Tensor]:
        """Those of the attention, and the indexer, whole on every rank."""
        return [
            *self.attention.tensors(),
            *linear("attention.index_q", self.index_heads * self.index_dim, self.hidden),
            *linear("attention.index_k", self.index_dim, self.hidden),
            *(Tensor(f"attention.index_{side}_norm", (self.index_dim,), "vector") for side in "qk"),
        ]

    def cache(self) -> list[CacheRow]:
        """The attention's, and the indexer's key."""
        return [*self.attention.cache(), CacheRow(INDEX_KEY, 1, self.index_dim)]


class MixtureOfAttention(Stateless, frozen=True, tag="mixture_of_attention"):
    """Queries and outputs are projected by `top_k` of `experts`; keys and values are shared (JetMoE)."""

    hidden: int
    experts: int
    top_k: int
    kv_heads: int
    head_dim: int

    def tensors(self) -> list[Tensor]:
        """A projection in and out per expert, a router, keys and values."""
        width = self.kv_heads * self.head_dim
        shapes = {"q": (width, self.hidden), "o": (self.hidden, width)}
        return [
            *(
                Tensor(f"attention.{side}", shape, "linear", self.kv_heads, self.experts, self.top_k)
                for side, shape in shapes.items()
            ),
            Tensor("attention.router", (self.experts, self.hidden), "plain"),
            Tensor("attention.output_bias", (self.hidden,), "vector"),
            *(t for side in "kv" for t in linear(f"attention.{side}", width, self.hidden, shards=self.kv_heads)),
        ]

    def cache(self) -> list[CacheRow]:
        """Keys and values, once for all experts."""
        return [CacheRow(name, self.kv_heads, self.head_dim) for name in ("keys", "values")]

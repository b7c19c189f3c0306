"""Attention over a window and, beyond it, over compressed entries (DeepSeek-V4)."""

from __future__ import annotations

from narrows.models.mixers.base import Stateless, linear
from narrows.models.tensors import CacheRow, Tensor

SHARED = "key and value"
"""The cache row of keys that are values too."""


class CompressedAttention(Stateless, frozen=True, tag="csa"):
    """One key per token, which is its value too, over a window; every `rate` tokens also become one lasting entry.

    rate: 0 where there is only the window. overlap: an entry is made of two windows of tokens, and an indexer with
    index_heads heads of index_dim picks index_top_k entries (0: all) to attend
    to (compressed sparse attention); else every entry is
    attended to (heavily compressed attention). groups, group_rank: the output projection goes through group_rank
    channels per group of heads. rope: rotary part of a head.
    """

    hidden: int
    heads: int
    head_dim: int
    rope: int
    q_rank: int
    groups: int
    group_rank: int
    window: int
    rate: int = 0
    overlap: bool = False
    index_heads: int = 0
    index_dim: int = 0
    index_top_k: int = 0

    def tensors(self) -> list[Tensor]:
        """Heads and their groups are shared out; what makes keys and entries is whole on every rank."""
        inner = self.groups * self.group_rank
        found = [
            *linear("csa.q_down", self.q_rank, self.hidden),
            Tensor("csa.q_norm", (self.q_rank,), "vector"),
            *linear("csa.q_up", self.heads * self.head_dim, self.q_rank, shards=self.heads),
            *linear("csa.kv", self.head_dim, self.hidden),
            Tensor("csa.kv_norm", (self.head_dim,), "vector"),
            *linear("csa.o_group", inner, self.heads * self.head_dim // self.groups, shards=self.groups),
            *linear("csa.o", self.hidden, inner, shards=self.groups),
            Tensor("csa.sinks", (self.heads,), "vector", self.heads, format="float32"),
        ]
        if self.rate:
            found += self._compressor("compress", self.head_dim)
        if self.overlap:
            found += [
                *self._compressor("index", self.index_dim),
                *linear("csa.index.q", self.index_heads * self.index_dim, self.q_rank),
                Tensor("csa.index.weights", (self.index_heads, self.hidden), "plain"),
            ]
        return found

    def _compressor(self, name: str, width: int) -> list[Tensor]:
        wide = width * (2 if self.overlap else 1)
        return [
            Tensor(f"csa.{name}.kv", (wide, self.hidden), "plain"),
            Tensor(f"csa.{name}.gate", (wide, self.hidden), "plain"),
            Tensor(f"csa.{name}.position", (self.rate, wide), "vector", format="float32"),
            Tensor(f"csa.{name}.norm", (width,), "vector"),
        ]

    def cache(self) -> list[CacheRow]:
        """The window, and of each compressor its entries, the tokens waiting for the next, and what overlaps it.

        transformers' cache lists the key of a token a second time as its value; it is one tensor, and counts once.
        """
        rows = [CacheRow(SHARED, 1, self.head_dim, self.window)]
        if self.rate:
            rows += self._rows("entry", self.head_dim)
        if self.overlap:
            rows += self._rows("index entry", self.index_dim)
        return rows

    def _rows(self, name: str, width: int) -> list[CacheRow]:
        """Waiting and overlapping tokens are kept as keys and as gates."""
        wide = width * (2 if self.overlap else 1)
        rows = [
            CacheRow(name, 1, width, every=self.rate),
            CacheRow(f"{name}: waiting", 1, 2 * wide, every=self.rate, waiting=True),
        ]
        if self.overlap:
            rows.append(CacheRow(f"{name}: overlap", 1, 2 * width * self.rate, window=1, every=self.rate))
        return rows

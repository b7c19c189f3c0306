"""Operators of the textbook: work as FLOPs and bytes moved between device memory and the compute units.

A multiply-add is 2 FLOPs. Bytes are the traffic of an operator that reads its inputs and writes its output once.
"""

from __future__ import annotations

import msgspec


class Work(msgspec.Struct, frozen=True):
    """What every operator of the textbook has: FLOPs, bytes, and their ratio, the arithmetic intensity in FLOP/B."""

    @property
    def flops(self) -> int:
        """Floating-point operations."""
        return 0

    @property
    def bytes(self) -> int:
        """Bytes read and written in device memory."""
        return 0

    @property
    def intensity(self) -> float:
        """FLOPs per byte moved."""
        return self.flops / self.bytes


class Matmul(Work, frozen=True):
    """[m, k] × [k, n] with `width` bytes per element.

    The exact count is MNK multiplications and MN(K−1) additions; roofline practice counts 2·MNK.
    """

    m: int
    k: int
    n: int
    width: int = 2

    @property
    def multiplications(self) -> int:
        """M·N·K."""
        return self.m * self.n * self.k

    @property
    def additions(self) -> int:
        """M·N·(K−1)."""
        return self.m * self.n * (self.k - 1)

    @property
    def flops(self) -> int:
        """2·M·N·K."""
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """Both inputs and the output: (MK + KN + MN) elements."""
        return self.width * (self.m * self.k + self.k * self.n + self.m * self.n)


class Elementwise(Work, frozen=True):
    """One output element from one element of each input: activations, residual additions, scaling."""

    elements: int
    inputs: int = 1
    flops_per_element: int = 1
    width: int = 2

    @property
    def flops(self) -> int:
        """FLOPs of all elements."""
        return self.elements * self.flops_per_element

    @property
    def bytes(self) -> int:
        """Every input and the output."""
        return self.width * self.elements * (self.inputs + 1)


class Reduction(Work, frozen=True):
    """Rows of `elements` reduced to one value each (the sum inside a norm or a softmax)."""

    rows: int
    elements: int
    width: int = 2

    @property
    def flops(self) -> int:
        """One addition fewer than elements, per row."""
        return self.rows * (self.elements - 1)

    @property
    def bytes(self) -> int:
        """Every element and one result per row."""
        return self.width * self.rows * (self.elements + 1)


class DecodeAttention(Work, frozen=True):
    """One new query per sequence against `context` cached tokens: q·K and the weighted sum of V.

    Each sequence reads its own K and V, so batching adds bytes as fast as it adds FLOPs.
    """

    batch: int
    context: int
    heads: int
    kv_heads: int
    head_dim: int
    width: int = 2

    @property
    def flops(self) -> int:
        """2 products of 2·context·heads·head_dim FLOPs per sequence."""
        return self.batch * 4 * self.context * self.heads * self.head_dim

    @property
    def bytes(self) -> int:
        """K and V of the context, the query and the output."""
        per_sequence = 2 * self.context * self.kv_heads * self.head_dim + 2 * self.heads * self.head_dim
        return self.batch * self.width * per_sequence


class PrefillAttention(Work, frozen=True):
    """`tokens` queries against as many keys, all heads of one layer and one sequence, without a mask.

    naive: three kernels, so the scores and then the probabilities, tokens × tokens per head each, are written to
    device memory and read back. fused: tiles of them live and die in on-chip memory; only Q, K, V and the output
    move, each once (the least possible: K and V are read again where they do not fit).
    Source: Dao et al., FlashAttention (2022), algorithms 0 and 1. A causal mask halves FLOPs and score traffic.
    """

    tokens: int
    heads: int
    kv_heads: int
    head_dim: int
    fused: bool = True
    width: int = 2

    @property
    def flops(self) -> int:
        """2 products of 2·tokens²·head_dim FLOPs per head; the softmax is left out (a few FLOPs per score)."""
        return 4 * self.tokens**2 * self.heads * self.head_dim

    @property
    def score_bytes(self) -> int:
        """One tokens × tokens matrix for every head."""
        return self.width * self.heads * self.tokens**2

    @property
    def bytes(self) -> int:
        """Q, K, V and the output; naive also scores and probabilities, each written once and read once."""
        own = self.width * self.tokens * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return own if self.fused else own + 4 * self.score_bytes

"""Operators of an engine's step: shapes, FLOPs and bytes on one rank.

A multiply-add is 2 FLOPs. Bytes are the traffic to device memory of an operator that reads its inputs and writes its
outputs once; what an operator keeps on chip (the scores of fused attention) is not traffic.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Phase = Literal["prefill", "decode"]


class Gemm(msgspec.Struct, frozen=True, tag="gemm"):
    """[m, k] × [k, n], `copies` of them side by side in one kernel.

    weight_bits: bits per weight as stored, scales included (4.25, 8.03, 16). activation_bits: of the inputs as the
    kernel multiplies them (8 where activations are quantized on the way in). ready: the kernel before wrote them so,
    else a kernel that quantizes them is part of the product.
    """

    m: int
    k: int
    n: int
    copies: int = 1
    weight_bits: float = 16.0
    activation_bits: int = 16
    ready: bool = False


class Experts(msgspec.Struct, frozen=True, tag="experts"):
    """The routed experts of one layer on one rank as one fused operator: up (and gate), activation, down, sum.

    tokens: of all ranks that share these experts. intermediate: width of an expert on this rank. experts: on this
    rank; top_k, all_experts: of the router. touched: how many of this rank's experts the tokens are expected to use.
    load: rows that this rank's experts compute, as a multiple of an even share (the most loaded rank decides).
    """

    tokens: int
    hidden: int
    intermediate: int
    experts: int
    all_experts: int
    top_k: int
    touched: float
    matrices: int = 3
    weight_bits: float = 16.0
    activation_bits: int = 16
    load: float = 1.0


class AttentionShape(msgspec.Struct, frozen=True, tag="attention"):
    """Softmax attention of one layer on one rank, summed over the sequences of one phase.

    queries: new tokens. keys: cached and new tokens in sight, summed over sequences (what must be read). pairs: query
    and key pairs that are computed, causal mask and window taken off. key_dim, value_dim: of a head. latent: absorbed
    MLA, whose one latent serves all heads as keys and values. kv_bits: of the cache.
    """

    phase: Phase
    sequences: int
    queries: int
    keys: int
    pairs: int
    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    kv_bits: int = 16
    latent: bool = False


class Scan(msgspec.Struct, frozen=True, tag="scan"):
    """A recurrence with constant state (linear attention, state space, convolution): tokens, and elements of state
    of one sequence on this rank.
    """

    tokens: int
    sequences: int
    state: int


class Elementwise(msgspec.Struct, frozen=True, tag="elementwise"):
    """Norms, rotary embedding, activation, residual, gather, sampling: bytes decide."""

    rows: int
    width: int


class Collective(msgspec.Struct, frozen=True, tag="collective"):
    """Ranks talk: `op` over `ranks`, `message` bytes as one rank holds them before it (all_reduce: of the tensor).

    span: accelerators in the smallest group that holds these ranks, where they do not stand side by side; 0: they do.
    """

    op: Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"]
    ranks: int
    message: int
    span: int = 0


Shape = Gemm | Experts | AttentionShape | Scan | Elementwise | Collective


class Operator(msgspec.Struct, frozen=True):
    """One operator of a step on one rank; all figures are of one of `count` equal ones.

    name: `attention.qkv`, `attention.core`, `mlp.gate_up`, `experts`, `head`, … precision: of the arithmetic, a name
    that `Accelerator.peak` knows. weights: bytes of weights read. reads, writes: bytes of activations. kv_reads,
    kv_writes: bytes of KV cache; state_reads, state_writes: of the constant state of recurrences. flops:
    floating-point operations.
    """

    name: str
    shape: Shape
    count: int
    precision: str
    flops: int
    weights: int = 0
    reads: int = 0
    writes: int = 0
    kv_reads: int = 0
    kv_writes: int = 0
    state_reads: int = 0
    state_writes: int = 0

    @property
    def kv(self) -> int:
        """Traffic of KV cache."""
        return self.kv_reads + self.kv_writes

    @property
    def state(self) -> int:
        """Traffic of state."""
        return self.state_reads + self.state_writes

    @property
    def kept(self) -> int:
        """Traffic of what stays in device memory from step to step: weights, KV cache, state."""
        return self.weights + self.kv + self.state

    @property
    def bytes(self) -> int:
        """All traffic to device memory of one."""
        return self.kept + self.reads + self.writes

    @property
    def intensity(self) -> float:
        """FLOPs per byte; 0 where nothing is moved."""
        return self.flops / self.bytes if self.bytes else 0.0

"""Kernels of a compiled deployment: all that is known of an operator before there is a batch.

Each makes an `Operator` of a `Load`, or None where it has nothing to do. Sizes are of one rank.
"""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.step.load import Load, Rows, Sight
from narrows.step.operators import (
    AttentionShape,
    Collective,
    Elementwise,
    Experts,
    Gemm,
    Operator,
    Phase,
    Scan,
)


def whole(value: Any) -> Any:
    """The nearest whole number, of a number or an array."""
    return int(value + 0.5) if isinstance(value, int | float) else (value + 0.5) // 1


class MatMul(msgspec.Struct, frozen=True):
    """[rows, k] × [k, n], `copies` of them side by side. weights: bytes of them all, biases included.

    fixed: tokens that an encoder always reads. element: bytes of an activation. sight: the rows are all keys that
    prefills see, not their new tokens alone. ready: as in `Gemm`.
    """

    name: str
    rows: Rows
    k: int
    n: int
    precision: str
    weights: int
    element: int
    weight_bits: float
    activation_bits: int
    copies: int = 1
    fixed: int = 0
    sight: Sight | None = None
    ready: bool = False

    def operator(self, load: Load, count: int) -> Operator | None:
        """2 · rows · k · n FLOPs for each copy."""
        if self.sight is None:
            rows = load.rows(self.rows, self.fixed)
        else:
            seen = load.seen("prefill", self.sight)
            rows = 0 if seen is None else seen.keys
        if isinstance(rows, int) and not rows:
            return None
        moved = rows * self.copies
        return Operator(
            self.name,
            Gemm(rows, self.k, self.n, self.copies, self.weight_bits, self.activation_bits, self.ready),
            count,
            self.precision,
            2 * moved * self.k * self.n,
            self.weights,
            moved * self.k * self.activation_bits // 8,
            moved * self.n * self.element,
        )


def touched(experts: float, of_all: int, top_k: float, tokens: Any) -> Any:
    """How many of `experts` some of `tokens` tokens are expected to use, each choosing top_k of all: uniform routing.

    E · (1 − (1 − k/A)^T). Real routers are uneven and touch fewer.
    """
    return experts * (1.0 - (1.0 - min(1.0, top_k / of_all)) ** tokens)


class ChosenMatMul(msgspec.Struct, frozen=True):
    """[rows, k] × [k, n] with `active` of `copies` matrices that a router chooses for a row. weights: of them all."""

    name: str
    rows: Rows
    k: int
    n: int
    copies: int
    active: int
    precision: str
    weights: int
    element: int
    weight_bits: float
    activation_bits: int
    fixed: int = 0

    def operator(self, load: Load, count: int) -> Operator | None:
        """The rows are spread evenly over the matrices that are expected to be used."""
        rows = load.rows(self.rows, self.fixed)
        if isinstance(rows, int) and not rows:
            return None
        used = touched(self.copies, self.copies, self.active, rows)
        moved = rows * self.active
        each = whole(moved / used)
        return Operator(
            self.name,
            Gemm(each, self.k, self.n, whole(used), self.weight_bits, self.activation_bits),
            count,
            self.precision,
            2 * moved * self.k * self.n,
            whole(self.weights * used / self.copies),
            moved * self.k * self.activation_bits // 8,
            moved * self.n * self.element,
        )


class ExpertsKernel(msgspec.Struct, frozen=True):
    """Routed experts of one layer as one fused operator. weights: bytes of this rank's experts, all of them.

    experts: of this rank; all_experts: that the router picks from, those included that do nothing. replicas: ranks
    with tokens of their own that share these experts.
    """

    name: str
    hidden: int
    intermediate: int
    experts: int
    all_experts: int
    top_k: int
    matrices: int
    precision: str
    weights: int
    element: int
    weight_bits: float
    activation_bits: int
    replicas: int = 1

    def operator(self, load: Load, count: int) -> Operator | None:
        """FLOPs of the tokens that come to this rank. Bytes: two grouped products with the activation between them."""
        tokens = load.rows("tokens") * self.replicas
        if isinstance(tokens, int) and not tokens:
            return None
        used = touched(self.experts, self.all_experts, self.top_k, tokens)
        # rows of the grouped products: experts that do nothing and experts of other ranks get their share
        rows = tokens * self.top_k * self.experts // self.all_experts
        ups = self.matrices - 1
        element, width = self.element, self.intermediate
        return Operator(
            self.name,
            Experts(
                tokens,
                self.hidden,
                width,
                self.experts,
                self.all_experts,
                self.top_k,
                used,
                self.matrices,
                self.weight_bits,
                self.activation_bits,
            ),
            count,
            self.precision,
            2 * self.matrices * self.hidden * width * (tokens * self.top_k * self.experts) // self.all_experts,
            whole(self.weights * used / self.experts),
            element * (tokens * self.hidden + rows * (ups * width + width + self.hidden)),
            element * (tokens * self.hidden + rows * (ups * width + width + self.hidden)),
        )


class AttentionKernel(msgspec.Struct, frozen=True):
    """Scores, softmax and weighted sum of one layer in one phase. weights: bytes of sinks and the like.

    key_bytes: of a key and value together as the cache holds them, all heads of the rank; from_cache: they are read
    from there, else they are activations of key_wide elements. naive: scores and probabilities go through memory.
    """

    name: str
    phase: Phase
    sight: Sight
    heads: int
    kv_heads: int
    key_dim: int
    value_dim: int
    precision: str
    kv_bits: int
    key_bytes: int
    element: int
    latent: bool = False
    from_cache: bool = True
    key_wide: int = 0
    weights: int = 0
    naive: bool = False

    def operator(self, load: Load, count: int) -> Operator | None:
        """2 · pairs · heads · (key + value) FLOPs; Q, K and V are read once and the output written once."""
        seen = load.seen(self.phase, self.sight)
        if seen is None:
            return None
        heads, element = self.heads, self.element
        scores = 2 * seen.pairs * heads * element if self.naive else 0
        keys = seen.keys * self.key_wide * element if not self.from_cache else 0
        return Operator(
            self.name,
            AttentionShape(
                self.phase,
                seen.sequences,
                seen.queries,
                seen.keys,
                seen.pairs,
                heads,
                self.kv_heads,
                self.key_dim,
                self.value_dim,
                self.kv_bits,
                self.latent,
            ),
            count,
            self.precision,
            2 * seen.pairs * heads * (self.key_dim + self.value_dim),
            self.weights,
            seen.queries * heads * self.key_dim * element + keys + scores,
            seen.queries * heads * self.value_dim * element + scores,
            seen.keys * self.key_bytes if self.from_cache else 0,
        )


class ScanKernel(msgspec.Struct, frozen=True):
    """A recurrence over the tokens of each sequence. state, state_bytes: of one sequence, read and written once.

    flops_per_token, width: FLOPs and elements read (as many as are written) of one token.
    """

    name: str
    state: int
    state_bytes: int
    flops_per_token: int
    wide_in: int
    wide_out: int
    precision: str
    element: int
    weights: int = 0

    def operator(self, load: Load, count: int) -> Operator | None:
        """FLOPs of the recurrence token by token; kernels that work in chunks do more of them on matrix units."""
        tokens = load.rows("tokens")
        if isinstance(tokens, int) and not tokens:
            return None
        sequences = sum(chunk.count for _, chunk in load.chunks)
        return Operator(
            self.name,
            Scan(tokens, sequences, self.state),
            count,
            self.precision,
            tokens * self.flops_per_token,
            self.weights,
            tokens * self.wide_in * self.element,
            tokens * self.wide_out * self.element,
            state_reads=sequences * self.state_bytes,
            state_writes=sequences * self.state_bytes,
        )


class Streaming(msgspec.Struct, frozen=True):
    """An elementwise operator: bytes read and written per row, and bytes that go to the cache. No FLOPs are counted."""

    name: str
    rows: Rows
    width: int
    reads: int
    writes: int
    precision: str
    weights: int = 0
    kv_writes: int = 0
    fixed: int = 0

    def operator(self, load: Load, count: int) -> Operator | None:
        """Bytes alone."""
        rows = load.rows(self.rows, self.fixed)
        if isinstance(rows, int) and not rows:
            return None
        return Operator(
            self.name,
            Elementwise(rows, self.width),
            count,
            self.precision,
            0,
            self.weights,
            rows * self.reads,
            rows * self.writes,
            0,
            rows * self.kv_writes,
        )


class Talk(msgspec.Struct, frozen=True):
    """Ranks talk: bytes per row of what one rank holds before it. span: as in `Collective`."""

    name: str
    op: Any
    ranks: int
    rows: Rows
    row_bytes: int
    precision: str
    fixed: int = 0
    span: int = 0

    def operator(self, load: Load, count: int) -> Operator | None:
        """Its bytes go over links, so none are counted as traffic to device memory."""
        rows = load.rows(self.rows, self.fixed)
        if isinstance(rows, int) and not rows:
            return None
        shape = Collective(self.op, self.ranks, rows * self.row_bytes, self.span)
        return Operator(self.name, shape, count, self.precision, 0)


Kernel = MatMul | ChosenMatMul | ExpertsKernel | AttentionKernel | ScanKernel | Streaming | Talk

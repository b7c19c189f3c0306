"""More mixers with constant state: Kimi's delta attention, lightning attention, short convolutions."""

from __future__ import annotations

from narrows.models.mixers.base import Stateless, linear
from narrows.models.tensors import StateRow, Tensor


class KimiDelta(Stateless, frozen=True, tag="kimi_delta"):
    """Kimi delta attention (Kimi Linear 2025): the gated delta rule with a decay for every channel.

    low_rank: its two gates go through `head_dim` channels (Kimi); else they are plain projections (Ling).
    plain_output_gate: of a low-rank one, the gate of the output is a plain projection all the same (Kimi K3).
    decays: stored decays where there are more than heads; exact: format of the convolutions, decays and norm.
    """

    hidden: int
    heads: int
    head_dim: int
    conv: int
    low_rank: bool = True
    plain_output_gate: bool = False
    decays: int = 0
    exact: str | None = None

    def tensors(self) -> list[Tensor]:
        """q, k, v with a convolution each, and the gates."""
        width, rank, own = self.heads * self.head_dim, self.head_dim, self.exact
        found = [t for k in "qkv" for t in linear(f"delta.{k}", width, self.hidden, shards=self.heads)]
        found += [Tensor(f"delta.conv_{k}", (width, 1, self.conv), "vector", self.heads, format=own) for k in "qkv"]
        return [
            *found,
            Tensor("delta.dt_bias", (width,), "vector", self.heads, format=own),
            Tensor("delta.a_log", (self.decays or self.heads,), "vector", self.heads, format=own),
            *self._gate("f", width, rank, self.low_rank),
            *linear("delta.b", self.heads, self.hidden, shards=self.heads),
            *self._gate("g", width, rank, self.low_rank and not self.plain_output_gate),
            Tensor("delta.norm", (self.head_dim,), "vector", format=own),
            *linear("delta.out", self.hidden, width, shards=self.heads),
        ]

    def _gate(self, name: str, width: int, rank: int, low_rank: bool) -> list[Tensor]:
        if not low_rank:
            return linear(f"delta.{name}", width, self.hidden, shards=self.heads)
        return [
            *linear(f"delta.{name}_down", rank, self.hidden),
            *linear(f"delta.{name}_up", width, rank, shards=self.heads),
        ]

    def state(self) -> list[StateRow]:
        """The last `conv` inputs of q, k and v, and one square matrix per head."""
        width = self.heads * self.head_dim
        return [
            StateRow("convolution", 3 * width * self.conv, self.heads, kernel=self.conv),
            StateRow("recurrent", width * self.head_dim, self.heads, "float32"),
        ]


class Lightning(Stateless, frozen=True, tag="lightning"):
    """Lightning attention (MiniMax-01 2025): linear attention with a fixed decay per head and an output gate."""

    hidden: int
    heads: int
    head_dim: int

    def tensors(self) -> list[Tensor]:
        """q, k and v in one tensor, a gate, a norm over all heads."""
        width = self.heads * self.head_dim
        return [
            *linear("lightning.qkv", 3 * width, self.hidden, shards=self.heads),
            *linear("lightning.gate", width, self.hidden, shards=self.heads),
            Tensor("lightning.norm", (width,), "vector", self.heads),
            *linear("lightning.out", self.hidden, width, shards=self.heads),
        ]

    def state(self) -> list[StateRow]:
        """One square matrix per head."""
        return [StateRow("recurrent", self.heads * self.head_dim**2, self.heads, "float32")]


class ShortConvolution(Stateless, frozen=True, tag="short_convolution"):
    """A gated convolution over the last `conv` tokens (LFM2)."""

    hidden: int
    conv: int
    bias: bool = False

    def tensors(self) -> list[Tensor]:
        """Two gates and the input in one projection; channels are shared out."""
        hidden = self.hidden
        found = [
            Tensor("conv.conv", (hidden, 1, self.conv), "vector", hidden),
            *linear("conv.in", 3 * hidden, hidden, shards=hidden, bias=self.bias),
            *linear("conv.out", hidden, hidden, shards=hidden, bias=self.bias, bias_shards=1),
        ]
        if self.bias:
            found.append(Tensor("conv.conv.bias", (hidden,), "vector", hidden))
        return found

    def state(self) -> list[StateRow]:
        """The last `conv` inputs of every channel."""
        return [StateRow("convolution", self.hidden * self.conv, self.hidden, kernel=self.conv)]

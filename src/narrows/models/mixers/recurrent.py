"""Mixers that keep constant state: state spaces and linear attention."""

from __future__ import annotations

import msgspec

from narrows.models.mixers.base import linear
from narrows.models.tensors import CacheRow, StateRow, Tensor


class Mamba(msgspec.Struct, frozen=True, tag="mamba"):
    """Mamba-1 selective state space (Gu & Dao 2023), as Jamba uses it: norms on dt, B and C.

    inner: channels of the state space; state: state size per channel; conv: kernel width; dt_rank: rank of the step.
    """

    hidden: int
    inner: int
    state_size: int
    conv: int
    dt_rank: int
    conv_bias: bool = True
    proj_bias: bool = False
    inner_norms: bool = True

    def tensors(self) -> list[Tensor]:
        """All channels are shared out; x_proj reads channels, so its output is summed over ranks."""
        inner, n = self.inner, self.state_size
        found = [
            Tensor("mamba.a_log", (inner, n), "vector", inner),
            Tensor("mamba.d", (inner,), "vector", inner),
            Tensor("mamba.conv", (inner, 1, self.conv), "vector", inner),
            *linear("mamba.in", 2 * inner, self.hidden, shards=inner, bias=self.proj_bias),
            *linear("mamba.x", self.dt_rank + 2 * n, inner, shards=inner),
            *linear("mamba.dt", inner, self.dt_rank, shards=inner, bias=True),
            *linear("mamba.out", self.hidden, inner, shards=inner, bias=self.proj_bias, bias_shards=1),
        ]
        if self.conv_bias:
            found.append(Tensor("mamba.conv.bias", (inner,), "vector", inner))
        if self.inner_norms:
            found += [
                Tensor("mamba.dt_norm", (self.dt_rank,), "vector"),
                Tensor("mamba.b_norm", (n,), "vector"),
                Tensor("mamba.c_norm", (n,), "vector"),
            ]
        return found

    def cache(self) -> list[CacheRow]:
        """Nothing grows with length."""
        return []

    def state(self) -> list[StateRow]:
        """The last `conv` inputs of every channel, and the recurrent state (kept in float32)."""
        return [
            StateRow("convolution", self.inner * self.conv, self.inner),
            StateRow("recurrent", self.inner * self.state_size, self.inner, "float32"),
        ]


class GatedDeltaNet(msgspec.Struct, frozen=True, tag="gated_delta_net"):
    """Gated delta-rule linear attention (Yang et al. 2024), as Qwen3-Next uses it."""

    hidden: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int

    @property
    def _channels(self) -> int:
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    def tensors(self) -> list[Tensor]:
        """Fused projections of q, k, v, gate and of the two per-head gates; heads are shared out."""
        values = self.value_heads * self.value_dim
        return [
            Tensor("delta.dt_bias", (self.value_heads,), "vector", self.key_heads),
            Tensor("delta.a_log", (self.value_heads,), "vector", self.key_heads),
            Tensor("delta.conv", (self._channels, 1, self.conv), "vector", self.key_heads),
            *linear("delta.qkvz", self._channels + values, self.hidden, shards=self.key_heads),
            *linear("delta.ba", 2 * self.value_heads, self.hidden, shards=self.key_heads),
            Tensor("delta.norm", (self.value_dim,), "vector"),
            *linear("delta.out", self.hidden, values, shards=self.key_heads),
        ]

    def cache(self) -> list[CacheRow]:
        """Nothing grows with length."""
        return []

    def state(self) -> list[StateRow]:
        """The last `conv` inputs of q, k and v, and one key × value matrix per head (kept in float32)."""
        return [
            StateRow("convolution", self._channels * self.conv, self.key_heads),
            StateRow("recurrent", self.value_heads * self.key_dim * self.value_dim, self.key_heads, "float32"),
        ]

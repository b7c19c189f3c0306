"""Mixers that keep constant state: state spaces and linear attention."""

from __future__ import annotations

from narrows.models.mixers.base import Stateless, linear
from narrows.models.tensors import StateRow, Tensor, Use


class Mamba(Stateless, frozen=True, tag="mamba"):
    """Mamba-1 selective state space (Gu & Dao 2023), as Jamba uses it: norms on dt, B and C.

    inner: channels of the state space; state: state size per channel; conv: kernel width; dt_rank: rank of the step.
    heads: of channels, which have steps, B and C of their own (Zamba; 0: all channels share B and C).
    """

    hidden: int
    inner: int
    state_size: int
    conv: int
    dt_rank: int
    conv_bias: bool = True
    proj_bias: bool = False
    inner_norms: bool = True
    heads: int = 0

    def tensors(self) -> list[Tensor]:
        """All channels are shared out; x_proj reads channels, so its output is summed over ranks."""
        inner, n = self.inner, self.state_size
        shares = self.heads or inner
        # stacked by head in one tensor, these are not linear layers that a scheme would quantize
        use: Use = "plain" if self.heads else "linear"
        found = [
            Tensor("mamba.a_log", (inner, n), "vector", shares),
            Tensor("mamba.d", (inner,), "vector", shares),
            Tensor("mamba.conv", (inner, 1, self.conv), "vector", shares),
            *linear("mamba.in", 2 * inner, self.hidden, shards=shares, bias=self.proj_bias),
            Tensor("mamba.x", (self.dt_rank + 2 * n, inner), use, shares),
            Tensor("mamba.dt", (inner, self.dt_rank), use, shares),
            Tensor("mamba.dt.bias", (inner,), "vector", shares),
            *linear("mamba.out", self.hidden, inner, shards=shares, bias=self.proj_bias, bias_shards=1),
        ]
        if self.conv_bias:
            found.append(Tensor("mamba.conv.bias", (inner,), "vector", shares))
        if self.inner_norms:
            found += [
                Tensor("mamba.dt_norm", (self.dt_rank,), "vector"),
                Tensor("mamba.b_norm", (n,), "vector"),
                Tensor("mamba.c_norm", (n,), "vector"),
            ]
        return found

    def state(self) -> list[StateRow]:
        """The last `conv` inputs of every channel, and the recurrent state (kept in float32)."""
        return [
            StateRow("convolution", self.inner * self.conv, self.heads or self.inner, kernel=self.conv),
            StateRow("recurrent", self.inner * self.state_size, self.heads or self.inner, "float32"),
        ]


class GatedDeltaNet(Stateless, frozen=True, tag="gated_delta_net"):
    """Gated delta-rule linear attention (Yang et al. 2024), as Qwen3-Next and Qwen3.5 use it.

    fused: q, k, v and gate stand in one tensor, the two per-head gates in another (Qwen3-Next). apart: q, k and v
    each in one of their own (OLMo Hybrid). state_format: what the file asks servers to keep the recurrent state in.
    further: state that the layer keeps beside (the convolution over n-grams of Qwen 4).
    """

    hidden: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int
    fused: bool = True
    state_format: str | None = None
    apart: bool = False
    further: tuple[StateRow, ...] = ()

    @property
    def _channels(self) -> int:
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim

    def tensors(self) -> list[Tensor]:
        """Projections of q, k, v, gate and of the two per-head gates; heads are shared out."""
        values = self.value_heads * self.value_dim
        projections = {"qkvz": self._channels + values, "ba": 2 * self.value_heads}
        if not self.fused:
            projections = {"qkv": self._channels, "z": values, "b": self.value_heads, "a": self.value_heads}
        if self.apart:
            keys = self.key_heads * self.key_dim
            projections = {"q": keys, "k": keys, "v": values, **{k: projections[k] for k in "zba"}}
        return [
            Tensor("delta.dt_bias", (self.value_heads,), "vector", self.key_heads),
            Tensor("delta.a_log", (self.value_heads,), "vector", self.key_heads),
            Tensor("delta.conv", (self._channels, 1, self.conv), "vector", self.key_heads),
            *(t for k, n in projections.items() for t in linear(f"delta.{k}", n, self.hidden, shards=self.key_heads)),
            Tensor("delta.norm", (self.value_dim,), "vector"),
            *linear("delta.out", self.hidden, values, shards=self.key_heads),
        ]

    def state(self) -> list[StateRow]:
        """The last `conv` inputs of q, k and v, and one key × value matrix per head (kept in float32)."""
        return [
            StateRow("convolution", self._channels * self.conv, self.key_heads, kernel=self.conv),
            StateRow(
                "recurrent",
                self.value_heads * self.key_dim * self.value_dim,
                self.key_heads,
                "float32",
                asked=self.state_format,
            ),
            *self.further,
        ]


class Mamba2(Stateless, frozen=True, tag="mamba2"):
    """Mamba-2 (Dao & Gu 2024): `heads` heads of `head_dim` channels, B and C shared by the heads of a group.

    gate_norm: a norm on the gated output. in_bias, out_bias: of the projections. state_format: what the file asks
    servers to keep the recurrent state in.
    """

    hidden: int
    heads: int
    head_dim: int
    state_size: int
    groups: int
    conv: int
    conv_bias: bool = True
    in_bias: bool = False
    out_bias: bool = False
    gate_norm: bool = True
    state_format: str | None = None

    def tensors(self) -> list[Tensor]:
        """Gate, input, B, C and step in one projection of the file; heads are shared out, B and C by groups."""
        inner, shared, heads = self.heads * self.head_dim, 2 * self.groups * self.state_size, self.heads
        found = [
            Tensor("mamba.dt_bias", (heads,), "vector", heads),
            Tensor("mamba.a_log", (heads,), "vector", heads),
            Tensor("mamba.d", (heads,), "vector", heads),
            Tensor("mamba.conv", (inner, 1, self.conv), "vector", heads),
            Tensor("mamba.conv_bc", (shared, 1, self.conv), "vector", self.groups),
            *linear("mamba.in", 2 * inner, self.hidden, shards=heads, bias=self.in_bias),
            *linear("mamba.in_bc", shared, self.hidden, shards=self.groups, bias=self.in_bias),
            *linear("mamba.in_dt", heads, self.hidden, shards=heads, bias=self.in_bias),
            *linear("mamba.out", self.hidden, inner, shards=heads, bias=self.out_bias, bias_shards=1),
        ]
        if self.conv_bias:
            found += [
                Tensor("mamba.conv.bias", (inner,), "vector", heads),
                Tensor("mamba.conv_bc.bias", (shared,), "vector", self.groups),
            ]
        if self.gate_norm:
            found.append(Tensor("mamba.norm", (inner,), "vector", heads))
        return found

    def state(self) -> list[StateRow]:
        """The last `conv` inputs of x, B and C, and the recurrent state."""
        inner, shared = self.heads * self.head_dim, 2 * self.groups * self.state_size
        return [
            StateRow("convolution", inner * self.conv, self.heads, kernel=self.conv),
            StateRow("convolution of B and C", shared * self.conv, self.groups, kernel=self.conv),
            StateRow("recurrent", inner * self.state_size, self.heads, "float32", asked=self.state_format),
        ]

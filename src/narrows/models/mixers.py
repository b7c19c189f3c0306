"""Mixers: how a layer lets tokens see each other. Each states its tensors and what it caches."""

from __future__ import annotations

import msgspec

from narrows.models.tensors import CacheRow, StateRow, Tensor


def linear(
    role: str, out: int, inner: int, *, shards: int = 1, bias: bool = False, bias_shards: int | None = None
) -> list[Tensor]:
    """A linear weight [out, inner] and, if it has one, its bias [out]."""
    found = [Tensor(role, (out, inner), shards=shards)]
    if bias:
        found.append(Tensor(f"{role}.bias", (out,), "vector", shards if bias_shards is None else bias_shards))
    return found


class Attention(msgspec.Struct, frozen=True, tag="attention"):
    """Softmax attention with its own K and V: MHA, GQA or MQA, full or over a sliding window.

    window: tokens a query can see, itself included (None: all). output_gate: the query projection also makes a gate
    (Qwen3-Next). qk_norm: an RMS norm of head_dim on queries and keys. sinks: one learned logit per head (gpt-oss).
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False
    sinks: bool = False
    output_gate: bool = False

    def tensors(self) -> list[Tensor]:
        """Projections, then per-head norms and sinks."""
        q = self.heads * self.head_dim
        kv = self.kv_heads * self.head_dim
        found = [
            *linear(
                "attention.q", q * (2 if self.output_gate else 1), self.hidden, shards=self.heads, bias=self.qkv_bias
            ),
            *linear("attention.k", kv, self.hidden, shards=self.kv_heads, bias=self.qkv_bias),
            *linear("attention.v", kv, self.hidden, shards=self.kv_heads, bias=self.qkv_bias),
            *linear("attention.o", self.hidden, q, shards=self.heads, bias=self.out_bias, bias_shards=1),
        ]
        if self.qk_norm:
            found += [Tensor(f"attention.{side}_norm", (self.head_dim,), "vector") for side in "qk"]
        if self.sinks:
            found.append(Tensor("attention.sinks", (self.heads,), "vector", self.heads))
        return found

    def cache(self) -> list[CacheRow]:
        """Keys and values of the tokens in sight."""
        return [CacheRow(name, self.kv_heads, self.head_dim, self.window) for name in ("keys", "values")]

    def state(self) -> list[StateRow]:
        """None."""
        return []


class LatentAttention(msgspec.Struct, frozen=True, tag="mla"):
    """Multi-head latent attention (DeepSeek): caches one low-rank latent and one rotary key per token, for all heads.

    q_rank: rank of the query compression (None: a plain projection). nope, rope: rotary-free and rotary parts of the
    query/key head; value: head dim of the values.
    """

    hidden: int
    heads: int
    q_rank: int | None
    kv_rank: int
    nope: int
    rope: int
    value: int
    bias: bool = False

    def tensors(self) -> list[Tensor]:
        """The down-projections are whole on every rank; heads are shared out."""
        q = self.heads * (self.nope + self.rope)
        if self.q_rank is None:
            found = linear("mla.q", q, self.hidden, shards=self.heads)
        else:
            found = [
                *linear("mla.q_down", self.q_rank, self.hidden, bias=self.bias),
                Tensor("mla.q_norm", (self.q_rank,), "vector"),
                *linear("mla.q_up", q, self.q_rank, shards=self.heads),
            ]
        return [
            *found,
            *linear("mla.kv_down", self.kv_rank + self.rope, self.hidden, bias=self.bias),
            Tensor("mla.kv_norm", (self.kv_rank,), "vector"),
            *linear("mla.kv_up", self.heads * (self.nope + self.value), self.kv_rank, shards=self.heads),
            *linear("mla.o", self.hidden, self.heads * self.value, shards=self.heads, bias=self.bias, bias_shards=1),
        ]

    def cache(self) -> list[CacheRow]:
        """The latent and the rotary key, once for all heads."""
        return [CacheRow("latent", 1, self.kv_rank), CacheRow("rotary key", 1, self.rope)]

    def state(self) -> list[StateRow]:
        """None."""
        return []


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


Mixer = Attention | LatentAttention | Mamba | GatedDeltaNet

"""Softmax attention: with K and V of its own, or over a shared latent."""

from __future__ import annotations

from typing import Literal

from narrows.models.mixers.base import Stateless, linear
from narrows.models.tensors import CacheRow, StateRow, Tensor

INDEX_KEY = "index key"
"""The cache row of a sparse indexer."""
PROMPT = "prompt"
"""The state row of a learned prompt's keys and values."""


class Attention(Stateless, frozen=True, tag="attention"):
    """Softmax attention with its own K and V: MHA, GQA or MQA, full or over a sliding window.

    window: tokens a query can see, itself included (None: all). output_gate: the query projection also makes a gate
    (Qwen3-Next). qk_norm: an RMS norm of head_dim on queries and keys; qk_norm_heads: with a weight for every head;
    qk_norm_across: over all heads at once (OLMo 2, MiniMax M2); qk_norm_bias: a LayerNorm. sinks: one learned logit per
    head (gpt-oss). inner_norm: a norm before the output projection (BitNet). borrowed: keys and values are those of an
    earlier layer (kept: which engines keep here once more, Hunyuan Large); k_is_v: values are the keys before their
    norm (Gemma 4). chunked: the window is a chunk that
    queries do not look beyond (Llama 4). value_dim: width of
    a value head where it is not that of a key (MiMo V2; 0: the same). gate: a projection of its own gates the output,
    once per "head" or per "channel" (Laguna). output: width of the output where it is not that of the input (Zamba).
    beside: tensors that only some attentions have (the lambdas of differential attention). prompt: learned tokens
    before every sequence, whose keys and values are kept too (CPM-Ant). key_bias: keys have a bias where queries and
    values do (Whisper's have none). query_rank: queries come through a projection this wide and a norm of it (Step 3).
    """

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: bool = False
    qk_norm_heads: bool = False
    qk_norm_bias: bool = False
    qk_norm_across: bool = False
    sinks: bool = False
    output_gate: bool = False
    inner_norm: bool = False
    chunked: bool = False
    borrowed: bool = False
    k_is_v: bool = False
    value_dim: int = 0
    gate: Literal["", "head", "channel"] = ""
    output: int = 0
    beside: tuple[Tensor, ...] = ()
    prompt: int = 0
    key_bias: bool = True
    kept: bool = False
    query_rank: int = 0

    @property
    def _own(self) -> str:
        """Of keys and values, those with a projection."""
        return "" if self.borrowed else "k" if self.k_is_v else "kv"

    def tensors(self) -> list[Tensor]:
        """Projections, then per-head norms and sinks."""
        q, value = self.heads * self.head_dim, self.value_dim or self.head_dim
        kv = {"k": self.kv_heads * self.head_dim, "v": self.kv_heads * value}
        out = self.heads * value
        rank, rows = self.query_rank, q * (2 if self.output_gate else 1)
        role = "attention.q_b" if rank else "attention.q"
        narrow = [*linear("attention.q_a", rank, self.hidden), Tensor("attention.q_a_norm", (rank,), "vector")]
        found = [
            *(narrow if rank else ()),
            *linear(role, rows, rank or self.hidden, shards=self.heads, bias=self.qkv_bias),
            *(
                tensor
                for side in self._own
                for tensor in linear(
                    f"attention.{side}",
                    kv[side],
                    self.hidden,
                    shards=self.kv_heads,
                    bias=self.qkv_bias and (side == "v" or self.key_bias),
                )
            ),
            *linear(
                "attention.o", self.output or self.hidden, out, shards=self.heads, bias=self.out_bias, bias_shards=1
            ),
        ]
        if self.gate:
            gates = self.heads if self.gate == "head" else out
            found += linear("attention.gate", gates, self.hidden, shards=self.heads)
        if self.qk_norm:
            for side, heads in (("q", self.heads), ("k", self.kv_heads))[: 1 if self.borrowed else 2]:
                norm = heads if self.qk_norm_heads else 1
                found.append(Tensor(f"attention.{side}_norm", (norm * self.head_dim,), "vector", norm))
                if self.qk_norm_bias:
                    found.append(Tensor(f"attention.{side}_norm.bias", (norm * self.head_dim,), "vector", norm))
        if self.inner_norm:
            found.append(Tensor("attention.inner_norm", (out,), "vector", self.heads))
        if self.sinks:
            found.append(Tensor("attention.sinks", (self.heads,), "vector", self.heads))
        found.extend(self.beside)
        return found

    def cache(self) -> list[CacheRow]:
        """Keys and values of the tokens in sight, unless another layer keeps them."""
        if self.borrowed and not self.kept:
            return []
        widths = {"keys": self.head_dim, "values": self.value_dim or self.head_dim}
        return [CacheRow(name, self.kv_heads, width, self.window, self.chunked) for name, width in widths.items()]

    def state(self) -> list[StateRow]:
        """Keys and values of the learned prompt, where there is one."""
        if not self.prompt:
            return []
        return [StateRow(PROMPT, 2 * self.kv_heads * self.head_dim * self.prompt, self.kv_heads)]


class AroundAttention(Stateless, frozen=True):
    """A mixer around softmax attention, from which it has its width and, unless it says otherwise, what it caches."""

    attention: Attention

    @property
    def hidden(self) -> int:
        """Width of the layer."""
        return self.attention.hidden

    def tensors(self) -> list[Tensor]:
        """Those of the attention."""
        return self.attention.tensors()

    def cache(self) -> list[CacheRow]:
        """The attention's."""
        return self.attention.cache()


class LatentAttention(Stateless, frozen=True, tag="mla"):
    """Multi-head latent attention (DeepSeek): caches one low-rank latent and one rotary key per token, for all heads.

    q_rank: rank of the query compression (None: a plain projection). nope, rope: rotary-free and rotary parts of the
    query/key head; value: head dim of the values. index_heads, index_dim: a sparse indexer that picks the tokens to
    attend to and caches one more key per token (DeepSeek-V3.2; 0: none). index_top_k: how many of them, picked by this
    layer's indexer or an earlier one's (0: all). window: tokens a query can see, itself included (None: all).
    query_gate: the query's up-projection reads the compressed query with its norm and without, and makes a gate of the
    values as well (A.X K2). index_pool: tokens that the indexer weighs together; beside its key it keeps the weights of
    each, and a mark (GLM-5.3 Flash; 0: it picks tokens one by one). beside: tensors that only some have (sinks, gates).
    """

    hidden: int
    heads: int
    q_rank: int | None
    kv_rank: int
    nope: int
    rope: int
    value: int
    bias: bool = False
    index_heads: int = 0
    index_dim: int = 0
    window: int | None = None
    query_gate: bool = False
    beside: tuple[Tensor, ...] = ()
    index_top_k: int = 0
    index_pool: int = 0

    def tensors(self) -> list[Tensor]:
        """The down-projections are whole on every rank; heads are shared out."""
        q = self.heads * (self.nope + self.rope)
        if self.q_rank is None:
            found = linear("mla.q", q, self.hidden, shards=self.heads)
        else:
            found = [
                *linear("mla.q_down", self.q_rank, self.hidden, bias=self.bias),
                Tensor("mla.q_norm", (self.q_rank,), "vector"),
                *(
                    linear("mla.q_gate", q + self.heads * self.value, 2 * self.q_rank, shards=self.heads)
                    if self.query_gate
                    else linear("mla.q_up", q, self.q_rank, shards=self.heads)
                ),
            ]
        return [
            *found,
            *linear("mla.kv_down", self.kv_rank + self.rope, self.hidden, bias=self.bias),
            Tensor("mla.kv_norm", (self.kv_rank,), "vector"),
            *linear("mla.kv_up", self.heads * (self.nope + self.value), self.kv_rank, shards=self.heads),
            *linear("mla.o", self.hidden, self.heads * self.value, shards=self.heads, bias=self.bias, bias_shards=1),
            *self._indexer(),
            *self.beside,
        ]

    def _indexer(self) -> list[Tensor]:
        """Whole on every rank: each picks tokens for all heads."""
        if not self.index_heads:
            return []
        pool = (
            Tensor("mla.index_pool.position", (self.index_pool, self.index_dim), "vector"),
            Tensor("mla.index_pool.gate", (self.index_dim, self.hidden), "plain"),
        )
        return [
            *(pool if self.index_pool else ()),
            *linear("mla.index_q", self.index_heads * self.index_dim, self.q_rank or self.hidden),
            *linear("mla.index_k", self.index_dim, self.hidden),
            Tensor("mla.index_norm", (self.index_dim,), "vector"),
            Tensor("mla.index_norm.bias", (self.index_dim,), "vector"),
            Tensor("mla.index_weights", (self.index_heads, self.hidden), "plain"),
        ]

    def cache(self) -> list[CacheRow]:
        """The latent, the rotary key and the indexer's key, once for all heads."""
        rows = [CacheRow("latent", 1, self.kv_rank, self.window)]
        if self.rope:
            rows.append(CacheRow("rotary key", 1, self.rope, self.window))
        kept = 2 * self.index_dim + 1 if self.index_pool else self.index_dim
        return [*rows, CacheRow(INDEX_KEY, 1, kept)] if self.index_heads else rows

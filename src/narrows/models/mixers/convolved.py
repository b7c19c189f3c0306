"""Softmax attention with short convolutions: on keys, values and outputs (Inkling), in a compressed space (ZAYA)."""

from __future__ import annotations

from narrows.models.mixers.attention import AroundAttention
from narrows.models.mixers.base import linear
from narrows.models.tensors import StateRow, Tensor


class ConvolvedAttention(AroundAttention, frozen=True, tag="convolved_attention"):
    """Inkling's attention: keys, values, its output and the feed-forward's output each pass a short convolution.

    attention: what is cached, and the usual projections. conv: kernel width. relative: channels of the learned
    relative positions, of which `extent` are known. scaled: the second generation, which scales queries and relative
    positions per head, has a sink projected from the input and an output gate. dynamic: the kernels of keys and values
    are projected from the input, one per head.
    """

    conv: int
    relative: int
    extent: int
    scaled: bool = False
    dynamic: bool = False

    def tensors(self) -> list[Tensor]:
        """Those of the attention; kernels, kept in float32; relative positions."""
        own, hidden = self.attention, self.attention.hidden
        found = [*own.tensors(), *linear("attention.relative", own.heads * self.relative, hidden, shards=own.heads)]
        found.append(Tensor("attention.relative_table", (self.relative, self.extent), "plain"))
        if self.scaled:
            for name, width in (("q_scale", own.head_dim), ("relative_scale", self.relative)):
                found.append(Tensor(f"attention.{name}", (own.heads, width), "vector", own.heads))
            found += linear("attention.sink", own.heads, hidden, shards=own.heads)
        for side in "kv":
            channels, heads = own.kv_heads * own.head_dim, own.kv_heads
            if self.dynamic:
                found.append(Tensor(f"attention.{side}_kernel", (self.conv, channels), "vector", heads))
                found += linear(f"attention.{side}_dynamic", heads * self.conv, hidden, shards=heads)
            else:
                found.append(
                    Tensor(f"attention.{side}_conv", (channels, 1, self.conv), "vector", heads, format="float32")
                )
        for part in ("attention_conv", "mlp_conv"):
            found.append(Tensor(f"conv.{part}", (hidden, 1, self.conv), "vector", format="float32"))
        return found

    def state(self) -> list[StateRow]:
        """The last `conv` inputs of the four convolutions, in float32."""
        own = self.attention
        kv = 2 * own.kv_heads * own.head_dim
        return [
            StateRow("convolution", kv * self.conv, own.kv_heads, "float32", kernel=self.conv),
            StateRow("convolution of outputs", 2 * own.hidden * self.conv, 1, "float32", kernel=self.conv),
        ]


class CompressedConvolution(AroundAttention, frozen=True, tag="compressed_convolution"):
    """ZAYA's compressed convolutional attention: queries and keys pass a depthwise and a grouped convolution.

    Half of every value comes from the token before. depthwise, grouped: kernel widths.
    """

    depthwise: int
    grouped: int

    @property
    def _channels(self) -> int:
        return (self.attention.heads + self.attention.kv_heads) * self.attention.head_dim

    def tensors(self) -> list[Tensor]:
        """Those of the attention, values in two halves; two convolutions; a temperature per KV head."""
        own = self.attention
        heads, channels = own.heads + own.kv_heads, self._channels
        usual = [t for t in own.tensors() if not t.role.startswith("attention.v")]
        half = own.kv_heads * own.head_dim // 2
        return [
            *usual,
            *(
                t
                for side in ("v_current", "v_delayed")
                for t in linear(f"attention.{side}", half, own.hidden, shards=own.kv_heads, bias=own.qkv_bias)
            ),
            Tensor("attention.depthwise", (channels, 1, self.depthwise), "vector", own.kv_heads),
            Tensor("attention.depthwise.bias", (channels,), "vector", own.kv_heads),
            Tensor("attention.grouped", (channels, channels // heads, self.grouped), "plain", own.kv_heads),
            Tensor("attention.grouped.bias", (channels,), "vector", own.kv_heads),
            Tensor("attention.temperature", (own.kv_heads,), "vector", own.kv_heads),
        ]

    def state(self) -> list[StateRow]:
        """What both kernels look back on, and half of the values of the token before."""
        own, back = self.attention, self.depthwise + self.grouped - 2
        return [
            StateRow("convolution", self._channels * back, own.kv_heads),
            StateRow("value before", own.kv_heads * own.head_dim // 2, own.kv_heads),
        ]

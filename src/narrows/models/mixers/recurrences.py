"""Recurrences that are neither state spaces nor delta rules: RG-LRU, RWKV-4, xLSTM's matrix memory."""

from __future__ import annotations

from narrows.models.mixers.base import Stateless, linear
from narrows.models.tensors import StateRow, Tensor


class GatedRecurrence(Stateless, frozen=True, tag="rg_lru"):
    """Real-gated linear recurrent unit behind a short convolution (Griffin, De et al. 2024; RecurrentGemma).

    width: channels of the recurrence, in `heads` blocks with two square gates each; conv: kernel width.
    """

    hidden: int
    heads: int
    width: int
    conv: int

    def tensors(self) -> list[Tensor]:
        """Two branches in, the convolution, the gates of every block, one way out. Blocks are shared out."""
        width, heads, block = self.width, self.heads, self.width // self.heads
        found = [t for side in "xy" for t in linear(f"lru.{side}", width, self.hidden, shards=heads, bias=True)]
        found += [
            Tensor("lru.conv", (width, 1, self.conv), "vector", heads),
            Tensor("lru.conv.bias", (width,), "vector", heads),
            Tensor("lru.decay", (width,), "vector", heads),
        ]
        for gate in ("input_gate", "recurrent_gate"):
            found.append(Tensor(f"lru.{gate}", (heads, block, block), "plain", heads))
            found.append(Tensor(f"lru.{gate}.bias", (heads, block), "vector", heads))
        return [*found, *linear("lru.out", self.hidden, width, shards=heads, bias=True, bias_shards=1)]

    def state(self) -> list[StateRow]:
        """The last `conv` − 1 inputs of every channel (as transformers keeps them), one float32 per channel."""
        return [
            StateRow("convolution", self.width * (self.conv - 1), self.heads),
            StateRow("recurrent", self.width, self.heads, "float32"),
        ]


class Rwkv4(Stateless, frozen=True, tag="rwkv4"):
    """RWKV-4's time mixing (Peng et al. 2023): a weighted mean over all earlier tokens with a decay per channel.

    width: channels that keys and values have. What the channel mixing of the same layer keeps stands here too.
    """

    hidden: int
    width: int

    def tensors(self) -> list[Tensor]:
        """Decay and bonus per channel, three shares of the token before, four matrices. Channels are shared out."""
        width, hidden = self.width, self.hidden
        return [
            Tensor("rwkv.decay", (width,), "vector", width),
            Tensor("rwkv.first", (width,), "vector", width),
            *(Tensor(f"rwkv.mix_{side}", (1, 1, hidden), "vector") for side in ("key", "value", "receptance")),
            *(
                t
                for side in ("key", "value", "receptance")
                for t in linear(f"rwkv.{side}", width, hidden, shards=width)
            ),
            *linear("rwkv.out", hidden, width, shards=width),
        ]

    def state(self) -> list[StateRow]:
        """The token before, for time and for channel mixing; numerator, denominator and largest exponent."""
        return [
            StateRow("token before", 2 * self.hidden, 1),
            StateRow("recurrent", 3 * self.width, self.width, "float32"),
        ]


class MatrixMemory(Stateless, frozen=True, tag="mlstm"):
    """xLSTM's mLSTM (Beck et al. 2024): a key × value matrix per head with exponential gates.

    key_dim, value_dim: of one head. bias: of all projections and the norm (the two gates always have one). counts:
    the layer where transformers' cache keeps the number of tokens seen.
    """

    hidden: int
    heads: int
    key_dim: int
    value_dim: int
    bias: bool = False
    counts: bool = False

    def tensors(self) -> list[Tensor]:
        """q, k, v, an output gate per channel, an input and a forget gate per head. Heads are shared out."""
        keys, values = self.heads * self.key_dim, self.heads * self.value_dim
        parts = {"q": keys, "k": keys, "v": values, "output_gate": values}
        norms = [Tensor("mlstm.norm", (values,), "vector", self.heads)]
        if self.bias:
            norms.append(Tensor("mlstm.norm.bias", (values,), "vector", self.heads))
        return [
            *(
                t
                for k, n in parts.items()
                for t in linear(f"mlstm.{k}", n, self.hidden, shards=self.heads, bias=self.bias)
            ),
            *(
                t
                for gate in ("input_gate", "forget_gate")
                for t in linear(f"mlstm.{gate}", self.heads, self.hidden, shards=self.heads, bias=True)
            ),
            *norms,
            *linear("mlstm.out", self.hidden, values, shards=self.heads, bias=self.bias, bias_shards=1),
        ]

    def state(self) -> list[StateRow]:
        """Per head the matrix, the sum of keys and the largest exponent, in the model's format (`xLSTMCache`)."""
        each = self.key_dim * self.value_dim + self.key_dim + 1
        counter = [StateRow("tokens seen", 1, 1, "int64")] if self.counts else []
        return [StateRow("recurrent", self.heads * each, self.heads), *counter]

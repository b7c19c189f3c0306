"""Feed-forward parts of a layer: dense, or a mixture of experts."""

from __future__ import annotations

import msgspec

from narrows.models.mixers import linear
from narrows.models.tensors import Tensor, Use


class Dense(msgspec.Struct, frozen=True, tag="dense"):
    """Two matrices, or three when gated (SwiGLU, GeGLU).

    inner_norm: a norm before the down projection (BitNet). activation: learned numbers of the activation (xIELU).
    down_bias: the down projection has a bias even where the others have none (TeleChat).
    """

    hidden: int
    intermediate: int
    gated: bool = True
    bias: bool = False
    inner_norm: bool = False
    activation: int = 0
    down_bias: bool = False

    def tensors(self, prefix: str = "mlp") -> list[Tensor]:
        """gate and up [intermediate, hidden], down [hidden, intermediate]."""
        width, hidden = self.intermediate, self.hidden
        found = linear(f"{prefix}.gate", width, hidden, shards=width, bias=self.bias) if self.gated else []
        if self.inner_norm:
            found.append(Tensor(f"{prefix}.inner_norm", (width,), "vector", width))
        if self.activation:
            found.append(Tensor(f"{prefix}.activation", (self.activation,), "vector"))
        return [
            *found,
            *linear(f"{prefix}.up", width, hidden, shards=width, bias=self.bias),
            *linear(f"{prefix}.down", hidden, width, shards=width, bias=self.bias or self.down_bias, bias_shards=1),
        ]


class MixtureOfExperts(msgspec.Struct, frozen=True, tag="moe"):
    """A router sends each token to `top_k` of `experts`; shared experts, if any, take every token.

    intermediate: width of one expert. shared: width of the shared expert (0: none); shared_gate: it has a gate of
    its own (Qwen); shared_bias: it has biases. correction: a stored per-expert bias that only steers routing
    (DeepSeek-V3), not a parameter unless correction_learned (Ernie). gated: experts have a gate. latent: width that
    experts work in, between two projections that take every token (Nemotron 3; 0: the hidden size). router_scales:
    learned scales of the router's input and of every expert (Gemma 4). router: the router's tensors where they are not
    one matrix of a row per expert. idle: experts that do nothing, for which transformers builds weights that no file
    holds (LongCat-Flash). router_rows: scores that the router makes where they are not one per expert (Doge scores
    halves of an expert's key; 0: one per expert). shared_gated: whether the shared expert is gated (None: as the
    experts are). by_token: rows of a table that gives every token of the vocabulary its experts (DeepSeek-V4's first
    layers; 0: none).
    """

    hidden: int
    experts: int
    top_k: int
    intermediate: int
    shared: int = 0
    shared_gate: bool = False
    shared_bias: bool = False
    bias: bool = False
    router_bias: bool = False
    correction: bool = False
    correction_learned: bool = False
    gated: bool = True
    latent: int = 0
    router_scales: bool = False
    router: tuple[Tensor, ...] = ()
    idle: int = 0
    router_rows: int = 0
    shared_gated: bool | None = None
    by_token: int = 0

    def tensors(self) -> list[Tensor]:
        """Router, experts (as many copies as there are), shared expert. Every rank keeps the router whole."""
        width, hidden = self.intermediate, self.hidden
        found = list(self.router) or [Tensor("router", (self.router_rows or self.experts, hidden), "plain")]
        if self.router_bias:
            found.append(Tensor("router.bias", (self.experts,), "vector"))
        if self.router_scales:
            found.append(Tensor("router.scale", (hidden,), "vector"))
            found.append(Tensor("router.expert_scale", (self.experts,), "vector"))
        if self.correction:
            use: Use = "vector" if self.correction_learned else "buffer"
            found.append(Tensor("router.correction", (self.experts,), use, format="float32"))

        if self.by_token:
            found.append(Tensor("router.by_token", (self.by_token, self.top_k), "buffer", format="int64"))

        def expert(role: str, *shape: int, shards: int = width) -> Tensor:
            use = "linear" if len(shape) == 2 else "vector"
            return Tensor(role, shape, use, shards, self.experts, self.top_k)  # type: ignore[arg-type]

        ups = ("gate", "up") if self.gated else ("up",)
        inner = self.latent or hidden
        if self.latent:
            found += linear("latent.in", self.latent, hidden, bias=self.shared_bias)
            found += linear("latent.out", hidden, self.latent, bias=self.shared_bias)
        found += [expert(f"experts.{up}", width, inner) for up in ups]
        found.append(expert("experts.down", inner, width))
        if self.idle:
            found += [Tensor(f"experts.{up}", (width, inner), "built", 1, self.idle, 0) for up in ups]
        if self.bias:
            found += [expert(f"experts.{up}.bias", width) for up in ups]
            found.append(expert("experts.down.bias", hidden, shards=1))
        if self.shared:
            gated = self.gated if self.shared_gated is None else self.shared_gated
            found += Dense(hidden, self.shared, gated, self.shared_bias).tensors("shared")
        if self.shared_gate:
            found.append(Tensor("shared_gate", (1, hidden), "plain"))
        return found


class Beside(msgspec.Struct, frozen=True, tag="beside"):
    """Feed-forward parts in one layer: `dense` ones in turn, and experts beside them (LongCat-Flash)."""

    dense: tuple[Dense, ...]
    experts: MixtureOfExperts

    @property
    def hidden(self) -> int:
        """Width of the layer."""
        return self.experts.hidden

    def tensors(self) -> list[Tensor]:
        """Those of all parts."""
        return [*(tensor for part in self.dense for tensor in part.tensors()), *self.experts.tensors()]


class ChannelMix(msgspec.Struct, frozen=True, tag="channel_mix"):
    """RWKV-4's channel mixing: two matrices behind a gate of the hidden size, on this token and the one before."""

    hidden: int
    intermediate: int

    def tensors(self) -> list[Tensor]:
        """Shares of the token before, then key, receptance (the gate) and value."""
        width, hidden = self.intermediate, self.hidden
        return [
            *(Tensor(f"mlp.mix_{side}", (1, 1, hidden), "vector") for side in ("key", "receptance")),
            *linear("mlp.up", width, hidden, shards=width),
            *linear("mlp.receptance", hidden, hidden),
            *linear("mlp.down", hidden, width, shards=width),
        ]


FeedForward = Dense | MixtureOfExperts | Beside | ChannelMix

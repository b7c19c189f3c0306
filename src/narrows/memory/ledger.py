"""The ledger of one device: every byte of its usable memory under one name, adding up exactly."""

from __future__ import annotations

import msgspec

from narrows.calibration import coefficient
from narrows.deployment import Deployment
from narrows.memory.shard import Shard, binding_shard, shards
from narrows.models.spec import Layer
from narrows.text import Text


class Reserve(msgspec.Struct, frozen=True):
    """Bytes per device that an engine needs beside weights and cache, and on what basis they are stated."""

    activations: int
    graphs: int
    runtime: int
    basis: tuple[Text, ...]

    @property
    def total(self) -> int:
        """All three."""
        return self.activations + self.graphs + self.runtime


class Ledger(msgspec.Struct, frozen=True):
    """Bytes per device: usable = weights + kv_cache + state + activations + graphs + runtime + unclaimed + free.

    `unclaimed` lies outside the engine's utilization; `free` is what its share leaves over (negative: short of).
    """

    usable: int
    weights: int
    kv_cache: int
    state: int
    activations: int
    graphs: int
    runtime: int
    unclaimed: int
    free: int


def _widest(layer: Layer, tp: int) -> int:
    """Elements per token that the widest operator of a layer reads and writes on one rank."""
    hidden = layer.hidden
    widest = 2 * hidden
    for tensor in layer.tensors():
        if tensor.use == "linear":
            out, inner = tensor.shape
            used = tensor.active or 1
            fused = 2 if tensor.role.endswith((".gate", ".up")) else 1
            widest = max(widest, fused * used * -(-out // min(tp, tensor.shards)) + inner)
    return widest


def reserve(deployment: Deployment) -> Reserve:
    """Activation peak, CUDA graphs and runtime, from coefficients of the engine (an estimate: its basis is stated).

    The activation peak is the larger of two moments that do not overlap: a full step's tokens through the widest
    operator, and the sampler's work on the logits of a full batch.
    """
    engine, model = deployment.engine.name, deployment.model
    copies = coefficient(engine, "token_copies")
    per_logit = coefficient(engine, "sampler_bytes_per_logit")
    widest = max(_widest(layer, deployment.tensor_parallel) for layer, _ in model.kinds)
    tokens = int(deployment.max_num_batched_tokens * widest * deployment.dtype.bits // 8 * copies.value)
    logits = int(deployment.max_num_seqs * model.vocab * per_logit.value)
    runtime = coefficient(engine, "runtime_bytes" if deployment.count == 1 else "runtime_bytes_parallel")
    graphs = coefficient(engine, "graph_bytes")
    if logits >= tokens:
        activations = Text(
            "activations: {sequences} sequences × {vocab} logits × {bytes} B of sampler work ({basis})",
            sequences=deployment.max_num_seqs,
            vocab=model.vocab,
            bytes=per_logit.value,
            basis=Text(per_logit.basis),
        )
    else:
        activations = Text(
            "activations: {tokens} tokens × {width} elements of the widest operator × {copies} ({basis})",
            tokens=deployment.max_num_batched_tokens,
            width=widest,
            copies=copies.value,
            basis=Text(copies.basis),
        )
    basis = [activations, Text("runtime: {basis}", basis=Text(runtime.basis))]
    if deployment.graphs:
        basis.append(Text("graphs: {basis}", basis=Text(graphs.basis)))
    return Reserve(max(tokens, logits), int(graphs.value) if deployment.graphs else 0, int(runtime.value), tuple(basis))


def ledger(deployment: Deployment, batch: int, length: int, *, shard: Shard | None = None) -> Ledger:
    """The ledger of the binding rank with `batch` sequences of `length` tokens in memory."""
    kept = reserve(deployment)
    if shard is None:
        shard = binding_shard(shards(deployment), deployment.budget - kept.total, length)
    kv, state = batch * shard.kv_bytes(length), batch * shard.state
    return Ledger(
        usable=deployment.usable,
        weights=shard.weights,
        kv_cache=kv,
        state=state,
        activations=kept.activations,
        graphs=kept.graphs,
        runtime=kept.runtime,
        unclaimed=deployment.usable - deployment.budget,
        free=deployment.budget - kept.total - shard.weights - kv - state,
    )

"""What one rank of a deployment keeps: its share of the weights, and what a sequence costs it.

Tensor parallelism cuts a tensor into as many pieces as it has heads (or columns), and replicates it beyond: with 4
KV heads, 8 ranks keep as much KV each as 4 ranks do. MLA's latent is whole on every rank. Pipeline stages keep
their own layers; the first also the embedding, the last the final norm and head.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import msgspec

from narrows.deployment import Deployment, stages
from narrows.models.spec import Layer
from narrows.models.tensors import CacheRow, TensorRow
from narrows.precision import FORMATS


class Shard(msgspec.Struct, frozen=True):
    """One rank of one pipeline stage (all tensor-parallel ranks of a stage are alike).

    weights: resident bytes. cache: (layers, elements per token on this rank, row). state: bytes per sequence.
    """

    stage: int
    weights: int
    cache: tuple[tuple[int, int, CacheRow], ...]
    state: int
    kv_bits: int

    def kv_bytes(self, length: int) -> int:
        """KV bytes of one sequence of `length` tokens on this rank, the most on its way there."""
        elements = sum(layers * width * row.most(length) for layers, width, row in self.cache)
        return elements * self.kv_bits // 8

    def sequence_bytes(self, length: int) -> int:
        """KV and state of one sequence of `length` tokens on this rank."""
        return self.kv_bytes(length) + self.state


def _pieces(whole: int, shards: int, tp: int) -> int:
    """Bytes of the largest piece one rank keeps of `whole` bytes that can be cut into `shards` pieces."""
    return whole if shards == 1 else -(-whole * max(1, -(-shards // tp)) // shards)


def resident_bytes(rows: Iterable[TensorRow], deployment: Deployment) -> int:
    """Bytes that the rows take on one rank: as stored, but unquantized parts in the format the engine runs them in."""
    stored, served = deployment.model.precision.dtype, deployment.dtype
    total = 0
    for row in rows:
        for part in row.parts:
            kept = served if part.format == stored and row.tensor.format is None else part.format
            bytes_of_all = kept.bytes_for(part.elements * row.tensor.copies)
            total += row.count * _pieces(bytes_of_all, row.tensor.shards, deployment.tensor_parallel)
    return total


def shards(deployment: Deployment) -> list[Shard]:
    """One shard per pipeline stage."""
    if deployment.engine.name == "llama.cpp":
        from narrows.memory.llamacpp import llama_shards

        return list(llama_shards(deployment))
    model, tp = deployment.model, deployment.tensor_parallel
    cuts = stages(model.layers, deployment.pipeline_parallel)
    outer = model.outer_rows()
    found = []
    for index, layers in enumerate(cuts):
        first, last = index == 0, index == len(cuts) - 1
        rows = [row for row in outer if _stands_in(row, first, last, model.head_tied)]
        if first:
            rows += [row for tower in model.towers if tower.served for row in model.tower_rows(tower)]
        cache: list[tuple[int, int, CacheRow]] = []
        state = 0
        lent: dict[int, Layer] = {}
        for layer, indices in model.kinds:
            part = indices[bisect_left(indices, layers.start) : bisect_left(indices, layers.stop)]
            if not part:
                continue
            rows += model.layer_rows(layer, part)
            if layer.owner is not None and layer.owner not in layers:
                lent.setdefault(layer.owner, layer)
            mixer = layer.mixer
            cache += [(len(part), _rank_width(row, tp), row) for row in mixer.cache()]
            for constant in mixer.state():
                form = deployment.dtype if constant.format is None else FORMATS[constant.format]
                state += len(part) * _pieces(form.bytes_for(constant.elements), constant.shards, tp)
        for layer in lent.values():
            rows += model.lent_rows(layer)
        found.append(Shard(index, resident_bytes(rows, deployment), tuple(cache), state, deployment.kv.bits))
    return found


def _stands_in(row: TensorRow, first: bool, last: bool, tied: bool) -> bool:
    """Whether a tensor outside the layers stands in this stage; a tied head needs the embedding in the last one."""
    role = row.tensor.role
    if role == "embedding":
        return first or (last and tied)
    tables = ("embedding.in", "embedding.shared", "embedding.encoder", "position_embedding", "token_types")
    before = (*tables, "embedding_norm", "per_layer.", "input.", "before.")
    return first if role.startswith(before) else last


def _rank_width(row: CacheRow, tp: int) -> int:
    return row.heads_per_rank(tp) * row.width


def binding_shard(found: list[Shard], room: int, length: int) -> Shard:
    """The shard that fits the fewest sequences of `length` tokens in `room` bytes: it decides for all."""

    def sequences(shard: Shard) -> tuple[float, int]:
        each = shard.sequence_bytes(length)
        left = room - shard.weights
        return (left / each if each else float("inf") if left >= 0 else float("-inf"), left)

    return min(found, key=sequences)

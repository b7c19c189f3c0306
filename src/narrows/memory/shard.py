"""What one rank of a deployment keeps: its share of the weights, and what a sequence costs it.

Tensor parallelism cuts a tensor into as many pieces as it has heads (or columns), and replicates it beyond: with 4
KV heads, 8 ranks keep as much KV each as 4 ranks do. MLA's latent is whole on every rank. Pipeline stages keep
their own layers; the first also the embedding, the last the final norm and head.
"""

from __future__ import annotations

import msgspec

from narrows.deployment import Deployment, stages
from narrows.deployment.draft import draft_bytes, draft_layers, drafting
from narrows.deployment.share import layers_within, lent_into, outer_rows_of, resident_bytes, state_bytes, towers_of
from narrows.memory.offload import offloaded_bytes
from narrows.models.tensors import CacheRow, TensorRow


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


def shards(deployment: Deployment) -> list[Shard]:
    """One shard per pipeline stage."""
    if deployment.engine.name == "llama.cpp":
        from narrows.memory.llamacpp import llama_shards

        return list(llama_shards(deployment))
    model, tp = deployment.model, deployment.tensor_parallel
    cuts = stages(model.layers, deployment.pipeline_parallel)
    found = []
    for index, layers in enumerate(cuts):
        first, last = index == 0, index == len(cuts) - 1
        rows = outer_rows_of(deployment, first, last)
        rows += [row for tower in towers_of(deployment, first) for row in model.tower_rows(tower)]
        cache: list[tuple[int, int, CacheRow]] = []
        state = 0
        for layer, part in layers_within(model, layers):
            rows += model.layer_rows(layer, part)
            mixer = layer.mixer
            cache += [(len(part), rank_width(row, tp), row) for row in mixer.cache()]
            state += len(part) * sum(state_bytes(constant, deployment) for constant in mixer.state())
        for layer in lent_into(deployment, layers):
            rows += model.lent_rows(layer)
        weights = _kept(rows, deployment) - offloaded_bytes(deployment, layers)
        if last and deployment.draft is not None:
            weights += draft_bytes(deployment)
            cache += draft_cache(deployment)
            state += draft_state(deployment)
        found.append(Shard(index, weights, tuple(cache), state, deployment.kv.bits))
    return found


def _kept(rows: list[TensorRow], deployment: Deployment) -> int:
    """Bytes of the rows on one rank. SGLang's replicas of attention share the dense parts and the head as well.

    Source: SGLang (Apache-2.0): with --enable-dp-attention only attention and the embedding go by the ranks of a
    replica; --moe-dense-tp-size and --enable-dp-lm-head are off by default.
    """
    if deployment.engine.name != "sglang" or deployment.attention_data_parallel == 1:
        return resident_bytes(rows, deployment)
    wide = msgspec.structs.replace(deployment, tensor_parallel=deployment.ranks_per_stage, attention_data_parallel=1)
    apart = [row for row in rows if row.tensor.role.startswith(("mlp.", "shared.", "head"))]
    own = [row for row in rows if row not in apart]
    return resident_bytes(own, deployment) + resident_bytes(apart, wide)


def rank_width(row: CacheRow, tp: int) -> int:
    """Elements of one token on one of `tp` ranks."""
    return row.heads_per_rank(tp) * row.width


def draft_cache(deployment: Deployment) -> list[tuple[int, int, CacheRow]]:
    """What is cached of what drafts on one rank: (layers, elements per token, row)."""
    if not draft_layers(deployment):
        return []
    tp = drafting(deployment).tensor_parallel
    return [
        (count, rank_width(row, tp), row) for layer, count in draft_layers(deployment) for row in layer.mixer.cache()
    ]


def draft_state(deployment: Deployment) -> int:
    """Bytes of constant state of what drafts, of one sequence on one rank."""
    seen = drafting(deployment)
    return sum(
        count * state_bytes(row, seen) for layer, count in draft_layers(deployment) for row in layer.mixer.state()
    )


def binding_shard(found: list[Shard], room: int, length: int) -> Shard:
    """The shard that fits the fewest sequences of `length` tokens in `room` bytes: it decides for all."""

    def sequences(shard: Shard) -> tuple[float, int]:
        each = shard.sequence_bytes(length)
        left = room - shard.weights
        return (left / each if each else float("inf") if left >= 0 else float("-inf"), left)

    return min(found, key=sequences)

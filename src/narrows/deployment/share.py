"""What one rank of a deployment keeps of the tensor table: which rows stand in its stage, and its piece of each.

Tensor parallelism cuts a tensor into as many pieces as it has heads (or columns), and replicates it beyond. Experts
are shared out one by one over `expert_parallel` ranks, and cut by width over the others of the stage. Pipeline stages
keep their own layers; the first also the embedding, the last the final norm and head.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from narrows.deployment.types import Deployment
from narrows.models.spec import Layer, ModelSpec, Tower
from narrows.models.tensors import StateRow, Tensor, TensorRow
from narrows.precision import FORMATS


def pieces(whole: int, shards: int, ranks: int) -> int:
    """The largest piece that one of `ranks` keeps of `whole` bytes or elements that can be cut into `shards` pieces."""
    return whole if shards == 1 else -(-whole * max(1, -(-shards // ranks)) // shards)


def ranks_of(tensor: Tensor, deployment: Deployment) -> tuple[int, int]:
    """(ranks that share out its copies one by one, ranks that cut each of them)."""
    if tensor.role.startswith("experts."):
        return deployment.expert_parallel, deployment.expert_width_parallel
    return 1, deployment.tensor_parallel


def resident_of(row: TensorRow, deployment: Deployment) -> int:
    """Bytes of one of the row's `count` tensors on one rank: as stored, but unquantized parts in the served format."""
    tensor, stored = row.tensor, deployment.model.precision.dtype
    apart, cut = ranks_of(tensor, deployment)
    copies = -(-tensor.copies // apart)
    total = 0
    for part in row.parts:
        kept = deployment.dtype if part.format == stored and tensor.format is None else part.format
        total += pieces(kept.bytes_for(part.elements * copies), tensor.shards, cut)
    return total


def resident_bytes(rows: Iterable[TensorRow], deployment: Deployment) -> int:
    """Bytes that the rows take on one rank."""
    return sum(row.count * resident_of(row, deployment) for row in rows)


def state_bytes(row: StateRow, deployment: Deployment) -> int:
    """Bytes of constant state that one layer keeps of one sequence on one rank."""
    form = deployment.dtype if row.format is None else FORMATS[row.format]
    return pieces(form.bytes_for(row.elements), row.shards, deployment.tensor_parallel)


def outer_rows_of(deployment: Deployment, first: bool, last: bool) -> list[TensorRow]:
    """Rows outside the layers that stand in a stage: before them in the first, after them in the last.

    With llama.cpp, what stands before the layers stays with the host; a tied head is a copy of the embedding.
    """
    model = deployment.model
    if deployment.engine.name == "llama.cpp":
        head = ("head", "final_norm", "embedding") if model.head_tied else ("head", "final_norm")
        return [row for row in model.outer_rows() if last and row.tensor.role.startswith(head)]
    return [row for row in model.outer_rows() if stands_in(row, first, last, model.head_tied)]


def stands_in(row: TensorRow, first: bool, last: bool, tied: bool) -> bool:
    """Whether a tensor outside the layers stands in this stage; a tied head needs the embedding in the last one."""
    role = row.tensor.role
    if role == "embedding":
        return first or (last and tied)
    return first if role.startswith(BEFORE) else last


_TABLES = ("embedding.in", "embedding.shared", "embedding.encoder", "position_embedding", "token_types")
BEFORE = (*_TABLES, "embedding_norm", "per_layer.", "input.", "before.")
"""Prefixes of the roles that stand before the layers."""


def towers_of(deployment: Deployment, first: bool) -> list[Tower]:
    """Towers that an ordinary server loads, in the first stage; llama.cpp has them in a file of their own."""
    if not first or deployment.engine.name == "llama.cpp":
        return []
    return [tower for tower in deployment.model.towers if tower.served]


def layers_within(model: ModelSpec, layers: range) -> Iterator[tuple[Layer, Sequence[int]]]:
    """Equal layers together that stand in a stage: (layer, their indices)."""
    for layer, indices in model.kinds:
        part = indices[bisect_left(indices, layers.start) : bisect_left(indices, layers.stop)]
        if part:
            yield layer, part


def lent_into(deployment: Deployment, layers: range) -> list[Layer]:
    """Layers of a stage that run with weights of an owner in another: one for each such owner."""
    lent: dict[int, Layer] = {}
    model = deployment.model
    if deployment.engine.name == "llama.cpp":
        return []
    for layer, _ in layers_within(model, layers):
        if layer.owner is not None and layer.owner not in layers:
            lent.setdefault(layer.owner, layer)
    return list(lent.values())

"""A deployment compiled to kernels, which a batch turns into operators.

All that depends on the deployment alone is worked out once: shapes, bytes on the rank, precisions, which layers are
alike. A batch then takes some arithmetic per kernel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from narrows.deployment import Deployment, stages
from narrows.deployment.share import layers_within, lent_into, outer_rows_of, resident_of, stands_in, towers_of
from narrows.hardware.machines import span_of
from narrows.models.class_heads import note_of
from narrows.models.experts import mixture_of
from narrows.models.spec import Layer
from narrows.models.tensors import Tensor, TensorRow
from narrows.step.batch import Batch
from narrows.step.kernels import Kernel, Talk, touched, whole
from narrows.step.layers import idle, layer_kernels, turns
from narrows.step.load import Load, started
from narrows.step.operators import Operator
from narrows.step.outside import SAMPLED, UNUSED, after_kernels, before_kernels, encoder_kernels
from narrows.step.site import Site, site_of
from narrows.step.tensors import GATHERED, Piece, one_use, same_storage
from narrows.text import Text


class Held(msgspec.Struct, frozen=True):
    """Tensors that a rank keeps, and when a step reads them.

    when: `always`; `never`; `sampled`, `encoder`, `prefill`: if there are such rows; `experts`: as many as are
    touched, of `experts` of this rank out of `all_experts` with `top_k` per token. name: what they are called if idle.
    """

    when: str
    name: str
    experts: int = 1
    all_experts: int = 1
    top_k: int = 1


class Stage(msgspec.Struct, frozen=True):
    """One stage of the pipeline: kernels with their counts, and what a rank keeps: (what, bytes of each, count)."""

    kernels: tuple[tuple[Kernel, int], ...]
    held: tuple[tuple[Held, int, int], ...]


class Plan(msgspec.Struct, frozen=True):
    """A deployment ready for batches. assumptions: what was taken for granted in what a step costs."""

    deployment: Deployment
    stages: tuple[Stage, ...]
    kernels: tuple[tuple[Kernel, int], ...]
    naive: bool = False
    assumptions: tuple[Text, ...] = ()

    def operators(self, batch: Batch) -> tuple[Operator, ...]:
        """All operators of one step on one rank of every stage, in about the order in which they run.

        The fields of the batch's chunks may be arrays of whole numbers; so are the operators' figures then.
        """
        load = Load(batch)
        found = []
        for kernel, count in self.kernels:
            operator = kernel.operator(load, count)
            if operator is not None:
                found.append(operator)
        return tuple(found)

    def resident(self, batch: Batch, stage: int = 0) -> tuple[int, dict[str, int]]:
        """Bytes of a rank's weights that a step reads at least once, and the others by what they are."""
        load = Load(batch)
        tokens = load.rows("tokens") * self.deployment.attention_data_parallel
        runs = {
            "always": bool(tokens),
            "never": False,
            "sampled": bool(load.rows("sampled")),
            "prefill": bool(load.rows("prefill")),
            "encoder": any(started(chunk) for _, chunk in load.chunks),
        }
        streamed, unread = 0, dict[str, int]()
        for held, size, times in self.stages[stage].held:
            if held.when == "experts":
                used = touched(held.experts, held.all_experts, held.top_k, tokens)
                read = min(size, whole(size * used / held.experts))
            else:
                read = size if runs[held.when] else 0
            streamed += times * read
            if read < size:
                unread[held.name] = unread.get(held.name, 0) + times * (size - read)
        return streamed, unread


def _held(piece: Piece, layer: Layer, deployment: Deployment, skipped: bool) -> Held:
    """When a tensor of a layer is read."""
    tensor = piece.tensor
    if skipped:
        return Held("never", "layers that run for pictures")
    if tensor.use in ("table", "built") or tensor.role in GATHERED:
        return Held("never", "gathered tables")
    if tensor.role.startswith("cross.") and not any(row.encoder for row in layer.mixer.cache()):
        return Held("never", "projections of an encoder's output that is not there")
    if tensor.role.startswith(("cross.k", "cross.v")) and "norm" not in tensor.role:
        return Held("encoder", "projections of the encoder's output")
    if tensor.role == "mla.kv_up" and piece.quantized:
        return Held("prefill", "projections that only prefill uses")
    if tensor.copies > 1 and tensor.active is not None:
        if not tensor.role.startswith("experts."):
            return Held("experts", "idle experts", tensor.copies, tensor.copies, tensor.active)
        part = mixture_of(layer.feed_forward)
        all_experts = tensor.copies + (part.idle if part is not None else 0)
        here = -(-tensor.copies // deployment.expert_parallel)
        return Held("experts", "idle experts", here, all_experts, tensor.active)
    return Held("always", "weights")


_OTHERS = Held("never", "adapters of other layers")


def _held_of(
    found: tuple[Piece, ...], layer: Layer, deployment: Deployment, skipped: bool, shared: bool
) -> dict[Held, int]:
    """Bytes of one layer's own tensors by when they are read. shared: other layers run with them too."""
    sizes: dict[Held, int] = {}
    for piece in found:
        if not piece.lent:
            one, own = _held(piece, layer, deployment, skipped), piece.bytes
            if not shared:
                own = one_use(piece).bytes
                sizes[_OTHERS] = sizes.get(_OTHERS, 0) + piece.bytes - own
            sizes[one] = sizes.get(one, 0) + own
    return sizes


def _outer_held(tensor: Tensor, sampled_table: bool) -> Held:
    role = tensor.role
    if tensor.use == "table":
        return Held("sampled", "head") if sampled_table and role == "embedding" else Held("never", "gathered tables")
    if role.startswith(UNUSED):
        return Held("never", "parts that generation does not run")
    if role.startswith("embedding.encoder"):
        return Held("encoder", "projections of the encoder's output")
    return Held("sampled", "head") if role.startswith(SAMPLED) else Held("always", "weights")


def _add(counts: dict[Kernel, int], kernels: list[Kernel], times: int) -> None:
    for kernel in kernels:
        counts[kernel] = counts.get(kernel, 0) + times


def _stage(site: Site, layers: range, first: bool, last: bool) -> Stage:
    deployment, model = site.deployment, site.deployment.model
    counts: dict[Kernel, int] = {}
    held: dict[tuple[Held, int], int] = {}

    def keep(one: Held, size: int, times: int = 1) -> None:
        held[one, size] = held.get((one, size), 0) + times

    outer = outer_rows_of(deployment, first, last)
    embedding = next((row for row in outer if row.tensor.role == "embedding"), None)
    # of a class that embeds or classifies the embedding is no head, whatever the file ties
    tied = last and model.head_tied and note_of(model.architecture, model.family) is None
    for row in outer:
        keep(_outer_held(row.tensor, tied), row.count * resident_of(row, deployment))
    if first:
        for tower in towers_of(deployment, first):
            rows = model.tower_rows(tower)
            for row in rows:
                one = Held("encoder" if tower.reads and row.tensor.use != "table" else "never", tower.name)
                keep(one, row.count * resident_of(row, deployment))
            if tower.reads:
                for kernel, times in encoder_kernels(rows, site):
                    _add(counts, [kernel], times)
        _add(counts, before_kernels(_before(outer, model.head_tied), site), 1)
    for layer, indices in layers_within(model, layers):
        skipped = idle(layer)
        shared = any(other.owner in indices for other, _ in model.kinds)
        for found, times in same_storage(layer, indices, deployment):
            for one, size in _held_of(found, layer, deployment, skipped, shared).items():
                keep(one, size, times)
            if not skipped:
                _add(counts, layer_kernels(layer, found, site), times * turns(layer))
    for layer in lent_into(deployment, layers):
        for row in model.lent_rows(layer):
            keep(Held("always", "weights"), row.count * resident_of(row, deployment))
    if last:
        rows = [row for row in outer if row not in _before(outer, model.head_tied)]
        _add(counts, after_kernels(rows, embedding if tied else None, site), 1)
    return Stage(tuple(counts.items()), tuple((one, size, times) for (one, size), times in held.items() if size))


def _before(outer: list[TensorRow], tied: bool) -> list[TensorRow]:
    return [row for row in outer if stands_in(row, True, False, tied)]


def _compile(deployment: Deployment, naive: bool) -> Plan:
    site = site_of(deployment, naive)
    cuts = stages(deployment.model.layers, deployment.pipeline_parallel)
    found = tuple(_stage(site, cut, i == 0, i == len(cuts) - 1) for i, cut in enumerate(cuts))
    counts: dict[Kernel, int] = {}
    for stage in found:
        for kernel, times in stage.kernels:
            counts[kernel] = counts.get(kernel, 0) + times
    for kernel in _between(site, len(found) - 1):
        counts[kernel] = counts.get(kernel, 0) + 1
    return Plan(deployment, found, tuple(counts.items()), naive)


def _between(site: Site, times: int) -> Iterator[Kernel]:
    """What `times` borders between stages cost: hidden states and the residual beside them go on.

    Each tensor-parallel rank sends its part, and those that receive gather the parts. Source: vLLM's and SGLang's
    GroupCoordinator.send_tensor_dict (Apache-2.0), with the tensor-parallel group as all_gather_group.
    """
    deployment = site.deployment
    row = 2 * deployment.model.hidden * site.element // site.tp
    for stage in range(times):
        span = span_of(deployment.accelerator, deployment.ranks_per_stage, stage)
        yield Talk("pipeline.send", "send", 2, "tokens", row, site.base.precision, span=span if span > 2 else 0)
        if site.tp > 1:
            yield Talk("pipeline.all_gather", "all_gather", site.tp, "tokens", row, site.base.precision)


_RECENT: deque[Plan] = deque(maxlen=16)
"""Plans made last: a question asks for the steps of few deployments, and of each many times."""


def plan_of(deployment: Deployment, *, naive: bool = False) -> Plan:
    """The deployment compiled. naive: attention whose scores go through device memory, for comparison."""
    for plan in _RECENT:
        if plan.deployment is deployment and plan.naive == naive:
            return plan
    plan = _compile(deployment, naive)
    _RECENT.append(plan)
    return plan


def operators_of(deployment: Deployment, batch: Batch, *, naive: bool = False) -> tuple[Operator, ...]:
    """All operators of one engine step on the rank that decides, in about the order in which they run.

    Every rank of a stage has the same ones; those of all stages are listed, with the sends between them.
    """
    return plan_of(deployment, naive=naive).operators(batch)


def resident(deployment: Deployment, batch: Batch, stage: int = 0) -> tuple[int, dict[str, int]]:
    """Bytes of weights that a step reads on a rank of one stage, and the bytes it leaves unread, by what they are."""
    return plan_of(deployment).resident(batch, stage)

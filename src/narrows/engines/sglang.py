"""Facts about SGLang by version: defaults by the device's memory, and the share that weights and pools may take."""

from __future__ import annotations

import os
from functools import cache
from typing import Generic, TypeVar

import msgspec

from narrows.engines import Since, held_at, resolve_version
from narrows.engines.types import Engine, SchedulerDefault
from narrows.engines.version import Version, parse_version, version_text
from narrows.hardware import Accelerator
from narrows.models import ModelSpec
from narrows.models.mixers import KimiDelta, LatentAttention
from narrows.precision.per_tensor import PerTensor
from narrows.text import Text

NAME = "sglang"
FRACTION_FLAG = "--mem-fraction-static"
_MIB = 2**20

T = TypeVar("T")


class Fact(msgspec.Struct, Generic[T], frozen=True):
    """A value and where it is from."""

    value: T
    source: str


class MemoryClass(msgspec.Struct, frozen=True):
    """Defaults of devices with less than `below_mib` MiB (0: all others): tokens of a prefill step, and the largest
    batch whose decode step is captured, with fewer than 4 tensor-parallel ranks and from 4 on (`wide`)."""

    below_mib: int
    chunk: int
    graphs: int
    graphs_wide: int


class Reserved(msgspec.Struct, frozen=True):
    """What SGLang leaves outside the static share by itself, in MiB.

    per_replica_graph: of each replica of attention, by the largest captured batch; `per_replica_graph_more` on top
    where that is above `many_graphs`. draft_model, draft_layers: for another model that drafts, for layers that do.
    """

    least: int
    per_token: float
    fewest_tokens: int
    per_graph: float
    per_device: float
    above_mib: int
    least_above: int
    per_prefill_graph: float
    latent_prefill_graphs: int
    per_replica_graph: float
    many_graphs: int
    per_replica_graph_more: float
    draft_model: int
    draft_layers: int


class SglangFacts(msgspec.Struct, frozen=True):
    """The data file. two_pools: families whose windowed layers have a pool of their own; other families' windows are
    kept as whole sequences. window_ratio: its tokens per token of the other pool. state_ratio: bytes of constant
    state per byte of KV cache; state_slots: slots of it per running request. miscounted: families whose pools
    a version sizes by mistake. counts_drafts: the static share holds what drafts, too."""

    name: str
    oldest: str
    newest: str
    as_of: str
    source: str
    classes: tuple[Since[tuple[MemoryClass, ...]], ...]
    prefill_graphs: tuple[Since[bool], ...]
    reserves_without_graphs: tuple[Since[bool], ...]
    graphs_up_to_running: tuple[Since[bool], ...]
    two_pools: tuple[Since[tuple[str, ...]], ...]
    miscounted: tuple[Since[tuple[str, ...]], ...]
    counts_drafts: tuple[Since[bool], ...]
    padding_slots: tuple[Since[int], ...]
    window_ratio: Fact[float]
    state_ratio: Fact[float]
    state_slots: Fact[int]
    reserved: Fact[Reserved]
    vision_factor: Fact[float]
    most_running: Fact[int]
    page_size: Fact[int]
    latent_page_size: Fact[int]


@cache
def sglang_facts() -> SglangFacts:
    """All facts."""
    with open(os.path.join(os.path.dirname(__file__), "data", f"{NAME}.json"), "rb") as file:
        return msgspec.json.decode(file.read(), type=SglangFacts)


def version_of(engine: Engine) -> Version:
    """The version of an engine that `sglang_engine` made."""
    found = parse_version(engine.version)
    assert found is not None, engine.version
    return found


def sglang_engine(text: str, sign: str | None, written: str) -> Engine:
    """SGLang at one version; without one, the newest known. Raises BadInput."""
    facts = sglang_facts()
    version, assumptions = resolve_version(
        NAME, text, sign, written, facts.oldest, facts.newest, newer_patches_known=False
    )
    largest = held_at(facts.classes, version).value[-1]
    return Engine(
        name=NAME,
        version=version_text(version),
        # by itself it depends on the deployment: see `static_defaults`
        gpu_memory_utilization=0.88,
        gpu_memory_utilization_flag=FRACTION_FLAG,
        graphs_in_budget=False,
        captured="both" if held_at(facts.prefill_graphs, version).value else "decode",
        nccl_in_budget=False,
        nvlink_in_budget=False,
        counts_reserved=False,
        sampler="flashinfer",
        second_runner="none",
        second_runner_sampler=False,
        second_runner_graphs=False,
        whole_prompts=False,
        chunk_above=(0, largest.chunk),
        tokens_as_concurrency=True,
        scheduler_defaults=(SchedulerDefault(largest.chunk, facts.most_running.value),),
        measured=False,
        source=facts.source,
        as_of=facts.as_of,
        sources={"scheduler_defaults": held_at(facts.classes, version).source},
        assumptions=assumptions,
    )


class StaticDefaults(msgspec.Struct, frozen=True):
    """What SGLang chooses for a deployment. chunk: tokens of a prefill step. graphs: largest captured decode batch.
    prefill_graphs: sizes of captured prefill steps. fraction: share of the memory for weights and pools."""

    chunk: int
    graphs: int
    prefill_graphs: int
    fraction: float


def static_defaults(
    engine: Engine,
    model: ModelSpec,
    accelerator: Accelerator,
    memory: int,
    ranks: tuple[int, int],
    *,
    chunk: int | None,
    running: int | None,
    graphs: bool,
    replicas: int = 1,
    drafts: str = "",
) -> StaticDefaults:
    """The defaults on devices of `memory` bytes for (tensor-parallel, pipeline-parallel) ranks.

    replicas: of attention, among the ranks. drafts: the method of what drafts with weights of its own.
    """
    facts, version = sglang_facts(), version_of(engine)
    tp, pp = ranks
    mib = memory / _MIB
    kind = next(one for one in held_at(facts.classes, version).value if mib < one.below_mib or not one.below_mib)
    step = kind.chunk if chunk is None else chunk
    largest = kind.graphs if tp < 4 else kind.graphs_wide
    if running is not None and held_at(facts.graphs_up_to_running, version).value:
        largest = min(largest, running)
    captured = captured_sizes(step) if graphs and _captures_prefill(version, model, accelerator, pp) else 0
    known = facts.reserved.value
    reserved = known.least + max(step, known.fewest_tokens) * known.per_token + tp * pp * known.per_device
    if graphs or held_at(facts.reserves_without_graphs, version).value:
        reserved += largest * known.per_graph
    if captured:
        reserved += known.latent_prefill_graphs if _latent(model) else captured * known.per_prefill_graph
    if replicas > 1:
        more = known.per_replica_graph_more if largest > known.many_graphs else 0.0
        reserved += largest * replicas * (known.per_replica_graph + more)
    if mib > known.above_mib:
        reserved = max(reserved, known.least_above)
    if drafts:
        reserved += known.draft_model if drafts == "draft_model" else known.draft_layers
    fraction = round((mib - reserved) / mib, 3)
    if any(tower.served for tower in model.towers):
        fraction *= facts.vision_factor.value
    return StaticDefaults(step, largest if graphs else 0, captured, max(0.0, fraction))


def captured_sizes(tokens: int) -> int:
    """Prefill steps that are captured, for steps of up to `tokens` tokens.

    Source: SGLang's generate_prefill_cuda_graph_batch_sizes (Apache-2.0): steps of 4 up to 32, 16 up to 256, 32 up to
    512, 64 up to 1024, 256 up to 4096, then 512.
    """
    found, below = 0, 0
    for end, step in ((32, 4), (256, 16), (512, 32), (1024, 64), (4096, 256), (tokens, 512)):
        found += max(0, (min(end, tokens) - below) // step)
        below = end
    return found


def captured_batches(largest: int) -> int:
    """Decode steps that are captured, for batches of up to `largest`: 1, 2, 4, 8, 12, then steps of 8 up to 256, 16 up
    to 512 and 32. Source: SGLang's generate_decode_cuda_graph_batch_sizes (Apache-2.0)."""
    found = sum(size <= largest for size in (1, 2, 4, 8, 12))
    found += len(range(16, min(largest, 256) + 1, 8)) + len(range(272, min(largest, 511) + 1, 16))
    return found + len(range(512, largest + 1, 32))


def _captures_prefill(version: Version, model: ModelSpec, accelerator: Accelerator, pp: int) -> bool:
    """Whether prefill steps are captured by default: on CUDA, for text, and where the layers are on one stage."""
    if not held_at(sglang_facts().prefill_graphs, version).value or accelerator.vendor != "nvidia" or pp > 1:
        return False
    if any(tower.served for tower in model.towers) or isinstance(model.precision.scheme, PerTensor):
        return False
    return not any(isinstance(layer.mixer, KimiDelta) for layer, _ in model.kinds)


def _latent(model: ModelSpec) -> bool:
    return any(isinstance(layer.mixer, LatentAttention) for layer, _ in model.kinds)


def default_fraction_said(found: StaticDefaults, model: ModelSpec) -> Text:
    """How the default share came about."""
    if any(tower.served for tower in model.towers):
        return Text(
            "{flag} {fraction} is what SGLang takes by itself for steps of {chunk} tokens and graphs up to a batch of "
            "{graphs}, if the vision tower is about as large as ViT-L; for larger ones it takes up to a fifth less",
            flag=FRACTION_FLAG,
            fraction=f"{found.fraction:.4g}",
            chunk=found.chunk,
            graphs=found.graphs,
        )
    return Text(
        "{flag} {fraction} is what SGLang takes by itself for steps of {chunk} tokens and graphs up to a batch of "
        "{graphs}",
        flag=FRACTION_FLAG,
        fraction=f"{found.fraction:.4g}",
        chunk=found.chunk,
        graphs=found.graphs,
    )

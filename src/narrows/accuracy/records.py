"""The bundled records of what started engines reported, and the deployment that each one's settings describe."""

from __future__ import annotations

import os
from functools import cache, cached_property
from typing import Any

import msgspec

from narrows.deployment import Deployment, deploy
from narrows.engines.version import parse_version
from narrows.hardware import find_accelerator
from narrows.hardware.catalogue import accelerator_ids
from narrows.memory.activations import dense_elements, sampler_of
from narrows.memory.paging import paging
from narrows.memory.resident import loaded_beside
from narrows.memory.shard import shards
from narrows.models import ModelSpec, load_model, read_config
from narrows.models.catalogue import catalogue_entry
from narrows.text import BadInput, Text


class MemoryRecord(msgspec.Struct, frozen=True, dict=True):
    """What one engine reported at its start, per device; sizes in bytes, None where it did not say.

    structure: the catalogue entry with the model's tensors; config: fields put over that entry's, such as its
    `quantization_config`. version_inferred: not stated, but of that time. device: id of the accelerator.
    memory_in_use_bytes: what others held of the device when it started, where the source says so.
    outcome: `started`, or the stage it failed in: `oom_share` (less was free than its share), `oom_load` (weights, or
    the profiled batch beside them), `oom_kv`, `oom_graphs`, `oom_warmup` (sampling before it serves), `oom` (the stage
    is not told), `oom_run` (under load: no failure of the start).
    flags: what the run had beside its settings; `text`: images are not served, so the vision tower is not loaded.
    """

    id: str
    source: str
    engine: str
    split: str
    structure: str
    family: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    model: str = ""
    version: str | None = None
    version_inferred: bool = False
    device: str | None = None
    usable_bytes: int | None = None
    memory_in_use_bytes: int | None = None
    gpu_count: int | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    quantization: str | None = None
    model_dtype: str | None = None
    kv_cache_dtype: str | None = None
    gpu_memory_utilization: float | None = None
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    enforce_eager: bool | None = None
    block_size: int | None = None
    outcome: str | None = None
    weights_bytes: int | None = None
    kv_bytes: int | None = None
    kv_tokens: int | None = None
    gpu_blocks: int | None = None
    activation_bytes: int | None = None
    non_torch_bytes: int | None = None
    graph_bytes: int | None = None
    graph_estimate_bytes: int | None = None
    config: dict[str, Any] | None = None

    @cached_property
    def origin(self) -> str:
        """The source whose rows belong together: a repository, or one issue of a project that many people report to."""
        parts = self.source.removeprefix("https://github.com/").split("/")
        return "/".join(parts[:4] if len(parts) > 3 and parts[2] in ("issues", "pull") else parts[:2]) or self.id

    @property
    def has_device(self) -> bool:
        """Whether the device, or at least its memory, is known."""
        return self.usable_bytes is not None or self.device in accelerator_ids()


class Case(msgspec.Struct, frozen=True, dict=True):
    """A record and the deployment it describes. What follows from both is kept: scores ask for it many times."""

    record: MemoryRecord
    deployment: Deployment

    @cached_property
    def weights(self) -> int:
        """Bytes of weights per device, with what is loaded beside them, as predicted."""
        return shards(self.deployment)[0].weights + loaded_beside(self.deployment)

    @cached_property
    def pool_bytes(self) -> int | None:
        """Bytes for KV cache per device as reported, or as the blocks come to that older versions report instead.

        Where one of several ranks samples, bytes may be of another one, and blocks are of the one that decides.
        """
        one = self.record
        if not self.deployment.engine.whole_prompts or (one.kv_bytes is not None and not self.one_rank_samples):
            return one.kv_bytes
        blocks = one.gpu_blocks if one.gpu_blocks is not None else (one.kv_tokens or 0) // _BLOCK or None
        if blocks is None or blocks < 0:
            return one.kv_bytes
        found = blocks * paging(self.deployment).block_bytes
        return found if one.kv_bytes is None else min(found, one.kv_bytes)

    @cached_property
    def reason(self) -> Text | None:
        """Why the run differs from what its settings say, by rule; None where nothing is known."""
        return reason_of(self)

    @property
    def few_sequences(self) -> bool:
        """Whether its activations are those of fewer sequences than the default, which no setting states."""
        return _fewer_sequences(self)

    @property
    def one_rank_samples(self) -> bool:
        """Whether only one of several ranks samples, as on vLLM's V0: the activations of a log may be another's."""
        return self.deployment.engine.whole_prompts and self.deployment.tensor_parallel > 1

    @cached_property
    def teaches(self) -> bool:
        """Whether a coefficient can follow from it: it states a size, and has no reason of its own to differ."""
        one = self.record
        # blocks become bytes by the version's law, so the version must be stated
        pool = one.kv_bytes if one.version_inferred else self.pool_bytes
        sizes = (pool, one.activation_bytes, one.non_torch_bytes, one.graph_bytes, one.graph_estimate_bytes)
        return any(size is not None for size in sizes) and self.reason is None

    @cached_property
    def teaches_runtime(self) -> bool:
        """Whether what its process takes outside the allocator is as on other runs, whatever its activations are."""
        return self.teaches or (
            self.record.non_torch_bytes is not None and beside(self) is None and _other_sequences(self) is not None
        )


_BLOCK = 16
"""Tokens of a block in versions that report blocks alone."""


@cache
def memory_records() -> tuple[MemoryRecord, ...]:
    """All bundled records."""
    path = os.path.join(os.path.dirname(__file__), "data", "memory-records.jsonl")
    with open(path, "rb") as file:
        return tuple(msgspec.json.Decoder(MemoryRecord).decode_lines(file.read()))


_STANDS_IN = "l40s"
"""Stands for a device of which only the memory is known."""


def case_of(record: MemoryRecord) -> Case:
    """The deployment of a record. Raises BadInput with why there is none: model not read, no such engine."""
    if record.engine != "vllm":
        raise BadInput("starts of {engine} are not scored yet", engine=record.engine)
    if not record.structure:
        raise BadInput("the record names no model")
    model = _model_of(record)
    case = Case(
        record,
        deploy(
            model,
            find_accelerator(record.device if record.device in accelerator_ids() else _STANDS_IN),
            engine=f"vllm=={record.version}" if record.version else "vllm",
            tensor_parallel=record.tp or 1,
            pipeline_parallel=record.pp or 1,
            expert_parallel=record.ep or 1,
            dtype=record.model_dtype or "auto",
            kv_cache_dtype=record.kv_cache_dtype or "auto",
            max_length=record.max_model_len,
            max_num_seqs=record.max_num_seqs,
            max_num_batched_tokens=record.max_num_batched_tokens,
            utilization=record.gpu_memory_utilization,
            enforce_eager=bool(record.enforce_eager),
            device_memory=record.usable_bytes,
            memory_in_use=record.memory_in_use_bytes,
        ),
    )
    alone = record.tp is None and record.pp is None and "offload" not in record.flags
    if record.outcome == "started" and alone and case.weights > case.deployment.usable:
        raise BadInput("the weights are larger than the device, and over how many they were cut is not stated")
    return case


def _model_of(record: MemoryRecord) -> ModelSpec:
    if record.config is None:
        found = load_model(record.structure, online=False)
    else:
        found = read_config({**catalogue_entry(record.structure).config, **record.config}, name=record.model)
    if "text" not in record.flags:
        return found
    towers = tuple(msgspec.structs.replace(tower, served=False) for tower in found.towers)
    return msgspec.structs.replace(found, towers=towers)


@cache
def memory_cases() -> tuple[tuple[Case, ...], tuple[tuple[MemoryRecord, Text], ...]]:
    """(cases, records left out with the reason)."""
    cases, left_out = [], []
    for record in memory_records():
        try:
            cases.append(case_of(record))
        except BadInput as error:
            left_out.append((record, error.text))
    return tuple(cases), tuple(left_out)


def beside(case: Case) -> Text | None:
    """What else had a part in the device's memory, of which the settings say nothing: no law can foresee it."""
    record = case.record
    if "offload" in record.flags:
        return Text("part of the weights or of the cache lies in host memory")
    if "speculative" in record.flags:
        return Text("a draft model, of which nothing is stated, runs beside it")
    if "override" in record.flags:
        return Text("the number of blocks was set by hand")
    told = record.memory_in_use_bytes is not None
    if not told and record.non_torch_bytes is not None and (record.tp or 1) == 1 and record.non_torch_bytes > 2**30:
        return Text("memory outside the engine's allocator was counted that one device alone does not need")
    if "connector" in record.flags:
        return Text("a connector for KV transfer, of which nothing is stated, runs beside it")
    if "others" in record.flags and not told:
        return Text("other processes hold memory of the device")
    return None


def reason_of(case: Case) -> Text | None:
    """Why a run differs from what its settings say, by rule; None where nothing is known."""
    record, foreign = case.record, beside(case)
    if "inconsistent" in record.flags:
        return Text("the source contradicts itself: its terms do not add up at the utilization it states")
    if foreign is not None:
        return foreign
    if "driver" in record.flags:
        return Text("a driver that leaks memory while graphs are captured, as its thread says")
    if "marlin" in record.flags:
        return Text("the experts run by the Marlin kernels, which keep them wider than this device's usual ones")
    if unsettled(case):
        return Text("the same command on the same machine started at one time and failed at another")
    other = _other_sequences(case)
    if other is not None:
        return other
    if _another_share(case):
        return Text("the cache is larger than the usual share holds beside the weights, and no other share is stated")
    version = parse_version(record.version or "")
    if version is not None and version < _OLDEST:
        return Text("the version is older than the oldest whose facts are known, which are taken")
    if record.version is None:
        return Text("the version is not stated; the newest known is taken")
    return None


def _other_sequences(case: Case) -> Text | None:
    if _fewer_sequences(case):
        return Text("activations are those of fewer sequences than this version's default, and no limit is stated")
    if _more_sequences(case):
        return Text("activations are those of more sequences than this version's default, and no limit is stated")
    return None


_OLDEST = (0, 4, 0)


def unsettled(case: Case) -> bool:
    """Whether the same source has the same settings with another outcome."""
    return case.record.id in _unsettled()


@cache
def _unsettled() -> frozenset[str]:
    by_settings: dict[tuple[object, ...], list[MemoryRecord]] = {}
    for record in memory_records():
        settings = tuple(getattr(record, name) for name in _SETTINGS)
        by_settings.setdefault((record.origin, *settings), []).append(record)
    return frozenset(
        record.id
        for found in by_settings.values()
        if len({one.outcome for one in found if "others" not in one.flags}) > 1
        for record in found
    )


_SETTINGS = (
    "structure", "version", "device", "usable_bytes", "tp", "pp", "dp", "quantization", "model_dtype",
    "kv_cache_dtype", "gpu_memory_utilization", "max_model_len", "max_num_seqs", "max_num_batched_tokens",
    "enforce_eager",
)  # fmt: skip


def _another_share(case: Case) -> bool:
    """Whether a share that is not the default must have been set."""
    record, pool = case.record, case.pool_bytes
    if record.gpu_memory_utilization is not None or pool is None or not record.has_device:
        return False
    return case.deployment.budget - case.weights - pool < 0


def _fewer_sequences(case: Case) -> bool:
    record, deployment = case.record, case.deployment
    if record.activation_bytes is None or record.max_num_seqs is not None or case.one_rank_samples:
        return False
    # even a fused sampler holds 12 bytes a logit of a full batch, and one that sorts 27
    least = 13 if sampler_of(deployment) == "sort" else 6
    return record.activation_bytes < least * deployment.max_num_seqs * deployment.model.vocab


def _more_sequences(case: Case) -> bool:
    """Whether the peak is three times above what this version's default step can hold, with no limit stated."""
    record, deployment = case.record, case.deployment
    if record.activation_bytes is None or record.max_num_seqs is not None or record.max_num_batched_tokens is not None:
        return False
    layers = [layer for layer, _ in deployment.model.kinds]
    alone = msgspec.structs.replace(deployment, tensor_parallel=1, expert_parallel=1, attention_data_parallel=1)
    forward = 2 * deployment.max_num_batched_tokens * max(dense_elements(layer, alone) for layer in layers)
    # no sampler on record holds more than 44 bytes a logit
    return record.activation_bytes > 3 * max(44 * deployment.max_num_seqs * deployment.model.vocab, forward)

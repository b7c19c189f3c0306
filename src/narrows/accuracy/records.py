"""The bundled records of what started engines reported, and the deployment that each one's settings describe."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import msgspec

from narrows.deployment import Deployment, deploy
from narrows.hardware import find_accelerator
from narrows.hardware.catalogue import accelerator_ids
from narrows.models import ModelSpec, load_model, read_config
from narrows.models.catalogue import catalogue_entry
from narrows.text import BadInput, Text


class MemoryRecord(msgspec.Struct, frozen=True):
    """What one engine reported at its start, per device; sizes in bytes, None where it did not say.

    structure: the catalogue entry with the model's tensors; config: fields put over that entry's, such as its
    `quantization_config`. version_inferred: not stated, but of that time. device: id of the accelerator.
    outcome: `started`, or the stage it failed in: `oom_load` (weights, or the profiled batch beside them), `oom_kv`,
    `oom_graphs`, `oom_warmup` (sampling before it serves), `oom_run` (under load: no failure of the start).
    flags: what the run had beside its settings.
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
    gpu_count: int | None = None
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
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

    @property
    def origin(self) -> str:
        """The source whose rows belong together: a repository, or one issue of a project that many people report to."""
        parts = self.source.removeprefix("https://github.com/").split("/")
        return "/".join(parts[:4] if len(parts) > 3 and parts[2] in ("issues", "pull") else parts[:2]) or self.id

    @property
    def has_device(self) -> bool:
        """Whether the device, or at least its memory, is known."""
        return self.usable_bytes is not None or self.device in accelerator_ids()


class Case(msgspec.Struct, frozen=True):
    """A record and the deployment it describes."""

    record: MemoryRecord
    deployment: Deployment


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
        raise BadInput("no memory law of {engine} yet", engine=record.engine)
    if not record.structure:
        raise BadInput("the record names no model")
    model = _model_of(record)
    return Case(
        record,
        deploy(
            model,
            find_accelerator(record.device if record.device in accelerator_ids() else _STANDS_IN),
            engine=f"vllm=={record.version}" if record.version else "vllm",
            tensor_parallel=record.tp or 1,
            pipeline_parallel=record.pp or 1,
            dtype=record.model_dtype or "auto",
            kv_cache_dtype=record.kv_cache_dtype or "auto",
            max_length=record.max_model_len,
            max_num_seqs=record.max_num_seqs,
            max_num_batched_tokens=record.max_num_batched_tokens,
            utilization=record.gpu_memory_utilization,
            enforce_eager=bool(record.enforce_eager),
            device_memory=record.usable_bytes,
        ),
    )


def _model_of(record: MemoryRecord) -> ModelSpec:
    if record.config is None:
        return load_model(record.structure, online=False)
    return read_config({**catalogue_entry(record.structure).config, **record.config}, name=record.model)


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


def reason_of(case: Case) -> Text | None:
    """What the run had that its settings do not say, by rule; None where nothing is known."""
    record = case.record
    if "inconsistent" in record.flags:
        return Text("the source contradicts itself: its terms do not add up at the utilization it states")
    if "offload" in record.flags:
        return Text("part of the weights or of the cache lies in host memory")
    if "speculative" in record.flags:
        return Text("a draft model, of which nothing is stated, runs beside it")
    if "override" in record.flags:
        return Text("the number of blocks was set by hand")
    if record.non_torch_bytes is not None and (record.tp or 1) == 1 and record.non_torch_bytes > 2**30:
        return Text("memory outside the engine's allocator was counted that one device alone does not need")
    if "connector" in record.flags:
        return Text("a connector for KV transfer, of which nothing is stated, runs beside it")
    if _fewer_sequences(case):
        return Text("activations are those of fewer sequences than this version's default, and no limit is stated")
    if case.deployment.engine.counts_reserved:
        return Text("versions before 0.6.4 count what their allocator has reserved, of which no record tells how much")
    if record.version is None:
        return Text("the version is not stated; the newest known is taken")
    return None


def _fewer_sequences(case: Case) -> bool:
    record, deployment = case.record, case.deployment
    if record.activation_bytes is None or record.max_num_seqs is not None:
        return False
    # even a fused sampler holds 12 bytes a logit of a full batch
    return record.activation_bytes < 6 * deployment.max_num_seqs * deployment.model.vocab

"""A start of SGLang, predicted beside what its log reports: weights, pools and tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from narrows.deployment import Deployment, deploy
from narrows.diagnosis.terms import Comparison, compared
from narrows.engines import Engine, find_engine
from narrows.engines.sglang import NAME
from narrows.engines.version import parse_version
from narrows.hardware import Accelerator, accelerators, find_accelerator
from narrows.memory import Start, reserve, start
from narrows.models import ModelSpec, load_model
from narrows.observe import Observation
from narrows.precision import format_of
from narrows.quantity import Quantity
from narrows.text import BadInput, Text
from narrows.units import gib


class Beside(msgspec.Struct, frozen=True):
    """Terms predicted × reported; lacks: flags that would make a prediction possible; said: what was assumed."""

    terms: tuple[Comparison, ...]
    deployment: Deployment | None
    lacks: tuple[str, ...]
    said: tuple[Text, ...]


def sglang_beside(
    seen: Observation,
    *,
    model: str | ModelSpec | None = None,
    gpu: str | None = None,
    memory: int | None = None,
    engine: str | None = None,
) -> Beside:
    """The start that a log of SGLang describes, predicted. Raises BadInput for a bad argument only."""
    said: list[Text] = []
    found = _deployment(seen, model, gpu, memory, engine, said)
    if not isinstance(found, Deployment):
        return Beside(_rows(seen, None), None, found, tuple(said))
    try:
        begun = start(found)
    except BadInput as error:
        said.append(Text("nothing is predicted: {reason}", reason=error.text))
        return Beside(_rows(seen, None), None, (), tuple(said))
    return Beside(_rows(seen, begun), found, (), tuple(dict.fromkeys((*said, *begun.reserve.basis))))


def _deployment(
    seen: Observation,
    model: str | ModelSpec | None,
    gpu: str | None,
    memory: int | None,
    engine: str | None,
    said: list[Text],
) -> Deployment | tuple[str, ...]:
    """The deployment, or the flags that are lacking for one."""
    facts = _engine(seen, engine, said)
    spec = load_model(model) if isinstance(model, str) else model or _model(seen)
    device = find_accelerator(gpu) if gpu else _device(seen, memory)
    lacks = tuple(flag for flag, value in (("--model", spec), ("--gpu", device)) if value is None)
    if spec is None or device is None or facts is None:
        return lacks
    beside = _beside(seen)
    if beside is not None:
        said.append(beside)
        return ()
    options = _options(seen, facts, memory)
    free = seen.terms.free_at_start
    try:
        made = _deploy(spec, device, options, said)
        if memory is None and free:
            # what the log says was free holds for this machine; the rest of the device is taken before loading
            runtime = reserve(made).runtime
            made = _deploy(spec, device, {**options, "device_memory": free + runtime}, said)
            said.append(Text("the pools are predicted from the {free} that the log says were free", free=gib(free)))
    except BadInput as error:
        said.append(Text("nothing is predicted: {reason}", reason=error.text))
        return ()
    said += [*made.model.assumptions, *made.assumptions]
    return made


def _deploy(spec: ModelSpec, device: Accelerator, options: dict[str, Any], said: list[Text]) -> Deployment:
    """The deployment; where only the name of the quantization stands against it, without that name."""
    try:
        return deploy(spec, device, **options)
    except BadInput:
        if options["quantization"] is None:
            raise
    made = deploy(spec, device, **{**options, "quantization": None})
    said.append(
        Text(
            "the log says quantization {named}; weights are predicted as the config stores them ({own})",
            named=options["quantization"],
            own=spec.precision.scheme.label or spec.precision.dtype.name,
        )
    )
    return made


def _engine(seen: Observation, given: str | None, said: list[Text]) -> Engine | None:
    if given is not None:
        facts = find_engine(given)
        return facts if facts.name == NAME else None
    if seen.version is not None and parse_version(seen.version) is not None:
        return find_engine(f"{NAME}=={seen.version}")
    newest = find_engine(NAME)
    said.append(
        Text(
            "the log names no version narrows can read; the facts of {engine} are taken (--engine gives another)",
            engine=newest.label,
        )
    )
    return newest


def _model(seen: Observation) -> ModelSpec | None:
    """The log's model, where it is a path, in the catalogue or in the hub's cache: for a log the hub is not asked."""
    if not seen.model or seen.model.strip() in ("", "-") or "\0" in seen.model:
        return None
    try:
        return load_model(seen.model, online=False)
    except (BadInput, OSError, ValueError):
        return None


def _device(seen: Observation, memory: int | None) -> Accelerator | None:
    """The log's device; any, where the log states its share and its free memory, which are all that the pools need."""
    if seen.gpu:
        try:
            return find_accelerator(seen.gpu)
        except BadInput:
            pass
    total = memory or seen.terms.free_at_start
    if not total or seen.settings.mem_fraction_static is None:
        return None
    known = next(one for one in accelerators() if one.memory_kind == "device" and one.vendor == "nvidia")
    return msgspec.structs.replace(
        known, id="device", name=f"device with {gib(total)}", memory_bytes=total, compute_capability=None, notes=""
    )


def _beside(seen: Observation) -> Text | None:
    """What takes part in the memory that is not modelled."""
    settings = seen.settings
    if settings.speculative not in (None, "none", "None"):
        return Text("nothing is predicted: a draft model runs beside it, which narrows does not model for SGLang")
    if (settings.data_parallel or 1) > 1:
        return Text("nothing is predicted: with data parallelism SGLang may cut attention otherwise than the weights")
    if settings.cpu_offload:
        return Text("nothing is predicted: part of the weights lies in host memory")
    if settings.device not in (None, "cuda"):
        return Text("nothing is predicted: narrows knows SGLang's memory on CUDA devices only")
    return None


def _options(seen: Observation, facts: Engine, memory: int | None) -> dict[str, Any]:
    """Arguments of `deploy`; None where the engine's default holds."""
    settings = seen.settings
    return {
        "engine": facts.label,
        "tensor_parallel": settings.tensor_parallel or 1,
        "pipeline_parallel": settings.pipeline_parallel or 1,
        "dtype": _format(settings.dtype),
        "kv_cache_dtype": _format(settings.kv_cache_dtype),
        "max_length": settings.max_model_len,
        "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
        "utilization": settings.mem_fraction_static,
        "enforce_eager": bool(settings.enforce_eager),
        "page_size": settings.block_size,
        "quantization": None if settings.quantization in (None, "none", "None") else settings.quantization,
        "device_memory": memory,
    }


def _format(name: str | None) -> str:
    """A format that narrows knows, else the engine's own choice."""
    if name is None:
        return "auto"
    try:
        format_of(name)
    except BadInput:
        return "auto"
    return name


def _rows(seen: Observation, begun: Start | None) -> tuple[Comparison, ...]:
    terms = seen.terms
    pool = begun.kv if begun else None
    kv: Quantity | None = None
    state: Quantity | None = None
    if begun is not None and pool is not None:
        slots = begun.pages.state_slots(int(pool.value))
        kept = (slots + begun.pages.padding) * begun.pages.state
        kv = msgspec.structs.replace(
            pool,
            value=pool.value - kept,
            low=None if pool.low is None else pool.low - kept,
            high=None if pool.high is None else pool.high - kept,
        )
        # the pool of state has one slot more than it gives out
        state = Quantity((slots + 1) * begun.pages.state, "B", "predicted") if begun.pages.state else None
    reserved = begun.reserve if begun else None
    rows: Sequence[tuple[str, str, Quantity | None, float | None]] = (
        ("weights", "B", Quantity(begun.weights, "B", "predicted") if begun else None, terms.weights),
        ("graphs", "B", Quantity(reserved.graphs, "B", "assumed") if reserved else None, terms.graphs),
        ("state", "B", state, terms.state),
        ("kv_cache", "B", kv, terms.kv_cache),
        ("kv_tokens", "tokens", Quantity(begun.tokens, "tokens", "predicted") if begun else None, seen.kv_tokens),
    )
    return compared(rows)

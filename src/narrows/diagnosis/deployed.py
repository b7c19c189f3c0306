"""From what a log says (and what its reader adds) to a Deployment, or to the flags that would make one."""

from __future__ import annotations

import os
import re
from typing import Any, Final

import msgspec

from narrows.calibration import coefficients
from narrows.deployment import Deployment, deploy
from narrows.diagnosis.drafted import draft_seen
from narrows.engines import Engine, find_engine
from narrows.engines.version import parse_version
from narrows.hardware import Accelerator, accelerators, find_accelerator
from narrows.memory.paging import paging
from narrows.models import ModelSpec, load_model
from narrows.models.experts import has_experts
from narrows.observe import Observation
from narrows.precision import format_of
from narrows.text import BadInput, Text
from narrows.units import GIB, MIB, binary, gib

CONTEXT: Final = GIB
"""What a process's own context and libraries may hold before it loads anything; above it someone else holds memory."""
_DRIVER: Final = re.compile(r"(\d{3})\.")
_SAME_MEMORY: Final = 0.005
"""Logs print hundredths of a GiB, and drivers differ by some MiB."""


class Deployed(msgspec.Struct, frozen=True):
    """The deployment of a log. `lacks` are the flags that would make a prediction possible where there is none.

    options: the arguments of `deploy`, so that a change to one of them can be tried.
    """

    engine: Engine | None
    model: ModelSpec | None
    accelerator: Accelerator | None
    options: dict[str, Any]
    deployment: Deployment | None
    lacks: tuple[str, ...]
    assumptions: tuple[Text, ...]


def deployed(
    seen: Observation,
    *,
    model: str | ModelSpec | None = None,
    gpu: str | None = None,
    memory: int | None = None,
    engine: str | None = None,
) -> Deployed:
    """What ran, as far as the log tells; arguments stand in place of it. Raises BadInput for a bad argument only."""
    said: list[Text] = []
    facts = _engine(seen, engine, said)
    spec = load_model(model) if isinstance(model, str) else model or _model(seen, said)
    total = memory or seen.terms.total or (seen.oom.total if seen.oom else None)
    device = find_accelerator(gpu) if gpu else _device(seen, total, facts, said)
    options = _options(seen, total, facts) | _shared_out(seen, spec)
    if facts is not None and facts.offload != "none" and (seen.settings.cpu_offload or 0) > MIB:
        options["cpu_offload_gb"] = (seen.settings.cpu_offload or 0) / GIB
    options["draft"] = draft_seen(seen.settings.speculative, spec, said)
    lacks = () if facts is None else tuple(f for f, v in (("--model", spec), ("--gpu", device)) if v is None)
    made = None
    if facts is not None and spec is not None and device is not None:
        if device.is_cpu and total is None:
            lacks = ("--memory",)
        else:
            made = _deploy(spec, device, options, said)
    if made is not None:
        facts = made.engine
        said += [*made.model.assumptions, *made.assumptions]
    return Deployed(facts, spec, device, options, made, lacks, tuple(dict.fromkeys(said)))


def _deploy(spec: ModelSpec, device: Accelerator, options: dict[str, Any], said: list[Text]) -> Deployment | None:
    """The deployment; where only the name of the quantization stands against it, without that name."""
    named = options["quantization"]
    for quantization in dict.fromkeys((named, None)):
        try:
            made = deploy(spec, device, **options | {"quantization": quantization})
            for stage in range(made.pipeline_parallel):
                paging(made, stage)  # refuses a cache whose pages are not known
        except BadInput as error:
            reason = error.text
            continue
        options["quantization"] = quantization
        if quantization != named:
            said.append(
                Text(
                    "the log says quantization {named}; weights are predicted as the config stores them ({own})",
                    named=named,
                    own=spec.precision.scheme.label or spec.precision.dtype.name,
                )
            )
        return made
    said.append(Text("nothing is predicted: {reason}", reason=reason))
    return None


def _engine(seen: Observation, given: str | None, said: list[Text]) -> Engine | None:
    if given is not None:
        found = find_engine(given)
        if found.name == "vllm":
            return found
        if seen.engine != found.name:
            said.append(
                Text("--engine names {engine}, whose log this is not, so nothing is predicted", engine=found.name)
            )
        return None
    if seen.engine != "vllm":
        return None
    if seen.version is None or parse_version(seen.version) is None:
        if _worded_as_v0(seen):
            old = find_engine("vllm==0.6")
            said.append(
                Text(
                    "the log names no version; it is worded as the V0 engine's are, so the facts of {engine} are taken "
                    "(--engine gives another)",
                    engine=old.label,
                )
            )
            return old
        newest = find_engine("vllm")
        said.append(
            Text(
                "the log names no version narrows can read; the facts of {engine} are taken (--engine gives another)",
                engine=newest.label,
            )
        )
        return newest
    return find_engine(f"vllm=={seen.version}")


def _worded_as_v0(seen: Observation) -> bool:
    """Wordings that only V0 has: `tokens that can be stored in KV cache`, `# GPU blocks`, its ledger in one line."""
    old = ("can be stored in KV cache", "# GPU blocks: ", "the rest of the memory reserved for KV Cache is")
    return any(words in text for text in (seen.error or "", *(e.text for e in seen.evidence)) for words in old)


def _model(seen: Observation, said: list[Text]) -> ModelSpec | None:
    """The log's model, where it is a path, in the catalogue or in the hub's cache: for a log the hub is not asked."""
    if seen.engine not in ("vllm", None) or not seen.model or seen.model.strip() in ("", "-") or "\0" in seen.model:
        return None
    try:
        return load_model(seen.model, online=False)
    except (BadInput, OSError, ValueError):
        folder = os.path.basename(seen.model.rstrip("/"))
        said.append(
            Text(
                "'{model}' is not in the catalogue nor a path here, so nothing of it is predicted; --model takes its "
                "config.json",
                model=folder if len(seen.model) > 60 else seen.model,
            )
        )
        return None


def _device(seen: Observation, total: int | None, facts: Engine | None, said: list[Text]) -> Accelerator | None:
    """By name, else by memory: any known device of that size, if all of them get the same defaults."""
    if on_cpu(seen):
        host = next(device for device in accelerators() if device.is_cpu)
        return msgspec.structs.replace(host, id="cpu", name="host processor", notes="")
    if seen.gpu:
        try:
            return find_accelerator(seen.gpu)
        except BadInput:
            said.append(Text("'{gpu}', which the log names, is not in the catalogue", gpu=seen.gpu[:60]))
    if not total or facts is None:
        return None
    same = [
        device
        for device in accelerators()
        if device.usable_bytes and abs(device.usable_bytes / total - 1) <= _SAME_MEMORY
    ]
    if same and len({facts.scheduler_default(total, device.name) for device in same}) == 1:
        said.append(
            Text(
                "the log names no accelerator; {gpu} is assumed, which has {total} usable (--gpu gives another)",
                gpu=same[0].name,
                total=gib(total),
            )
        )
        return same[0]
    said.append(
        Text(
            "the log names no accelerator; any device with {total} usable is assumed (--gpu names it)", total=gib(total)
        )
    )
    known = next(device for device in accelerators() if device.memory_kind == "device")
    return msgspec.structs.replace(
        known, id="device", name=f"device with {binary(total)}", memory_bytes=total, compute_capability=None, notes=""
    )


def on_cpu(seen: Observation) -> bool:
    """Whether the engine ran on the host's processor."""
    return seen.settings.device == "cpu" or (seen.version or "").endswith("cpu")


def _options(seen: Observation, total: int | None, facts: Engine | None) -> dict[str, Any]:
    """Arguments of `deploy`; None where the engine's default holds."""
    settings = seen.settings
    tokens = settings.max_num_batched_tokens
    if facts is not None and facts.whole_prompts and settings.enable_chunked_prefill and tokens is None:
        tokens = facts.chunk_above[1]
    return {
        "engine": facts.label if facts is not None else "vllm",
        "tensor_parallel": settings.tensor_parallel or 1,
        "pipeline_parallel": settings.pipeline_parallel or 1,
        "dtype": _format(settings.dtype, "auto"),
        "kv_cache_dtype": _format(settings.kv_cache_dtype, "fp8" if "8" in (settings.kv_cache_dtype or "") else "auto"),
        "max_length": settings.max_model_len,
        "max_num_seqs": settings.max_num_seqs,
        "max_num_batched_tokens": tokens,
        "utilization": settings.gpu_memory_utilization,
        "enforce_eager": bool(settings.enforce_eager),
        "kv_cache_memory_bytes": settings.kv_cache_memory_bytes,
        "quantization": None if settings.quantization in (None, "none") else settings.quantization,
        "device_memory": total,
        "memory_in_use": _held(seen, total),
        "driver": int(found[1]) if (found := _DRIVER.match(settings.driver or "")) else None,
        "engine_core": settings.engine_core if settings.engine_core in ("V0", "V1") else None,
    }


def _shared_out(seen: Observation, model: ModelSpec | None) -> dict[str, int]:
    """How the experts are shared: by the ranks of all replicas of attention, whole or cut."""
    if model is None or not has_experts(model):
        return {}
    replicas = seen.settings.data_parallel or 1
    ranks = replicas * (seen.settings.tensor_parallel or 1)
    return {"attention_data_parallel": replicas, "expert_parallel": ranks if seen.settings.expert_parallel else 1}


def _held(seen: Observation, total: int | None) -> int | None:
    """Bytes that others hold, by the log: as a failed allocation lists them, or what was not free at the start."""
    if on_cpu(seen) or total is None:
        return None
    if seen.oom is not None and seen.oom.other_processes is not None:
        held = seen.oom.other_processes
    elif seen.terms.free_at_start is not None and total - seen.terms.free_at_start > CONTEXT:
        # the engine's own context is part of what was not free
        held = total - seen.terms.free_at_start - int(coefficients("vllm")["context_bytes"].low)
    else:
        return None
    return held if 0 < held < total else None


def _format(name: str | None, otherwise: str) -> str:
    """A format that narrows knows; engines have names for layouts beside (`fp8_ds_mla`)."""
    if name is None or name == "auto":
        return "auto"
    try:
        format_of(name)
    except BadInput:
        return otherwise
    return name

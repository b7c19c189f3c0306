"""A deployment on SGLang: its options resolved, and what it cannot have refused."""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.engines.sglang import default_fraction_said, sglang_facts, static_defaults
from narrows.engines.types import Engine, SchedulerDefault
from narrows.hardware import Accelerator
from narrows.models import ModelSpec
from narrows.models.mixers import LatentAttention
from narrows.text import BadInput, Text

_MOST = 2**31 - 1


def resolved(
    engine: Engine,
    model: ModelSpec,
    accelerator: Accelerator,
    memory: int,
    ranks: tuple[int, int],
    *,
    replicas: int,
    drafts: str,
    chunk: int | None,
    running: int | None,
    graphs: bool,
    fraction: float | None,
    page_size: int | None,
    max_total_tokens: int | None,
    kv_cache_memory_bytes: int | None,
    kv_cache_dtype: str,
    assumptions: list[Text],
) -> tuple[Engine, SchedulerDefault, dict[str, Any]]:
    """(the engine with its share for this deployment, its scheduler's defaults, fields of the deployment).

    memory: bytes of a device as its driver states them, by which SGLang chooses. ranks: (of tensor parallelism, with
    all replicas of attention, stages). replicas: of attention, which share out the tokens of a prefill step. drafts:
    the method of what drafts with weights of its own.
    """
    if accelerator.is_cpu:
        raise BadInput("narrows knows SGLang's memory on GPUs only; name one with --gpu")
    if kv_cache_memory_bytes is not None:
        raise BadInput("--kv-cache-memory-bytes is no option of SGLang; use --max-total-tokens, in tokens")
    for flag, value in (("--page-size", page_size), ("--max-total-tokens", max_total_tokens)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST):
            raise BadInput(
                "{flag} is {value}; it must be a whole number from 1 to {most}",
                flag=flag,
                value=str(value)[:40],
                most=_MOST,
            )
    facts = sglang_facts()
    if chunk is not None and not (isinstance(chunk, int) and 1 <= chunk <= _MOST):
        raise BadInput(
            "{flag} is {value}; it must be a whole number from 1 to {most}",
            flag="--chunked-prefill-size",
            value=str(chunk)[:40],
            most=_MOST,
        )
    found = static_defaults(
        engine,
        model,
        accelerator,
        memory,
        ranks,
        chunk=chunk,
        running=running,
        graphs=graphs,
        replicas=replicas,
        drafts=drafts,
    )
    if fraction is None:
        if replicas > 1 or drafts:
            assumptions.append(
                Text(
                    "what SGLang sets aside for replicas of attention and for drafts was read in its versions 0.5.3 to "
                    "0.5.6 and is assumed of later ones; --mem-fraction-static with the value of its log is exact"
                )
            )
        if found.fraction <= 0:
            raise BadInput(
                "SGLang would leave no memory for weights and KV cache on one {gpu}; give --mem-fraction-static, or a "
                "smaller --chunked-prefill-size",
                gpu=accelerator.name,
            )
        assumptions.append(default_fraction_said(found, model))
    if accelerator.vendor != "nvidia":
        assumptions.append(
            Text(
                "workspaces of attention backends on {vendor} devices can take tens of GiB beside this, which are not "
                "in the figures",
                vendor=accelerator.vendor,
            )
        )
    sparse = any(isinstance(layer.mixer, LatentAttention) and layer.mixer.index_heads for layer, _ in model.kinds)
    usual = facts.latent_page_size.value if sparse else facts.page_size.value
    if sparse and kv_cache_dtype == "auto" and (accelerator.capability or (0, 0))[0] == 10:
        kv_cache_dtype = "fp8"
        assumptions.append(
            Text(
                "SGLang keeps the KV cache of models with a sparse indexer in FP8 on this device, unless told otherwise"
            )
        )
    fields: dict[str, Any] = {
        "kv_cache_dtype": kv_cache_dtype,
        "graph_batch": found.graphs,
        "prefill_graphs": found.prefill_graphs,
        "page_size": usual if page_size is None else page_size,
        "max_total_tokens": max_total_tokens,
    }
    if replicas > 1:
        # source: SGLang's ServerArgs (Apache-2.0): chunked_prefill_size is divided by dp_size
        fields["chunk"] = max(1, found.chunk // replicas)
    engine = msgspec.structs.replace(engine, gpu_memory_utilization=min(1.0, found.fraction) or 0.88)
    return engine, SchedulerDefault(found.chunk, facts.most_running.value), fields

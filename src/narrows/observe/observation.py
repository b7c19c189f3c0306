"""What an engine's log says: plain values, and the lines that said them. Sizes are bytes, times seconds.

A field is None where the log does not say. Nothing here is computed from the model or guessed.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Outcome = Literal["started", "failed", "serving", "unknown"]
FailureStage = Literal["arguments", "load", "profiling", "kv allocation", "graph capture", "warm-up", "under load"]


class Settings(msgspec.Struct, frozen=True):
    """How the engine was told to run, by its own dump of arguments and configuration; `none` where it says none."""

    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    expert_parallel: bool | None = None
    context_parallel: int | None = None
    dtype: str | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    max_model_len: int | None = None
    """Tokens of the longest request; after automatic fitting, what was fitted."""
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    micro_batch: int | None = None
    gpu_memory_utilization: float | None = None
    mem_fraction_static: float | None = None
    enforce_eager: bool | None = None
    block_size: int | None = None
    kv_cache_memory_bytes: int | None = None
    swap_space: int | None = None
    """Host bytes per device for swapped KV blocks (V0)."""
    cpu_offload: int | None = None
    enable_prefix_caching: bool | None = None
    enable_chunked_prefill: bool | None = None
    speculative: str | None = None
    load_format: str | None = None
    driver: str | None = None
    """Version of the accelerator's driver, where the log has what collect_env or nvidia-smi print."""
    engine_core: str | None = None
    """`V0` or `V1`, where the engine's version has both."""
    device: str | None = None


class Terms(msgspec.Struct, frozen=True):
    """Bytes of one device, as the engine reported them."""

    total: int | None = None
    free_at_start: int | None = None
    requested: int | None = None
    weights: int | None = None
    draft: int | None = None
    """Weights of a draft model, where the engine lists them apart."""
    activations: int | None = None
    """Peak of the profiling run over the weights; llama.cpp: compute buffers."""
    peak_torch: int | None = None
    """Peak that torch allocated, weights included (vLLM 0.6.4 – 0.6.6)."""
    non_torch: int | None = None
    graphs: int | None = None
    """What the captured graphs took; negative where the engine's own difference came out so."""
    graphs_estimated: int | None = None
    kv_cache: int | None = None
    draft_kv_cache: int | None = None
    state: int | None = None
    free_after: int | None = None


class OutOfMemory(msgspec.Struct, frozen=True):
    """The first allocation that failed, as torch or the backend described it."""

    tried: int | None = None
    total: int | None = None
    free: int | None = None
    in_use_by_this_process: int | None = None
    other_processes: int | None = None
    """Sum over the processes named by number, where this process is listed apart from them."""
    named_processes: int | None = None
    """The same sum where this process is not listed apart: in a container it may be this process itself."""
    allocated_by_torch: int | None = None
    private_pools: int | None = None
    reserved_unallocated: int | None = None
    device: str | None = None


class Stage(msgspec.Struct, frozen=True):
    """One timed step of the start. `nested` steps lie inside another one: do not add them."""

    name: str
    seconds: float
    nested: bool = False
    bytes: int | None = None


class Serving(msgspec.Struct, frozen=True):
    """The last periodic report of a serving engine, and the peak of its KV usage (share of the pool, 0 – 1)."""

    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    peak_kv_usage: float | None = None
    peak_waiting: int | None = None
    prompt_throughput: float | None = None
    """Tokens per second."""
    generation_throughput: float | None = None
    preemptions: int | None = None


class Evidence(msgspec.Struct, frozen=True):
    """A line that was read: its number in the file (from 1), the fields it gave, its text (printable, ≤ 300)."""

    line: int
    fields: tuple[str, ...]
    text: str


class Observation(msgspec.Struct, frozen=True):
    """One start of an engine, as its log tells it."""

    engine: str | None = None
    version: str | None = None
    outcome: Outcome = "unknown"
    stage: FailureStage | None = None
    """Where a failed start stopped; None where the log does not tell."""
    model: str | None = None
    architecture: str | None = None
    gpu: str | None = None
    settings: Settings = Settings()
    terms: Terms = Terms()
    """Of the binding rank (the smallest KV cache), completed with what only other ranks said."""
    ranks: dict[str, Terms] = {}
    binding_rank: str | None = None
    arguments: str | None = None
    """The dump of the user's arguments, whole (≤ 64 KiB), secrets masked: `{'model': …}` or `(model=…)`."""
    kv_tokens: int | None = None
    """As printed; what it means depends on the version (DESIGN.md §5.10)."""
    gpu_blocks: int | None = None
    max_concurrency: float | None = None
    concurrency_length: int | None = None
    """Tokens per request for which `max_concurrency` is stated."""
    estimated_max_len: int | None = None
    needed_bytes: int | None = None
    oom: OutOfMemory | None = None
    error: str | None = None
    """The deciding line, printable, ≤ 300 characters."""
    timeline: tuple[Stage, ...] = ()
    seconds_to_ready: float | None = None
    """Between the first and the last timestamp of the start, where the log has both."""
    serving: Serving | None = None
    evidence: tuple[Evidence, ...] = ()
    first_line: int = 1
    earlier_starts: int = 0
    """Of the last start: how many starts of the log were counted and not kept."""
    complete: bool = True
    """False where reading stopped at the size limit."""


def missing(observation: Observation) -> tuple[str, ...]:
    """What a prediction needs and the log does not say, by field name, most important first."""
    settings = observation.settings
    needed = {
        "model": observation.model,
        "gpu": observation.gpu,
        "version": observation.version,
        "tensor_parallel": settings.tensor_parallel,
        "max_model_len": settings.max_model_len,
        "gpu_memory_utilization": settings.gpu_memory_utilization or settings.kv_cache_memory_bytes,
    }
    if observation.engine != "vllm":
        needed.pop("gpu_memory_utilization")
    if observation.engine == "sglang":
        needed["mem_fraction_static"] = settings.mem_fraction_static
    return tuple(name for name, value in needed.items() if value is None)

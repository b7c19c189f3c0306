"""What a user asks for, resolved to a `Deployment`.

Every question takes one. What the user leaves open is filled from the engine's defaults; what cannot run is refused.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from narrows.deployment.adapters import check_rank
from narrows.deployment.cache import cache_format
from narrows.deployment.core import core_of, one_token_each, step_of, within_step
from narrows.deployment.counts import MOST_RANKS, whole
from narrows.deployment.draft import check_draft
from narrows.deployment.split import check_experts, check_split, replicated
from narrows.deployment.types import Deployment, Draft
from narrows.engines import Engine, find_engine
from narrows.engines.on_load import as_kept, partitioned
from narrows.engines.speculative import WEIGHTLESS
from narrows.hardware import Accelerator
from narrows.models import ModelSpec
from narrows.models.mixers import LatentAttention, Uncached
from narrows.models.named import stored_by_name
from narrows.precision import FORMATS, Format, format_of
from narrows.precision.named import named_scheme
from narrows.precision.per_tensor import PerTensor
from narrows.text import BadInput, Text
from narrows.units import binary


def deploy(
    model: ModelSpec,
    accelerator: Accelerator,
    *,
    engine: str = "vllm",
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    dtype: str = "auto",
    kv_cache_dtype: str = "auto",
    max_length: int | None = None,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    utilization: float | None = None,
    enforce_eager: bool = False,
    kv_cache_memory_bytes: int | None = None,
    quantization: str | None = None,
    device_memory: int | None = None,
    cache_type_v: str | None = None,
    swa_full: bool = False,
    page_size: int | None = None,
    max_total_tokens: int | None = None,
    expert_parallel: int = 1,
    attention_data_parallel: int = 1,
    memory_in_use: int | None = None,
    engine_core: str | None = None,
    driver: int | None = None,
    adapters: tuple[int, int] | None = None,
    cpu_offload_gb: float | None = None,
    draft: Draft | None = None,
) -> Deployment:
    """Resolve a deployment. Raises BadInput for what cannot run: a split that does not come out even, a length of 0.

    quantization: what the engine makes of an unquantized checkpoint while it loads (`fp8`, `bitsandbytes`, …), the
    name of the checkpoint's own method, or a file type of llama.cpp (`Q4_K_M`), as which the model is then taken to be
    stored; resident bytes follow it, the checkpoint does not.

    device_memory: usable bytes per device, in place of the catalogue's. cache_type_v, swa_full: of llama.cpp, whose
    kv_cache_dtype is a type of GGML: the type of values, and windows kept whole. page_size, max_total_tokens: of
    SGLang: tokens of a page, and of its pool at most. expert_parallel, attention_data_parallel: see `Deployment`.
    memory_in_use: bytes of each device that others hold when the engine starts. engine_core: `V0` or `V1`, of versions
    of vLLM that have both (its VLLM_USE_V1); None: the one that the version takes by itself.
    driver: major version of the driver, on which the memory of CUDA graphs depends. adapters: see
    `Deployment`. cpu_offload_gb: GiB of weights per device that are to stay in host memory. draft: what
    drafts for the model.
    """
    facts = find_engine(engine)
    assumptions: list[Text] = [*facts.assumptions, *_encoded(model)]
    model = _quantized(model, quantization, facts.name, assumptions)
    llama = facts.name == "llama.cpp"
    if llama:
        from narrows.engines.llamacpp_model import as_gguf, cache_types, only_layers_are_split

        for flag, given in (
            (facts.gpu_memory_utilization_flag, utilization),
            ("--kv-cache-memory-bytes", kv_cache_memory_bytes),
            ("--enforce-eager", enforce_eager or None),
            (f"--quantization {quantization}", None if isinstance(model.precision.scheme, PerTensor) else quantization),
        ):
            if given is not None:
                raise BadInput("{flag} is no option of llama.cpp; leave it out", flag=flag)
        model = as_gguf(model, assumptions)
        if draft is not None and draft.model is not None:
            draft = msgspec.structs.replace(draft, model=as_gguf(draft.model, assumptions))
        only_layers_are_split(tensor_parallel)
        cache_k, cache_v = cache_types(model, kv_cache_dtype, cache_type_v, assumptions)
    elif cache_type_v is not None or swa_full:
        raise BadInput("--cache-type-v and --swa-full are options of llama.cpp; add --engine llama.cpp")
    if isinstance(model.precision.scheme, PerTensor) and not llama:
        assumptions.append(Text("the memory of {engine} was not scored on GGUF files", engine=facts.name))
    if not facts.latent_cache and any(isinstance(layer.mixer, LatentAttention) for layer, _ in model.kinds):
        assumptions.append(
            Text(
                "{engine} keeps keys and values of every head, padded to 256, in place of the latent",
                engine=facts.label,
            )
        )
    tp, pp = whole("--tp", tensor_parallel, MOST_RANKS), whole("--pp", pipeline_parallel, MOST_RANKS)
    check_split(model, tp, pp)
    check_experts(model, tp, expert_parallel, attention_data_parallel, facts.name)
    ranks = tp * attention_data_parallel
    assumptions += partitioned(model, tp, facts.name, ranks // expert_parallel)
    usable = _usable(accelerator, device_memory, assumptions)
    weights_dtype = _dtype(model, dtype, assumptions)
    if facts.name == "vllm":
        facts = core_of(
            facts,
            model,
            accelerator,
            dtype=weights_dtype,
            kv=cache_format(model, kv_cache_dtype, weights_dtype),
            pipeline_parallel=pp,
            asked=engine_core,
            assumptions=assumptions,
        )
    defaults = facts.scheduler_default(usable, accelerator.name)
    chosen: dict[str, Any] = {}
    if facts.name == "sglang":
        from narrows.engines.sglang_deployment import resolved

        facts, defaults, chosen = resolved(
            facts,
            model,
            accelerator,
            usable if device_memory is not None else accelerator.memory_bytes,
            (ranks, pp),
            replicas=attention_data_parallel,
            drafts=draft.method if draft is not None and draft.method not in WEIGHTLESS else "",
            chunk=max_num_batched_tokens,
            running=max_num_seqs,
            graphs=not enforce_eager,
            fraction=utilization,
            page_size=page_size,
            max_total_tokens=max_total_tokens,
            kv_cache_memory_bytes=kv_cache_memory_bytes,
            kv_cache_dtype=kv_cache_dtype,
            assumptions=assumptions,
        )
    elif page_size is not None or max_total_tokens is not None:
        raise BadInput("--page-size and --max-total-tokens are options of SGLang; add --engine sglang")
    check_rank(facts, adapters)
    if chosen.get("chunk") is not None:
        max_num_batched_tokens = chosen.pop("chunk")
    assumptions += check_draft(draft, model, facts, tp, pp)
    assumptions += replicated(facts, tp, attention_data_parallel, expert_parallel)
    length = _length(model, max_length, assumptions)
    sequences = whole("--max-num-seqs", defaults.max_num_seqs if max_num_seqs is None else max_num_seqs)
    if facts.most_sequences and sequences > facts.most_sequences:
        raise BadInput(
            "{n} sequences at once are more than {engine} can have ({most} slots); ask for at most {most}",
            n=sequences,
            engine=facts.name,
            most=facts.most_sequences,
        )
    if facts.name == "vllm" and max_num_batched_tokens is not None:
        step = whole("--max-num-batched-tokens", max_num_batched_tokens)
        if max_num_seqs is not None:
            one_token_each(sequences, step)
        elif step < sequences:
            sequences = within_step(step, sequences, facts, assumptions)
    return Deployment(
        model=model,
        accelerator=accelerator,
        usable=usable,
        engine=facts,
        tensor_parallel=tp,
        pipeline_parallel=pp,
        dtype=weights_dtype,
        kv=cache_k if llama else cache_format(model, chosen.pop("kv_cache_dtype", kv_cache_dtype), weights_dtype),
        kv_v=cache_v if llama else None,
        swa_full=swa_full,
        max_length=length,
        max_num_seqs=sequences,
        max_num_batched_tokens=whole(
            "--max-num-batched-tokens",
            step_of(facts, model, accelerator, length, defaults, sequences)
            if max_num_batched_tokens is None
            else max_num_batched_tokens,
        ),
        utilization=_share(facts, utilization),
        graphs=not enforce_eager,
        kv_cache_bytes=None
        if kv_cache_memory_bytes is None
        else whole("--kv-cache-memory-bytes", kv_cache_memory_bytes, 2**50),
        assumptions=tuple(assumptions),
        expert_parallel=expert_parallel,
        attention_data_parallel=attention_data_parallel,
        memory_in_use=_in_use(memory_in_use, usable, accelerator.name),
        driver=driver,
        usable_more=max(0, (accelerator.usable_most_bytes or 0) - usable) if device_memory is None else 0,
        adapters=adapters,
        draft=draft,
        offload=_offload(facts, accelerator, cpu_offload_gb),
        **chosen,
    )


def _encoded(model: ModelSpec) -> list[Text]:
    """What is taken of an encoder-decoder. Raises BadInput for a model that keeps nothing of its tokens.

    vLLM serves Whisper among them; the others need a plugin (its documentation of supported models).
    """
    rows = [row for _, row in model.cache_rows()]
    if all(isinstance(layer.mixer, Uncached) for layer, _ in model.kinds):
        raise BadInput(
            "{model} reads all tokens at once and keeps nothing of them: it has no KV cache to fit and no decode, and "
            "narrows does not predict it; 'narrows models' tells its size",
            model=model.name,
        )
    crossed = [row for row in rows if row.encoder]
    if not crossed:
        return []
    if crossed[0].fixed is not None:
        return [
            Text(
                "beside its own tokens every sequence keeps keys and values of the encoder's {tokens}",
                tokens=crossed[0].fixed,
            )
        ]
    return [
        Text(
            "beside its own tokens every sequence keeps keys and values of as many of the encoder's; an engine may "
            "need a plugin for {family}",
            family=model.family,
        )
    ]


def _quantized(model: ModelSpec, wanted: str | None, engine: str, assumptions: list[Text]) -> ModelSpec:
    """The model as the engine keeps it; a file type of llama.cpp is how it is stored already."""
    named = named_scheme(wanted) if wanted is not None else None
    if named is not None:
        return stored_by_name(model, named)
    if isinstance(model.precision.scheme, PerTensor) and wanted in (None, "gguf"):
        return model
    # llama.cpp quantizes nothing while it loads; what its files can be is told above
    return model if engine == "llama.cpp" else as_kept(model, wanted, engine, assumptions)


def _share(engine: Engine, utilization: float | None) -> float:
    if utilization is None:
        return engine.gpu_memory_utilization
    if not (isinstance(utilization, int | float) and math.isfinite(utilization) and 0 < utilization <= 1):
        raise BadInput(
            "{flag} is {value}; it must be a share above 0 and up to 1, such as 0.9",
            flag=engine.gpu_memory_utilization_flag,
            value=str(utilization)[:40],
        )
    return float(utilization)


def _usable(accelerator: Accelerator, given: int | None, assumptions: list[Text]) -> int:
    if given is not None:
        if not 2**20 <= given <= 2**50:
            raise BadInput("--memory is {value} bytes; a device has between 1 MiB and 1 PiB", value=given)
        return given
    usable, kind, basis = accelerator.usable
    if kind == "assumed":
        assumptions.append(Text("usable memory of {gpu} is assumed: {basis}", gpu=accelerator.name, basis=basis))
    if accelerator.usable_most_bytes is not None:
        assumptions.append(
            Text(
                "usable memory of {gpu} is taken as {least}, the least that systems report; others report up to "
                "{most} ({source})",
                gpu=accelerator.name,
                least=binary(usable),
                most=binary(accelerator.usable_most_bytes),
                source=accelerator.usable_source,
            )
        )
    return usable


def _in_use(given: int | None, usable: int, gpu: str) -> int:
    """Bytes that others hold; 0 where nothing is said of them."""
    if given is None:
        return 0
    if isinstance(given, bool) or not 0 <= given < usable:
        raise BadInput(
            "--memory-in-use is {value}; it is what others hold of a device, less than the {usable} of {gpu}",
            gpu=gpu,
            value=binary(given),
            usable=binary(usable),
        )
    return given


def _offload(engine: Engine, accelerator: Accelerator, gib: float | None) -> int:
    """Bytes to leave in host memory. Raises BadInput where the engine has no such option."""
    if not gib:
        return 0
    if isinstance(gib, bool) or not (isinstance(gib, int | float) and 0 < gib < 2**20):
        raise BadInput("--cpu-offload-gb is {value}; it must be a size in GiB, such as 8", value=str(gib)[:40])
    if engine.offload == "none" or accelerator.is_cpu:
        raise BadInput(
            "--cpu-offload-gb is no option of {engine} on {gpu} that narrows knows; leave it out",
            engine=engine.label,
            gpu=accelerator.name,
        )
    return int(gib * 2**30)


def _length(model: ModelSpec, given: int | None, assumptions: list[Text]) -> int:
    if given is None:
        if not model.max_length:
            raise BadInput("the config names no longest length; add --max-len with the length to plan for")
        return model.max_length
    length = whole("--max-len", given)
    if model.max_length and length > model.max_length:
        assumptions.append(
            Text(
                "{length} tokens is beyond the model's own limit of {limit}; engines refuse it unless told otherwise",
                length=length,
                limit=model.max_length,
            )
        )
    return length


def _dtype(model: ModelSpec, given: str, assumptions: list[Text]) -> Format:
    own = model.precision.dtype
    if given == "auto":
        if own.bits > 16:
            assumptions.append(
                Text("a {own} checkpoint is served in bfloat16, as the engine does by itself", own=own.name)
            )
            return FORMATS["bfloat16"]
        return own
    wanted = format_of(given)
    if wanted.name not in ("float32", "float16", "bfloat16"):
        raise BadInput(
            "--dtype is {value}; it names the format of unquantized weights: float32, float16, bfloat16 or auto. "
            "For fewer bits give the config of a quantized checkpoint",
            value=given[:40],
        )
    return wanted

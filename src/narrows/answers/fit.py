"""`fit`: does a model fit, and how much work fits beside it?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from narrows.answers.base import command_line
from narrows.answers.drafts import with_draft
from narrows.answers.first import said_first
from narrows.answers.fit_types import Candidate, Fit, Moment, RuleOfThumb
from narrows.answers.mend import mends_of
from narrows.answers.model import model_facts
from narrows.answers.options import as_planned, asked_of, deploy_options, named_devices, read_model, said_of
from narrows.answers.serve import serve_command
from narrows.answers.verdict import overrun, reason_of, starts_of, verdict_of
from narrows.deployment import Deployment, deploy, whole, whole_blocks
from narrows.hardware import cheapest, find_accelerator
from narrows.memory import Capacity, Reserve, capacity, growth, ledger, reserve, start
from narrows.memory.draft import draft_share
from narrows.models import ModelSpec
from narrows.quantity import Quantity
from narrows.text import BadInput, Text

if TYPE_CHECKING:
    from narrows.engines.command import EngineCommand


__all__ = ["Candidate", "Fit", "Moment", "RuleOfThumb", "fit"]


def fit(
    model: str | ModelSpec,
    gpu: str | Sequence[str],
    *,
    max_len: int | None = None,
    batch: int | None = None,
    prompt: int | None = None,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    dp: int = 1,
    engine: str = "vllm",
    dtype: str = "auto",
    kv_cache_dtype: str = "auto",
    gpu_memory_utilization: float | None = None,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    enforce_eager: bool = False,
    kv_cache_memory_bytes: int | None = None,
    quantization: str | None = None,
    memory: int | None = None,
    memory_in_use: int | None = None,
    cloud: str | None = None,
    assume: str | None = None,
    cache_type_v: str | None = None,
    swa_full: bool = False,
    page_size: int | None = None,
    max_total_tokens: int | None = None,
    cpu_offload_gb: float | None = None,
    speculative_config: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Fit:
    """Does `model` fit on `gpu` (one or several to compare), and how much work fits beside it?

    batch: sequences at once (None: as many as fit). max_len: tokens per sequence, prompt and answer (None: the
    model's own limit). prompt: tokens of it that are prompt, for the growth from idle to peak (None: half).
    ep: ranks over which whole experts are given out, of tp × dp. dp: replicas of all but the experts, each of `tp`
    devices (DP attention); batch and capacity are of one. memory: usable bytes per device in place of the catalogue's.
    memory_in_use: bytes of each device that other processes hold when the engine starts (nvidia-smi shows them).
    cpu_offload_gb: GiB of weights per device that stay in host memory. speculative_config: what drafts, as vLLM's flag
    has it, such as '{"method": "mtp", "num_speculative_tokens": 1}'. cache_type_v, swa_full: of llama.cpp. page_size,
    max_total_tokens: of SGLang. progress: told (headers read, headers in all) while files are read. Raises BadInput.

    model may also be the engine's start command as it is pasted, or the path of a Compose file or a Kubernetes manifest
    that holds it: its flags stand for the options that are not given here.

    >>> fit("llama-2-7b", gpu="l40s", max_len=4096).candidates[0].max_batch
    13
    """
    asked = asked_of(locals())
    names = list(dict.fromkeys(named_devices(gpu)))
    command = command_line("fit", model if isinstance(model, str) else model.name, gpu=names, **said_of(asked))
    notes: list[Text] = []
    warnings: list[Text] = []
    spec, wanted, pasted = read_model(model, asked, notes, warnings, progress)
    batch = wanted["batch"]
    if pasted is not None and pasted.engine == "llama.cpp":
        from narrows.engines.llamacpp_command import all_layers, shared_length

        all_layers(pasted.options.get("gpu_layers", "auto"), spec.layers)
        if wanted["max_len"] is None and spec.max_length:
            wanted["max_len"] = shared_length(spec.max_length, pasted.options.get("batch"))
    spec = as_planned(spec, wanted)
    if batch is not None:
        whole("--batch", batch)
    # one device may have been named twice, by two of its names
    devices = {device.id: device for device in map(find_accelerator, names)}.values()
    wanted["draft"] = with_draft(wanted, spec)
    options = deploy_options(wanted)
    if batch is not None and options["max_num_seqs"] is None:
        # asked for so many at once, an engine must be told to run as many
        usual = [deploy(spec, device, **options).max_num_seqs for device in devices]
        if batch > min(usual):
            options["max_num_seqs"] = batch
            taken = {"batch": batch, "usual": min(usual)}
            notes.append(Text("max_num_seqs is taken as {batch}; by itself the engine runs {usual}", **taken))
    deployments = [whole_blocks(deploy(spec, device, **options)) for device in devices]
    warnings += said_first(deployments, options["dtype"], options["engine_core"])
    if pasted is not None and pasted.options.get("max_len") == "auto" and max_len is None:
        deployments = [_longest(one, options, notes) for one in deployments]
    first = deployments[0]
    given = whole("--prompt", prompt) if prompt is not None else max(1, first.max_length // 2)
    if given > first.max_length:
        raise BadInput(
            "--prompt is {prompt}, longer than --max-len {length}, which counts prompt and answer together",
            prompt=given,
            length=first.max_length,
        )
    candidates = tuple(_candidate(one, batch, given, cloud, options, prompt or 1, pasted) for one in deployments)
    for one in candidates:
        if first.memory_in_use and one.fits:
            warnings += overrun(one.gpu_name, one.terms.free)
    known = _assumptions(spec, deployments, prompt is None, given)
    return Fit(
        command=command,
        model=model_facts(spec, first.max_length, first.kv),
        candidates=candidates,
        warnings=tuple(warnings),
        assumptions=(*(text for text in known if text not in warnings), *notes),
        sources=_sources(spec, deployments),
    )


def _longest(deployment: Deployment, options: dict[str, Any], notes: list[Text]) -> Deployment:
    """The deployment with the length that an engine told `--max-model-len auto` takes: the longest that it can hold."""
    most = capacity(deployment, 1).max_length
    if not 0 < most < deployment.max_length:
        return deployment
    notes.append(
        Text(
            "--max-model-len auto: {gpu} holds one sequence of {length} tokens",
            gpu=deployment.accelerator.name,
            length=most,
        )
    )
    return deploy(deployment.model, deployment.accelerator, **{**options, "max_length": most})


def _assumptions(model: ModelSpec, deployments: list[Deployment], half: bool, prompt: int) -> tuple[Text, ...]:
    found = list(model.assumptions)
    found += [text for one in deployments for text in one.assumptions]
    if deployments[0].engine.name == "llama.cpp":
        found.append(
            Text(
                "all layers are on the device (-ngl 99); the KV cache is allocated whole at the start, in multiples of "
                "256 cells per slot"
            )
        )
        return tuple(dict.fromkeys(found))
    if deployments[0].engine.name == "sglang":
        from narrows.memory.sglang import pool_notes

        found += [text for one in deployments for text in pool_notes(one)]
    else:
        found.append(_pages_note(model))
    if half:
        found.append(Text("idle to peak is drawn for prompts of {prompt} tokens, half of the length", prompt=prompt))
    return tuple(dict.fromkeys(found))


def _pages_note(model: ModelSpec) -> Text:
    if any(row.window for _, row in model.cache_rows()):
        return Text(
            "the ledger's KV bytes are logical; batch and length count the engine's pages and tokens in flight too"
        )
    return Text("the ledger's KV bytes are logical; batch and length count the engine's pages too")


def _sources(model: ModelSpec, deployments: list[Deployment]) -> tuple[str, ...]:
    found = [model.source] if model.source else []
    found += [one.accelerator.source for one in deployments]
    found.append(deployments[0].engine.source)
    return tuple(dict.fromkeys(found))


def _candidate(
    deployment: Deployment,
    batch: int | None,
    prompt: int,
    cloud: str | None,
    options: dict[str, Any],
    least_length: int,
    pasted: EngineCommand | None,
) -> Candidate:
    room = capacity(deployment, batch or 1)
    begun = start(deployment)
    load = batch if batch is not None else max(1, room.max_batch)
    fits = room.max_batch >= load and begun.stage == "started"
    price = cheapest(deployment.accelerator.id, deployment.count, cloud)
    verdict = verdict_of(fits, room, load)
    mends = () if fits else tuple(mends_of(deployment, room, load, options, cloud, least_length, batch))
    twice = 2 * room.shard.weights
    return Candidate(
        gpu=deployment.accelerator.id,
        gpu_name=deployment.accelerator.name,
        count=deployment.count,
        tensor_parallel=deployment.tensor_parallel,
        pipeline_parallel=deployment.pipeline_parallel,
        engine=deployment.engine.label,
        gpu_memory_utilization=deployment.utilization,
        max_num_seqs=deployment.max_num_seqs,
        max_num_batched_tokens=deployment.max_num_batched_tokens,
        fits=fits,
        verdict=verdict,
        reason=reason_of(deployment, room, load, verdict),
        batch=load,
        length=deployment.max_length,
        terms=ledger(deployment, load, deployment.max_length, shard=room.shard),
        reserve_basis=reserve(deployment).basis,
        max_batch=room.max_batch,
        max_length=room.max_length,
        max_length_batch=batch or 1,
        starts=starts_of(deployment, begun, room, load),
        kv_tokens=room.kv_tokens,
        kv_blocks=room.blocks,
        kv_block_size=room.pages.block,
        paged_bytes_per_sequence=room.pages.request_bytes(deployment.max_length),
        serve_command=serve_command(deployment, options, pasted, mends[0].change if mends else "", load),
        kv_cache_available=begun.kv,
        cuda_graphs=_graphs(begun.reserve),
        max_concurrency=round(room.concurrency, 4),
        rule_of_thumb=RuleOfThumb(twice, twice <= deployment.usable - deployment.memory_in_use),
        usd_per_hour=price.usd_per_hour if price else None,
        instance=price.label if price else None,
        price_as_of=price.as_of if price else None,
        usd_per_hour_per_sequence=price.usd_per_hour / room.max_batch if price and room.max_batch else None,
        growth=tuple(
            Moment(name, one.usable - one.unclaimed - one.free, one) for name, one in growth(deployment, load, prompt)
        ),
        mend=mends[0] if mends else None,
        other_mends=mends[1:],
        log=_log(deployment, room),
        draft=draft_share(deployment),
        expert_parallel=deployment.expert_parallel,
        attention_data_parallel=deployment.attention_data_parallel,
    )


def _graphs(kept: Reserve) -> Quantity:
    """Bytes of graphs; an interval where there is one."""
    if not kept.graphs_high:
        return Quantity(kept.graphs, "B", "predicted" if kept.graphs else "exact")
    return Quantity(kept.graphs, "B", "predicted", kept.graphs_low, kept.graphs_high)


def _log(deployment: Deployment, room: Capacity) -> tuple[str, ...]:
    if deployment.engine.name != "sglang":
        return ()
    from narrows.memory.sglang_log import log_lines

    return log_lines(deployment, room.pages, room.pool)

"""`roofline`: what bounds prefill, and what bounds decode?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from narrows.answers.base import command_line
from narrows.answers.drafts import OLDER, with_draft
from narrows.answers.first import engine_warnings
from narrows.answers.model import model_facts
from narrows.answers.options import as_planned, asked_of, deploy_options, named_devices, read_model, said_of
from narrows.answers.roofline.bounds import bounds_of
from narrows.answers.roofline.cautions import cautions, pooled, reading, unpacked
from narrows.answers.roofline.device import with_figures
from narrows.answers.roofline.sweep import parse_sweep
from narrows.answers.roofline.types import Bounds, Roofline
from narrows.deployment import whole
from narrows.deployment.runs import weights_refused, weights_wanting
from narrows.hardware import Accelerator, find_accelerator
from narrows.models import ModelSpec
from narrows.roofline.change import Ask
from narrows.roofline.collectives import host_decides
from narrows.roofline.link import link_across
from narrows.roofline.memory_wall import Generation, memory_wall
from narrows.roofline.phases import Load, Served
from narrows.roofline.what_if import deployed, weights_in, with_weights
from narrows.step import Batch, Collective
from narrows.text import BadInput, Text
from narrows.units import bandwidth as told
from narrows.units import seconds

__all__ = ["Bounds", "Roofline", "roofline"]

PROMPT, BATCH, CONTEXT = 4096, 16, 4096
"""What is asked for by itself: the chapter's load. A model whose limit is shorter takes its limit."""


def roofline(
    model: str | ModelSpec,
    gpu: str | Sequence[str],
    *,
    prompt: int | None = None,
    batch: int | None = None,
    context: int | None = None,
    tp: int = 1,
    pp: int = 1,
    ep: int = 1,
    dp: int = 1,
    engine: str = "vllm",
    dtype: str = "auto",
    kv_cache_dtype: str = "auto",
    quantization: str | None = None,
    precision: str | Sequence[str] = (),
    max_len: int | None = None,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    gpu_memory_utilization: float | None = None,
    enforce_eager: bool = False,
    memory: int | None = None,
    peak: str | Sequence[str] = (),
    bandwidth: str | None = None,
    cloud: str | None = None,
    sweep: str | None = None,
    operator: str | None = None,
    generations: bool = False,
    naive_attention: bool = False,
    assume: str | None = None,
    cpu_offload_gb: float | None = None,
    speculative_config: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Roofline:
    """What bounds prefill of a prompt, and decode of a batch, of `model` on `gpu` (one or several to compare)?

    prompt: tokens of one prompt. batch, context: sequences of a decode step and the tokens that each has cached. ep:
    ranks over which experts are shared out, of tp × dp. dp: replicas of all but the experts, each of `tp` devices and
    with a batch of its own (DP attention). precision: formats of the weights to compare (bf16, fp8, int8, int4, fp4),
    of an unquantized model. peak, bandwidth: figures in place of the catalogue's, such as ["bf16=435GFLOP/s"] and
    "34GB/s", of a device that was measured. memory: usable bytes per device. cpu_offload_gb: GiB of weights per device
    that stay in host memory. speculative_config: what drafts, counted in memory and not in time. sweep: a range such as
    "batch=1..256x2". operator: one whose way through the memory hierarchy is shown. generations: the same load across
    generations of accelerators. naive_attention: beside the fused one. progress: told (headers read, headers in all).
    Raises BadInput.

    model may also be the engine's start command as it is pasted: its flags stand for options that are not given.

    >>> roofline("llama-2-7b", gpu="l40s", prompt=4096, batch=16, context=4096).phases.decode.bound
    'memory bandwidth'
    """
    asked = asked_of(locals())
    for several in ("precision", "peak"):
        asked[several] = [asked[several]] if isinstance(asked[several], str) else list(asked[several])
    names = named_devices(gpu)
    command = command_line("roofline", model if isinstance(model, str) else model.name, gpu=names, **said_of(asked))
    notes: list[Text] = []
    points = parse_sweep(sweep) if sweep is not None else None
    spec, wanted, _ = read_model(model, asked, notes, notes, progress)
    # what else a pasted command has does not bound its speed
    wanted = {name: value for name, value in wanted.items() if name in (*asked, *OLDER, "engine_core")}
    wanted["draft"] = with_draft(wanted, spec)
    spec = as_planned(spec, wanted)
    load = _load(spec, wanted)
    chosen = {device.id: device for device in map(find_accelerator, names)}
    devices = [with_figures(device, wanted["peak"], wanted["bandwidth"]) for device in chosen.values()]
    if wanted["peak"] or wanted["bandwidth"]:
        if len(devices) > 1:
            raise BadInput("--peak and --bandwidth are figures of one accelerator; give one --gpu")
        notes.append(Text("peaks and bandwidth are as given, not those of the catalogue"))
    asks = [*_asks(spec, devices, wanted, load, notes)]
    generates = not pooled(spec)
    if points is not None and not generates and points[0] != "prompt":
        raise BadInput(
            "--sweep is '{text}', and {model} generates nothing: sweep the prompt, such as prompt=512..8192x2",
            text=str(sweep)[:60],
            model=spec.name,
        )
    found = [bounds_of(ask, points, operator, naive_attention, generates) for ask in asks]
    first = asks[0]
    walls: tuple[Generation, ...] = ()
    if generations:
        walls = memory_wall(first.model, first.options, load, tuple(device.id for device in devices))
        notes.append(
            Text("generations are compared as if {engine} ran on all of them", engine=first.deployment.engine.label)
        )
    return Roofline(
        command=command,
        model=model_facts(spec, load.length, first.deployment.kv),
        prompt=load.prompt,
        batch=load.batch,
        context=load.context,
        **{name: getattr(found[0], name) for name in Bounds.__struct_fields__},
        others=tuple(found[1:]),
        generations=walls,
        cautions=(
            *engine_warnings(first.deployment.engine, wanted.get("engine_core")),
            *_unsized(devices, wanted["memory"]),
            *cautions(spec, [ask.deployment for ask in asks]),
            *dict.fromkeys(_unheld(asks)),
        ),
        assumptions=_assumptions(spec, asks, notes),
        sources=_sources(spec, asks, found),
    )


def _unheld(asks: Sequence[Ask]) -> Iterator[Text]:
    """That the prompt by itself is more than memory holds: what is said of capacity is said of decode."""
    for ask in asks:
        if ask.steps.held(ask.load.context) and not ask.steps.held(ask.load.prompt):
            yield Text(
                "no prompt of {prompt} tokens fits on {count} × {gpu}: its prefill is as if it did",
                count=ask.deployment.count,
                gpu=ask.deployment.accelerator.name,
                prompt=ask.load.prompt,
            )


def _unsized(devices: Sequence[Accelerator], memory: int | None) -> Iterator[Text]:
    """That capacity is the largest there can be, of host processors whose memory nobody said."""
    for device in devices:
        if device.is_cpu and memory is None:
            yield Text(
                "how much memory this {gpu} has is not said: as much as it can take was counted (--memory says how "
                "much it has)",
                gpu=device.name,
            )


def _load(model: ModelSpec, wanted: dict[str, Any]) -> Load:
    if wanted["max_len"] is not None:
        whole("--max-len", wanted["max_len"])
    if wanted["max_num_seqs"] is not None:
        whole("--max-num-seqs", wanted["max_num_seqs"])
    limit = wanted["max_len"] or model.max_length or max(PROMPT, CONTEXT)
    return Load(
        prompt=min(PROMPT, limit) if wanted["prompt"] is None else whole("--prompt", wanted["prompt"]),
        batch=min(BATCH, wanted["max_num_seqs"] or BATCH)
        if wanted["batch"] is None
        else whole("--batch", wanted["batch"]),
        context=min(CONTEXT, limit) if wanted["context"] is None else whole("--context", wanted["context"]),
    )


def _asks(
    model: ModelSpec, devices: Sequence[Accelerator], wanted: dict[str, Any], load: Load, notes: list[Text]
) -> Iterator[Ask]:
    """Every device with every precision."""
    base = deploy_options(wanted)
    if base["max_length"] is None:
        base["max_length"] = load.length
    elif load.length > base["max_length"]:
        raise BadInput(
            "--prompt or --context is {length}, longer than --max-len {most}",
            length=load.length,
            most=base["max_length"],
        )
    given = base["device_memory"]
    for device in devices:
        # time needs no capacity: a host processor may have as much memory as it takes
        base["device_memory"] = device.memory_bytes if device.is_cpu and given is None else given
        for name in dict.fromkeys(weights_in(one, wanted["engine"]) for one in wanted["precision"]) or [None]:
            spec, options = (model, base) if name is None else with_weights(model, base, name)
            one = deployed(spec, device, options)
            if name is not None and weights_refused(one):
                raise BadInput("--precision is {value}: {why}", value=name, why=next(weights_wanting(one)))
            if load.batch > one.max_num_seqs:
                if options["max_num_seqs"] is not None:
                    raise BadInput(
                        "--batch is {batch}, more than --max-num-seqs {most}", batch=load.batch, most=one.max_num_seqs
                    )
                notes.append(
                    Text(
                        "max_num_seqs is taken as {batch}; by itself the engine runs {usual}",
                        batch=load.batch,
                        usual=one.max_num_seqs,
                    )
                )
                options = {**options, "max_num_seqs": load.batch}
                one = deployed(spec, device, options)
            yield Ask(spec, options, Served(one), load, wanted["cloud"])


def _assumptions(model: ModelSpec, asks: Sequence[Ask], notes: list[Text]) -> tuple[Text, ...]:
    found = [*model.assumptions, *(text for ask in asks for text in ask.deployment.assumptions)]
    found += [*(text for ask in asks for text in ask.steps.plan.assumptions), *notes]
    first = asks[0]
    steps = -(-first.load.prompt // first.deployment.max_num_batched_tokens)
    if steps > 1:
        found.append(
            Text(
                "the prompt is prefilled in {steps} steps of at most {tokens} tokens (max_num_batched_tokens)",
                steps=steps,
                tokens=first.deployment.max_num_batched_tokens,
            )
        )
    if any(host_decides(ask.deployment.accelerator, ask.deployment.tensor_parallel) for ask in asks):
        found.append(
            Text(
                "how more than two cards on PCIe reach each other is a matter of the host: two hosts of one card "
                "differ by 3 to 8 times; the middle one of those that were measured is taken, and the interval holds "
                "them all; measure yours"
            )
        )
    if first.deployment.pipeline_parallel > 1:
        found.append(
            Text("the stages of the pipeline run one after the other; with several batches in flight they overlap")
        )
    found += reading(model)
    found += [text for ask in asks for text in unpacked(ask.deployment)]
    found += _links(asks)
    found += _launches(asks)
    found.append(
        Text("prefill is of one prompt; no other work runs beside it")
        if pooled(model)
        else Text("prefill is of one prompt, decode of one step; no other work runs beside them")
    )
    first_said = cautions(model, [ask.deployment for ask in asks])
    return tuple(text for text in dict.fromkeys(found) if text not in first_said)


def _links(asks: Sequence[Ask]) -> Iterator[Text]:
    """What joins the ranks where no data sheet says it: between machines, and devices whose fabric is not published."""
    for ask in asks:
        device = ask.deployment.accelerator
        step = ask.steps.plan.operators(Batch.decode(1, 1))
        for ranks, span in sorted({(o.shape.ranks, o.shape.span) for o in step if isinstance(o.shape, Collective)}):
            link = link_across(device, ranks, span)
            if link.kind == "between nodes":
                yield Text(
                    "{ranks} × {gpu} stand in several machines: one network card of {speed} for each is assumed",
                    ranks=ask.deployment.count,
                    gpu=device.name,
                    speed=told(link.bandwidth),
                )
            elif link.assumed:
                yield Text(
                    "{ranks} × {gpu} are joined at {speed}, which is assumed",
                    ranks=ranks,
                    gpu=device.name,
                    speed=told(link.bandwidth),
                )


def _launches(asks: Sequence[Ask]) -> Iterator[Text]:
    """What is launched one by one, for want of a CUDA graph."""
    for ask in asks:
        launches, step = ask.steps.costs.launches, Batch.decode(ask.load.batch, ask.load.context)
        if launches is None or not launches.apart(step):
            continue
        figures = {
            "launches": ask.steps.estimate(step).launched,
            "each": seconds(launches.law.values["each"]),
            "low": seconds(launches.law.values["each"] * launches.law.low),
            "high": seconds(launches.law.values["each"] * launches.law.high),
        }
        if launches.most:
            yield Text(
                "decode of more than {most} sequences is no CUDA graph: the host launches its {launches} kernels one "
                "by one, at {each} each (hosts differ: {low} to {high})",
                most=launches.most,
                **figures,
            )
        else:
            yield Text(
                "without CUDA graphs the host launches the {launches} kernels of a decode step one by one, at {each} "
                "each (hosts differ: {low} to {high}); the device waits where it is faster",
                **figures,
            )


def _sources(model: ModelSpec, asks: Sequence[Ask], found: Sequence[Bounds]) -> tuple[str, ...]:
    sources = [model.source] if model.source else []
    sources += [ask.deployment.accelerator.source for ask in asks]
    sources.append(asks[0].deployment.engine.source)
    sources += [law.source for one in found for law in one.laws if law.n]
    if any(_launches(asks)):
        sources += [ask.steps.costs.launches.law.source for ask in asks if ask.steps.costs.launches]
    return tuple(dict.fromkeys(sources))

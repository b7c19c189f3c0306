"""What bounds one deployment: all that the answer says of it."""

from __future__ import annotations

from narrows.answers.roofline.rows import operator_rows, phase_of, ridges, shape_text, used_laws
from narrows.answers.roofline.sweep import path, sweep
from narrows.answers.roofline.types import Bounds, Hierarchy, NaiveAttention, Parameter, Phases
from narrows.answers.verdict import reason_of, verdict_of
from narrows.deployment import Deployment
from narrows.memory import capacity
from narrows.roofline.change import Ask
from narrows.roofline.estimate import timed
from narrows.roofline.phases import PhaseTime, Served, chunks, decode, held, prefill
from narrows.roofline.prescriptions import exact_price, prescriptions, usd_per_million
from narrows.roofline.turning import turning_points
from narrows.step import AttentionShape, Batch, plan_of
from narrows.step.operators import Phase as PhaseName
from narrows.text import BadInput, Text

PATH = 256
"""The path of the decode step is drawn up to this batch, or to what memory holds."""


def bounds_of(
    ask: Ask, points: tuple[Parameter, list[int]] | None, operator: str | None, naive: bool, generates: bool = True
) -> Bounds:
    """All figures of one deployment. points: of a sweep; operator: whose hierarchy is shown. Raises BadInput.

    generates: False leaves decode out wherever it can be.
    """
    deployment, load = ask.deployment, ask.load
    device = deployment.accelerator
    filled, step = prefill(ask.steps, load.prompt), decode(ask.steps, load.batch, load.context)
    phases = Phases(
        phase_of("prefill", filled, device, 1, load.prompt, 0),
        phase_of("decode", step, device, load.batch, load.batch, load.context),
    )
    used = {one.precision for time in (filled, step) for _, one in time.operators}
    room = ask.steps.held(load.context)
    price = exact_price(device.id, deployment.count, ask.cloud)
    return Bounds(
        gpu=device.id,
        gpu_name=device.name,
        count=deployment.count,
        tensor_parallel=deployment.tensor_parallel,
        pipeline_parallel=deployment.pipeline_parallel,
        engine=deployment.engine.label,
        quantization=deployment.model.precision.label,
        kv_cache_dtype=deployment.kv.name,
        precision=phases.prefill.precision,
        fits=room >= load.batch,
        max_batch=room,
        capacity=_capacity(deployment, load.batch, load.context),
        usd_per_hour=price.usd_per_hour if price else None,
        instance=price.label if price else None,
        price_as_of=price.as_of if price else None,
        usd_per_million_tokens=usd_per_million(
            price, (phases.decode if generates else phases.prefill).tokens_per_second.value
        ),
        ridges=ridges(device, used),
        phases=phases,
        operators=(*operator_rows("prefill", filled), *(operator_rows("decode", step) if generates else ())),
        turning_points=tuple(
            point for point in turning_points(ask.steps, load) if generates or point.parameter == "prompt"
        ),
        prescriptions=tuple(one for one in prescriptions(ask) if generates or one.phase == "prefill"),
        laws=used_laws(ask.steps.costs, filled, *([step] if generates else [])),
        path=path(ask.steps, load, PATH) if generates else (),
        sweep=sweep(ask.steps, load, *points) if points else None,
        hierarchy=_hierarchy(deployment, operator, filled, *([step] if generates else []))
        if operator is not None
        else (),
        generates=generates,
        naive_attention=_naive(ask.steps, load.prompt) if naive else None,
    )


def _capacity(deployment: Deployment, batch: int, context: int) -> Text:
    """Whether memory holds the load, with the figures that decide."""
    from msgspec.structs import replace

    one = replace(deployment, max_length=context, max_num_seqs=max(batch, deployment.max_num_seqs))
    try:
        room = capacity(one, batch)
    except BadInput as error:
        return Text(
            "by bytes alone memory holds {held} sequences of {length} tokens; {why}",
            held=held(deployment, context),
            length=context,
            why=error.text,
        )
    return reason_of(one, room, batch, verdict_of(room.max_batch >= batch, room, batch))


def _hierarchy(deployment: Deployment, operator: str, *times: PhaseTime) -> tuple[Hierarchy, ...]:
    """The operator in both phases; of several of one name the one that takes longest."""
    from narrows.roofline.hierarchy import levels

    phases: tuple[PhaseName, PhaseName] = ("prefill", "decode")
    found = []
    for phase, time in zip(phases, times, strict=False):
        named = [
            (n * one.operator.count * one.time, one.operator)
            for n, step in time.steps
            for one in step.operators
            if one.operator.name == operator
        ]
        if not named:
            continue
        _, longest = max(named, key=lambda pair: pair[0])
        shown = levels(longest, deployment.accelerator)
        slowest = max((one for one in shown if one.kind != "assumed"), key=lambda one: one.time or 0.0)
        found.append(Hierarchy(phase, operator, shape_text(longest.shape), shown, slowest.name))
    if not found:
        known = dict.fromkeys(one.name for time in times for _, one in time.operators)
        raise BadInput(
            "--operator is '{name}', which this model's steps do not have; they have: {known}",
            name=operator[:60],
            known=", ".join(known),
        )
    return tuple(found)


def _naive(steps: Served, prompt: int) -> NaiveAttention | None:
    """Attention of the prefill as three kernels, beside the fused one; None where there is none.

    What they move more takes at least its bytes ÷ bandwidth, which nothing hides: each kernel waits for the last.
    """
    naive = plan_of(steps.deployment, naive=True)
    moved = more = 0
    time = 0.0
    for times, chunk in chunks(steps.deployment, prompt):
        for one in steps.plan.operators(Batch((chunk,))):
            if isinstance(one.shape, AttentionShape):
                moved += times * one.count * one.bytes
                time += times * one.count * timed(one, steps.costs).time
        for one in naive.operators(Batch((chunk,))):
            if isinstance(one.shape, AttentionShape):
                more += times * one.count * one.bytes
    slower = time + (more - moved) / steps.deployment.accelerator.memory_bandwidth
    return NaiveAttention(moved, more, time, slower) if moved else None

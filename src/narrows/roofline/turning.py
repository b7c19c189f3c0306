"""Turning points: where along batch, context or prompt the verdict changes, found on the estimate itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

import msgspec

from narrows.hardware import Accelerator
from narrows.roofline.estimate import summed, timed
from narrows.roofline.phases import Load, Served, whole_prompt
from narrows.roofline.timed import Cause, StepEstimate, Timed
from narrows.step import Batch, Experts, Gemm, Operator
from narrows.text import Text
from narrows.units import decimal

Turn = Literal[
    "decode_compute",
    "decode_kv_batch",
    "decode_kv_context",
    "decode_state_batch",
    "decode_launches",
    "prefill_compute",
]

CAUSES: dict[Cause, Text] = {
    "compute": Text("arithmetic"),
    "memory bandwidth": Text("memory bandwidth"),
    "interconnect": Text("the interconnect"),
    "overhead": Text("overhead of launches and host"),
}
"""Causes as nouns, for sentences."""
MOST_BATCH = 2**16
MOST_CONTEXT = 2**24
"""Nothing beyond is looked at."""


class TurningPoint(msgspec.Struct, frozen=True):
    """The first value of `parameter` from which something else decides; None: it never does, up to the last looked at.

    decode_compute: batch from which the linear layers of decode are compute-bound. decode_kv_batch,
    decode_kv_context: from where KV traffic exceeds weight traffic. decode_state_batch: from where traffic of the
    state of recurrences does, which does not grow with the context (where there is any). decode_launches: batch
    from which a step whose kernels are launched one by one takes the device longer than the host. prefill_compute:
    prompt from which prefill is compute-bound. by_peaks: the same by peak and bandwidth alone, without
    efficiencies. fits: whether memory holds that much, and the model takes it; None where the question does not arise.
    """

    name: Turn
    parameter: Literal["batch", "context", "prompt"]
    value: int | None
    text: Text
    by_peaks: int | None = None
    fits: bool | None = None


def first(holds: Callable[[int], bool], most: int, near: int | None = None) -> int | None:
    """The smallest whole number from 1 to `most` from which `holds`, which is taken to stay true; None if none does.

    near: where it may be. By doubling or halving from there, then bisection: 2·log2 of the distance trials.
    """
    high = min(max(1, near or 1), most)
    if holds(high):
        low = high // 2
        while low and holds(low):
            low, high = low // 2, low
    else:
        low = high
        while True:
            if low >= most:
                return None
            high = min(2 * low, most)
            if holds(high):
                break
            low = high
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def linear(operator: Operator) -> bool:
    """Whether weights multiply activations: what batching amortises."""
    return isinstance(operator.shape, Gemm | Experts)


def kv_bytes(operators: Iterable[Operator]) -> int:
    """Traffic of KV cache; state is none."""
    return sum(one.count * one.kv for one in operators)


def state_bytes(operators: Iterable[Operator]) -> int:
    """Traffic of the state of recurrences."""
    return sum(one.count * one.state for one in operators)


def weight_bytes(operators: Iterable[Operator]) -> int:
    """Traffic of weights."""
    return sum(one.count * one.weights for one in operators)


def _computes(timed: Iterable[Timed]) -> bool:
    """Whether more time goes to operators that wait for arithmetic than to those that wait for memory: the verdict."""
    shares = summed(tuple(timed)).shares
    return shares["compute"] >= shares["memory bandwidth"]


def _computes_by_peaks(operators: Iterable[Operator], device: Accelerator) -> bool:
    operators = list(operators)
    compute = sum(one.count * one.flops / device.peak(one.precision) for one in operators if one.flops)
    return compute >= sum(one.count * one.bytes for one in operators) / device.memory_bandwidth


def turning_points(steps: Served, load: Load) -> tuple[TurningPoint, ...]:
    """All turning points around a load."""
    step = steps.plan.operators(Batch.decode(load.batch, load.context))
    found = [_decode_compute(steps, load)]
    found += [_kv_batch(steps, load), _kv_context(steps, load)] if kv_bytes(step) else _no_cache()
    if state_bytes(step):
        found.append(_state_batch(steps, load))
    launches = steps.costs.launches
    if launches is not None and launches.apart(Batch.decode(load.batch, load.context)):
        found.append(_launches(steps, load))
    return (*found, _prefill_compute(steps))


def _no_cache() -> list[TurningPoint]:
    text = Text("the model keeps no KV cache: a step of decode moves as much whatever the context")
    return [
        TurningPoint("decode_kv_batch", "batch", None, text),
        TurningPoint("decode_kv_context", "context", None, text),
    ]


def _state_batch(steps: Served, load: Load) -> TurningPoint:
    def holds(batch: int) -> bool:
        step = steps.plan.operators(Batch.decode(batch, load.context))
        return state_bytes(step) >= weight_bytes(step)

    found = first(holds, MOST_BATCH)
    if found is None:
        text = Text("traffic of the recurrent state passes weight traffic at no batch")
        return TurningPoint("decode_state_batch", "batch", None, text)
    text = Text(
        "traffic of the recurrent state, which does not grow with the context, passes weight traffic from batch "
        "{batch} on",
        batch=found,
    )
    return TurningPoint("decode_state_batch", "batch", found, text, fits=steps.held(load.context) >= found)


def _launches(steps: Served, load: Load) -> TurningPoint:
    def holds(batch: int) -> bool:
        return steps.estimate(Batch.decode(batch, load.context)).bound != "overhead"

    found = first(holds, MOST_BATCH, load.batch)
    if found is None:
        text = Text("decode waits for the host's launches at every batch: CUDA graphs would spare them")
        return TurningPoint("decode_launches", "batch", None, text)
    text = (
        Text("decode takes the device longer than the host's launches at every batch")
        if found == 1
        else Text(
            "decode waits for the host's launches up to batch {batch}; from there on the device takes longer",
            batch=found - 1,
        )
    )
    return TurningPoint("decode_launches", "batch", found, text, fits=steps.held(load.context) >= found)


def decode_by_peaks(steps: Served, context: int) -> int | None:
    """Batch from which the linear layers of decode are compute-bound by peak and bandwidth alone."""
    device = steps.deployment.accelerator

    def holds(batch: int) -> bool:
        step = steps.plan.operators(Batch.decode(batch, context))
        return _computes_by_peaks((one for one in step if linear(one)), device)

    return first(holds, MOST_BATCH)


def _decode_compute(steps: Served, load: Load) -> TurningPoint:
    def linears(batch: int) -> list[Timed]:
        # their time does not depend on the context
        return [timed(one, steps.costs) for one in steps.plan.operators(Batch.decode(batch, 1)) if linear(one)]

    peaks = decode_by_peaks(steps, 1)
    found = first(lambda batch: _computes(linears(batch)), MOST_BATCH, peaks)
    if found is None:
        last = linears(MOST_BATCH)
        moved = sum(one.operator.count * one.operator.bytes for one in last)
        done = sum(one.operator.count * one.operator.flops for one in last)
        figures = {"batch": MOST_BATCH, "intensity": f"{done / moved:.0f}" if moved else "0"}
        text = (
            Text(
                "the linear layers of decode stay memory-bandwidth-bound: with {batch} sequences they have {intensity} "
                "FLOP/B, but reach a smaller share of the bandwidth than of the peak",
                **figures,
            )
            if peaks is not None
            else Text(
                "the linear layers of decode stay memory-bandwidth-bound: even {batch} sequences give them {intensity} "
                "FLOP/B",
                **figures,
            )
        )
        return TurningPoint("decode_compute", "batch", None, text, peaks)
    most = steps.held(load.context)
    text = (
        Text(
            "the linear layers of decode are compute-bound from batch {batch} on; memory holds one sequence of "
            "{context} tokens",
            batch=found,
            context=load.context,
        )
        if most == 1
        else Text(
            "the linear layers of decode are compute-bound from batch {batch} on; memory holds {held} sequences of "
            "{context} tokens",
            batch=found,
            held=most,
            context=load.context,
        )
    )
    return TurningPoint("decode_compute", "batch", found, text, peaks, most >= found)


def _kv_batch(steps: Served, load: Load) -> TurningPoint:
    def holds(batch: int) -> bool:
        step = steps.plan.operators(Batch.decode(batch, load.context))
        return kv_bytes(step) >= weight_bytes(step)

    found = first(holds, MOST_BATCH)
    if found is None:
        text = Text("at {context} tokens KV traffic passes weight traffic at no batch", context=load.context)
        return TurningPoint("decode_kv_batch", "batch", None, text)
    text = (
        Text("at {context} tokens KV traffic exceeds weight traffic at every batch", context=load.context)
        if found == 1
        else Text(
            "at {context} tokens KV traffic passes weight traffic from batch {batch} on: beyond, batching helps less "
            "and less",
            context=load.context,
            batch=found,
        )
    )
    return TurningPoint("decode_kv_batch", "batch", found, text, fits=steps.held(load.context) >= found)


def _kv_context(steps: Served, load: Load) -> TurningPoint:
    def step(context: int) -> tuple[Operator, ...]:
        return steps.plan.operators(Batch.decode(load.batch, context))

    def holds(context: int) -> bool:
        operators = step(context)
        return kv_bytes(operators) >= weight_bytes(operators)

    found = first(holds, MOST_CONTEXT)
    if found is None:
        last = step(MOST_CONTEXT)
        text = Text(
            "at batch {batch} KV traffic never passes weight traffic: it stops at {kv} of {weights} per step",
            batch=load.batch,
            kv=decimal(kv_bytes(last)),
            weights=decimal(weight_bytes(last)),
        )
        return TurningPoint("decode_kv_context", "context", None, text)
    limit = steps.deployment.model.max_length
    if limit and found > limit:
        text = Text(
            "at batch {batch} KV traffic passes weight traffic from {context} tokens on, which is beyond the model's "
            "{limit}",
            batch=load.batch,
            context=found,
            limit=limit,
        )
        return TurningPoint("decode_kv_context", "context", found, text, fits=False)
    text = (
        Text("at batch {batch} KV traffic exceeds weight traffic at every context", batch=load.batch)
        if found == 1
        else Text(
            "at batch {batch} KV traffic passes weight traffic from {context} tokens on",
            batch=load.batch,
            context=found,
        )
    )
    return TurningPoint("decode_kv_context", "context", found, text, fits=steps.held(found) >= load.batch)


def _prefill_compute(steps: Served) -> TurningPoint:
    most = steps.deployment.max_num_batched_tokens

    def filled(prompt: int) -> StepEstimate:
        return steps.estimate(whole_prompt(steps.deployment, prompt))

    device = steps.deployment.accelerator
    peaks = first(lambda n: _computes_by_peaks(steps.plan.operators(whole_prompt(steps.deployment, n)), device), most)
    found = first(lambda prompt: filled(prompt).bound == "compute", most, peaks)
    if found is None:
        text = Text(
            "prefill is not compute-bound at any length: a step takes at most {most} tokens (max_num_batched_tokens), "
            "and {cause} decides then",
            most=most,
            cause=CAUSES[filled(most).bound],
        )
        return TurningPoint("prefill_compute", "prompt", None, text, peaks)
    text = (
        Text("prefill is compute-bound at every length")
        if found == 1
        else Text("prefill is compute-bound from prompts of {prompt} tokens on", prompt=found)
    )
    return TurningPoint("prefill_compute", "prompt", found, text, peaks)

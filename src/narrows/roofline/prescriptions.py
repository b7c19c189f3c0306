"""Prescriptions: changes that help this verdict, each computed by estimating the changed deployment or batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from narrows.deployment.runs import wanting
from narrows.hardware import Price, cheapest
from narrows.memory.aside import LEAST_STEP, fewer_sequences, smaller_steps
from narrows.roofline.change import AS_IT_IS, Ask, Change, phase_time
from narrows.roofline.other_devices import other_devices
from narrows.roofline.phases import PhaseTime, Served, decode, prefill
from narrows.roofline.ranks import ranks
from narrows.roofline.runs import able, multiplied
from narrows.roofline.turning import kv_bytes, weight_bytes
from narrows.roofline.what_if import deployed, with_weights
from narrows.step.arithmetic import plain as arithmetic_of
from narrows.step.operators import Phase
from narrows.text import BadInput, Text
from narrows.units import decimal, rate

LEAST_GAIN = 1.03
"""What gains less is not worth a line: it lies within the estimate's own error."""
DRAFTED, ACCEPTED = 3, 0.7
"""Assumed of speculative decoding: tokens drafted per pass, and the share of them that is accepted, each alone."""
CACHED = 0.5
"""Assumed of prefix caching: the share of the prompt that is there already."""
MOST_SEQUENCES = 1024
"""Larger batches than engines run by themselves are not prescribed."""


class Prescription(msgspec.Struct, frozen=True):
    """One change, computed on the changed deployment or batch: what it does to the phase it is prescribed for.

    change: flags or words of the change. before, after: seconds of the phase (decode: per token of a sequence).
    tokens_per_second_before, …_after: of all devices. speedup: times as many tokens per second. fits: whether memory
    holds the load then (of prefill: the prompt); max_batch: sequences of this length that it holds. devices: how many
    it takes; usd_per_hour, instance, price_as_of: what these cost. assumed: what is not computed but taken, such as an
    acceptance rate.
    """

    name: str
    phase: Phase
    change: str
    text: Text
    before: float
    after: float
    tokens_per_second_before: float
    tokens_per_second_after: float
    speedup: float
    fits: bool
    max_batch: int
    devices: int
    usd_per_million_tokens_before: float | None = None
    usd_per_million_tokens_after: float | None = None
    usd_per_hour: float | None = None
    instance: str | None = None
    price_as_of: str | None = None
    assumed: Text | None = None


def exact_price(device: str, count: int, cloud: str | None) -> Price | None:
    """The cheapest instance with exactly `count` of the device; None where there is none."""
    price = cheapest(device, count, cloud)
    return price if price is not None and price.accelerator_count == count else None


def usd_per_million(price: Price | None, tokens_per_second: float) -> float | None:
    """Dollars per million tokens at this rate."""
    return None if price is None else price.usd_per_hour / (tokens_per_second * 3600) * 1e6


def prescriptions(ask: Ask) -> tuple[Prescription, ...]:
    """What helps, the most first; before all, where memory does not hold the load, what makes it fit."""
    load = ask.load
    before: dict[Phase, Change] = {
        "decode": Change("", "decode", "", AS_IT_IS, ask.steps, load, decode(ask.steps, load.batch, load.context)),
        "prefill": Change("", "prefill", "", AS_IT_IS, ask.steps, load, prefill(ask.steps, load.prompt)),
    }
    held: dict[Phase, int] = {"decode": ask.steps.held(load.context), "prefill": ask.steps.held(load.prompt)}
    short = held["decode"] < load.batch
    known = set(wanting(ask.deployment))
    # what the engine does not run, or nobody says that it does, is no help
    runs = (one for one in _changes(ask, before, short) if known.issuperset(wanting(one.steps.deployment)))
    found = [_effect(one, before[one.phase], ask) for one in runs]
    useful = [
        one
        for one in found
        # where the load does not fit as it is, times are as if it did, and so are those of what does not mend that;
        # but what leaves even less room is no help
        if (one.speedup >= LEAST_GAIN and (one.fits or (short and one.max_batch >= held[one.phase])))
        or (short and one.phase == "decode" and one.fits)
    ]
    useful = [one for one in useful if one.name != "cheaper_device" or _cheaper(one)]
    return tuple(sorted(useful, key=lambda one: (one.phase, short and not one.fits, -one.speedup)))


def _cheaper(one: Prescription) -> bool:
    """Whether tokens cost less than before, where both prices are known."""
    before, after = one.usd_per_million_tokens_before, one.usd_per_million_tokens_after
    return before is None or after is None or after < before


def _effect(change: Change, before: Change, ask: Ask) -> Prescription:
    decoding = change.phase == "decode"
    room = change.steps.held(change.load.context if decoding else change.load.prompt)
    count = change.steps.deployment.count * change.replicas
    own = exact_price(ask.deployment.accelerator.id, ask.deployment.count, ask.cloud)
    price = exact_price(change.steps.deployment.accelerator.id, count, ask.cloud)
    return Prescription(
        name=change.name,
        phase=change.phase,
        change=change.change,
        text=change.text,
        before=before.seconds,
        after=change.seconds,
        tokens_per_second_before=before.tokens_per_second,
        tokens_per_second_after=change.tokens_per_second,
        speedup=change.tokens_per_second / before.tokens_per_second,
        fits=room >= (change.load.batch if decoding else 1),
        max_batch=room,
        devices=count,
        usd_per_million_tokens_before=usd_per_million(own, before.tokens_per_second),
        usd_per_million_tokens_after=usd_per_million(price, change.tokens_per_second),
        usd_per_hour=price.usd_per_hour if price else None,
        instance=price.label if price else None,
        price_as_of=price.as_of if price else None,
        assumed=change.assumed,
    )


def _changes(ask: Ask, before: dict[Phase, Change], short: bool) -> Iterator[Change]:
    yield from _narrower_weights(ask, before)
    yield from _narrower_cache(ask)
    yield from _batches(ask, short)
    if short:
        yield from _making_room(ask)
    yield from _less_to_do(ask, before)
    yield from ranks(ask, before)
    if not ask.deployment.graphs and ask.deployment.engine.name != "llama.cpp":
        yield from _redeployed(
            ask, "graphs", "decode", "", Text("CUDA graphs: without --enforce-eager"), {"enforce_eager": False}
        )
    if ask.deployment.max_num_batched_tokens < ask.load.prompt:
        flag = f"--max-num-batched-tokens {ask.load.prompt}"
        text = Text("the prompt in one step: weights are read once")
        yield from _redeployed(ask, "larger_steps", "prefill", flag, text, {"max_num_batched_tokens": ask.load.prompt})
    phases: tuple[Phase, Phase] = ("decode", "prefill")
    for phase in phases:
        others = other_devices(ask.model, ask.options, ask.deployment, ask.load, before[phase].time, ask.cloud)
        for name, device, text in others:
            time = phase_time(phase, device, ask.load)
            flag = f"--gpu {device.deployment.accelerator.id}"
            yield Change(name, phase, flag, text, device, ask.load, time)


def _redeployed(
    ask: Ask, name: str, phase: Phase, change: str, text: Text, changed: dict[str, Any]
) -> Iterator[Change]:
    """The same model with changed options; nothing where the engine cannot do it."""
    try:
        one = Served(deployed(ask.model, ask.deployment.accelerator, {**ask.options, **changed}))
        yield Change(name, phase, change, text, one, ask.load, phase_time(phase, one, ask.load))
    except BadInput:
        return


def _narrower_weights(ask: Ask, before: dict[Phase, Change]) -> Iterator[Change]:
    for name, precision in (("fp8_weights", "fp8"), ("int4_weights", "int4"), ("fp4_weights", "fp4")):
        if precision == "fp4" and ask.deployment.accelerator.fp4 is None:
            continue
        try:
            model, options = with_weights(ask.model, ask.options, precision)
            steps = Served(deployed(model, ask.deployment.accelerator, options))
            times = {phase: phase_time(phase, steps, ask.load) for phase in before}
        except BadInput:
            continue
        label = {"fp8": "FP8", "int4": "INT4", "fp4": "NVFP4"}[precision]
        moved = {"before": _weights(before["decode"].time), "after": _weights(times["decode"])}
        decoded = Text(
            "weights in {label}: a step reads {after} of them in place of {before}",
            label=label,
            **{when: decimal(size) for when, size in moved.items()},
        )
        if multiplied(steps.deployment):
            compute = {"before": before["prefill"].time, "after": times["prefill"]}
            filled = Text(
                "matrix products in {label}: {after} reached in place of {before}",
                label=label,
                **{when: rate(time.flops / time.time) for when, time in compute.items()},
            )
        else:
            decoded = filled = Text(
                "weights in {label}, unpacked for products in {wide}: a step reads {after} of them in place of "
                "{before}, and its FLOPs cost what they did",
                label=label,
                wide=arithmetic_of(steps.deployment.accelerator, steps.deployment.dtype).precision,
                **{when: decimal(size) for when, size in moved.items()},
            )
        assumed = None if precision == "fp8" else Text("a checkpoint quantized so; its quality is not judged here")
        texts = {"decode": decoded, "prefill": filled}
        for phase, time in times.items():
            flag = f"--precision {precision}"
            yield Change(name, phase, flag, texts[phase], steps, ask.load, time, assumed=assumed)


def _weights(time: PhaseTime) -> int:
    return sum(times * weight_bytes((one,)) for times, one in time.operators)


def _cache(time: PhaseTime) -> int:
    return sum(times * kv_bytes((one,)) for times, one in time.operators)


def _narrower_cache(ask: Ask) -> Iterator[Change]:
    if ask.deployment.kv.bits > 9:
        eight = "q8_0" if ask.deployment.engine.name == "llama.cpp" else "fp8"
        text = Text("KV cache in 8 bits: half the bytes to read and to hold")
        yield from _redeployed(
            ask, "fp8_kv_cache", "decode", f"--kv-cache-dtype {eight}", text, {"kv_cache_dtype": eight}
        )


def _batches(ask: Ask, short: bool) -> Iterator[Change]:
    """As many sequences as memory holds; fewer than asked for where it does not hold these."""
    load = ask.load
    room = min(ask.steps.held(load.context), max(MOST_SEQUENCES, load.batch))
    most = ask.deployment.engine.most_sequences
    if most:
        room = min(room, most)
    steps = ask.steps
    if room > ask.deployment.max_num_seqs:
        # an engine told to run more at once reserves more, which leaves less
        found = _roomier(ask, room)
        if found is None:
            return
        room, steps = found
    if room < 1 or room == load.batch:
        return
    text = (
        Text("as many sequences as {engine} can have at once", engine=ask.deployment.engine.name)
        if room == most
        else Text("as many sequences as memory holds at {context} tokens", context=load.context)
        if short or room < MOST_SEQUENCES
        else Text("more sequences per step: weights are read once for all of them")
    )
    changed = msgspec.structs.replace(load, batch=room)
    time = decode(steps, room, load.context)
    yield Change("batch", "decode", f"--batch {room}", text, steps, changed, time)


def _making_room(ask: Ask) -> Iterator[Change]:
    """Where memory does not hold the load: set aside for its own sequences alone, or smaller steps; or more stages."""
    usual, wanted = ask.deployment.max_num_seqs, ask.load.batch
    if wanted < usual:
        text, flag = fewer_sequences(wanted, usual), f"--max-num-seqs {wanted}"
        yield from _redeployed(ask, "fewer_sequences", "decode", flag, text, {"max_num_seqs": wanted})
    usual = ask.deployment.max_num_batched_tokens
    if usual > LEAST_STEP:
        text, flag = smaller_steps(LEAST_STEP, usual), f"--max-num-batched-tokens {LEAST_STEP}"
        yield from _redeployed(ask, "smaller_steps", "decode", flag, text, {"max_num_batched_tokens": LEAST_STEP})
    stages = 2 * ask.deployment.pipeline_parallel
    count = stages * ask.deployment.ranks_per_stage
    text = Text("layers spread over {n} of these, which take their turns in a step", n=count)
    yield from _redeployed(ask, f"pp{stages}", "decode", f"--pp {stages}", text, {"pipeline_parallel": stages})


def _roomier(ask: Ask, room: int) -> tuple[int, Served] | None:
    """The most sequences up to `room` that memory holds when the engine is told to run as many."""
    for _ in range(4):
        try:
            one = Served(deployed(ask.model, ask.deployment.accelerator, {**ask.options, "max_num_seqs": room}))
        except BadInput:
            return None
        most = one.held(ask.load.context)
        if most >= room:
            return room, one
        room = max(1, most)
    return None


def _drafted(ask: Ask) -> Change:
    load = ask.load
    rate_of = sum(ACCEPTED**n for n in range(DRAFTED + 1))
    return Change(
        "speculative_decoding",
        "decode",
        "speculative decoding",
        Text(
            "{drafted} drafted tokens are verified in one pass, which gives {tokens} tokens on average",
            drafted=DRAFTED,
            tokens=f"{rate_of:.2f}",
        ),
        ask.steps,
        load,
        decode(ask.steps, load.batch, load.context, 1 + DRAFTED),
        per_pass=rate_of,
        assumed=Text(
            "each drafted token is accepted with probability {rate}, and drafting costs nothing", rate=f"{ACCEPTED:g}"
        ),
    )


def _less_to_do(ask: Ask, before: dict[Phase, Change]) -> Iterator[Change]:
    load = ask.load
    if able(ask.deployment, "speculative decoding"):
        yield _drafted(ask)
    half = load.context // 2
    if half >= 1:
        shorter = msgspec.structs.replace(load, context=half)
        time = decode(ask.steps, load.batch, half)
        text = Text(
            "half the context: a step reads {after} of KV cache in place of {before}",
            after=decimal(_cache(time)),
            before=decimal(_cache(before["decode"].time)),
        )
        yield Change("shorter_context", "decode", f"--context {half}", text, ask.steps, shorter, time)
    cached = int(load.prompt * CACHED)
    if cached >= 1 and able(ask.deployment, "prefix caching"):
        yield Change(
            "prefix_caching",
            "prefill",
            "prefix caching",
            Text("{cached} of {prompt} tokens of the prompt are not computed again", cached=cached, prompt=load.prompt),
            ask.steps,
            load,
            prefill(ask.steps, load.prompt, cached),
            assumed=Text("{percent} % of the prompt are in the prefix cache", percent=int(CACHED * 100)),
        )

"""Prescriptions: changes that help this verdict, each computed by estimating the changed deployment or batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from narrows.deployment import Deployment
from narrows.hardware import Price, cheapest
from narrows.models import ModelSpec
from narrows.roofline.other_devices import other_devices
from narrows.roofline.phases import Load, PhaseTime, Served, decode, prefill
from narrows.roofline.turning import kv_bytes, weight_bytes
from narrows.roofline.what_if import deployed, with_weights
from narrows.step.operators import Phase
from narrows.text import BadInput, Text
from narrows.units import decimal, rate, seconds

LEAST_GAIN = 1.03
"""What gains less is not worth a line: it lies within the estimate's own error."""
DRAFTED, ACCEPTED = 3, 0.7
"""Assumed of speculative decoding: tokens drafted per pass, and the share of them that is accepted, each alone."""
CACHED = 0.5
"""Assumed of prefix caching: the share of the prompt that is there already."""
_AS_IT_IS = Text("as it is")
MOST_SEQUENCES = 1024
"""Larger batches than engines run by themselves are not prescribed."""


class Ask(msgspec.Struct, frozen=True):
    """The deployment that is asked about, what it is made of (`deploy`'s options), and the load.

    cloud: prices of this one only; None: of all.
    """

    model: ModelSpec
    options: dict[str, Any]
    steps: Served
    load: Load
    cloud: str | None = None

    @property
    def deployment(self) -> Deployment:
        """What is asked about."""
        return self.steps.deployment


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


class _Change(msgspec.Struct, frozen=True):
    """A changed deployment and load. per_pass: tokens that a pass gives every sequence; replicas: such deployments."""

    name: str
    phase: Phase
    change: str
    text: Text
    steps: Served
    load: Load
    time: PhaseTime
    per_pass: float = 1.0
    cached: int = 0
    replicas: int = 1
    assumed: Text | None = None

    @property
    def seconds(self) -> float:
        """Of the prompt, or per token of a sequence."""
        return self.time.time / self.per_pass

    @property
    def tokens_per_second(self) -> float:
        """Of all devices."""
        tokens = self.load.prompt if self.phase == "prefill" else self.load.batch
        return self.replicas * tokens / self.seconds


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
    before: dict[Phase, _Change] = {
        "decode": _Change("", "decode", "", _AS_IT_IS, ask.steps, load, decode(ask.steps, load.batch, load.context)),
        "prefill": _Change("", "prefill", "", _AS_IT_IS, ask.steps, load, prefill(ask.steps, load.prompt)),
    }
    short = ask.steps.held(load.context) < load.batch
    found = [_effect(one, before[one.phase], ask) for one in _changes(ask, before, short)]
    useful = [
        one
        for one in found
        # where the load does not fit as it is, times are as if it did, and so are those of what does not mend that
        if (one.speedup >= LEAST_GAIN and (one.fits or short)) or (short and one.phase == "decode" and one.fits)
    ]
    return tuple(sorted(useful, key=lambda one: (one.phase, short and not one.fits, -one.speedup)))


def _effect(change: _Change, before: _Change, ask: Ask) -> Prescription:
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


def _changes(ask: Ask, before: dict[Phase, _Change], short: bool) -> Iterator[_Change]:
    yield from _narrower_weights(ask, before)
    yield from _narrower_cache(ask)
    yield from _batches(ask, short)
    yield from _less_to_do(ask, before)
    yield from _ranks(ask, before)
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
        for name, device, text in other_devices(
            ask.model, ask.options, ask.deployment, ask.load, before[phase].time, phase, ask.cloud
        ):
            time = _phase(phase, device, ask.load)
            flag = f"--gpu {device.deployment.accelerator.id}"
            yield _Change(name, phase, flag, text, device, ask.load, time)


def _phase(phase: Phase, steps: Served, load: Load) -> PhaseTime:
    return prefill(steps, load.prompt) if phase == "prefill" else decode(steps, load.batch, load.context)


def _redeployed(
    ask: Ask, name: str, phase: Phase, change: str, text: Text, changed: dict[str, Any]
) -> Iterator[_Change]:
    """The same model with changed options; nothing where the engine cannot do it."""
    try:
        one = Served(deployed(ask.model, ask.deployment.accelerator, {**ask.options, **changed}))
        yield _Change(name, phase, change, text, one, ask.load, _phase(phase, one, ask.load))
    except BadInput:
        return


def _narrower_weights(ask: Ask, before: dict[Phase, _Change]) -> Iterator[_Change]:
    for name, precision in (("fp8_weights", "fp8"), ("int4_weights", "int4"), ("fp4_weights", "fp4")):
        if precision == "fp4" and ask.deployment.accelerator.fp4 is None:
            continue
        try:
            model, options = with_weights(ask.model, ask.options, precision)
            steps = Served(deployed(model, ask.deployment.accelerator, options))
            times = {phase: _phase(phase, steps, ask.load) for phase in before}
        except BadInput:
            continue
        label = {"fp8": "FP8", "int4": "INT4", "fp4": "NVFP4"}[precision]
        moved = {"before": _weights(before["decode"].time), "after": _weights(times["decode"])}
        decoded = Text(
            "weights in {label}: a step reads {after} of them in place of {before}",
            label=label,
            **{when: decimal(size) for when, size in moved.items()},
        )
        compute = {"before": before["prefill"].time, "after": times["prefill"]}
        filled = Text(
            "matrix products in {label}: {after} reached in place of {before}",
            label=label,
            **{when: rate(time.flops / time.time) for when, time in compute.items()},
        )
        assumed = None if precision == "fp8" else Text("a checkpoint quantized so; its quality is not judged here")
        texts = {"decode": decoded, "prefill": filled}
        for phase, time in times.items():
            flag = f"--precision {precision}"
            yield _Change(name, phase, flag, texts[phase], steps, ask.load, time, assumed=assumed)


def _weights(time: PhaseTime) -> int:
    return sum(times * weight_bytes((one,)) for times, one in time.operators)


def _cache(time: PhaseTime) -> int:
    return sum(times * kv_bytes((one,)) for times, one in time.operators)


def _narrower_cache(ask: Ask) -> Iterator[_Change]:
    if ask.deployment.kv.bits > 9:
        eight = "q8_0" if ask.deployment.engine.name == "llama.cpp" else "fp8"
        text = Text("KV cache in 8 bits: half the bytes to read and to hold")
        yield from _redeployed(
            ask, "fp8_kv_cache", "decode", f"--kv-cache-dtype {eight}", text, {"kv_cache_dtype": eight}
        )


def _batches(ask: Ask, short: bool) -> Iterator[_Change]:
    """As many sequences as memory holds; fewer than asked for where it does not hold these."""
    load = ask.load
    room = min(ask.steps.held(load.context), max(MOST_SEQUENCES, load.batch))
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
        Text("as many sequences as memory holds at {context} tokens", context=load.context)
        if short or room < MOST_SEQUENCES
        else Text("more sequences per step: weights are read once for all of them")
    )
    changed = msgspec.structs.replace(load, batch=room)
    time = decode(steps, room, load.context)
    yield _Change("batch", "decode", f"--batch {room}", text, steps, changed, time)


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


def _less_to_do(ask: Ask, before: dict[Phase, _Change]) -> Iterator[_Change]:
    load = ask.load
    rate_of = sum(ACCEPTED**n for n in range(DRAFTED + 1))
    yield _Change(
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
    half = load.context // 2
    if half >= 1:
        shorter = msgspec.structs.replace(load, context=half)
        time = decode(ask.steps, load.batch, half)
        text = Text(
            "half the context: a step reads {after} of KV cache in place of {before}",
            after=decimal(_cache(time)),
            before=decimal(_cache(before["decode"].time)),
        )
        yield _Change("shorter_context", "decode", f"--context {half}", text, ask.steps, shorter, time)
    cached = int(load.prompt * CACHED)
    if cached >= 1:
        yield _Change(
            "prefix_caching",
            "prefill",
            "prefix caching",
            Text("{cached} of {prompt} tokens of the prompt are not computed again", cached=cached, prompt=load.prompt),
            ask.steps,
            load,
            prefill(ask.steps, load.prompt, cached),
            assumed=Text("{percent} % of the prompt are in the prefix cache", percent=int(CACHED * 100)),
        )


def _ranks(ask: Ask, before: dict[Phase, _Change]) -> Iterator[_Change]:
    """More tensor-parallel ranks; and fewer, where they talk too long: replicas that share out devices and batch."""
    own = ask.deployment.tensor_parallel
    for tp in (1, 2, 4, 8):
        if tp == own or (tp < own and own % tp):
            continue
        try:
            options = {**ask.options, "tensor_parallel": tp, "expert_parallel": min(tp, ask.deployment.expert_parallel)}
            steps = Served(deployed(ask.model, ask.deployment.accelerator, options))
            for phase, now in before.items():
                yield _ranked(ask, phase, now, steps, tp)
        except BadInput:
            continue


def _ranked(ask: Ask, phase: Phase, now: _Change, steps: Served, tp: int) -> _Change:
    own = ask.deployment.tensor_parallel
    replicas = max(1, own // tp)
    load = msgspec.structs.replace(ask.load, batch=max(1, ask.load.batch // replicas))
    change, text = f"--tp {tp}", _AS_IT_IS
    if replicas > 1:
        change = f"{replicas} × --tp {tp}"
        text = Text(
            "{replicas} replicas on the same devices, {batch} sequences each", replicas=replicas, batch=load.batch
        )
    one = _Change(f"tp{tp}", phase, change, text, steps, load, _phase(phase, steps, load), replicas=replicas)
    if replicas > 1:
        return one
    gain = one.tokens_per_second / now.tokens_per_second
    text = Text(
        "{gain} × on {times} × the devices ({efficiency} %); they talk for {time}",
        gain=f"{gain:.2f}",
        times=tp // own,
        efficiency=f"{100 * gain * own / tp:.0f}",
        time=seconds(one.time.shares.get("interconnect", 0.0)),
    )
    return msgspec.structs.replace(one, text=text)

"""More tensor-parallel ranks; or fewer, as replicas that share out devices and batch."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from narrows.hardware.machines import joined
from narrows.roofline.change import AS_IT_IS, Ask, Change, phase_time
from narrows.roofline.link import link_of
from narrows.roofline.phases import Load, Served
from narrows.roofline.what_if import deployed
from narrows.step.operators import Phase
from narrows.text import BadInput, Text
from narrows.units import bandwidth, seconds


def ranks(ask: Ask, before: dict[Phase, Change]) -> Iterator[Change]:
    """More tensor-parallel ranks; and fewer, where they talk too long: replicas that share out devices and batch."""
    own = ask.deployment.tensor_parallel
    if ask.deployment.attention_data_parallel > 1:
        # how replicas of attention would be cut otherwise is a question of its own
        return
    # beyond a machine of eight, one more
    for tp in (1, 2, 4, 8) if own < 8 else (1, 2, 4, 8, 2 * own):
        if tp == own or (tp < own and own % tp):
            continue
        try:
            options = {**ask.options, "tensor_parallel": tp, "expert_parallel": min(tp, ask.deployment.expert_parallel)}
            steps = Served(deployed(ask.model, ask.deployment.accelerator, options))
            for phase, now in before.items():
                one = _ranked(ask, phase, now, steps, tp)
                if one.replicas == 1 or _holds(one, ask.load):
                    yield one
        except BadInput:
            continue


def _holds(change: Change, load: Load) -> bool:
    """Whether replicas have a sequence each to take, and room for it: one sequence cannot be shared out."""
    if change.phase == "prefill":
        return change.steps.held(load.prompt) >= 1
    return load.batch >= change.replicas and change.steps.held(load.context) >= change.load.batch


def _between(steps: Served, tp: int) -> Text | None:
    """What is assumed of ranks that stand in several machines."""
    device = steps.deployment.accelerator
    if tp <= joined(device):
        return None
    return Text(
        "they stand in several machines, with a network card of {speed} each",
        speed=bandwidth(link_of(device, tp).bandwidth),
    )


def _ranked(ask: Ask, phase: Phase, now: Change, steps: Served, tp: int) -> Change:
    own = ask.deployment.tensor_parallel
    replicas = max(1, own // tp)
    load = msgspec.structs.replace(ask.load, batch=max(1, ask.load.batch // replicas))
    change, text = f"--tp {tp}", AS_IT_IS
    if replicas > 1:
        change = f"{replicas} × --tp {tp}"
        text = Text(
            "{replicas} replicas on the same devices, each takes {batch} of the sequences",
            replicas=replicas,
            batch=load.batch,
        )
        if phase == "prefill":
            text = Text(
                "{replicas} replicas on the same devices, each with a prompt of its own: more prompts per second, but "
                "each takes longer",
                replicas=replicas,
            )
    time = phase_time(phase, steps, load)
    one = Change(f"tp{tp}", phase, change, text, steps, load, time, replicas=replicas, assumed=_between(steps, tp))
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

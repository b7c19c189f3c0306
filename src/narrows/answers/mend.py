"""Changes that make a load fit which does not, the least costly to the user first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from narrows.answers.verdict import bound_of
from narrows.deployment import Deployment, check_split, deploy, whole_blocks
from narrows.deployment.runs import unfit
from narrows.hardware import accelerators, cheapest
from narrows.memory import Capacity, capacity, start
from narrows.memory.aside import LEAST_STEP, fewer_sequences, smaller_steps
from narrows.text import BadInput, Text
from narrows.units import binary, usd


class Mend(msgspec.Struct, frozen=True):
    """One change that makes it fit: its flags, and that `max_batch` sequences of `length` tokens would fit then."""

    change: str
    text: Text
    max_batch: int
    length: int
    usd_per_hour: float | None


_SHORTEST = 256
"""A sequence shorter than this serves nobody, so no such length is offered as a mend."""
_MODEST = 4096
"""Tokens that are offered where no device takes a sequence of the length asked for."""
_PAGE = 16
"""A length offered as a mend is a whole number of the engine's usual pages, so that rounding up cannot undo it."""


def mends_of(
    deployment: Deployment,
    room: Capacity,
    load: int,
    options: dict[str, Any],
    cloud: str | None,
    least_length: int,
    batch: int | None = None,
) -> Iterator[Mend]:
    """Changes that make the load fit, the least costly to the user first: length, concurrency, precision, hardware.

    least_length: tokens a sequence must have at least (its prompt). batch: sequences, where so many were asked for.
    """
    gpu = deployment.accelerator

    def tried(change: str, text: Text, **changed: Any) -> Mend | None:
        wanted = changed.pop("batch", load)
        changed |= _whole_experts(deployment, changed.get("tensor_parallel", deployment.tensor_parallel))
        try:
            changed = {**options, "max_length": deployment.max_length, **changed}
            one = whole_blocks(deploy(deployment.model, gpu, **changed))
            left = capacity(one, wanted)
        except BadInput:
            # what the engine cannot do is no mend
            return None
        if left.max_batch < wanted or start(one).stage != "started":
            return None
        price = cheapest(gpu.id, one.count, cloud)
        return Mend(change, text, left.max_batch, one.max_length, price.usd_per_hour if price else None)

    if room.in_memory >= load and room.max_batch >= load:
        # it would fit, but the engine does not start: too little stays free outside its share
        flag = deployment.engine.gpu_memory_utilization_flag
        least = 5 if deployment.memory_in_use else 50
        for percent in () if _crowded(deployment) else range(int(deployment.utilization * 100) - 1, least - 1, -1):
            found = tried(
                f"{flag} {percent / 100:g}", Text("leaves more outside the engine's share"), utilization=percent / 100
            )
            if found:
                yield found
                break
        yield from _some(tried("--enforce-eager", Text("without CUDA graphs; decode is slower"), enforce_eager=True))
    yield from _beside_others(deployment, batch, tried)
    if room.in_memory < load:
        yield from _unbound(deployment, room, load, tried)
    if deployment.engine.name == "sglang" and room.in_memory < load:
        from narrows.memory.sglang import roomy_fraction

        fraction = roomy_fraction(deployment)
        if fraction > deployment.utilization:
            text = Text("a larger static share, which leaves as much as activations and graphs are estimated to need")
            yield from _some(
                tried(f"{deployment.engine.gpu_memory_utilization_flag} {fraction:g}", text, utilization=fraction)
            )
    if room.in_memory < load:
        yield from _reserving_less(deployment, load, tried)
    if room.max_batch < min(load, room.in_memory):
        text = Text("lets the engine run as many at once")
        yield from _some(tried(f"--max-num-seqs {load}", text, max_num_seqs=load))
    if room.pool > 0:
        shorter = room.max_length // _PAGE * _PAGE
        if shorter >= max(_SHORTEST, least_length):
            yield from _some(
                tried(f"--max-len {shorter}", Text("at most {n} tokens per sequence", n=shorter), max_length=shorter)
            )
        if 0 < room.max_batch < load:
            yield from _some(
                tried(
                    f"--batch {room.max_batch}",
                    Text("one sequence at a time")
                    if room.max_batch == 1
                    else Text("at most {n} sequences at once", n=room.max_batch),
                    batch=room.max_batch,
                )
            )
        if deployment.kv.bits > 9:
            eight = "q8_0" if deployment.engine.name == "llama.cpp" else "fp8"
            text = Text("KV cache in 8 bits, half the bytes")
            yield from _some(tried(f"--kv-cache-dtype {eight}", text, kv_cache_dtype=eight))
    usual = deployment.engine.gpu_memory_utilization
    if deployment.utilization < usual:
        flag = deployment.engine.gpu_memory_utilization_flag
        yield from _some(tried(f"{flag} {usual:g}", Text("the engine's usual share of the memory"), utilization=None))
    for tp in _splits(deployment):
        found = tried(
            f"--tp {tp}" + "".join(f" --ep {n}" for n in _whole_experts(deployment, tp).values()),
            Text("weights and KV shared by {n} of these", n=tp * deployment.attention_data_parallel),
            tensor_parallel=tp,
        )
        if found:
            yield found
            break
    else:
        for pp in (2, 4, 8):
            stages = pp * deployment.pipeline_parallel
            if stages <= deployment.model.layers:
                count = stages * deployment.ranks_per_stage
                text = Text("layers spread over {n} of these", n=count)
                found = tried(f"--pp {stages}", text, pipeline_parallel=stages)
                if found:
                    yield found
                    break
    # as asked for; else with the engine's usual share of the memory; else for sequences of a modest length too
    for length, share in ((deployment.max_length, False), (deployment.max_length, True), (_MODEST, True)):
        length = max(min(length, deployment.max_length), least_length)
        found = _hardware(deployment, length, share, load, options, cloud)
        if found is not None:
            yield found
            break


def _crowded(deployment: Deployment) -> bool:
    """Whether the engine refuses to start because its share is not free beside what others hold."""
    free = deployment.usable - deployment.memory_in_use
    return deployment.engine.checks_free and deployment.utilization * deployment.usable > free


def _beside_others(deployment: Deployment, batch: int | None, tried: Callable[..., Mend | None]) -> Iterator[Mend]:
    """Where others hold memory: a share that holds them too, in versions that count them; or without them."""
    held, flag = deployment.memory_in_use, deployment.engine.gpu_memory_utilization_flag
    if not held:
        return
    if deployment.others_inside and deployment.engine.name == "vllm":
        text = Text("the share of others ({held}) and its own together: this version counts both", held=binary(held))
        for percent in range(int(deployment.utilization * 100) + 1, 98):
            found = tried(f"{flag} {percent / 100:g}", text, utilization=percent / 100)
            if found:
                yield found
                break
    if _crowded(deployment):
        # as many sequences as that share holds: those of the whole device cannot be had beside others
        text = Text("a share that is free beside what others hold ({held})", held=binary(held))
        for percent in range(int(100 * (1 - held / deployment.usable)), 4, -1):
            found = tried(f"{flag} {percent / 100:g}", text, utilization=percent / 100, batch=1)
            if found:
                few = f" --batch {found.max_batch}" if batch is not None and found.max_batch < batch else ""
                yield msgspec.structs.replace(found, change=found.change + few)
                break
    text = Text("without what others hold of the device ({held})", held=binary(held))
    yield from _some(tried("--memory-in-use 0", text, memory_in_use=None))


def _unbound(deployment: Deployment, room: Capacity, load: int, tried: Callable[..., Mend | None]) -> Iterator[Mend]:
    """Where a flag keeps the KV cache smaller than the memory: as much of it as the load takes."""
    bound = bound_of(deployment, room)
    most = min(load, bound[1]) if bound is not None else 0
    if bound is None or not most:
        return
    text, fewer = Text("a KV cache that holds them; memory has room for it"), f" --batch {most}" if most < load else ""
    if bound[0] == "--max-total-tokens":
        wanted = most * room.pages.blocks_per_request(deployment.max_length) * room.pages.block
    else:
        # a block of every group besides, which the engine keeps empty, and whole MiB
        empty = room.pages.block_bytes * room.pages.group_count
        wanted = -(-(most * room.pages.request_bytes(deployment.max_length) + empty) // 2**20) * 2**20
    name = bound[0].strip("-").replace("-", "_")
    yield from _some(tried(f"{bound[0]} {wanted}{fewer}", text, batch=most, **{name: wanted}))


def _whole_experts(deployment: Deployment, tp: int, replicas: int | None = None) -> dict[str, int]:
    """Expert parallelism on `tp` ranks of each replica: an engine gives whole experts out over all of them, or none."""
    if deployment.expert_parallel == 1 or deployment.expert_width_parallel > 1:
        return {}
    return {"expert_parallel": tp * (replicas or deployment.attention_data_parallel)}


_SHARES = (0.93, 0.94, 0.95)
"""Shares above the usual ones that are offered to an engine which has the device to itself (assumed)."""


def _reserving_less(deployment: Deployment, load: int, tried: Callable[..., Mend | None]) -> Iterator[Mend]:
    """Where what the engine sets aside is what lacks: for fewer sequences, for smaller steps; or a larger share.

    Of those halves of what it is told now that make the load fit, the largest.
    """
    yield from _halved("--max-num-seqs", deployment.max_num_seqs, load, fewer_sequences, tried)
    yield from _halved("--max-num-batched-tokens", deployment.max_num_batched_tokens, LEAST_STEP, smaller_steps, tried)
    if deployment.engine.name != "vllm" or deployment.memory_in_use:
        return
    for share in _SHARES:
        found = share > deployment.utilization and tried(
            f"--gpu-memory-utilization {share:g}",
            Text(
                "a larger share for the engine, if nothing else needs the rest ({rest})",
                rest=binary(int((1 - share) * deployment.usable)),
            ),
            utilization=share,
        )
        if found:
            yield found
            break


def _halved(
    flag: str, now: int, least: int, text: Callable[[int, int], Text], tried: Callable[..., Mend | None]
) -> Iterator[Mend]:
    """The flag at the largest of `now` ÷ 2, ÷ 4, … down to `least` that mends. text: of (value, now)."""
    option = flag.strip("-").replace("-", "_")

    def at(value: int) -> Mend | None:
        return tried(f"{flag} {value}", text(value, now), **{option: value})

    found = at(least) if least < now else None
    if found is None:
        return
    value = now // 2
    while value > least:
        larger = at(value)
        if larger is not None:
            found = larger
            break
        value //= 2
    yield found


def _some(found: Mend | None) -> Iterator[Mend]:
    if found is not None:
        yield found


def _splits(deployment: Deployment) -> Iterator[int]:
    """Larger tensor-parallel sizes that divide the model; llama.cpp has none, and SGLang's counts replicas too."""
    name = deployment.engine.name
    if name == "llama.cpp" or (name == "sglang" and deployment.attention_data_parallel > 1):
        return
    for tp in (2, 4, 8, 16):
        if tp > deployment.tensor_parallel:
            try:
                check_split(deployment.model, tp, deployment.pipeline_parallel)
            except BadInput:
                continue
            yield tp


def _hardware(
    deployment: Deployment, length: int, usual_share: bool, load: int, options: dict[str, Any], cloud: str | None
) -> Mend | None:
    """The cheapest accelerators, alone or tensor-parallel, that take the load; else those that take most of it."""
    model, engine = deployment.model, deployment.engine
    offers = []
    split = "pp" if engine.name == "llama.cpp" else "tp"
    for count in (1, 2, 4, 8):
        try:
            check_split(model, *((1, count) if split == "pp" else (count, 1)))
        except BadInput:
            continue
        for device in accelerators():
            price = cheapest(device.id, count, cloud)
            same = device.id == deployment.accelerator.id and count <= deployment.count
            if price is not None and price.accelerator_count == count and not (same or device.is_cpu):
                offers.append((price.usd_per_hour, count, device, price))
    best: Mend | None = None
    for usd_per_hour, count, device, price in sorted(offers, key=lambda offer: offer[:2]):
        tp, pp = (1, count) if split == "pp" else (count, 1)
        changed: dict[str, Any] = {"max_length": length, "tensor_parallel": tp, "pipeline_parallel": pp}
        if usual_share:
            changed["utilization"] = None
        # what others hold is of this device, and replicas are of its count
        alone = {"memory_in_use": None, "attention_data_parallel": 1, **_whole_experts(deployment, tp, 1)}
        try:
            one = whole_blocks(deploy(model, device, **{**options, **alone, **changed}))
        except BadInput:
            continue
        if unfit(one, options["dtype"]):
            continue
        left = capacity(one, load)
        if start(one).stage != "started" or left.max_batch <= (best.max_batch if best else 0):
            continue
        change = f"--gpu {device.id}"
        if tp != deployment.tensor_parallel:
            change += f" --tp {tp}"
        if pp != deployment.pipeline_parallel:
            change += f" --pp {pp}"
        if deployment.attention_data_parallel > 1:
            change += " --dp 1"
        if one.expert_parallel != deployment.expert_parallel:
            change += f" --ep {one.expert_parallel}"
        if usual_share and deployment.utilization != engine.gpu_memory_utilization:
            change += f" {engine.gpu_memory_utilization_flag} {engine.gpu_memory_utilization:g}"
        if length != deployment.max_length:
            change += f" --max-len {length}"
        if options["max_num_seqs"] == load and _by_itself(one, options, alone | changed) > load:
            # so many were asked for, which that device exceeds by itself, and sets more aside for
            change += f" --max-num-seqs {load}"
        if left.max_batch < load:
            change += f" --batch {left.max_batch}"
        if deployment.memory_in_use:
            change += " --memory-in-use 0"
        text = Text(
            "{count} × {gpu}, at {price} per hour ({instance})",
            count=count,
            gpu=device.name,
            price=usd(usd_per_hour),
            instance=price.label,
        )
        best = Mend(change, text, left.max_batch, length, usd_per_hour)
        if left.max_batch >= load:
            break
    return best


def _by_itself(deployment: Deployment, options: dict[str, Any], changed: dict[str, Any]) -> int:
    """Sequences that the engine runs at once where it is not told how many."""
    told = {**options, **changed, "max_num_seqs": None}
    return deploy(deployment.model, deployment.accelerator, **told).max_num_seqs

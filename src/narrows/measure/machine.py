"""Measure this machine: all probes in turn within a time, and what they say of it as a device."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from narrows.measure import limits
from narrows.measure.compute import Product, peaks, rows, squares
from narrows.measure.contention import Conditions, Counters, Watch, counters
from narrows.measure.devices import AllReduce, Transfer, all_reduces, transfers
from narrows.measure.disk import Disk, disk
from narrows.measure.kernels import Kernel, kernels
from narrows.measure.library import Library
from narrows.measure.memory import (
    Bandwidth,
    bandwidths,
    first_touch,
    single_copy,
    smallest_operation,
    width,
    working_sets,
)
from narrows.measure.numpy_library import Numpy
from narrows.measure.timing import Clock, Pace
from narrows.measure.torch_library import Torch, accelerators, import_torch
from narrows.quantity import Quantity
from narrows.text import BadInput, Text
from narrows.units import GIB, MIB, gib

BUDGET = 80.0
"""Seconds for all probes together; loading the libraries and one last repeat come on top."""

_SHARES = {"squares": 18, "rows": 26, "memory": 14, "kernels": 12, "small": 2, "devices": 4, "disk": 16}

Told = Callable[[float, Text], None]
"""Called with the share that is done and what is being done."""


class Probed(msgspec.Struct, frozen=True):
    """All that the probes found.

    device: `cpu`, `cuda:0`, …; devices: how many of its kind. name: as the system or the driver gives it. cores:
    processors used. memory, available: bytes of the device, and of them free. cache: bytes of the last cache that the
    system names. launch, round_trip: seconds of the smallest operation, issued and waited for. notes: what could not
    be measured, and why.
    """

    device: str
    devices: int
    name: str
    libraries: tuple[str, ...]
    cores: int
    memory: int
    available: int
    cache: int
    products: tuple[Product, ...]
    bandwidths: tuple[Bandwidth, ...]
    kernels: tuple[Kernel, ...]
    launch: Quantity
    round_trip: Quantity
    first_touch: Quantity | None
    transfers: tuple[Transfer, ...]
    all_reduces: tuple[AllReduce, ...]
    disk: Disk | None
    conditions: Conditions
    seconds: float
    notes: tuple[Text, ...] = ()

    @property
    def peaks(self) -> dict[str, Product]:
        """The fastest product of each precision."""
        return peaks(self.products)

    @property
    def read(self) -> Bandwidth:
        """Reading the largest working set by all cores."""
        found = [one for one in self.bandwidths if one.operation == "read"]
        return max(found, key=lambda one: one.working_set)


def libraries_of(device: str, cores: int) -> list[Library]:
    """The libraries present for a device. Raises BadInput where there are none."""
    torch = import_torch()
    found: list[Library] = []
    if device != "cpu":
        if torch is None:
            raise BadInput("'{device}' can be measured through torch only: pip install 'narrows[torch]'", device=device)
        return [Torch(device)]
    with suppress(ImportError):
        found.append(Numpy(cores))
    if torch is not None:
        found.append(Torch("cpu"))
    if not found:
        raise BadInput("there is no library to multiply matrices with: pip install 'narrows[torch]', or numpy for less")
    return found


def chosen(device: str | None) -> tuple[str, list[str]]:
    """The device to measure (the first accelerator, else the processor) and all of its kind. Raises BadInput."""
    torch = import_torch()
    there = accelerators(torch) if torch is not None else []
    wanted = device or (there[0] if there else "cpu")
    if wanted == "cpu":
        return "cpu", ["cpu"]
    same = [one for one in there if one.partition(":")[0] == wanted.partition(":")[0]]
    exact = wanted if wanted in there else next((one for one in same if ":" not in wanted), None)
    if exact is None:
        raise BadInput(
            "torch finds no device '{device}' here; there are: {known}",
            device=wanted[:40],
            known=", ".join(["cpu", *there]),
        )
    return exact, same


def probe(
    device: str | None = None,
    *,
    scratch: str | None = None,
    scratch_bytes: int = GIB,
    budget: float = BUDGET,
    told: Told = lambda share, stage: None,
    clock: Clock = time.perf_counter,
    read: Callable[[], Counters] = counters,
    libraries: Sequence[Library] | None = None,
) -> Probed:
    """Run all probes within `budget` seconds. scratch: the folder whose disk is measured; None: no disk.

    Raises BadInput for a device that is not there, a scratch folder that cannot be written, or no library at all.
    """
    place, same = ("cpu", ["cpu"]) if libraries is not None else chosen(device)
    cores = limits.cores()
    used = list(libraries) if libraries is not None else libraries_of(place, cores)
    try:
        with limits.enough_memory():
            return _probed(place, same, used, cores, scratch, scratch_bytes, Pace(clock, budget), told, read)
    finally:
        for one in used:
            one.close()


def _probed(
    place: str,
    same: list[str],
    used: list[Library],
    cores: int,
    folder: str | None,
    scratch_bytes: int,
    pace: Pace,
    told: Told,
    read: Callable[[], Counters],
) -> Probed:
    begun = pace.clock()
    notes: list[Text] = []
    memory, available = limits.memory()
    cache = limits.last_level_cache()
    gpu = used[0] if isinstance(used[0], Torch) and place != "cpu" else None
    if gpu is not None:
        memory, available = _device_memory(gpu, memory, available)
        cache = _device_cache(gpu) or 64 * MIB
    room = available // 8
    stages = {name: share for name, share in _SHARES.items() if _wanted(name, gpu is not None, folder)}
    done = [0.0]

    def stage(name: str, text: Text) -> tuple[Pace, Callable[[float], None]]:
        share = stages.pop(name)
        before = done[0]
        done[0] += share / (sum(stages.values()) + share) * (1 - before)
        after = done[0]
        told(before, text)
        budget = pace.left * share / (sum(stages.values()) + share)
        return pace.part(budget), lambda part: told(before + part * (after - before), text)

    watch = Watch(read)
    part, step = stage("small", Text("the smallest operation"))
    library = used[-1]
    launch, trip = smallest_operation(library, part)
    part, step = stage("memory", Text("memory bandwidth"))
    sizes = working_sets(available, cache) if gpu is None else working_sets(available, cache, MIB, 2 * GIB)
    moved = bandwidths(used, sizes, cores, part, step)
    touched = None
    if gpu is None:
        copier = next((one for one in used if isinstance(one, Numpy)), used[0])
        moved.append(single_copy(copier, min(256 * MIB, max(room, MIB)), part))
        touched = first_touch(library, min(256 * MIB, max(room, MIB)) // 4096 * 4096, part)
    part, step = stage("squares", Text("matrix products, square"))
    products = squares(used, part, room, step)
    part, step = stage("rows", Text("matrix products, few rows"))
    curve = [name for name in ("bf16", "fp32", "fp16") if name in peaks(products) and name in library.precisions]
    if gpu is None and "fp16" in curve and len(curve) > 2:
        curve.remove("fp16")  # processors serve bf16 or fp32
    products += rows(library, curve, part, room, cache, step)
    part, step = stage("kernels", Text("attention and elementwise kernels"))
    small = kernels(library, curve, part, room, step) if isinstance(library, Torch) else []
    conditions = watch.stop(width([one.time for one in products] + [one.bandwidth for one in moved]))
    if gpu is not None and memory - available > max(2 * GIB, memory // 20):
        held = Text("other processes hold {size} of the device's memory", size=gib(memory - available))
        conditions = msgspec.structs.replace(conditions, contended=(*conditions.contended, held))
    buses: list[Transfer] = []
    sums: list[AllReduce] = []
    if gpu is not None:
        part, step = stage("devices", Text("host and devices"))
        buses = transfers(gpu, part)
        sums = all_reduces(same, part)
    drive = None
    if folder is not None:
        part, step = stage("disk", Text("disk"))
        drive = disk(folder, min(scratch_bytes, max(room, 64 * MIB)), part, step)
        notes += drive.notes
    if not any(one.working_set >= 2 * cache for one in moved):
        notes.append(Text("too little memory is free to measure beyond the caches: bandwidths are those of a cache"))
    told(1.0, Text("done"))
    return Probed(
        device=place,
        devices=len(same),
        name=_name(gpu),
        libraries=tuple(one.name for one in used),
        cores=cores,
        memory=memory,
        available=available,
        cache=cache,
        products=tuple(products),
        bandwidths=tuple(moved),
        kernels=tuple(small),
        launch=launch,
        round_trip=trip,
        first_touch=touched,
        transfers=tuple(buses),
        all_reduces=tuple(sums),
        disk=drive,
        conditions=conditions,
        seconds=pace.clock() - begun,
        notes=tuple(notes),
    )


def _wanted(name: str, gpu: bool, folder: str | None) -> bool:
    return {"devices": gpu, "disk": folder is not None}.get(name, True)


def _device_memory(gpu: Torch, memory: int, available: int) -> tuple[int, int]:
    total, free = gpu.free_memory()
    return (total, free) if total else (memory, available)


def _device_cache(gpu: Torch) -> int:
    properties: Any = getattr(gpu.torch, gpu.kind, None)
    if hasattr(properties, "get_device_properties"):
        return int(getattr(properties.get_device_properties(gpu.device), "L2_cache_size", 0))
    return 0


def _name(gpu: Torch | None) -> str:
    if gpu is None:
        return limits.processor()
    module: Any = getattr(gpu.torch, gpu.kind, None)
    if hasattr(module, "get_device_name"):
        return str(module.get_device_name(gpu.device))
    return f"{limits.processor()} ({gpu.kind})"

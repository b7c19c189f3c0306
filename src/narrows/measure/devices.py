"""Between host and devices: copies over the bus, and sums over all devices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from narrows.measure.timing import Pace, sample
from narrows.measure.torch_library import Torch, import_torch
from narrows.quantity import Quantity
from narrows.units import KIB, MIB


class Transfer(msgspec.Struct, frozen=True):
    """Bytes per second between host memory (pinned or pageable) and the device, in pieces of `size` bytes."""

    direction: str
    pinned: bool
    size: int
    bandwidth: Quantity


class AllReduce(msgspec.Struct, frozen=True):
    """Seconds of a sum over `ranks` devices of `message` bytes each; bandwidth: message ÷ time."""

    ranks: int
    message: int
    time: Quantity
    bandwidth: Quantity


def transfers(library: Torch, pace: Pace, sizes: tuple[int, ...] = (64 * KIB, 4 * MIB, 256 * MIB)) -> list[Transfer]:
    """Host → device and back, pinned and pageable, in small and large pieces."""
    found = []
    for pinned in (True, False):
        for to_device in (True, False):
            for size in sizes:
                try:
                    run = library.transfer(size, pinned, to_device)
                except RuntimeError:
                    continue  # no pinned memory to be had: MPS, or a limit on locked memory
                taken = sample(run, settle=library.settle, clock=pace.clock, budget=0.1)
                name = "host to device" if to_device else "device to host"
                found.append(Transfer(name, pinned, size, taken.rate(size, "B/s")))
    return found


def all_reduces(
    devices: list[str],
    pace: Pace,
    sizes: tuple[int, ...] = (8 * KIB, 256 * KIB, 8 * MIB, 256 * MIB),
    reduce: Callable[[Any, list[Any]], object] | None = None,
) -> list[AllReduce]:
    """Sums over all devices by NCCL (RCCL) from this process; none for fewer than two."""
    torch = import_torch()
    if len(devices) < 2 or torch is None:
        return []
    run_once = reduce or (lambda module, tensors: module.cuda.nccl.all_reduce(tensors))
    found: list[AllReduce] = []
    for size in sizes:
        tensors = [torch.ones(size // 2, dtype=torch.bfloat16, device=device) for device in devices]

        def settle() -> None:
            for device in devices:
                if device.startswith("cuda"):
                    torch.cuda.synchronize(device)

        try:
            taken = sample(partial(run_once, torch, tensors), settle=settle, clock=pace.clock, budget=0.2)
        except (RuntimeError, AttributeError):
            return found  # built without NCCL
        found.append(AllReduce(len(devices), size, taken.seconds, taken.rate(size, "B/s")))
    return found

"""`gpus`: which accelerators are known, with memory, peaks, ridge points and prices."""

from __future__ import annotations

import msgspec

from narrows.answers.base import Answer, command_line
from narrows.hardware import Accelerator, cheapest, select
from narrows.quantity import Kind
from narrows.text import Text


class Gpu(msgspec.Struct, frozen=True):
    """One accelerator.

    memory_bytes: all of its memory; usable_bytes: what a process gets (usable_kind: measured or assumed; None for a
    host processor). memory_bandwidth: bytes/s. peaks: dense FLOP/s by precision; ridge: FLOP/B by precision.
    usd_per_hour: the cheapest on-demand instance with one of them in the snapshot, named in `instance`.
    """

    id: str
    name: str
    vendor: str
    architecture: str
    launch_year: int
    memory_bytes: int
    usable_bytes: int | None
    usable_kind: Kind | None
    usable_basis: Text | None
    memory_bandwidth: float
    peaks: dict[str, float]
    ridge: dict[str, float]
    usd_per_hour: float | None
    instance: str | None
    price_as_of: str | None
    confidence: str
    source: str
    notes: str


class GpuList(Answer, frozen=True, kw_only=True):
    """The answer of `gpus`."""

    schema: str = "narrows.gpus/1"
    gpus: tuple[Gpu, ...]


def gpus(
    text: str = "",
    *,
    vendor: str | None = None,
    min_memory: int | None = None,
    precision: str | None = None,
    cloud: str | None = None,
) -> GpuList:
    """Accelerators whose names hold `text`, of a vendor, with at least `min_memory` bytes, with a peak at `precision`.

    cloud: prices of this cloud only. Raises BadInput for an unknown vendor, precision or cloud.
    """
    found = select(vendor=vendor, min_memory=min_memory, precision=precision, text=text or None)
    return GpuList(
        command=command_line("gpus", text, vendor=vendor, min_memory=min_memory, precision=precision, cloud=cloud),
        gpus=tuple(_row(device, cloud) for device in found),
        sources=tuple(sorted({device.source for device in found})),
    )


def _row(device: Accelerator, cloud: str | None) -> Gpu:
    usable = None if device.is_cpu and device.usable_bytes is None else device.usable
    price = cheapest(device.id, 1, cloud)
    if price is not None and price.accelerator_count != 1:
        price = None
    return Gpu(
        id=device.id,
        name=device.name,
        vendor=device.vendor,
        architecture=device.architecture,
        launch_year=device.launch_year,
        memory_bytes=device.memory_bytes,
        usable_bytes=usable.bytes if usable else None,
        usable_kind=usable.kind if usable else None,
        usable_basis=usable.basis if usable else None,
        memory_bandwidth=device.memory_bandwidth,
        peaks={name: device.peak(name) for name in device.precisions},
        ridge={name: device.ridge(name) for name in device.precisions},
        usd_per_hour=price.usd_per_hour if price else None,
        instance=price.label if price else None,
        price_as_of=price.as_of if price else None,
        confidence=device.confidence,
        source=device.source,
        notes=device.notes,
    )

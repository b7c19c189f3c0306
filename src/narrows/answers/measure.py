"""`measure machine`: what can this machine really do?"""

from __future__ import annotations

import datetime
import os
import tempfile
from collections.abc import Callable
from typing import Any

import msgspec

from narrows.answers.base import Answer, command_line
from narrows.hardware import Accelerator
from narrows.hardware.this_machine import keep, machine_path, writable
from narrows.measure.as_device import as_device, as_machine, datasheet
from narrows.measure.compute import Product
from narrows.measure.contention import Conditions
from narrows.measure.devices import AllReduce, Transfer
from narrows.measure.disk import Disk
from narrows.measure.kernels import Kernel
from narrows.measure.machine import BUDGET, Probed, Told, probe
from narrows.measure.memory import Bandwidth
from narrows.quantity import Quantity
from narrows.text import BadInput, Text
from narrows.units import GIB

SHORTEST, LONGEST = 5, 600


class Peak(msgspec.Struct, frozen=True):
    """The fastest matrix product at a precision, over all libraries present; shape: [m, k] × [k, n].

    ridge: FLOP/B, this peak over the measured bandwidth. datasheet: the FLOP/s on paper; share: of it.
    """

    precision: str
    library: str
    shape: tuple[int, int, int]
    flops: Quantity
    ridge: float
    datasheet: float | None
    share: float | None


class MachineMeasured(Answer, frozen=True, kw_only=True):
    """The answer of `measure machine`; times in seconds, bandwidths in bytes/s, all `measured`, with 80 % intervals.

    device: as torch names it; count: how many of its kind; name: as system or driver call it; datasheet: its entry in
    the catalogue. bandwidth: of reading more than any cache holds, and its share of the data sheet's. products: every
    matrix product that was timed; bandwidths: by working set. kernels: what else a decoder runs. launch: of the
    smallest operation as it is issued; round_trip: as it is waited for. first_touch: B/s of memory fresh from the
    system. stored: whether it was kept as `this-machine`, in the file `store`; reason: why not.
    """

    schema: str = "narrows.measure-machine/1"
    device: str
    count: int
    name: str
    libraries: tuple[str, ...]
    cores: int
    memory_bytes: int
    usable_bytes: int
    cache_bytes: int
    datasheet: str | None
    peaks: tuple[Peak, ...]
    bandwidth: Quantity
    datasheet_bandwidth: float | None
    bandwidth_share: float | None
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
    stored: bool
    store: str
    reason: Text | None


def measure_machine(
    *,
    device: str | None = None,
    scratch: str | None = None,
    disk: bool = True,
    scratch_bytes: int = GIB,
    seconds: float = BUDGET,
    beside: str | None = None,
    store: bool = True,
    force: bool = False,
    progress: Told = lambda share, stage: None,
    probing: Callable[..., Probed] = probe,
) -> MachineMeasured:
    """Measure this machine within `seconds` (and a tenth) and keep it as the accelerator `this-machine`.

    device: `cpu`, `cuda`, `cuda:1`, `mps`, …; None: the first accelerator that torch finds, else the processor.
    scratch: the folder whose disk is measured with a file of at most `scratch_bytes` (None: the system's temporary
    one); disk=False: no disk. beside: the accelerator whose data sheet it is held against (None: found by name).
    store: keep it; a run that other work disturbed is kept only with `force`. Raises BadInput.
    """
    if not SHORTEST <= seconds <= LONGEST:
        raise BadInput(
            "--seconds is {seconds}; it must be from {least} to {most}",
            seconds=f"{seconds:g}",
            least=SHORTEST,
            most=LONGEST,
        )
    if beside is not None:
        from narrows.hardware import find_accelerator

        find_accelerator(beside)
    if store:
        writable(machine_path())
    folder = os.path.abspath(scratch or tempfile.gettempdir()) if disk else None
    if folder is not None and not os.path.isdir(folder):
        raise BadInput("--scratch names '{folder}', which is no directory", folder=folder)
    found = probing(device, scratch=folder, scratch_bytes=scratch_bytes, budget=seconds, told=progress)
    sheet = datasheet(found, beside)
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    stored, reason = _kept(found, sheet, date, store, force)
    said: dict[str, Any] = {
        "device": device,
        "scratch": scratch,
        "no_disk": not disk,
        "seconds": seconds if seconds != BUDGET else None,
        "datasheet": beside,
        "no_store": not store,
        "force": force,
    }
    return _answer(found, sheet, date, stored, reason, command_line("measure", "machine", **said))


def _kept(found: Probed, sheet: Accelerator | None, date: str, store: bool, force: bool) -> tuple[bool, Text | None]:
    if not store:
        return False, Text("it was not asked to be kept")
    if found.conditions.contended and not force:
        return False, Text("the machine was not quiet; measure again when it is, or keep this with --force")
    try:
        keep(as_machine(found, sheet, date))
    except BadInput as error:
        return False, error.text  # what took minutes to measure is shown all the same
    return True, None


def _answer(
    found: Probed, sheet: Accelerator | None, date: str, stored: bool, reason: Text | None, command: str
) -> MachineMeasured:
    device = as_device(found, sheet, date)
    read = found.read.bandwidth
    return MachineMeasured(
        command=command,
        device=found.device,
        count=found.devices,
        name=found.name,
        libraries=found.libraries,
        cores=found.cores,
        memory_bytes=found.memory,
        usable_bytes=found.available,
        cache_bytes=found.cache,
        datasheet=sheet.id if sheet else None,
        peaks=tuple(_peak(one, read.value, sheet) for one in found.peaks.values()),
        bandwidth=read,
        datasheet_bandwidth=sheet.memory_bandwidth if sheet else None,
        bandwidth_share=read.value / sheet.memory_bandwidth if sheet else None,
        products=found.products,
        bandwidths=found.bandwidths,
        kernels=found.kernels,
        launch=found.launch,
        round_trip=found.round_trip,
        first_touch=found.first_touch,
        transfers=found.transfers,
        all_reduces=found.all_reduces,
        disk=found.disk,
        conditions=found.conditions,
        seconds=found.seconds,
        stored=stored,
        store=machine_path(),
        reason=reason,
        assumptions=(*found.notes, *_HOW),
        sources=(device.source, *([sheet.source] if sheet else [])),
    )


def _peak(one: Product, bandwidth: float, sheet: Accelerator | None) -> Peak:
    paper = getattr(sheet, one.precision, None) if sheet else None
    return Peak(
        precision=one.precision,
        library=one.library,
        shape=(one.m, one.k, one.n),
        flops=one.flops,
        ridge=one.flops.value / bandwidth,
        datasheet=paper,
        share=one.flops.value / paper if paper else None,
    )


_HOW = (
    Text("medians of repeats after a warm-up; 80 % of the repeats lie between low and high"),
    Text("a peak is that of the fastest library and shape; weights of few-row products were not in a cache"),
    Text("copy and add count bytes read and bytes written, but not the lines a processor reads before it writes"),
)
"""How every such measurement was made."""

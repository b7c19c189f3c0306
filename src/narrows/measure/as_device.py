"""What was measured, as a device and as laws of its speed: what is kept as `this-machine`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from narrows.calibration.curve import CURVES, along, values_of
from narrows.calibration.laws import Law
from narrows.hardware import PRECISIONS, THIS_MACHINE, Accelerator, find_accelerator
from narrows.hardware.this_machine import Machine
from narrows.measure.compute import Product
from narrows.measure.machine import Probed
from narrows.measure.timing import quantile
from narrows.text import BadInput
from narrows.units import gib

_VENDORS = ("amd", "apple", "intel", "nvidia", "arm", "google", "aws")


def datasheet(found: Probed, wanted: str | None = None) -> Accelerator | None:
    """The catalogue's entry for what was measured: `wanted`, else by the name the driver gives; None: no such one.

    Raises BadInput for a `wanted` that is not in the catalogue.
    """
    if wanted is not None:
        return find_accelerator(wanted)
    try:
        return find_accelerator(found.name)
    except BadInput:
        return None


def as_device(found: Probed, sheet: Accelerator | None, date: str) -> Accelerator:
    """The device as measured. What was not measured (links, power) is as in its data sheet, peaks are not."""
    peaks: dict[str, float | None] = dict.fromkeys(PRECISIONS) | {
        name: one.flops.value for name, one in found.peaks.items() if name in PRECISIONS
    }
    host = found.device == "cpu"
    facts = {
        "id": THIS_MACHINE,
        "name": f"{found.name}, as measured",
        "aliases": (),
        "memory_label": f"{gib(found.memory, 0)}{' host DRAM' if host else ''}",
        "memory_bytes": found.memory,
        "memory_options": (),
        "memory_basis": "as the system reports it",
        "memory_bandwidth": found.read.bandwidth.value,
        "usable_bytes": found.available,
        "usable_kind": "measured",
        "usable_source": f"free when it was measured, {date}",
        "source": f"narrows measure machine, {date}",
        "confidence": "high",
        "as_of": date,
        "notes": "",
        **peaks,
    }
    if sheet is not None:
        return msgspec.structs.replace(sheet, **facts)
    vendor = next((name for name in _VENDORS if name in found.name.lower()), "unknown")
    return Accelerator(
        vendor=vendor,
        architecture="unknown",
        form_factor="unknown",
        launch_year=0,
        memory_kind="host" if host else "unified" if found.device == "mps" else "device",
        memory_type="DRAM" if host else "unknown",
        **facts,  # type: ignore[arg-type]
    )


def laws_of(found: Probed, date: str) -> dict[str, list[msgspec.Raw]]:
    """The measured curves: products by rows of each precision, bandwidths by working set, the smallest operation."""
    source, library = f"narrows measure machine, {date}", found.libraries[-1]
    rows: list[Law] = []
    for precision in dict.fromkeys(one.precision for one in found.products):
        points = [
            one for one in found.products if one.precision == precision and one.library == library and one.m != one.k
        ]
        if points:
            low, high = _interval(points)
            values = values_of((one.m, one.k, one.n, one.time.value) for one in points)
            rows.append(
                Law("gemm", THIS_MACHINE, values, low, high, len(points), f"measured with {library}", source, precision)
            )
    for operation in dict.fromkeys(one.operation for one in found.bandwidths):
        rates = [one for one in found.bandwidths if one.operation == operation and one.threads != 1]
        if rates:
            values = {str(one.working_set): one.bandwidth.value for one in rates}
            rows.append(Law(operation, THIS_MACHINE, values, 1.0, 1.0, len(rates), "measured", source))
    for kind, at in dict.fromkeys((one.operation, one.precision) for one in found.kernels):
        of = [one for one in found.kernels if (one.operation, one.precision) == (kind, at)]
        values = {"seconds" if kind == "eager" else str(one.size): one.time.value for one in of}
        rows.append(Law(kind, THIS_MACHINE, values, 1.0, 1.0, len(of), f"measured with {library}", source, at))
    launch = {"issued": found.launch.value, "waited": found.round_trip.value}
    rows.append(Law("launch", THIS_MACHINE, launch, 1.0, 1.0, 1, f"measured with {library}", source))
    return {CURVES: [msgspec.Raw(msgspec.json.encode(row)) for row in rows]}


def _interval(points: Sequence[Product]) -> tuple[float, float]:
    """Multiples of the curve's times between which 80 % of the points lie when each is left out and predicted by the
    others of its weight: how well the curve speaks of what it was not measured at.
    """
    ratios = []
    for shape in dict.fromkeys((one.k, one.n) for one in points):
        rows = sorted((one.m, one.time.value) for one in points if (one.k, one.n) == shape)
        for index in range(1, len(rows) - 1):
            others = {str(m): seconds for m, seconds in (rows[index - 1], rows[index + 1])}
            ratios.append(rows[index][1] / along(others, rows[index][0]))
    ordered = sorted([*ratios, 1.0])
    return min(1.0, quantile(ordered, 0.1)), max(1.0, quantile(ordered, 0.9))


def as_machine(found: Probed, sheet: Accelerator | None, date: str) -> Machine:
    """All that is kept."""
    return Machine(
        device=as_device(found, sheet, date),
        laws=laws_of(found, date),
        measured=date,
        contended=bool(found.conditions.contended),
        datasheet=sheet.id if sheet else None,
    )

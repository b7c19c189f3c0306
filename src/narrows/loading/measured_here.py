"""What 'narrows measure load --calibrate' kept of a storage of this machine stands in for the catalogue's figures."""

from __future__ import annotations

import msgspec

from narrows.calibration import Coefficient
from narrows.calibration.store import MeasuredStorage, measured_storages
from narrows.hardware.storage import Storage
from narrows.loading.place import Place
from narrows.loading.rates import Rates
from narrows.text import Text


def measured_here(place: Place | None, storage: Storage, rates: Rates) -> tuple[Storage, Rates, Text | None]:
    """The storage and the rates as measured where `place` lies, and a sentence that says so; else as they were.

    Raises BadInput for a store of corrections that is damaged.
    """
    found = None if place is None else _of(place)
    if found is None:
        return storage, rates, None
    source = f"narrows measure load, {found.date}"
    measured = msgspec.structs.replace(
        storage, bandwidth=found.top, low=found.top, high=found.top, basis="measured", source=source, unless="",
        write=storage.write,
    )  # fmt: skip
    changed = dict(rates)
    for name, value in (
        (f"stream.{storage.id}", found.stream),
        ("first_touch", found.first_touch),
        ("memcpy", found.memcpy),
        ("fault", found.latency),
    ):
        if value:
            unit = "s" if name == "fault" else "B/s"
            changed[name] = Coefficient("loading", name, value, unit, value, value, 1, "measured here", source)
    note = Text(
        "storage and host memory as 'narrows measure load' found them here on {date} ('narrows calibration')",
        date=found.date,
    )
    return measured, changed, note


def _of(place: Place) -> MeasuredStorage | None:
    same = [one for one in measured_storages() if (one.device, one.filesystem) == (place.device, place.filesystem)]
    return same[-1] if same else None

"""`calibration`: which corrections are on record?"""

from __future__ import annotations

from narrows.answers.base import Answer, command_line
from narrows.calibration.store import Correction, MeasuredStorage, corrections, measured_storages, remove, store_path


class Calibration(Answer, frozen=True, kw_only=True):
    """The answer of `calibration`: the store's path, its corrections, then the storages measured, the oldest first."""

    schema: str = "narrows.calibration/1"
    path: str
    corrections: tuple[Correction, ...]
    storages: tuple[MeasuredStorage, ...] = ()


def calibration(*, forget: int | None = None) -> Calibration:
    """The corrections on record; forget: take out the one with this number first. Raises BadInput."""
    if forget is not None:
        remove(forget)
    return Calibration(
        command=command_line("calibration"),
        path=store_path(),
        corrections=corrections(),
        storages=measured_storages(),
    )

"""Laws of speed as fact files: the coefficients of one operator on one device, class of devices, or any device."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache

import msgspec

from narrows.hardware.this_machine import THIS_MACHINE, machine


class Law(msgspec.Struct, frozen=True):
    """Coefficients by name for `operator`, as `scripts/` fitted them on rows that are not scored.

    device: an accelerator's id, a class of devices (see `narrows.roofline.device_keys`), or `any`. precision, engine:
    what they hold for; empty: all. low, high: 80 % of the measured times lie between these multiples of the predicted
    one. n: rows they rest on; 0: assumed. basis: how they were found; source: where the rows are from. model, version: of
    laws of whole steps that hold for one model's shape and one version of the engine alone; empty: for all.
    """

    operator: str
    device: str
    values: dict[str, float]
    low: float
    high: float
    n: int
    basis: str
    source: str
    precision: str = ""
    engine: str = ""
    model: str = ""
    version: str = ""


@cache
def laws(name: str) -> tuple[Law, ...]:
    """All laws of `name`.jsonl: `gemm`, `attention`, `experts`, `collectives`, `steps`, …"""
    path = os.path.join(os.path.dirname(__file__), "data", f"{name}.jsonl")
    with open(path, "rb") as file:
        return tuple(msgspec.json.decode(line, type=Law) for line in file if line.strip())


def measured_laws(name: str) -> tuple[Law, ...]:
    """The laws of `name` that `narrows measure machine` found here, whose device is `this-machine`."""
    found = machine()
    rows = found.laws.get(name, []) if found else []
    return tuple(msgspec.json.decode(row, type=Law) for row in rows)


def law(name: str, operator: str, devices: Sequence[str], precision: str = "", engine: str = "") -> Law:
    """The most special law: `devices` are tried in order; then the same precision and engine before any.

    A combination that no row covers is a mistake of ours: KeyError.
    """
    measured = measured_laws(name) if THIS_MACHINE in devices else ()
    rows = [row for row in (*measured, *laws(name)) if row.operator == operator]
    rows = [row for row in rows if row.precision in ("", precision) and row.engine in ("", engine)]
    for device in devices:
        found = [row for row in rows if row.device == device]
        if found:
            return max(found, key=lambda row: (row.engine != "", row.precision != ""))
    raise KeyError(f"no law of {operator} at {precision} in {name}")

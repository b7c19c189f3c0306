"""Writes the laws of mixtures of experts, fitted on the bundled rows that are not scored.

    python -m scripts.fit_experts

A law by format for every device; of its architecture, with the same values and the interval of a device left out; of
`Blackwell GDDR`, the law of the Blackwell that is measured (vLLM takes CUTLASS there, which the rows here hold for two
models only: too few to stand for others); of `nvidia GDDR` for weights
of 4 bits, on the device that runs Marlin; `nvidia` of all devices that run the kernel of most devices, and `any` as
that, assumed. A device that is left out is predicted by the others that run its kernel, or by all others where none
does. A table whose best law reaches less than `BELIEVED` of the bandwidth stands for its device and engine alone.
Writes calibration/data/experts.jsonl; `without ID` are the laws with one device left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from narrows.accuracy.experts_rows import Rows, experts_rows, picked
from narrows.calibration.laws import Law
from narrows.roofline.devices import device_keys
from narrows.roofline.experts import experts_time
from scripts.fit_attention import ASSUMED, ORIGIN, SOURCE, write
from scripts.fitting_laws import Coefficient, Sample, fitted, middle, ratios

ROWS = 3000
BLOCKS, SCALED = "fp8 blocks", "fp8"
MARLIN_FORMAT = "w4a16"
"""What every device with GDDR runs Marlin for."""
START = {
    "launch": Coefficient(2e-5),
    "sorting": Coefficient(1e-8),
    "bandwidth": Coefficient(0.8, 3),
    "resident": Coefficient(0.9, 5),
    "resident_sharpness": Coefficient(4.0, 5),
    "resident_rate": Coefficient(3e10),
    "peak": Coefficient(0.5),
    "tile": Coefficient(24.0),
    "narrow": Coefficient(64.0),
    "wave": Coefficient(0.3),
    "elsewhere": Coefficient(0.3),
    "activation_bandwidth": Coefficient(0.6, 2),
    "sharpness": Coefficient(3.0),
}
_AS = "as in blocks, whose kernel multiplies alike, on"
FITTED: dict[tuple[str, ...], dict[str, float]] = {}
"""Laws by format and devices."""


def kernel_of(rows: Rows) -> str:
    """The kernel of most of the rows."""
    return str(Counter(rows.kernels.tolist()).most_common(1)[0][0])


def whole(rows: Rows) -> Sample:
    """All rows, each with the same weight."""
    return Sample(rows.device, rows.operator, rows.seconds, np.ones(len(rows.seconds)))


def sample(rows: Rows) -> Sample:
    """Rows to fit on."""
    number = len(rows.seconds)
    if number > ROWS:
        rows = picked(rows, np.sort(np.random.default_rng(0).choice(number, ROWS, replace=False)))
    return whole(rows)


def values_of(rows: Sequence[Rows]) -> dict[str, float]:
    """The law of these tables together; fitted once."""
    known = (rows[0].format, *(one.device.id for one in rows))
    if known not in FITTED:
        FITTED[known] = fitted([sample(one) for one in rows], experts_time, START, [({}, {})])
    return FITTED[known]


def interval(rows: Sequence[Rows], values: Sequence[Mapping[str, float]]) -> tuple[float, float]:
    """The middle 80 % of measured ÷ predicted, each device with the same weight."""
    found: list[Any] = [ratios(whole(one), experts_time, value) for one, value in zip(rows, values, strict=True)]
    return middle(found, [np.ones(len(one)) for one in found])


def others_of(rows: Rows, all_rows: Sequence[Rows]) -> list[Rows]:
    """The tables that predict this one: those of its kernel, or all others."""
    others = [other for other in all_rows if other is not rows]
    return [other for other in others if kernel_of(other) == kernel_of(rows)] or others


def left_out(rows: Sequence[Rows]) -> dict[str, dict[str, float]]:
    """Of each device, the law that the others give it."""
    return {one.device.id: values_of(others_of(one, rows)) for one in rows} if len(rows) > 1 else {}


def laws_of(format: str, rows: Sequence[Rows], usual: tuple[float, float]) -> tuple[list[Law], list[Law]]:
    """The laws of a format, and those for a device that is left out. usual: the interval of other formats, where this
    one has no second device.
    """

    def law(device: str, values: Mapping[str, float], bounds: tuple[float, float], n: int, basis: str) -> Law:
        return Law("experts", device, dict(values), *bounds, n, basis, ORIGIN, format)

    made, left = [], []
    good, missing = rows, left_out(rows)
    bounds = interval(good, [missing[one.device.id] for one in good]) if missing else usual
    for one in good:
        own, number = values_of([one]), len(one.seconds)
        basis = f"fitted on this device ({kernel_of(one)})"
        made.append(law(one.device.id, own, interval([one], [own]), number, basis))
        basis = f"fitted on {one.device.id} ({kernel_of(one)}); interval: of devices left out"
        made.append(law(device_keys(one.device)[1], own, bounds, number, basis))
        if one.device.id in missing:
            others = [other for other in good if other is not one]
            held = interval(others, [missing[other.device.id] for other in others]) if len(others) > 1 else bounds
            near = others_of(one, good)
            basis = "fitted on " + ", ".join(other.device.id for other in near)
            left.append(
                law(f"without {one.device.id}", missing[one.device.id], held, sum(len(o.seconds) for o in near), basis)
            )
        if device_keys(one.device)[1] == "Blackwell HBM" and format != MARLIN_FORMAT:
            made.append(law("Blackwell GDDR", own, bounds, number, basis))
    marlin = [one for one in good if kernel_of(one) == "marlin"]
    if marlin:
        basis = f"fitted on {marlin[0].device.id} (marlin); interval: of devices left out"
        made.append(law("nvidia GDDR", values_of(marlin), bounds, sum(len(o.seconds) for o in marlin), basis))
    common = Counter(kernel_of(one) for one in good).most_common(1)[0][0]
    most = [one for one in good if kernel_of(one) == common]
    every, number = values_of(most), sum(len(one.seconds) for one in most)
    basis = "fitted on " + ", ".join(one.device.id for one in most) + f" ({common}); interval: of devices left out"
    made.append(law("nvidia", every, bounds, number, basis))
    made.append(law("any", every, ASSUMED, 0, "assumed: as NVIDIA's devices, with the interval of an unknown kernel"))
    return made, left


def as_blocks(made: Sequence[Law]) -> list[Law]:
    """Laws of fp8 with one scale per tensor where only blocks were measured: assumed to be those."""
    known = {law.device for law in made if law.precision == SCALED}
    return [
        msgspec.structs.replace(
            law, precision=SCALED, n=0, low=ASSUMED[0], high=ASSUMED[1], basis=f"assumed: {_AS} {law.device}"
        )
        for law in made
        if law.precision == BLOCKS and law.device not in known
    ]


def main() -> None:
    """Fits and writes."""
    groups: dict[str, list[Rows]] = {}
    for rows in experts_rows():
        if not rows.test:
            groups.setdefault(rows.format, []).append(rows)
    pairs = [(one, found[one.device.id]) for rows_ in groups.values() if (found := left_out(rows_)) for one in rows_]
    usual = interval([one for one, _ in pairs], [values for _, values in pairs])
    made: list[Law] = []
    left: list[Law] = []
    for format, members in sorted(groups.items()):
        print(format, [(one.device.id, kernel_of(one)) for one in members], flush=True)
        laws, without = laws_of(format, members, usual)
        made += laws
        left += without
    made += as_blocks(made)
    write(SOURCE / "calibration/data/experts.jsonl", [*made, *left])


if __name__ == "__main__":
    main()

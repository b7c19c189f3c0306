"""Writes the laws of attention, fitted on the bundled rows that are not scored, and those with one device left out.

    python -m scripts.fit_attention

Laws by phase and sharing of KV heads, precision of the cache, and engine (the open kernels that vLLM takes stand
without an engine's name). For each: of every device; of its architecture, with the same values and the interval of a
device left out; `nvidia HBM` of all devices with HBM together; `nvidia GDDR` of the one there is, its shares of peak
and bandwidth half-way to all devices'; `Blackwell GDDR` as that, for GDDR7; `nvidia` of all; `any` as `nvidia`, but
assumed. `without ID` are the laws with one device left out. Writes calibration/data/attention.jsonl, and scan.jsonl,
the assumed law of recurrences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from narrows.accuracy.attention_rows import Rows, attention_rows, picked
from narrows.calibration.laws import Law
from narrows.hardware import Accelerator
from narrows.roofline.attention import attention_time
from narrows.roofline.devices import device_keys
from scripts.fitting_laws import Coefficient, Sample, between, fitted, middle, ratios

SOURCE = Path(__file__).resolve().parent.parent / "src/narrows"
ORIGIN = "ai-dynamo/aiconfigurator@095f58a5 systems/data (Apache-2.0), operators-attention.npz"
ASSUMED = (0.4, 2.5)
ROWS = 800
"""Rows of one device and law that are fitted on, drawn with one seed."""
LARGE = 1.5
"""Weight of rows that are scored."""
DECODE = {
    "launch": Coefficient(8e-6),
    "bandwidth": Coefficient(0.9, 3),
    "query_traffic": Coefficient(1.0, 2),
    "resident": Coefficient(1.0, 20),
    "resident_sharpness": Coefficient(8, 3),
    "resident_rate": Coefficient(2.5e10),
    "slots": Coefficient(2.0),
    "piece": Coefficient(512.0),
    "step": Coefficient(1e-8),
    "start": Coefficient(1e-6),
    "next_tile": Coefficient(0.5),
    "unshared": Coefficient(1.0),
    "sharpness": Coefficient(3.0),
    "drain": Coefficient(4e-6),
    "drain_from": Coefficient(5e-6),
}
PREFILL = {
    "launch": Coefficient(1e-5),
    "bandwidth": Coefficient(0.6),
    "peak": Coefficient(0.5),
    "diagonal": Coefficient(128.0),
    "least": Coefficient(32.0),
    "wave": Coefficient(0.5),
    "sharpness": Coefficient(1.3),
}
SCAN = Law(
    "scan",
    "any",
    {"launch": 8e-6, "peak": 0.3, "bandwidth": 0.75, "sharpness": 2.0},
    *ASSUMED,
    0,
    "assumed: nothing public is measured; bandwidth as elementwise kernels reach it, launch as attention",
    "narrows",
)
DECODE_PEAK = 0.6
"""Of decode kernels, which are far from it in these rows: what prefill kernels reach."""
INLINE_ECC = 15 / 16
"""Of the bandwidth of GDDR6, what is left where it corrects errors with bits of its own, as on the L40S."""
WHOLE = 1e7
"""Keys of a piece where a context is not split."""
WIDEST = {"tensorrt-llm": 32.0}
"""Query heads on one KV head up to which an engine's kernel computes them together."""


FITTED: dict[tuple[object, ...], dict[str, float]] = {}
"""Laws by key and devices."""


class Key(NamedTuple):
    """What has a law of its own, per device."""

    kind: str
    cache: str
    engine: str


def choices(key: Key) -> list[tuple[dict[str, float], dict[str, float]]]:
    """Starts and fixed coefficients that are tried."""
    if key.kind.startswith("prefill"):
        return [({}, {})]
    fixed = {"peak": DECODE_PEAK, "widest_group": WIDEST.get(key.engine, 1e9)}
    if key.engine not in WIDEST:
        fixed["unshared"] = 1.0
    tiles = (16.0, 64.0) if key.kind == "decode.shared" else (16.0,)
    if key.kind == "decode.own":
        fixed |= {"next_tile": 0.0, "unshared": 1.0}
    pieces = ({"piece": 512.0}, {"piece": WHOLE, "step": 5e-10, "slots": 1.0})
    return [(other, fixed | {"tile": tile}) for tile in tiles for other in pieces]


def sample(rows: Rows) -> Sample:
    """Rows to fit on."""
    number = len(rows.seconds)
    if number > ROWS:
        drawn = np.sort(np.random.default_rng(0).choice(number, ROWS, replace=False))
        rows = picked(rows, drawn)
    return Sample(rows.device, rows.operator, rows.seconds, np.where(rows.large, LARGE, 1.0))


def values_of(key: Key, rows: Sequence[Rows]) -> dict[str, float]:
    """The law of these devices together; fitted once."""
    known = (key, *(one.device.id for one in rows))
    if known not in FITTED:
        start = PREFILL if key.kind.startswith("prefill") else DECODE
        FITTED[known] = fitted([sample(one) for one in rows], attention_time, start, choices(key))
    return FITTED[known]


def kernel(device: Accelerator) -> str:
    """Which kernels engines take there, by compute capability: FlashAttention 2 and its like are written for 8.x and
    run on 12.x, FlashAttention 3 for 9.0, TensorRT-LLM's own for 10.x.
    """
    major = (device.compute_capability or "").split(".")[0]
    return {"8": "2", "12": "2"}.get(major, major)


def of_class(key: Key, rows: Sequence[Rows], like: Accelerator) -> dict[str, float]:
    """What those rows say of a device like this: the rows of its kernel and kind of memory, else of its kernel, else
    of its kind of memory, else all.
    """
    family = device_keys(like)[2]
    same_kernel = [one for one in rows if kernel(one.device) == kernel(like)]
    same_family = [one for one in rows if device_keys(one.device)[2] == family]
    both = [one for one in same_kernel if one in same_family]
    mine = next(one for one in (both, same_kernel, same_family, list(rows)) if one)
    if len(mine) > 1 or len(rows) == 1:
        return values_of(key, mine)
    shared = ("bandwidth", "peak") if key.kind.startswith("prefill") else ("bandwidth",)
    return between(values_of(key, mine), [values_of(key, [one]) for one in rows], shared)


def weighed(rows: Rows) -> Any:
    """Rows that are scored weigh as much in all as the others."""
    large = rows.large
    return np.where(large, 1 / max(1, large.sum()), 1 / max(1, (~large).sum()))


def interval(rows: Sequence[Rows], values: Sequence[Mapping[str, float]]) -> tuple[float, float]:
    """The middle 80 % of measured ÷ predicted, each device with the same weight."""
    whole = [Sample(one.device, one.operator, one.seconds, weighed(one)) for one in rows]
    found = [ratios(one, attention_time, value) for one, value in zip(whole, values, strict=True)]
    return middle(found, [one.weights for one in whole])


def laws_of(key: Key, rows: Sequence[Rows]) -> tuple[list[Law], list[Law]]:
    """The laws, and those for a device that is left out."""

    def law(device: str, values: Mapping[str, float], bounds: tuple[float, float], n: int, basis: str) -> Law:
        return Law(key.kind, device, dict(values), *bounds, n, basis, ORIGIN, key.cache, key.engine)

    made, left = [], []
    missing = {}
    for one in rows if len(rows) > 1 else ():
        others = [other for other in rows if other is not one]
        missing[one.device.id] = of_class(key, others, one.device)
    bounds = interval([one for one in rows if one.device.id in missing], list(missing.values())) if missing else ASSUMED
    for one in rows:
        own = values_of(key, [one])
        number = len(one.seconds)
        made.append(law(one.device.id, own, interval([one], [own]), number, "fitted on this device"))
        basis = f"fitted on {one.device.id}; interval: of devices left out"
        made.append(law(device_keys(one.device)[1], own, bounds, number, basis))
    total = sum(len(one.seconds) for one in rows)
    for one in rows if missing else ():
        others = [other for other in rows if other is not one]
        held = interval(others, [missing[other.device.id] for other in others])
        number = sum(len(other.seconds) for other in others)
        left.append(
            law(f"without {one.device.id}", missing[one.device.id], held, number, "fitted on the other devices")
        )
    hbm = [one for one in rows if device_keys(one.device)[2] == "nvidia HBM"]
    number = sum(len(one.seconds) for one in hbm)
    basis = "fitted on " + ", ".join(one.device.id for one in hbm) + "; interval: of devices left out"
    made.append(law("nvidia HBM", values_of(key, hbm), bounds, number, basis))
    for one in rows:
        if one not in hbm:
            values, number = of_class(key, rows, one.device), len(one.seconds)
            basis = f"fitted on {one.device.id}; interval: of devices left out"
            made.append(law("nvidia GDDR", values, bounds, number, basis))
            free = {**values, "bandwidth": float(f"{values['bandwidth'] / INLINE_ECC:.3g}")}
            basis += "; bandwidth without what GDDR6 spends on correcting errors, which GDDR7 does on the die"
            made.append(law("Blackwell GDDR", free, bounds, number, basis))
    every = values_of(key, rows)
    made.append(law("nvidia", every, bounds, total, "fitted on all devices; interval: of devices left out"))
    made.append(law("any", every, ASSUMED, 0, "assumed: as NVIDIA's devices, with the interval of an unknown kernel"))
    return made, left


def write(path: Path, laws: Sequence[Law]) -> None:
    """One law a line."""
    path.write_bytes(b"\n".join(msgspec.json.encode(law) for law in laws) + b"\n")
    print(f"{path.name}: {len(laws)} laws")


def main() -> None:
    """Fits and writes."""
    groups: dict[Key, list[Rows]] = {}
    for rows in attention_rows():
        if not rows.test and not rows.impossible:
            engine = "" if rows.kind == "prefill.fp8" else rows.law_engine
            groups.setdefault(Key(rows.kind, rows.cache, engine), []).append(rows)
    made, left = [], []
    for key, members in sorted(groups.items()):
        print(key, [one.device.id for one in members], flush=True)
        found, without = laws_of(key, members)
        made += found
        left += without
    write(SOURCE / "calibration/data/attention.jsonl", [*made, *left])
    write(SOURCE / "calibration/data/scan.jsonl", [SCAN])


if __name__ == "__main__":
    main()

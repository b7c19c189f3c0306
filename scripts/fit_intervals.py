"""Finds the intervals of the laws of operators anew; their values stay. Run after fit_gemm, fit_attention, fit_experts
and fit_elementwise.

    python scripts/fit_intervals.py

Of a device's own law: the 10th and the 90th percentile of measured ÷ predicted over its rows (most of which its fit did
not draw), by kind where a law has kinds, and for attention by size; where two laboratories measured the device, over
both alike. Of a law of a class: the same percentiles over all measured devices, each predicted without its own rows and
each with the same weight, raised to the power 1 + c ÷ devices (few say little of the next one); c is 0 where devices
left out are covered at 70 to 90 % by the intervals of the others, and else found so that they are at 80 %. Attention
has thirteen laws, each measured on three or four devices, which is too few to say how far the next one is off: what
they miss on devices left out is taken together. Where one
device stands for a class: half-way (in the logarithm) from its own to that, for one of its kind is nearer than others
are; assumed. Of `without DEVICE`, for scoring alone: that of the other devices. Of products, which laws tell by kind of
memory, a quarter wider where no device of that kind is left, as of `nvidia`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from narrows.accuracy.attention_rows import attention_rows
from narrows.accuracy.experts_rows import experts_rows
from narrows.accuracy.operator_rows import gemm_tables, layer_tables
from narrows.calibration.laws import Law, law
from narrows.hardware import Accelerator
from narrows.roofline.attention import SMALL, attention_time
from narrows.roofline.devices import device_keys, memory_family
from narrows.roofline.elementwise import elementwise_time
from narrows.roofline.experts import experts_time
from narrows.roofline.gemm import gemm_time

DATA = Path(__file__).resolve().parent.parent / "src/narrows/calibration/data"
POINTS = np.linspace(0.005, 0.995, 199)
AIM = 0.8
ENOUGH = (0.7, 0.9)
"""Intervals that cover so much of the devices left out stay as they are: four devices tell no share more exactly."""
FURTHER = 1.25
"""By how much an interval is wider where a class has nothing in common with what was measured but the vendor."""
UNKNOWN = 1.6
"""The same on any device: assumed."""


NONE: Mapping[str, str] = {}
GDDR = {"nvidia GDDR": "l40s", "Blackwell GDDR": "l40s"}
"""Of attention, which device stands for a kind of memory and its kernels."""


class Rows(NamedTuple):
    """Measured ÷ predicted of one device: by its own law, and by the law without it. key: what has a law of its own.
    family: the laws that together say how far one is off on a device left out.
    """

    key: tuple[str, ...]
    device: Accelerator
    own: Any
    left: Any
    family: tuple[str, ...]


def ends(parts: Sequence[Any]) -> tuple[float, float]:
    """Logarithms of the 10th and 90th percentile, each part with the same weight."""
    low, high = np.quantile(np.log(np.concatenate([np.quantile(part, POINTS) for part in parts])), (0.1, 0.9))
    return float(low), float(high)


def others(rows: Sequence[Rows], family: tuple[str, ...], but: str = "") -> list[Rows]:
    """What says how far a law of this family is off on a device left out; but: the device not to be asked."""
    return [one for one in rows if one.family == family and one.device.id != but and one.left is not None]


def devices_of(rows: Sequence[Rows]) -> int:
    """How many devices rows are of."""
    return len({one.device.id for one in rows})


def power(c: float, devices: int) -> float:
    """To which power the ends are raised that so many devices give."""
    return max(0.5, 1 + c / devices)


def lack(rows: Sequence[Rows], by_memory: bool = False) -> float:
    """What few devices do not say: the c of the power 1 + c ÷ devices with which the intervals of the others cover the
    rows of devices left out at `AIM`, all together. Student's distribution has 2 for devices that differ normally.
    """
    pairs = [
        (np.log(one.left), known, np.log(FURTHER) if by_memory and alone(rows, one) else 0.0)
        for one in rows
        if one.left is not None and (known := others(rows, one.family, one.device.id))
    ]
    found = [(x, ends([one.left for one in known]), devices_of(known), more) for x, known, more in pairs]

    def covered(c: float) -> float:
        inside = []
        for x, (low, high), devices, more in found:
            by = power(c, devices)
            inside.append((by * low - more <= x) & (x <= by * high + more))
        return float(np.mean(np.concatenate(inside)))

    if ENOUGH[0] <= covered(0.0) <= ENOUGH[1]:
        return 0.0
    return float(min(np.arange(-1.0, 8.01, 0.05), key=lambda c: abs(covered(c) - AIM)))


def bounds(low: float, high: float, further: float = 1.0) -> tuple[float, float]:
    """Multiples of the predicted time, which is always between them. further: how much wider, as a factor."""
    least, most = float(np.exp(low)) / further, float(np.exp(high)) * further
    return float(f"{min(least, 0.98):.3g}"), float(f"{max(most, 1.02):.3g}")


def alone(rows: Sequence[Rows], one: Rows) -> bool:
    """Whether no other measured device has its kind of memory."""
    return not any(
        memory_family(other.device) == memory_family(one.device)
        for other in rows
        if other.key == one.key and other.device.id != one.device.id
    )


def of_device(laws: Iterable[Law], device: str, key: tuple[str, ...], key_of: Callable[[Law], tuple[str, ...]]) -> Law:
    """The one law of a device."""
    return next(row for row in laws if row.device == device and key_of(row) == key)


def of_others(known: Sequence[Rows], c: float) -> tuple[float, float]:
    """Logarithms of the ends of an interval that rests on these devices."""
    low, high = ends([one.left for one in known])
    by = power(c, devices_of(known))
    return by * low, by * high


def interval_of(
    row: Law,
    rows: Sequence[Rows],
    key: tuple[str, ...],
    c: float,
    own: Callable[[Rows], Sequence[Any]] = lambda one: [one.own],
    stand_in: Mapping[str, str] = NONE,
    by_memory: bool = False,
) -> tuple[float, float] | None:
    """The interval of a law; None where it rests on nothing that was measured on several devices, which stays.

    stand_in: class → the one device that stands for it. by_memory: a law holds for a kind of memory, beyond which it
    is `FURTHER` off.
    """
    mine = [one for one in rows if one.key == key]
    measured = {one.device.id: one for one in mine}
    if row.device in measured:
        return bounds(*ends(own(measured[row.device])))
    known = others(rows, mine[0].family) if mine else []
    if devices_of(known) < 2 or row.n == 0:
        return None
    if row.device.startswith("without "):
        missing = measured.get(row.device.removeprefix("without "))
        if missing is None:
            return None
        left = others(rows, missing.family, missing.device.id)
        return bounds(*of_others(left, c), FURTHER if by_memory and alone(rows, missing) else 1.0)
    low, high = of_others(known, c)
    classes = {device_keys(one.device)[1]: one for one in mine}
    mate = classes.get(row.device) or measured.get(stand_in.get(row.device, ""))
    if mate is not None:
        near = ends(own(mate))
        return bounds((low + near[0]) / 2, (high + near[1]) / 2)
    return bounds(low, high, FURTHER if by_memory and row.device == "nvidia" else 1.0)


def gemm(laws: list[Law]) -> list[Law]:
    """Matrix products; of two laboratories where both measured a device."""

    def key_of(row: Law) -> tuple[str, ...]:
        return {"fp16": "bf16", "int8": "fp8", "": "bf16"}.get(row.precision, row.precision), row.engine

    rows, elsewhere = [], {}
    for table in gemm_tables():
        if table.test:
            continue
        key = table.precision, "" if table.engine == "vllm" else table.engine
        own = of_device(laws, table.device.id, key, key_of)
        without = [row for row in laws if row.device == f"without {table.device.id}" and key_of(row) == key]

        def ratio(by: Law, table: Any = table) -> Any:
            return table.seconds / gemm_time(table.operator(), table.device, by, cold=False).time

        rows.append(Rows(key, table.device, ratio(own), ratio(without[0]) if without else None, key))
    for table in layer_tables():
        if table.kind == "gemm":
            by = law("gemm", "gemm", device_keys(table.device), "bf16")
            elsewhere[table.device.id] = table.seconds / gemm_time(table.operator(), table.device, by).time
    c = lack(rows, by_memory=True)
    print(f"gemm: {c:.2f} ÷ devices")

    def own_of(one: Rows) -> Sequence[Any]:
        other = elsewhere.get(one.device.id) if one.key == ("bf16", "") else None
        return [one.own] if other is None else [one.own, other]

    made = []
    for row in laws:
        found = interval_of(row, rows, key_of(row), c, own_of, by_memory=True)
        made.append(msgspec.structs.replace(row, low=found[0], high=found[1]) if found else row)
    return made


def experts(laws: list[Law]) -> list[Law]:
    """Mixtures of experts."""

    def key_of(row: Law) -> tuple[str, ...]:
        return (row.precision,)

    rows = []
    for table in experts_rows():
        if table.test:
            continue

        def ratio(by: Law, table: Any = table) -> Any:
            return table.seconds / experts_time(table.operator, table.device, by, cold=False).time

        key = (table.format,)
        without = [row for row in laws if row.device == f"without {table.device.id}" and key_of(row) == key]
        own = of_device(laws, table.device.id, key, key_of)
        rows.append(Rows(key, table.device, ratio(own), ratio(without[0]) if without else None, key))
    c = lack(rows)
    print(f"experts: {c:.2f} ÷ devices")
    made = []
    for row in laws:
        found = interval_of(row, rows, key_of(row), c)
        made.append(msgspec.structs.replace(row, low=found[0], high=found[1]) if found else row)
    return made


def attention(laws: list[Law]) -> list[Law]:
    """Attention, by size: `low` and `high` are those of what is scored, `small.low` and `small.high` of the rest."""

    def key_of(row: Law) -> tuple[str, ...]:
        return row.operator, row.precision, row.engine

    sizes: dict[bool, list[Rows]] = {True: [], False: []}
    for table in attention_rows():
        if table.test or table.impossible:
            continue
        engine = "" if table.kind == "prefill.fp8" else table.law_engine
        key = table.kind, table.cache, engine
        own = of_device(laws, table.device.id, key, key_of)
        without = [row for row in laws if row.device == f"without {table.device.id}" and key_of(row) == key]

        def ratio(by: Law, table: Any = table) -> Any:
            return table.seconds / attention_time(table.operator, table.device, by, cold=False).time

        mine, left = ratio(own), ratio(without[0]) if without else None
        for large, rows in sizes.items():
            which = table.large == large
            if which.any():
                rows.append(Rows(key, table.device, mine[which], None if left is None else left[which], ()))
    found: dict[bool, list[tuple[float, float] | None]] = {}
    for large, rows in sizes.items():
        c = lack(rows)
        print(f"attention, {'large' if large else 'small'}: {c:.2f} ÷ devices")
        found[large] = [interval_of(row, rows, key_of(row), c, stand_in=GDDR) for row in laws]
    made = []
    for row, wide, narrow in zip(laws, found[True], found[False], strict=True):
        wide = wide or (row.low, row.high)
        low, high = narrow or wide
        values = {**row.values, f"{SMALL}.low": low, f"{SMALL}.high": high}
        made.append(msgspec.structs.replace(row, values=values, low=wide[0], high=wide[1]))
    return made


def one_kind(rows: Sequence[Rows]) -> list[Rows]:
    """Rows of all kinds of a device together, each kind with the same weight."""
    found = []
    for device in {one.device.id: one.device for one in rows}.values():
        mine = [one for one in rows if one.device.id == device.id]
        left = np.concatenate([np.quantile(one.left, np.linspace(0, 1, 1001)) for one in mine])
        found.append(Rows((), device, left, left, ()))
    return found


def elementwise(laws: list[Law]) -> list[Law]:
    """Elementwise operators: by kind of a device's own, of all kinds together where the device is left out."""
    rows = []
    for table in layer_tables():
        if table.kind == "gemm":
            continue

        def ratio(name: str, table: Any = table) -> Any:
            by = next(row for row in laws if row.device == name)
            return table.seconds / elementwise_time(table.operator(), table.device, by).time

        left = ratio(f"without {table.device.id}")
        rows.append(Rows((table.kind,), table.device, ratio(table.device.id), left, (table.kind,)))
    together = one_kind(rows)
    c = lack(together)
    print(f"elementwise: {c:.2f} ÷ devices")
    made = []
    for row in laws:
        mine = [one for one in rows if one.device.id == row.device]
        values = {name: value for name, value in row.values.items() if not name.endswith((".low", ".high"))}
        if mine:  # kinds of operators each have their own
            for one in mine:
                low, high = bounds(*ends([one.own]))
                values |= {f"{one.key[0]}.low": low, f"{one.key[0]}.high": high}
            low, high = bounds(*ends([one.own for one in mine]))
        elif row.device.startswith("without "):
            device = row.device.removeprefix("without ")
            low, high = bounds(*of_others(others(together, (), device), c))
        else:
            further = UNKNOWN if row.device == "any" else 1.0
            low, high = bounds(*of_others(together, c), further)
        made.append(msgspec.structs.replace(row, values=values, low=low, high=high))
    return made


ALL: Mapping[str, Callable[[list[Law]], list[Law]]] = {
    "gemm": gemm,
    "experts": experts,
    "attention": attention,
    "elementwise": elementwise,
}


def main() -> None:
    """Reads, finds, writes."""
    for name, found_by in ALL.items():
        path = DATA / f"{name}.jsonl"
        laws = [msgspec.json.decode(line, type=Law) for line in path.read_bytes().splitlines() if line.strip()]
        path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in found_by(laws)))


if __name__ == "__main__":
    main()

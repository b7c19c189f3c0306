"""How long recorded operators take, from the measurement of this machine alone.

Each operator costs the host's time to issue it and the device's time to do it. A processor does both one after the
other; a device works while the host issues on, so that the longer of the two sums decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from narrows.calibration.curve import CURVES, Curve, along, curve_of
from narrows.calibration.laws import measured_laws
from narrows.hardware.this_machine import this_machine
from narrows.measure.recorder import GROUPED, Call
from narrows.text import BadInput

Bound = Literal["compute", "memory bandwidth", "overhead"]


NEEDED = (
    "eager",
    "multiply",
    "silu",
    "concatenate",
    "attention.prefill",
    "attention.decode.own",
    "attention.decode.shared",
)
"""Kernels that a prediction needs, beside the curve of products."""


class Predicted(msgspec.Struct, frozen=True):
    """Seconds of a step and where they go.

    products, attention, elementwise, copies: by what is done; host: issuing. bound: what decides, by the work and the
    measured peaks: the time its FLOPs need, the time its bytes need, or the rest. separation: how many times longer
    the larger of the first two is than the smaller. reached: of what the peaks allow its products, the share that their
    measured curve reaches.
    """

    time: float
    products: float
    attention: float
    elementwise: float
    copies: float
    host: float
    flops: int
    bytes: int
    bound: Bound
    separation: float
    reached: float = 1.0


class Machine(msgspec.Struct, frozen=True):
    """The measured laws that a prediction needs. peaks: FLOP/s by precision; bandwidth: bytes/s."""

    curves: dict[str, Curve]
    kernels: dict[tuple[str, str], dict[str, float]]
    peaks: dict[str, float]
    bandwidth: float
    host: bool


def measured_here() -> Machine:
    """What `narrows measure machine` kept. Raises BadInput where it kept nothing, or measured without torch."""
    device = this_machine()
    rows = measured_laws(CURVES)
    found = Machine(
        curves={row.precision: curve_of(row) for row in rows if row.operator == "gemm"},
        kernels={(row.operator, row.precision): row.values for row in rows if row.operator != "gemm"},
        peaks={name: device.peak(name) for name in device.precisions},
        bandwidth=device.memory_bandwidth,
        host=device.is_cpu,
    )
    missing = [name for name in NEEDED if not any(known == name for known, _ in found.kernels)]
    if missing:
        raise BadInput(
            "this machine was measured without {missing}: run 'narrows measure machine' again, with torch and enough "
            "time",
            missing=", ".join(missing),
        )
    return found


def seconds_of(call: Call, machine: Machine) -> float:
    """The device's seconds of one operator. Raises BadInput where nothing like it was measured here."""
    if call.sort == "view":
        return 0.0
    if call.sort == "product":
        curve = machine.curves.get(call.precision)
        if curve is None:
            raise BadInput("products in {precision} were not measured on this machine", precision=call.precision)
        return call.copies * curve.seconds(call.m, call.k, call.n)
    if call.sort == "attention":
        kind = "attention.prefill"
        if call.queries == 1:
            kind = "attention.decode.shared" if call.group > 2 else "attention.decode.own"
        return along(_law(machine, kind, call.precision), call.work)
    if call.sort == "copy":
        return along(_law(machine, "concatenate", call.precision), call.elements)
    kind = "silu" if call.sort == "activation" else "multiply"
    return along(_law(machine, kind, call.precision), call.elements)


def _law(machine: Machine, operation: str, precision: str) -> dict[str, float]:
    for at in (precision, "fp32", ""):
        if (operation, at) in machine.kernels:
            return machine.kernels[operation, at]
    raise BadInput("{operation} was not measured on this machine", operation=operation)


def predicted(calls: Mapping[Call, int], machine: Machine, weights: int) -> Predicted:
    """The time of a step that issues `calls`. weights: bytes of the model's own that every
    step reads; those of experts are added as they were read.
    """
    sums = dict.fromkeys(("product", "attention", "elementwise", "copy"), 0.0)
    flops = moved = 0
    for call, count in calls.items():
        sort = "elementwise" if call.sort in ("activation", "view") else call.sort
        sums[sort] += count * seconds_of(call, machine)
        flops += count * call.flops
        moved += count * (call.bytes if call.sort in ("attention", "copy") else 0)
        if call.name == GROUPED:
            weights += count * call.bytes
    host = sum(calls.values()) * machine.kernels["eager", ""]["seconds"]
    work = sum(sums.values())
    products = [call for call in calls if call.sort == "product"]
    precision = max(products, key=lambda call: call.flops).precision if products else "fp32"
    compute = flops / machine.peaks[precision]
    memory = (moved + weights) / machine.bandwidth
    multiplied = sum(count * call.flops for call, count in calls.items() if call.sort == "product")
    roof = max(multiplied / machine.peaks[precision], weights / machine.bandwidth)
    time = host + work if machine.host else max(host, work)
    # issuing decides where it is most of the time
    bound: Bound = "overhead" if host > time / 2 else "compute" if compute > memory else "memory bandwidth"
    return Predicted(
        time=time,
        products=sums["product"],
        attention=sums["attention"],
        elementwise=sums["elementwise"],
        copies=sums["copy"],
        host=host,
        flops=flops,
        bytes=moved + weights,
        bound=bound,
        separation=max(compute, memory) / max(min(compute, memory), 1e-12),
        reached=min(1.0, roof / sums["product"]) if sums["product"] else 1.0,
    )

"""The devices of the catalogue that do a phase fastest, or cheapest per token, and hold the load."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from narrows.deployment import Deployment
from narrows.deployment.runs import wanting
from narrows.hardware import Accelerator, accelerators, cheapest
from narrows.models import ModelSpec
from narrows.roofline.phases import Load, PhaseTime, Served, held
from narrows.roofline.what_if import deployed
from narrows.text import BadInput, Text
from narrows.units import usd

TRIED = 8
"""Devices that are looked at closely, best first by peaks and bandwidth alone."""
_SIXTEEN = ("bf16", "fp16", "fp32")


def plain_seconds(time: PhaseTime, device: Accelerator) -> float | None:
    """Seconds of the phase's operators by peak and bandwidth alone; None where no such peak is known.

    An operator in a precision that the device has no peak for is taken in 16 bits.
    """
    total = 0.0
    for times, operator in time.operators:
        peaks = (getattr(device, name, None) for name in (operator.precision, *_SIXTEEN))
        peak = next((value for value in peaks if value is not None), None)
        if peak is None:
            return None
        total += times * operator.count * max(operator.flops / peak, operator.bytes / device.memory_bandwidth)
    return total


def other_devices(
    model: ModelSpec,
    options: dict[str, Any],
    deployment: Deployment,
    load: Load,
    time: PhaseTime,
    cloud: str | None,
) -> Iterator[tuple[str, Served, Text]]:
    """(name, deployment, why) of the fastest and of the cheapest per token among devices that clouds rent out.

    As many of them as the deployment has. A device that is the best already is not named, nor is one named twice.
    """
    # usable memory that was given is that of the deployment's own devices
    options = {**options, "device_memory": None}
    offers = []
    for device in accelerators():
        if device.memory_kind != "device":
            continue
        price = cheapest(device.id, deployment.count, cloud)
        plain = plain_seconds(time, device)
        if plain and price is not None and price.accelerator_count == deployment.count:
            offers.append((plain, price, device))
    named = {deployment.accelerator.id}
    for name, costs in (("faster_device", False), ("cheaper_device", True)):
        ranked = sorted(offers, key=lambda offer: (offer[0] * (offer[1].usd_per_hour if costs else 1.0), offer[2].id))
        for _, price, device in ranked[:TRIED]:
            if device.id in named:
                break
            try:
                one = deployed(model, device, options)
            except BadInput:
                continue
            if held(one, load.context) < load.batch or wanting(one):
                continue
            text = Text(
                "{gpu}, at {price} per hour ({instance})",
                gpu=device.name,
                price=usd(price.usd_per_hour),
                instance=price.label,
            )
            named.add(device.id)
            yield name, Served(one), text
            break

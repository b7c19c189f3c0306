"""The bundled accelerators, and filters over them. What the file holds: data/README.md."""

from __future__ import annotations

import math
import os.path
from functools import cache

import msgspec

from narrows.hardware.accelerator import Accelerator, precision_name
from narrows.hardware.this_machine import machine
from narrows.text import BadInput


def bundled(name: str) -> bytes:
    """A file of bundled facts, one JSON object per line."""
    with open(os.path.join(os.path.dirname(__file__), "data", name), "rb") as file:
        return file.read()


@cache
def accelerators() -> tuple[Accelerator, ...]:
    """All accelerators, in the order of the file."""
    return tuple(msgspec.json.Decoder(Accelerator).decode_lines(bundled("accelerators.jsonl")))


@cache
def accelerator_ids() -> frozenset[str]:
    """The ids of all accelerators."""
    return frozenset(device.id for device in accelerators())


def select(
    vendor: str | None = None,
    min_memory: float | None = None,
    precision: str | None = None,
    text: str | None = None,
) -> tuple[Accelerator, ...]:
    """The accelerators that meet every condition given, in catalogue order, then what was measured here; none may.

    Raises BadInput.

    vendor: its name in any case. min_memory: bytes, against the size of the memory (`memory_bytes`). precision: it
    has a peak for it. text: each of its words occurs in the id, name or architecture.
    """
    measured = machine()
    found = (*accelerators(), measured.device) if measured else accelerators()
    if vendor is not None:
        vendors = sorted({device.vendor for device in found})
        if vendor.strip().lower() not in vendors:
            raise BadInput(
                "'{vendor}' is not a vendor in the catalogue; use one of: {known}",
                vendor=shown(vendor),
                known=", ".join(vendors),
            )
        found = tuple(device for device in found if device.vendor == vendor.strip().lower())
    if min_memory is not None:
        if not 0 <= min_memory < math.inf:
            raise BadInput("the least memory must be a number of bytes from 0 up, not {size}", size=min_memory)
        found = tuple(device for device in found if device.memory_bytes >= min_memory)
    if precision is not None:
        field = precision_name(precision)
        found = tuple(device for device in found if getattr(device, field) is not None)
    if text is not None:
        words = text[:200].lower().split()
        texts = [f"{device.id} {device.name} {device.architecture}".lower() for device in found]
        found = tuple(d for d, whole in zip(found, texts, strict=True) if all(word in whole for word in words))
    return found


def shown(text: str) -> str:
    """What a user typed, fit to be quoted in a message: bounded, without control characters."""
    return "".join(c if c.isprintable() else "?" for c in text[:80])

"""Where a topic's workloads lie under the roof: what `--plot` draws."""

from __future__ import annotations

from collections.abc import Iterable

from narrows.answers.explain.types import RooflinePicture, RooflinePoint
from narrows.hardware import Accelerator
from narrows.roofline import roof
from narrows.text import Text


def picture(device: Accelerator, work: Iterable[tuple[Text, float]], precision: str = "bf16") -> RooflinePicture:
    """The roof of a device, and work given as (label, intensity in FLOP/B) under it."""
    top = roof(device, precision)
    points = tuple(RooflinePoint(label, value, top.attainable(value), top.bound(value)) for label, value in work)
    return RooflinePicture(device.name, precision, top.peak, top.bandwidth, top.ridge, points)

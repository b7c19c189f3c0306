"""One operator through the memory hierarchy: device memory, L2, on-chip memory, arithmetic."""

from __future__ import annotations

from typing import Literal

import msgspec

from narrows.quantity import Kind
from narrows.text import Text


class Level(msgspec.Struct, frozen=True):
    """Traffic of one operator at one level: bytes that cross it, bandwidth (bytes/s) and least time (s).

    intensity: FLOPs per byte of this level. None where no figure of the device is known. kind: how the bandwidth is
    known. text: how the bytes were counted.
    """

    name: Literal["device memory", "L2", "on-chip", "arithmetic"]
    bytes: int
    bandwidth: float | None
    time: float | None
    intensity: float | None
    kind: Kind
    text: Text

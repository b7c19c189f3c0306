"""The roofline: what bounds an operator on a device, how long it takes, and what to do about it."""

from __future__ import annotations

from narrows.roofline.roof import PRESCRIPTIONS, Bound, Roof, roof, turning_batch

__all__ = ["PRESCRIPTIONS", "Bound", "Roof", "roof", "turning_batch"]

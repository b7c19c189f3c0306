"""What a matrix product takes on the machine that was measured: its own curve over rows, not a law of its kind."""

from __future__ import annotations

from functools import cache
from typing import Any

from narrows.calibration.curve import Curve, curve_of, measured_row
from narrows.calibration.laws import Law
from narrows.hardware import THIS_MACHINE, Accelerator
from narrows.roofline.timed import Parts
from narrows.step import Gemm, Operator


def measured_law(operator: Operator, device: Accelerator) -> Law | None:
    """The curve that holds for an operator; None for other devices, other operators, and weights that are unpacked."""
    shape = operator.shape
    if device.id != THIS_MACHINE or not isinstance(shape, Gemm) or shape.weight_bits < 16:
        return None
    return measured_row(operator.precision)


def measured_time(operator: Operator, device: Accelerator, law: Law) -> Parts:
    """Seconds of a matrix product by `law`, a measured curve; its rows may be a numpy array, and so are then the parts.

    compute, memory: at the measured peak and bandwidth, for telling what bounds it.
    Raises TypeError where the shape is not a Gemm.
    """
    shape = operator.shape
    if not isinstance(shape, Gemm):
        raise TypeError(f"{operator.name} is no matrix product")
    curve = _curve(law.precision, tuple(law.values.items()))
    compute = operator.flops / device.peak(operator.precision)
    memory = operator.bytes / device.memory_bandwidth
    return Parts(shape.copies * _seconds(curve, shape), compute, memory, 0.0 * memory)


@cache
def _curve(precision: str, values: tuple[tuple[str, float], ...]) -> Curve:
    return curve_of(Law("gemm", THIS_MACHINE, dict(values), 1.0, 1.0, len(values), "", "", precision))


def _seconds(curve: Curve, shape: Gemm) -> Any:
    if isinstance(shape.m, int):
        return curve.seconds(max(1, shape.m), shape.k, shape.n)
    import numpy  # whoever asks with arrays has it

    rows: Any = shape.m
    return numpy.array([curve.seconds(max(1, int(m)), shape.k, shape.n) for m in rows.ravel()]).reshape(rows.shape)

"""How long a recurrence takes: linear attention, state space, short convolution."""

from __future__ import annotations

from collections.abc import Sequence

from narrows.calibration.laws import Law, law
from narrows.hardware import Accelerator
from narrows.roofline.arithmetic import joined
from narrows.roofline.timed import Parts
from narrows.step import Operator


def scan_law(operator: Operator, devices: Sequence[str], engine: str = "") -> Law:
    """The law of a scan: one for all, since no public table of such operators is known to us."""
    return law("scan", "scan", devices, operator.precision, engine)


def scan_time(operator: Operator, device: Accelerator, law: Law) -> Parts:
    """Seconds of a recurrence with constant state on a device: t = launch + (tc^p + tm^p)^(1/p), a roofline.

    tc, tm: the operator's FLOPs and bytes at the shares of peak and bandwidth that elementwise kernels reach.
    Figures of the operator may be numpy arrays. Raises BadInput where the device states no peak for the precision.
    """
    value = law.values
    compute = operator.flops / (value["peak"] * device.peak(operator.precision))
    memory = operator.bytes / (value["bandwidth"] * device.memory_bandwidth)
    least = memory + (memory == 0) * 1e-12
    return Parts(value["launch"] + joined(value["sharpness"], compute, least), compute, memory, value["launch"])

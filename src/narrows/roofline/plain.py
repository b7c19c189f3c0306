"""The plain roofline: constant shares of peak and bandwidth. What the laws of speed are measured against."""

from __future__ import annotations

from narrows.hardware import Accelerator
from narrows.roofline.timed import Parts
from narrows.step import Operator

PEAK = 0.7
"""Share of the peak FLOP/s that plain rooflines take."""
BANDWIDTH = 0.8
"""Share of the memory bandwidth that they take."""


def plain_time(operator: Operator, device: Accelerator) -> Parts:
    """Seconds as the slower of arithmetic at 0.7 of the peak and traffic at 0.8 of the bandwidth; no latency.

    Fields of the operator may be arrays. Raises BadInput where the device states no peak for the precision.
    """
    compute = operator.flops / (PEAK * device.peak(operator.precision))
    memory = operator.bytes / (BANDWIDTH * device.memory_bandwidth)
    return Parts((compute + memory + abs(compute - memory)) / 2, compute, memory, 0.0 * memory)

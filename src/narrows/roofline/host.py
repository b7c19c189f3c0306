"""What an operator takes on a host processor: shares of its measured peaks, nothing for launches."""

from __future__ import annotations

from narrows.calibration.laws import Law
from narrows.hardware import Accelerator
from narrows.roofline.timed import Parts
from narrows.step import Operator


def host_time(operator: Operator, device: Accelerator, law: Law) -> Parts:
    """Seconds as the slower of arithmetic and traffic at the shares that `law` of `cpu` has of both.

    Fields of the operator may be arrays. Raises BadInput where the device states no peak for the precision.
    """
    compute = operator.flops / (law.values["peak"] * device.peak(operator.precision))
    memory = operator.bytes / (law.values["bandwidth"] * device.memory_bandwidth)
    return Parts((compute + memory + abs(compute - memory)) / 2, compute, memory, 0.0 * memory)

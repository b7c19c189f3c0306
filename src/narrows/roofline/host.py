"""What an operator takes on a host processor: the roofline of its measured peaks, at the share of it that is reached.

Of the bandwidth `bandwidth` is reached, of the arithmetic `peak`; just beyond the ridge what is reached of the roofline
rises from the one to the other. Nothing is added for launches.
"""

from __future__ import annotations

from narrows.calibration.laws import Law
from narrows.hardware import Accelerator
from narrows.roofline.arithmetic import larger
from narrows.roofline.timed import Parts
from narrows.step import Operator


def host_time(operator: Operator, device: Accelerator, law: Law) -> Parts:
    """Seconds by the roofline and the shares that `law` of `cpu` has of both roofs.

    Both parts are stated at the share of the roofline reached, so that the verdict turns at the ridge point. Fields of
    the operator may be arrays. Raises BadInput where the device states no peak for the precision.
    """
    compute = operator.flops / device.peak(operator.precision)
    memory = operator.bytes / device.memory_bandwidth
    least = larger(compute, memory)
    time = larger(compute / law.values["peak"], memory / law.values["bandwidth"])
    slower = time / (least + (least == 0))
    return Parts(time, compute * slower, memory * slower, 0.0 * memory)

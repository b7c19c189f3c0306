"""How long norms, rotary embedding, activation, residual, gather and sampling take: latency, and traffic to memory.

    t = t0 + ((width · serial + rows · width · element ÷ multiprocessors)^2 + (bytes ÷ bandwidth reached)^2)^(1/2)

One thread block works on a row: a long row takes its time however few rows there are, and many rows take as long as
the multiprocessors need for their elements, which on devices with HBM is longer than memory needs. Kernels of a kind
are told by the operator's name; one of no known kind takes the values of norms.
"""

from __future__ import annotations

from narrows.calibration.laws import Law
from narrows.hardware import Accelerator
from narrows.roofline.arithmetic import joined
from narrows.roofline.gemm import REFERENCE_CLOCK, clock
from narrows.roofline.timed import Parts
from narrows.step import Elementwise, Operator

KINDS = {
    "activation": "activation",
    "norm": "norm",
    "residual": "residual",
    "rope": "rotary",
    "rotary": "rotary",
    "embedding": "embedding",
}
"""Last part of an operator's name → the kind whose values hold."""
OTHER = "norm"
INSIDE = "quantize"
"""Last part of the name of what a product's law already holds: quantizing its activations."""


def elementwise_time(operator: Operator, device: Accelerator, law: Law) -> Parts:
    """Seconds of an elementwise operator on a device, by the bytes it reads and writes.

    law: of `elementwise`, found with `device_keys`. An operator called `….quantize` takes no time here: products were
    measured with it (see `gemm_time`). Fields may be numpy arrays of one shape; so are then the parts.
    Raises TypeError where the shape is not an Elementwise.
    """
    shape = operator.shape
    if not isinstance(shape, Elementwise):
        raise TypeError(f"{operator.name} is not elementwise")
    name = operator.name.rpartition(".")[2]
    if name == INSIDE:
        nothing = 0.0 * operator.reads
        return Parts(nothing, nothing, nothing, nothing)
    kind = KINDS.get(name, OTHER)
    value = law.values
    slower = REFERENCE_CLOCK / (clock(device) or REFERENCE_CLOCK)
    memory = operator.bytes / (value[f"{kind}.bandwidth"] * device.memory_bandwidth)
    # of a device whose multiprocessors nobody counted, many rows are taken to keep up with memory
    work = shape.rows * value[f"{kind}.element"] / device.sm_count if device.sm_count else 0.0
    work = shape.width * slower * (work + value[f"{kind}.serial"])
    overhead = value[f"{kind}.t0"] * slower
    time = overhead + joined(2.0, memory, work)
    return Parts(time, 0.0 * memory, memory, time - memory)


def spread(operator: Operator, law: Law) -> tuple[float, float]:
    """Multiples of the time between which 80 % lie: those of the operator's kind where the law has such."""
    kind = KINDS.get(operator.name.rpartition(".")[2], OTHER)
    return law.values.get(f"{kind}.low", law.low), law.values.get(f"{kind}.high", law.high)

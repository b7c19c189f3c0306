"""Times: what an operator and a step take on a device, and what bounds them."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from narrows.step import Operator

Cause = Literal["compute", "memory bandwidth", "interconnect", "overhead"]
"""What a time is spent on."""


class Parts(NamedTuple):
    """Seconds of one operator, and what its arithmetic, its traffic and its latency would take by themselves."""

    time: float
    compute: float
    memory: float
    overhead: float


class Timed(msgspec.Struct, frozen=True):
    """An operator with its time: seconds of one of `operator.count` equal ones.

    compute, memory, network: seconds that the arithmetic, the traffic to device memory and the link would take by
    themselves at the efficiency reached; overhead: launch and latency. bound: the largest of them. low, high: 80 %
    interval of the time.
    """

    operator: Operator
    time: float
    compute: float
    memory: float
    network: float
    overhead: float
    bound: Cause
    low: float
    high: float


class StepEstimate(msgspec.Struct, frozen=True):
    """One step: its operators, and what the engine adds per step and per layer (`overhead`, seconds).

    time: seconds of the whole step; low, high: 80 % interval. shares: cause → seconds; they add up to `time`.
    bound: the cause with the largest share. basis: which law of whole steps holds, in words; empty: none. launched:
    kernels that the host launches one by one, for want of a graph; 0: none. Where that takes longer than the device
    does, the step waits for launches, and all of it is overhead.
    """

    operators: tuple[Timed, ...]
    overhead: float
    time: float
    low: float
    high: float
    shares: dict[Cause, float]
    bound: Cause
    basis: str = ""
    launched: int = 0

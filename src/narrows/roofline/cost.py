"""What one operator costs on a deployment's device, by the law of its kind."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from narrows.calibration.laws import Law, law
from narrows.deployment import Deployment
from narrows.hardware import Accelerator
from narrows.roofline.collectives import network_time
from narrows.roofline.devices import device_keys
from narrows.roofline.plain import plain_time
from narrows.step import Collective, Operator


class Cost(NamedTuple):
    """Seconds of one of an operator's `count`, as in `Timed`, and the multiples of them that hold 80 %.

    Fields are arrays where those of the operator's shape are.
    """

    time: Any
    compute: Any
    memory: Any
    network: Any
    overhead: Any
    low: float
    high: float


@cache
def _law(kind: str, device: Accelerator, precision: str, engine: str) -> Law | None:
    try:
        return law(kind, kind, device_keys(device), precision, engine)
    except (KeyError, FileNotFoundError):
        return None


def cost(operator: Operator, deployment: Deployment) -> Cost:
    """The time of one operator. Raises BadInput where the device states no peak, or nothing joins the ranks."""
    if isinstance(operator.shape, Collective):
        net = network_time(operator, deployment)
        return Cost(net.time, 0.0, 0.0, net.network, net.overhead, net.low, net.high)
    parts = plain_time(operator, deployment.accelerator)
    return Cost(parts.time, parts.compute, parts.memory, 0.0, parts.overhead, 0.5, 2.0)

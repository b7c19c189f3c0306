"""What one operator costs on a deployment's device, by the law of its kind."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from msgspec import structs

from narrows.calibration.laws import Law, law, laws
from narrows.deployment import Deployment
from narrows.hardware import Accelerator
from narrows.roofline.collectives import collective_time
from narrows.roofline.devices import device_keys
from narrows.roofline.gemm import spread
from narrows.roofline.host import host_time
from narrows.roofline.measured import measured_law, measured_time
from narrows.roofline.plain import plain_time
from narrows.roofline.timed import Parts
from narrows.step import AttentionShape, Collective, Elementwise, Experts, Gemm, Operator, Scan

LawTime = Callable[[Operator, Accelerator, Law], Parts]


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


_KINDS: dict[type, str] = {
    Gemm: "gemm",
    AttentionShape: "attention",
    Experts: "experts",
    Scan: "scan",
    Elementwise: "elementwise",
}


def _plain(operator: Operator, device: Accelerator, law: Law) -> Parts:
    return plain_time(operator, device)


class Kind(NamedTuple):
    """How operators of one kind are timed, and where their law is found."""

    time: LawTime
    law: Callable[[Operator, tuple[str, ...], str], Law]


def _plain_law(operator: Operator, devices: tuple[str, ...], engine: str) -> Law:
    return PLAIN


def _kind(name: str) -> Kind:
    def by_name(operator: Operator, devices: tuple[str, ...], engine: str) -> Law:
        return law(name, name, devices, operator.precision, engine)

    try:
        module = import_module(f"narrows.roofline.{name}")
        laws(name)
    except (ImportError, FileNotFoundError):
        return Kind(_plain, _plain_law)
    return Kind(getattr(module, f"{name}_time"), getattr(module, f"{name}_law", by_name))


PLAIN = Law("plain", "any", {}, 0.4, 2.0, 0, "constant shares of peak and bandwidth", "assumed")


class Costs:
    """The laws that hold for a deployment, looked up once for each kind and precision of operators."""

    def __init__(self, deployment: Deployment) -> None:
        self.device = deployment.accelerator
        self.engine = deployment.engine.name
        self.graphs = deployment.graphs
        self._keys = device_keys(self.device)
        self._laws: dict[tuple[Any, ...], tuple[LawTime, Law]] = {}

    def __call__(self, operator: Operator) -> Cost:
        """The time of one operator; fields of its shape may be arrays.

        Raises BadInput where the device states no peak for its precision, or nothing is known to join its ranks.
        """
        shape = operator.shape
        if isinstance(shape, Collective):
            net = collective_time(shape, self.device, self.engine, self.graphs)
            return Cost(net.time, 0.0, 0.0, net.network, net.overhead, net.low, net.high)
        time_of, law = self.law_of(operator)
        time, compute, memory, overhead = time_of(operator, self.device, law)
        return Cost(time, compute, memory, 0.0, overhead, law.low, law.high)

    def law_of(self, operator: Operator) -> tuple[LawTime, Law]:
        """The law of an operator that is no collective, and the function that puts it into it."""
        shape = operator.shape
        key: tuple[Any, ...] = type(shape), operator.precision
        if isinstance(shape, AttentionShape):
            key += shape.phase, shape.heads, shape.kv_heads, shape.latent, shape.kv_bits
        elif isinstance(shape, Gemm | Experts):
            key += shape.weight_bits, shape.activation_bits
        if key not in self._laws:
            self._laws[key] = self._find(operator)
        return self._laws[key]

    def _find(self, operator: Operator) -> tuple[LawTime, Law]:
        own = measured_law(operator, self.device)
        if own is not None:
            return measured_time, own
        if self.device.is_cpu:
            return host_time, law("cpu", "cpu", self._keys, operator.precision, self.engine)
        kind = _kind(_KINDS[type(operator.shape)])
        found = kind.law(operator, self._keys, self.engine)
        low, high = spread(operator, found)
        return kind.time, structs.replace(found, low=low, high=high)

"""What one operator costs on a deployment's device, by the law of its kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from narrows.calibration.laws import Law, law, laws
from narrows.deployment import Deployment
from narrows.roofline import attention, elementwise
from narrows.roofline.arithmetic import larger
from narrows.roofline.attention import attention_law, attention_time
from narrows.roofline.collectives import collective_time
from narrows.roofline.devices import device_keys
from narrows.roofline.elementwise import elementwise_time
from narrows.roofline.engine_overhead import SERVERS, VECTORS, added, engine_law, factor, factors, kind_of
from narrows.roofline.experts import experts_law, experts_time, marlin_law, padding
from narrows.roofline.gemm import VECTOR_ROWS, gemm_time, spread
from narrows.roofline.ggml import ENGINE, peak_of, rows_of, with_kernels
from narrows.roofline.host import host_time
from narrows.roofline.launches import launches_of
from narrows.roofline.measured import measured_law, measured_time
from narrows.roofline.scan import scan_law, scan_time
from narrows.roofline.timed import Parts
from narrows.step import AttentionShape, Batch, Collective, Elementwise, Experts, Gemm, Operator, Scan

LawTime = Callable[..., Parts]
"""Puts an operator into a law."""
LawOf = Callable[[Operator, Sequence[str], str], Law]
"""Finds the law of an operator by the keys of the device and the engine's name."""


def _gemm_law(operator: Operator, devices: Sequence[str], engine: str) -> Law:
    found = law("gemm", "gemm", devices, operator.precision, engine)
    low, high = spread(operator, found)
    return structs.replace(found, low=low, high=high)


def _elementwise_law(operator: Operator, devices: Sequence[str], engine: str) -> Law:
    return law("elementwise", "elementwise", devices, operator.precision, engine)


KINDS: dict[type, tuple[LawTime, LawOf]] = {
    Gemm: (gemm_time, _gemm_law),
    AttentionShape: (attention_time, attention_law),
    Experts: (experts_time, experts_law),
    Scan: (scan_time, scan_law),
    Elementwise: (elementwise_time, _elementwise_law),
}

SPREADS: dict[type, Callable[[Operator, Law], tuple[float, float]]] = {
    AttentionShape: attention.spread,
    Elementwise: elementwise.spread,
}
"""Intervals that depend on more than the law was looked up by."""


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


class Costs:
    """The laws that hold for a deployment, looked up once for each kind and precision of operators."""

    def __init__(self, deployment: Deployment, *, bare: bool = False, ggml: Sequence[Law] | None = None) -> None:
        """bare: operators as their own laws have them, without what the engine makes of them.

        ggml: laws of llama.cpp's kernels that are on trial in a fit, in place of the shipped ones.
        """
        self.deployment, self.device = deployment, deployment.accelerator
        self.layers = deployment.model.layers
        self.steps = None if bare or self.device.is_cpu else engine_law(deployment)
        self._factors = {} if self.steps is None else factors(self.steps)
        self.engine = self.library = deployment.engine.name
        """Whose kernels run, and whose collectives."""
        self.graphs = deployment.graphs
        self.by_vectors = self.engine in VECTORS
        """Whether few rows are multiplied as vectors: see `gemm_time`."""
        self.launches = None if bare else launches_of(deployment)
        """How the host launches steps; None: laws of steps have that."""
        self._ggml = ggml
        self._keys = device_keys(self.device)
        self._laws: dict[tuple[Any, ...], tuple[LawTime, Law]] = {}

    def __call__(self, operator: Operator) -> Cost:
        """The time of one operator; fields of its shape may be arrays.

        Raises BadInput where the device states no peak for its precision, or nothing is known to join its ranks.
        """
        found = self._bare(operator)
        if self.steps is None:
            return found
        by, gap = self.factor_of(operator), self._factors[kind_of(operator)][1]
        time, compute, memory, network, overhead, low, high = found
        # engines' kernels beat those that laws were fitted on, but not the device
        time = larger(by * time, self.least(operator))
        return Cost(time + gap, by * compute, by * memory, by * network, by * overhead + gap, low, high)

    def least(self, operator: Operator) -> Any:
        """Seconds that no kernel beats: its arithmetic at the peak, or at the full bandwidth what stays in memory.

        Activations may still be in L2. An array where figures of the operator are.
        """
        if isinstance(operator.shape, Collective):
            return 0.0
        moved = operator.kept / self.device.memory_bandwidth
        # what does no arithmetic names a precision all the same, which the device need not have
        if isinstance(operator.shape, Elementwise):
            return moved
        own = peak_of(operator, self.device) if self.engine == ENGINE else self.device.peak(operator.precision)
        return larger(moved, operator.flops / own)

    def factor_of(self, operator: Operator) -> Any:
        """By what the engine multiplies the operator's own time; an array where its rows are."""
        if self.steps is None:
            return 1.0
        return factor(self.steps, operator, self.device, self._factors[kind_of(operator)][0])

    def adds(self, batch: Batch) -> Any:
        """Seconds that the engine adds to a step beside its operators. Fields of the batch may be arrays.

        Nothing on a host processor, whose law was measured on whole steps.
        """
        return 0.0 if self.steps is None else added(self.steps, self.layers, batch)

    def _bare(self, operator: Operator) -> Cost:
        shape = operator.shape
        if isinstance(shape, Collective):
            net = collective_time(shape, self.device, self.library, self.graphs)
            return Cost(net.time, 0.0, 0.0, net.network, net.overhead, net.low, net.high)
        time_of, law = self.law_of(operator)
        if isinstance(shape, Experts) and time_of is experts_time:
            padded = padding(self.deployment, shape)
            time, compute, memory, overhead = experts_time(
                operator, self.device, law, padded=padded, by_vectors=self.by_vectors
            )
        elif time_of is gemm_time:
            time, compute, memory, overhead = gemm_time(operator, self.device, law, by_vectors=self.by_vectors)
        else:
            time, compute, memory, overhead = time_of(operator, self.device, law)
        low, high = SPREADS[type(shape)](operator, law) if type(shape) in SPREADS else (law.low, law.high)
        return Cost(time, compute, memory, 0.0, overhead, low, high)

    def borrowed(self, operator: Operator) -> bool:
        """Whether the law of an operator is assumed, or of a wider class of devices than that of whole steps.

        Steps that were measured say nothing of how far such a law is off here: they ran other kernels.
        """
        if self.steps is None:
            return False
        if isinstance(operator.shape, Collective):
            return collective_time(operator.shape, self.device, self.library, self.graphs).assumed
        law = self.law_of(operator)[1]
        if "unpacked" in law.values and rows_of(operator) > VECTOR_ROWS:
            return True  # the steps were of few rows
        return not law.n or self._keys.index(law.device) > self._keys.index(self.steps.device)

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
        time_of, law_of = KINDS[type(operator.shape)]
        found = law_of(operator, self._keys, self.engine)
        if isinstance(operator.shape, Experts) and self.engine in SERVERS:
            found = marlin_law(found, operator, self.device)
        if self.engine == ENGINE and isinstance(operator.shape, Gemm | Experts):
            kernels = laws("ggml") if self._ggml is None else self._ggml
            found = with_kernels(found, operator, self.device, self._keys, kernels)
        return time_of, found

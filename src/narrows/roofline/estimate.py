"""How long a step takes on a deployment, and what bounds it: each operator by its law, one after another.

Operators of a step run one after another on a stream, so that times add up; what the engine does beside them
(scheduling, sampling, launches that wait for the host) comes on top.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, log

from msgspec import structs

from narrows.deployment import Deployment
from narrows.roofline.collectives import host_decides
from narrows.roofline.cost import Cost, Costs
from narrows.roofline.timed import Cause, StepEstimate, Timed
from narrows.step import Batch, Collective, Operator, plan_of

CAUSES: tuple[Cause, ...] = ("compute", "memory bandwidth", "interconnect", "overhead")


def timed(operator: Operator, costs: Costs) -> Timed:
    """An operator with its time and what bounds it: the largest of its parts. Raises BadInput as `Costs` does."""
    found = apart(costs(operator), operator, costs)
    parts = (found.compute, found.memory, found.network, found.overhead)
    return Timed(
        operator=operator,
        time=found.time,
        compute=found.compute,
        memory=found.memory,
        network=found.network,
        overhead=found.overhead,
        bound=CAUSES[parts.index(max(parts))],
        low=found.time * found.low,
        high=found.time * found.high,
    )


def apart(found: Cost, operator: Operator, costs: Costs) -> Cost:
    """The same time with latency told from arithmetic.

    Few rows leave multiprocessors idle, and those that work wait for each other's steps: laws have that with the
    arithmetic. Where the FLOPs themselves, at the share of peak that the law reaches, take less than the traffic, no
    faster arithmetic would help: what the arithmetic takes beyond the traffic is latency, and counts as overhead.
    """
    if not operator.flops or isinstance(operator.shape, Collective) or costs.device.is_cpu:
        return found
    _, law = costs.law_of(operator)
    pure = operator.flops / (law.values.get("peak", 1.0) * costs.device.peak(operator.precision))
    pure *= costs.factor_of(operator)
    if pure >= min(found.memory, found.compute):
        return found
    waiting = max(0.0, found.compute - found.memory)
    return found._replace(compute=pure, overhead=min(found.overhead + waiting, found.time))


def split(one: Timed) -> dict[Cause, float]:
    """The seconds of one operator by cause: its latency, and the rest to the largest of its other parts."""
    parts: dict[Cause, float] = {"compute": one.compute, "memory bandwidth": one.memory, "interconnect": one.network}
    overhead = min(one.overhead, one.time)
    return {max(parts, key=lambda cause: parts[cause]): one.time - overhead, "overhead": overhead}


def combined(operators: Iterable[Timed], overhead: float = 0.0) -> tuple[float, float, float]:
    """Time of a step and its 80 % interval.

    Errors of one law on one device are correlated, so that the logarithms of the intervals are averaged, weighted by
    time; they do not cancel as independent ones would.
    """
    found = [(one.time * one.operator.count, one) for one in operators if one.time]
    time = sum(seconds for seconds, _ in found) + overhead
    if not time:
        return 0.0, 0.0, 0.0
    low = sum(seconds * log(one.low / one.time) for seconds, one in found) / time
    high = sum(seconds * log(one.high / one.time) for seconds, one in found) / time
    return time, time * exp(low), time * exp(high)


def summed(operators: tuple[Timed, ...], overhead: float = 0.0) -> StepEstimate:
    """A step of operators, and what the engine adds (seconds)."""
    time, low, high = combined(operators, overhead)
    shares: dict[Cause, float] = dict.fromkeys(CAUSES, 0.0)
    shares["overhead"] = overhead
    for one in operators:
        for cause, seconds in split(one).items():
            shares[cause] += seconds * one.operator.count
    bound = max(CAUSES, key=lambda cause: shares[cause])
    return StepEstimate(operators, overhead, time, low, high, shares, bound)


class Estimator:
    """A deployment compiled once, to be estimated batch after batch."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.plan = plan_of(deployment)
        self.costs = Costs(deployment)

    def estimate(self, batch: Batch) -> StepEstimate:
        """One step of the engine. Raises BadInput as `Costs` does."""
        return self._launched(self._on_device(batch), batch)

    def _launched(self, found: StepEstimate, batch: Batch) -> StepEstimate:
        """The step, where its kernels are launched one by one: no faster than that.

        What the device does meanwhile is hidden: nothing done to it would help, so that all is overhead.
        """
        launches = self.costs.launches
        if launches is None or not launches.apart(batch):
            return found
        count = sum(one.operator.count for one in found.operators)
        host, law = launches.seconds(count), launches.law
        low, high = max(found.low, law.low * host), max(found.high, law.high * host)
        if host <= found.time:
            return structs.replace(found, low=low, high=high, launched=count)
        shares: dict[Cause, float] = dict.fromkeys(CAUSES, 0.0) | {"overhead": host}
        extra = host - found.time + found.overhead
        return structs.replace(
            found, time=host, low=low, high=high, overhead=extra, shares=shares, bound="overhead", launched=count
        )

    def _on_device(self, batch: Batch) -> StepEstimate:
        operators = tuple(timed(operator, self.costs) for operator in self.plan.operators(batch))
        found = summed(operators, self.costs.adds(batch))
        law = self.costs.steps
        if law is None:
            return found
        # whole steps were measured, which says more of their interval than the intervals of their operators; but not
        # of those whose law nobody measured there, and not of links that hosts wire as they like: where their own
        # ends are farther, the step's ends move as far
        wired = host_decides(self.deployment.accelerator, self.deployment.tensor_parallel)
        low, high = law.low * found.time, law.high * found.time
        for one in operators:
            if self.costs.borrowed(one.operator) or (wired and isinstance(one.operator.shape, Collective)):
                low -= one.operator.count * max(0.0, law.low * one.time - one.low)
                high += one.operator.count * max(0.0, one.high - law.high * one.time)
        # not even its fastest end is faster than the device
        least = sum(one.operator.count * self.costs.least(one.operator) for one in operators)
        low = min(max(low, least), found.time)
        return structs.replace(found, low=low, high=high, basis=law.basis)


def estimate(deployment: Deployment, batch: Batch) -> StepEstimate:
    """One step of an engine. For many of one deployment use `Estimator`. Raises BadInput as `Costs` does."""
    return Estimator(deployment).estimate(batch)

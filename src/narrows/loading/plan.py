"""A whole start: the stages that move weights and those that do not, together, with totals and the narrow stage."""

from __future__ import annotations

import msgspec

from narrows.loading.path import Moved, Scenario, Transfer, transfer
from narrows.loading.rates import Rates
from narrows.loading.start import Fixed, fixed_stages

ORDER = (
    "process_start",
    "download",
    "read",
    "host_allocation",
    "host_copy",
    "host_to_device",
    "initialise",
    "compile",
    "graph_capture",
    "first_request",
)
"""Stages in the order of a start."""


ENGINE = ("compile", "graph_capture")
"""Stages that an engine logs as its start: a slow host is slow in both."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What decides a start: where the weights come from and how, and which engine starts with them."""

    scenario: Scenario
    engine: str
    version: str
    layers: int
    graphs: bool
    compiled: bool = False
    """Compiled code of an earlier start was kept."""


class Start(msgspec.Struct, frozen=True):
    """A start as predicted. Seconds; total is as the loader does it, with its 80 % interval."""

    fixed: tuple[Fixed, ...]
    transfer: Transfer
    low: float
    high: float

    @property
    def waiting(self) -> float:
        """Seconds of the stages that move no weights."""
        return sum(one.seconds for one in self.fixed)

    @property
    def total(self) -> float:
        """From process start to the first answer."""
        return self.waiting + self.transfer.time

    @property
    def stages(self) -> tuple[Fixed | Moved, ...]:
        """All stages, in order."""
        return tuple(sorted((*self.fixed, *self.transfer.moved), key=lambda one: ORDER.index(one.name)))

    @property
    def narrow(self) -> Fixed | Moved:
        """The stage that takes longest."""
        return max(self.stages, key=lambda one: one.seconds)

    @property
    def narrow_transfer(self) -> Moved:
        """Of the stages that move weights, the one that takes longest."""
        return max(self.transfer.moved, key=lambda one: one.seconds)


def predict(settings: Settings, rates: Rates) -> Start:
    """The start that these settings give."""
    fixed = fixed_stages(
        rates,
        settings.engine,
        settings.version,
        settings.layers,
        ranks=settings.scenario.ranks,
        graphs=settings.graphs,
        cached=settings.compiled,
    )
    moved = transfer(settings.scenario, rates)
    path = rates["path"]
    # independent parts: their distances to either side add up as squares; an engine's own stages vary together
    engine = [one for one in fixed if one.name in ENGINE]
    parts = [(one.seconds - one.low, one.high - one.seconds) for one in fixed if one.name not in ENGINE]
    parts.append((sum(one.seconds - one.low for one in engine), sum(one.high - one.seconds for one in engine)))
    parts.append(((1 - path.low) * moved.time, (path.high - 1) * moved.time))
    below, above = (sum(part[side] ** 2 for part in parts) for side in (0, 1))
    total = moved.time + sum(one.seconds for one in fixed)
    return Start(fixed, moved, total - below**0.5, total + above**0.5)

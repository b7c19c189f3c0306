"""A change to a deployment or its load, and what it makes of a phase."""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.deployment import Deployment
from narrows.models import ModelSpec
from narrows.roofline.phases import Load, PhaseTime, Served, decode, prefill
from narrows.step.operators import Phase
from narrows.text import Text

AS_IT_IS = Text("as it is")


class Ask(msgspec.Struct, frozen=True):
    """The deployment that is asked about, what it is made of (`deploy`'s options), and the load.

    cloud: prices of this one only; None: of all.
    """

    model: ModelSpec
    options: dict[str, Any]
    steps: Served
    load: Load
    cloud: str | None = None

    @property
    def deployment(self) -> Deployment:
        """What is asked about."""
        return self.steps.deployment


class Change(msgspec.Struct, frozen=True):
    """A changed deployment and load. per_pass: tokens that a pass gives every sequence; replicas: such deployments."""

    name: str
    phase: Phase
    change: str
    text: Text
    steps: Served
    load: Load
    time: PhaseTime
    per_pass: float = 1.0
    cached: int = 0
    replicas: int = 1
    assumed: Text | None = None

    @property
    def seconds(self) -> float:
        """Of the prompt, or per token of a sequence."""
        return self.time.time / self.per_pass

    @property
    def tokens_per_second(self) -> float:
        """Of all devices."""
        tokens = self.load.prompt if self.phase == "prefill" else self.load.batch
        return self.replicas * tokens / self.seconds


def phase_time(phase: Phase, steps: Served, load: Load) -> PhaseTime:
    """The phase of a load."""
    return prefill(steps, load.prompt) if phase == "prefill" else decode(steps, load.batch, load.context)

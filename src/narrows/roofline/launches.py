"""Steps that no CUDA graph holds: the host launches their kernels one by one, and the device waits where it is faster.

    step = max(device, launches × seconds of a launch)

Of a step that is a graph, the host launches the graph alone. Engines in Python (vLLM, SGLang) take tens of
microseconds for each kernel and what is around it; llama.cpp, in C++, takes few and hides them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from narrows.calibration.laws import Law, law
from narrows.deployment import Deployment
from narrows.step import Batch
from narrows.step.load import phase_of

IN_PYTHON = ("vllm", "sglang")
"""Engines that launch from Python what no graph holds."""
CAPTURED = 256
"""Sequences of the largest decode step that vLLM captures before 0.8: `_BATCH_SIZES_TO_CAPTURE`. Later versions compile
what no graph holds, so that it has few launches, which so large a batch hides."""
WITH_GRAPHS = ("nvidia", "amd")
"""Vendors whose devices have graphs of that kind."""


class Launches(NamedTuple):
    """How a deployment launches steps. law: seconds of one, `each`; most: sequences of the largest decode step in a
    graph, 0: there are no graphs; prompts: whether steps with prompts are launched one by one too."""

    law: Law
    most: int
    prompts: bool

    def apart(self, batch: Batch) -> Any:
        """Whether kernels of a step are launched one by one. An array of it where fields of the batch are arrays."""
        if any(phase_of(chunk) == "prefill" for chunk in batch.chunks):
            return self.prompts
        return batch.sequences > self.most

    def seconds(self, launches: int) -> float:
        """Of the host."""
        return launches * self.law.values["each"]


def launches_of(deployment: Deployment) -> Launches | None:
    """How the deployment's engine launches its steps; None where the host's part is not known, or is in other laws."""
    if deployment.accelerator.is_cpu or deployment.engine.name not in IN_PYTHON:
        return None
    found = law("launches", "launch", ("any",), engine=deployment.engine.name)
    if not deployment.graphs:
        return Launches(found, 0, True)
    if deployment.accelerator.vendor not in WITH_GRAPHS:
        return None
    if deployment.engine.name == "sglang":
        return Launches(found, deployment.graph_batch, False)
    return Launches(found, CAPTURED, False) if deployment.engine.captured == "decode" else None

"""Steps that no CUDA graph holds: the host launches their kernels one by one, and the device waits where it is faster.

    step = max(device, launches × seconds of a launch)

Of a step that is a graph, the host launches the graph alone; vLLM 0.8 to 0.10 cut graphs at attention, which the host
launches in every layer. Engines in Python (vLLM, SGLang) take tens of
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
WITH_GRAPHS = ("nvidia", "amd")
"""Vendors whose graphs stop at the sizes of `CAPTURED`."""
CAPTURED = {"decode": 256, "pieces": 512, "both_fine": 512, "both": 512}
"""Sequences of the largest decode step that vLLM captures, by which graphs it makes: `_BATCH_SIZES_TO_CAPTURE` ends at
256 before 0.8, `cudagraph_capture_sizes` at 512 (logs: "PIECEWISE=51 (largest=512)")."""


class Launches(NamedTuple):
    """How a deployment launches steps.

    law: seconds of one launch, or of one layer, `each`; layers: how many there are, where it is of layers; 0: of
    launches. most: sequences of the largest decode step in a graph. cut: graphs are cut in every layer. prompts:
    whether steps with prompts are launched one by one too.
    """

    law: Law
    layers: int
    most: int
    cut: bool
    prompts: bool

    def apart(self, batch: Batch) -> Any:
        """Whether a graph does not hold all of a step. An array of it where fields of the batch are arrays."""
        if any(phase_of(chunk) == "prefill" for chunk in batch.chunks):
            return self.prompts
        return self.cut | (batch.sequences > self.most)

    def seconds(self, batch: Batch, launches: int) -> Any:
        """Seconds of the host for a step of so many kernels; 0 where a graph holds it. An array where fields are."""
        return (self.layers or launches) * self.law.values["each"] * self.apart(batch)


def launches_of(deployment: Deployment) -> Launches | None:
    """How the deployment's engine launches its steps; None where the host's part is not known, or is in other laws.

    Compiled steps beyond the largest graph are taken as those whose graphs are cut: calls between compiled pieces.
    """
    engine, vendor = deployment.engine, deployment.accelerator.vendor
    if deployment.accelerator.is_cpu or engine.name not in IN_PYTHON:
        return None
    each = law("launches", "launch", ("any",), engine=engine.name)
    if not deployment.graphs:
        return Launches(each, 0, 0, True, True)
    if vendor not in WITH_GRAPHS:
        return None
    if engine.name == "sglang":
        return Launches(each, 0, deployment.graph_batch, False, False)
    if engine.captured == "decode":
        return Launches(each, 0, CAPTURED["decode"], False, False)
    layer = law("launches", "layer", ("any",), engine=engine.name)
    return Launches(layer, deployment.model.layers, CAPTURED[engine.captured], engine.captured == "pieces", False)

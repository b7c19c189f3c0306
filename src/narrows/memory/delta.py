"""What kernels of gated-delta layers take outside the allocator while a step is profiled: code, local memory, tuning.

It does not grow with the model: Qwen3.5-4B and Qwen3-Next-80B-A3B take about as much.
"""

from __future__ import annotations

from narrows.calibration import Coefficient, Coefficients
from narrows.deployment import Deployment
from narrows.models.mixers import GatedDeltaNet, KimiDelta
from narrows.text import Text
from narrows.units import binary

_HOPPER = "9.0"
"""Compute capability whose kernels are FlashInfer's and not Triton's (vllm-project/vllm#36599)."""


def delta_term(deployment: Deployment, known: Coefficients) -> Coefficient | None:
    """The coefficient of such layers in this version on this device; None without such layers or kernels."""
    kernels = deployment.engine.delta_kernels
    if kernels == "none" or deployment.accelerator.vendor != "nvidia":
        return None
    if not any(isinstance(layer.mixer, GatedDeltaNet | KimiDelta) for layer, _ in deployment.model.kinds):
        return None
    if kernels == "tuned" and deployment.accelerator.compute_capability == _HOPPER:
        kernels = "first"
    return known[f"delta_{kernels}_bytes"]


def delta_note(term: Coefficient) -> Text:
    """What is said of it."""
    return Text(
        "runtime: {size} for the kernels of gated-delta layers, between {low} and {high} (assumed; {basis})",
        size=binary(term.value),
        low=binary(term.low),
        high=binary(term.high),
        basis=term.basis,
    )

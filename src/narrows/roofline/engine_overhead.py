"""What an engine makes of its operators' times: how far its kernels are from those that laws were fitted on, and what
it adds between them, per layer, per step and per sequence.

    step = Σ (factor × time by its law + gap) + layers × (per_layer + eager × exposed)
           + per_step + per_sequence × sequences

The factor is that of the operator's kind where traffic decides, as in decode, and passes over to `large` where
arithmetic does, as for prompts: see `few`.
`exposed`: a step with prompts is no captured graph, so that its launches show until there are tokens enough to hide
them. What the host takes where no graph holds decode either: `narrows.roofline.launches`.
Factors are near 1 where a law of the operator holds in servers too. A model that was measured on this class of devices
has a law of its own; another falls back to that of any model. Which law it was, `Law.basis` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from narrows.calibration.laws import Law, laws
from narrows.deployment import Deployment
from narrows.hardware import Accelerator
from narrows.models import ModelSpec
from narrows.models.experts import has_experts, mixture_of
from narrows.roofline.devices import device_keys
from narrows.step import AttentionShape, Batch, Collective, Elementwise, Experts, Gemm, Operator, Scan
from narrows.step.load import phase_of

KINDS = ("gemm", "experts", "attention", "scan", "elementwise", "all_reduce", "exchange")
"""Kinds of operators with a factor of their own; `exchange`: all collectives but the sum over ranks."""
LARGE = "large"
"""Factor of operators of many rows, whatever their kind."""
ADDED = ("gap", "talk_gap", "per_layer", "per_step", "per_sequence", "eager")
"""Seconds: after each kernel, after each collective, for each layer, step and sequence of the rank, and for each layer
of a step that no graph holds."""
EXPOSED = 512.0
"""Tokens of prompts at which half of the launches of an eager step hide behind its kernels: set by hand. Twice or half
of it changes errors of prompts by less than a point, and of steps not at all."""
PROMPTS = ("prompt", "prompt_network", "prompt_per_layer")
"""Of prompts that run between the decode steps of a server: factors of their kernels' and collectives' times, and
seconds per layer."""
NAMES = (*KINDS, LARGE, *ADDED, *PROMPTS)

SERVERS = ("vllm", "sglang", "tensorrt-llm")
"""Engines that serve many; the others are for one user."""
VECTORS = ("llama.cpp", "mlx-lm", "mlc-llm")
"""Engines that multiply few rows as vectors, without tiles (llama.cpp's mmvq.cuh and kernel_mul_mv, MLX's qmv, MLC's
GEMV schedules)."""

_KIND: dict[type, str] = {
    Gemm: "gemm",
    Experts: "experts",
    AttentionShape: "attention",
    Scan: "scan",
    Elementwise: "elementwise",
}


def kind_of(operator: Operator) -> str:
    """Which of `KINDS` an operator is."""
    shape = operator.shape
    if isinstance(shape, Collective):
        return "all_reduce" if shape.op == "all_reduce" else "exchange"
    return _KIND[type(shape)]


def shape_of(model: ModelSpec) -> str:
    """What models have in common that cost the same per step: `61x7168x256` (layers, width, experts), `80x8192`."""
    mixtures = (mixture_of(layer.feed_forward) for layer, _ in model.kinds)
    experts = max((one.experts for one in mixtures if one is not None), default=0)
    return f"{model.layers}x{model.hidden}" + (f"x{experts}" if experts else "")


def stored_as(model: ModelSpec) -> str:
    """How the weights are stored, in one word: `nvfp4`, `mxfp4`, `fp8`, `int4`, …; `16` where nothing is quantized."""
    words = model.precision.label.lower().replace(",", " ").split()
    return next((word for word in words if word[-1:].isdecimal() and word[:1].isalpha()), "16")


def few(operator: Operator, device: Accelerator) -> Any:
    """1 for few rows, 0 for many: how far the factor of the kind holds. Collectives have no rows: 1.

    The share of traffic in what weights and cache take at the full bandwidth and the FLOPs at the peak, half at the
    ridge point. Of what does no arithmetic, L2 decides: half where its traffic is as large as L2, 1 where nobody knows
    how large that is. An array where figures of the operator are.
    """
    if isinstance(operator.shape, Collective):
        return 1.0
    if isinstance(operator.shape, Elementwise):
        return 1.0 / (1.0 + operator.bytes / device.l2_bytes) if device.l2_bytes else 1.0
    moved = operator.kept / device.memory_bandwidth + NOTHING
    return moved / (moved + operator.flops / device.peak(operator.precision))


NOTHING = 1e-12
"""Seconds that any operator moves something: one without weights and cache (an encoder's attention) divides by no 0."""


def exposed(batch: Batch) -> Any:
    """Share of the launches of a step that its kernels do not hide: 0 for decode alone, which runs as a graph."""
    prompts = [chunk.count * (chunk.new + chunk.encoder) for chunk in batch.chunks if phase_of(chunk) == "prefill"]
    return 1.0 / (1.0 + (sum(prompts) / EXPOSED) ** 2) if prompts else 0.0


class Asked(NamedTuple):
    """What a law of steps is sought by."""

    kind: str
    devices: Sequence[str]
    engine: str
    version: str
    model: str
    precision: str


def asked_of(deployment: Deployment, engine: str = "", version: str = "") -> Asked:
    """The key of a deployment. engine, version: in place of the deployment's (an engine that narrows cannot deploy)."""
    model = deployment.model
    return Asked(
        "experts" if has_experts(model) else "dense",
        device_keys(deployment.accelerator),
        engine or deployment.engine.name,
        version or deployment.engine.version,
        shape_of(model),
        stored_as(model),
    )


def chosen(rows: Sequence[Law], asked: Asked) -> Law:
    """The most special of the rows that hold: by model, then engine, version and precision, then device.

    A key that no row covers is a mistake of ours: KeyError.
    """
    found = [
        row
        for row in rows
        if row.operator == asked.kind
        and row.device in asked.devices
        and row.model in ("", asked.model)
        and row.engine in ("", asked.engine)
        and row.version in ("", asked.version)
        and row.precision in ("", asked.precision)
    ]
    if not found:
        raise KeyError(f"no law of steps for {asked}")
    return max(
        found,
        key=lambda row: (
            row.model != "",
            row.engine != "",
            row.version != "",
            row.precision != "",
            -asked.devices.index(row.device),
        ),
    )


def engine_law(deployment: Deployment, engine: str = "", version: str = "") -> Law:
    """The law of steps that holds for a deployment."""
    return chosen((*laws("steps"), *laws("ggml-steps")), asked_of(deployment, engine, version))


def factors(law: Law) -> dict[str, tuple[float, float]]:
    """(factor, gap in seconds) by kind of operator, of few rows."""
    talks = ("all_reduce", "exchange")
    return {kind: (law.values[kind], law.values["talk_gap" if kind in talks else "gap"]) for kind in KINDS}


def factor(law: Law, operator: Operator, device: Accelerator, of_kind: float) -> Any:
    """By what an operator's time is multiplied; `of_kind`: the factor of its kind. An array where its rows are."""
    near = few(operator, device)
    return of_kind * near + law.values[LARGE] * (1.0 - near)


def added(law: Law, layers: int, batch: Batch) -> Any:
    """Seconds of a step beside its operators. Fields of the batch, of one rank, may be arrays."""
    values = law.values
    each = values["per_layer"] + values["eager"] * exposed(batch)
    return values["per_step"] + each * layers + values["per_sequence"] * batch.sequences


def overhead(deployment: Deployment, batch: Batch) -> Any:
    """Seconds that the engine adds to a step of a deployment, beside the gaps between operators.

    Fields of the batch may be arrays.
    """
    return added(engine_law(deployment), deployment.model.layers, batch)

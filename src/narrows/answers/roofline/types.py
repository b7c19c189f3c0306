"""The answer of `roofline`: phases, operators, turns, prescriptions; and sweep, hierarchy, memory wall where asked."""

from __future__ import annotations

from typing import Literal

import msgspec

from narrows.answers.base import Answer
from narrows.answers.model import ModelFacts
from narrows.quantity import Quantity
from narrows.roofline.hierarchy import Level
from narrows.roofline.memory_wall import Generation
from narrows.roofline.prescriptions import Prescription
from narrows.roofline.timed import Cause
from narrows.roofline.turning import TurningPoint
from narrows.step.operators import Phase as PhaseName
from narrows.text import Text

Moved = Literal["weights", "kv_cache", "state", "activations"]
"""What goes to and from device memory. state: of recurrences, as large whatever the context."""
Spending = Literal["weights", "kv_cache", "state", "activations", "compute", "interconnect", "overhead"]
"""What time goes to: `memory bandwidth` is told apart by what is moved."""
Parameter = Literal["batch", "context", "prompt"]
"""What a sweep varies: sequences or cached tokens of a decode step, or tokens of a prompt."""


class Ridge(msgspec.Struct, frozen=True):
    """The roof of the device at one precision: dense peak (FLOP/s), bandwidth (bytes/s), ridge point (FLOP/B).

    used: operators of this answer compute in it.
    """

    precision: str
    peak: float
    bandwidth: float
    ridge: float
    used: bool


class Phase(msgspec.Struct, frozen=True):
    """Prefill or decode, and what bounds it. Figures are of one rank; of a pipeline, of one rank of every stage.

    time: seconds; of prefill, until all chunks of the prompts are done; of decode, of one step. sequences, tokens:
    how many run, and their new tokens; context: tokens cached before. steps: engine steps that it takes. flops,
    bytes: in all; intensity: their ratio, FLOP/B; traffic: the bytes by what is moved. ridge: where the device's roof
    bends at the precision that most FLOPs are done in, FLOP/B. attained: FLOP/s. tokens_per_second: new tokens
    (prefill: of prompts). shares: cause → seconds, which add up to `time`; spending: the same with memory traffic told
    apart.
    """

    name: PhaseName
    time: Quantity
    bound: Cause
    sequences: int
    tokens: int
    context: int
    steps: int
    flops: int
    bytes: int
    traffic: dict[Moved, int]
    intensity: float
    ridge: float
    precision: str
    attained: float
    tokens_per_second: Quantity
    shares: dict[Cause, float]
    spending: dict[Spending, float]


class Phases(msgspec.Struct, frozen=True):
    """The two phases."""

    prefill: Phase
    decode: Phase


class OperatorRow(msgspec.Struct, frozen=True):
    """All operators of one name and shape in a phase, on one rank; figures are of all `count` together.

    kind: `gemm`, `attention`, `experts`, `scan`, `elementwise`, `collective`. shape: in signs; of attention its queries
    and keys, and under a window how many of these each query sees on average. weights, kv_cache, state: bytes of them
    among `bytes`. intensity: FLOP/B. attained: FLOP/s. share: of the phase's time. time: seconds.
    """

    phase: PhaseName
    name: str
    kind: str
    shape: str
    count: int
    precision: str
    flops: int
    bytes: int
    weights: int
    kv_cache: int
    state: int
    intensity: float
    attained: float
    time: Quantity
    share: float
    bound: Cause


class SweepPoint(msgspec.Struct, frozen=True):
    """One point of a sweep: value of the parameter, seconds of the phase, tokens per second, what bounds it."""

    value: int
    time: float
    tokens_per_second: float
    bound: Cause
    intensity: float
    attained: float
    fits: bool


class Sweep(msgspec.Struct, frozen=True):
    """The phase that depends on `parameter` over a range of it; the others stay as asked for."""

    parameter: Parameter
    phase: PhaseName
    points: tuple[SweepPoint, ...]


class Hierarchy(msgspec.Struct, frozen=True):
    """One operator at every level of the memory hierarchy: traffic and least time.

    narrowest: the slowest of the levels whose figures are the device's own; those between are assumed.
    """

    phase: PhaseName
    operator: str
    shape: str
    levels: tuple[Level, ...]
    narrowest: str


class UsedLaw(msgspec.Struct, frozen=True):
    """A law of speed that times rest on: of which device or class of devices, from how many measurements (0: assumed).

    kind, phase, precision: of the operators (phase: of attention); `step`: what the engine makes of them. low, high:
    80 % of the measured times lie between these multiples.
    """

    kind: str
    phase: str
    precision: str
    device: str
    n: int
    low: float
    high: float
    basis: str
    source: str


class NaiveAttention(msgspec.Struct, frozen=True):
    """Attention of the prefill, fused and as kernels whose scores go through device memory: bytes and seconds in all.

    Both of one rank and all layers; the naive one computes the same pairs, and its seconds are the least possible.
    """

    fused_bytes: int
    naive_bytes: int
    fused_time: float
    naive_time: float


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What bounds one deployment.

    precision: of the arithmetic of most FLOPs. fits: whether memory holds `batch` sequences of this length;
    max_batch: how many it holds; capacity: in words. path: the decode step as the batch grows by doubling. generates:
    whether the model does; of one that embeds or classifies only what is said of prefill holds, and nothing else of
    decode is given than its phase, as if it did. usd_per_million_tokens: of decode, else of prefill.
    """

    gpu: str
    gpu_name: str
    count: int
    tensor_parallel: int
    pipeline_parallel: int
    engine: str
    quantization: str
    kv_cache_dtype: str
    precision: str
    fits: bool
    max_batch: int
    capacity: Text
    usd_per_hour: float | None
    instance: str | None
    price_as_of: str | None
    usd_per_million_tokens: float | None
    ridges: tuple[Ridge, ...]
    phases: Phases
    operators: tuple[OperatorRow, ...]
    turning_points: tuple[TurningPoint, ...]
    prescriptions: tuple[Prescription, ...]
    laws: tuple[UsedLaw, ...]
    path: tuple[SweepPoint, ...] = ()
    sweep: Sweep | None = None
    hierarchy: tuple[Hierarchy, ...] = ()
    naive_attention: NaiveAttention | None = None
    generates: bool = True

    @property
    def shown(self) -> tuple[Phase, ...]:
        """The phases that the model has, decode first."""
        return (self.phases.decode, self.phases.prefill) if self.generates else (self.phases.prefill,)


class Roofline(Answer, frozen=True, kw_only=True):
    """The answer of `roofline`: `phases`, `operators`, … are of the first deployment, `others` are the further ones.

    prompt: tokens of the prompt whose prefill is asked for; batch, context: sequences and cached tokens of decode.
    cautions: why a part of the answer is of something that does not run so, such as an engine on another's device.
    """

    schema: str = "narrows.roofline/1"
    model: ModelFacts
    prompt: int
    batch: int
    context: int
    gpu: str
    gpu_name: str
    count: int
    tensor_parallel: int
    pipeline_parallel: int
    engine: str
    quantization: str
    kv_cache_dtype: str
    precision: str
    fits: bool
    max_batch: int
    capacity: Text
    usd_per_hour: float | None
    instance: str | None
    price_as_of: str | None
    usd_per_million_tokens: float | None
    ridges: tuple[Ridge, ...]
    phases: Phases
    operators: tuple[OperatorRow, ...]
    turning_points: tuple[TurningPoint, ...]
    prescriptions: tuple[Prescription, ...]
    laws: tuple[UsedLaw, ...]
    path: tuple[SweepPoint, ...] = ()
    sweep: Sweep | None = None
    hierarchy: tuple[Hierarchy, ...] = ()
    naive_attention: NaiveAttention | None = None
    generates: bool = True
    others: tuple[Bounds, ...] = ()
    generations: tuple[Generation, ...] = ()
    cautions: tuple[Text, ...] = ()

    @property
    def candidates(self) -> tuple[Bounds, ...]:
        """Every deployment, the first one too."""
        return (Bounds(**{name: getattr(self, name) for name in Bounds.__struct_fields__}), *self.others)

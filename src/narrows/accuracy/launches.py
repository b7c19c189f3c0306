"""What the host takes to launch one kernel of an eager step: from public figures of engines with and without graphs.

A step whose kernels are launched one by one takes as long as its launches where these take longer than the kernels.
Then a step ÷ its operators is the time of a launch, with all that an engine in Python does around it. Each source
counts once: launches differ more from host to host than from model to model.
"""

from __future__ import annotations

import os
from collections import defaultdict
from functools import cache
from statistics import median

import msgspec

from narrows.accuracy.serving_cases import serving_cases
from narrows.accuracy.serving_work import Work, launched_eagerly
from narrows.calibration.laws import Law
from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.models import ModelSpec, load_model, read_config
from narrows.models.catalogue import catalogue_entry
from narrows.step import Batch, plan_of

SHORTER = 0.9
"""Launches decide where a step with graphs takes less than this share of the eager one."""
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}


class EagerFact(msgspec.Struct, frozen=True):
    """One decode step of `batch` sequences with `context` tokens: seconds without graphs and with (None: unknown).

    model: of the catalogue; quantization: `awq`, or none. note: what the source says of it.
    """

    model: str
    device: str
    engine: str
    batch: int
    context: int
    eager: float
    graphs: float | None
    source: str
    note: str
    quantization: str = ""

    @property
    def launches_decide(self) -> bool:
        """Whether the step waits for its launches, as far as the source tells."""
        return self.graphs is None or self.graphs < SHORTER * self.eager


@cache
def eager_facts() -> tuple[EagerFact, ...]:
    """All of them."""
    path = os.path.join(os.path.dirname(__file__), "data", "eager-facts.jsonl")
    with open(path, "rb") as file:
        return tuple(msgspec.json.decode(line, type=EagerFact) for line in file)


def _model(fact: EagerFact) -> ModelSpec:
    if not fact.quantization:
        return load_model(fact.model, online=False)
    config = {**catalogue_entry(fact.model).config, "quantization_config": AWQ}
    return read_config(config, name=fact.model, as_usual=False)


def launches_of(fact: EagerFact) -> int:
    """Operators of the step."""
    deployment = deploy(_model(fact), find_accelerator(fact.device), max_length=1024, enforce_eager=True)
    return sum(one.count for one in plan_of(deployment).operators(Batch.decode(fact.batch, fact.context)))


def _each(work: Work) -> float:
    return work.measured / work.launches


def seconds_by_source() -> dict[str, float]:
    """Source → seconds of a launch, the median of its figures. Raises BadInput where numpy is not installed."""
    found: dict[str, list[float]] = defaultdict(list)
    for fact in eager_facts():
        if fact.launches_decide:
            found[fact.source].append(fact.eager / launches_of(fact))
    for work in serving_cases().one_user:
        if launched_eagerly(work.record):
            found[work.record.source].append(_each(work))
    return {source: median(values) for source, values in found.items()}


def launch_law() -> Law:
    """The median of all sources, and an interval that holds all of them."""
    values = sorted(seconds_by_source().values())
    each = median(values)
    return Law(
        operator="launch",
        device="any",
        values={"each": float(f"{each:.3g}")},
        low=round(values[0] / each, 2),
        high=round(values[-1] / each, 2),
        n=len(values),
        basis="median of what sources say of vLLM and SGLang without CUDA graphs; interval: all of them",
        source="; ".join(seconds_by_source()),
    )

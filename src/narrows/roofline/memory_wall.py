"""The memory wall: peaks grew faster than bandwidth, so that ridge points moved from one generation to the next."""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.hardware import find_accelerator
from narrows.models import ModelSpec
from narrows.roofline.phases import Load, Served, decode, main_precision, prefill
from narrows.roofline.timed import Cause
from narrows.roofline.turning import decode_by_peaks
from narrows.roofline.what_if import deployed
from narrows.text import BadInput

MILESTONES = (
    "v100-sxm2-32gb",
    "t4",
    "a100-sxm-80gb",
    "l40s",
    "h100-sxm",
    "h200-sxm",
    "b200-sxm",
    "b300-sxm",
    "mi250x",
    "mi300x",
    "mi355x",
)
"""One or two accelerators of each generation that clouds have rented out."""


class Generation(msgspec.Struct, frozen=True):
    """One accelerator of the memory wall: peak (FLOP/s), bandwidth (bytes/s) and ridge (FLOP/B) at `precision`.

    turning_batch: decode batch from which its linear layers are compute-bound, by peaks alone; None: none is.
    prefill, decode: seconds of the phases asked for; …_bound: what decides them. fits: on one device.
    """

    gpu: str
    name: str
    year: int
    precision: str
    peak: float
    bandwidth: float
    ridge: float
    turning_batch: int | None
    prefill: float
    prefill_bound: Cause
    decode: float
    decode_bound: Cause
    tokens_per_second: float
    fits: bool


def memory_wall(
    model: ModelSpec, options: dict[str, Any], load: Load, also: tuple[str, ...] = ()
) -> tuple[Generation, ...]:
    """The milestones and the accelerators in `also`, oldest first, each with one device and the same load.

    A device that has no peak for the model's precision is left out.
    """
    one_each = ("tensor_parallel", "pipeline_parallel", "expert_parallel", "attention_data_parallel")
    alone = {**options, **dict.fromkeys(one_each, 1)}
    # usable memory that was given is that of the accelerators asked for
    others = {**alone, "device_memory": None}
    found = []
    for name in dict.fromkeys((*MILESTONES, *also)):
        device = find_accelerator(name)
        try:
            one = deployed(model, device, alone if device.id in also else others)
            steps = Served(one)
            filled, step = prefill(steps, load.prompt), decode(steps, load.batch, load.context)
        except BadInput:
            continue
        precision = main_precision(filled.operators)
        found.append(
            Generation(
                gpu=device.id,
                name=device.name,
                year=device.launch_year,
                precision=precision,
                peak=device.peak(precision),
                bandwidth=device.memory_bandwidth,
                ridge=device.ridge(precision),
                turning_batch=decode_by_peaks(steps, 1),
                prefill=filled.time,
                prefill_bound=filled.bound,
                decode=step.time,
                decode_bound=step.bound,
                tokens_per_second=load.batch / step.time,
                fits=steps.held(load.context) >= load.batch,
            )
        )
    return tuple(sorted(found, key=lambda one: (one.year, one.peak)))

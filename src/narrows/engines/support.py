"""What an engine runs on which device: the device itself, formats of weights and KV cache, ways of serving.

The facts are rows of data/support.jsonl, each with its source. Where no row says anything, nothing is known.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Literal

import msgspec

from narrows.engines.types import Engine
from narrows.engines.version import parse_version
from narrows.hardware import Accelerator

Way = Literal["native", "weight-only", "plugin", "replaced", "none"]
"""native: as such. weight-only: unpacked to 16 bits before products, so that bytes fall and FLOPs do not. plugin: by
another project. replaced: by another format that the engine takes by itself. none: not at all."""
What = Literal[
    "device",
    "bf16",
    "bf16 checkpoint",
    "fp8",
    "int8",
    "awq",
    "gptq",
    "nvfp4",
    "mxfp4",
    "fp8 kv",
    "sparse latent attention",
    "speculative decoding",
    "prefix caching",
]
"""bf16: asked for by --dtype; bf16 checkpoint: weights stored so, and nothing asked for."""


class Support(msgspec.Struct, frozen=True, kw_only=True):
    """One fact. since, before: versions of the engine; least, below: compute capabilities; only: AMD's architectures.

    needs: the least compute capability where there is one. heads: widths of heads that it is limited to, which then
    rules out learned sinks and latent attention too; empty: all.
    """

    engine: str
    what: What
    platform: str
    way: Way
    source: str
    since: str = ""
    before: str = ""
    least: str = ""
    below: str = ""
    only: tuple[str, ...] = ()
    needs: str = ""
    heads: tuple[int, ...] = ()


def platform_of(device: Accelerator) -> str:
    """`cuda`, `rocm`, `xpu`, `gaudi`, `tpu`, `neuron`, `metal`, `cpu` (x86) or `arm`: engines' word for the device."""
    if device.is_cpu:
        return "arm" if device.architecture.startswith("Neoverse") else "cpu"
    if device.vendor == "intel":
        return "gaudi" if device.architecture.startswith("Gaudi") else "xpu"
    return {"nvidia": "cuda", "amd": "rocm", "google": "tpu", "aws": "neuron", "apple": "metal"}.get(
        device.vendor, device.vendor
    )


@cache
def _facts() -> dict[tuple[str, str, str], list[Support]]:
    """By engine, what, and platform."""
    found: dict[tuple[str, str, str], list[Support]] = {}
    with open(os.path.join(os.path.dirname(__file__), "data", "support.jsonl"), "rb") as file:
        for line in file:
            fact = msgspec.json.decode(line, type=Support)
            found.setdefault((fact.engine, fact.what, fact.platform), []).append(fact)
    return found


@cache
def _older(first: str, second: str) -> bool:
    """Whether version or compute capability `first` is below `second`."""
    return (parse_version(first) or ()) < (parse_version(second) or ())


def _holds(fact: Support, version: str, capability: str) -> bool:
    if version and fact.since and _older(version, fact.since):
        return False
    if version and fact.before and not _older(version, fact.before):
        return False
    if fact.only and capability not in fact.only:
        return False
    if (fact.least or fact.below) and not capability[:1].isdecimal():
        return False
    return not (fact.least and _older(capability, fact.least)) and (not fact.below or _older(capability, fact.below))


def support(engine: Engine, what: What, device: Accelerator) -> Support | None:
    """What is known of `what` in this engine on this device; None: nothing."""
    found = _facts().get((engine.name, what, platform_of(device)), [])
    capability = device.compute_capability or ""
    return next((fact for fact in found if _holds(fact, engine.version, capability)), None)

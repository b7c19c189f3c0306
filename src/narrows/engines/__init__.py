"""Facts about serving engines: defaults by device, and what of the device's memory they claim. Data, not code."""

from __future__ import annotations

import os
from functools import cache

import msgspec

from narrows.text import BadInput


class SchedulerDefault(msgspec.Struct, frozen=True):
    """Defaults of the scheduler on devices with at least `least_memory` bytes, unless named `except_name`."""

    least_memory: int
    except_name: str
    max_num_batched_tokens: int
    max_num_seqs: int


class Engine(msgspec.Struct, frozen=True):
    """One engine at one version.

    gpu_memory_utilization: share of the device's memory the engine claims for weights, activations and KV cache.
    graphs_in_budget: memory of CUDA graphs comes out of that share (newer versions) or on top of it.
    """

    name: str
    version: str
    gpu_memory_utilization: float
    gpu_memory_utilization_flag: str
    graphs_in_budget: bool
    scheduler_defaults: tuple[SchedulerDefault, ...]
    source: str
    as_of: str

    @property
    def label(self) -> str:
        """`vllm==0.32`."""
        return f"{self.name}=={self.version}"

    def scheduler_default(self, memory: int, name: str) -> SchedulerDefault:
        """The defaults for a device of `memory` bytes with this name."""
        for default in self.scheduler_defaults:
            if memory >= default.least_memory and not (default.except_name and default.except_name in name.upper()):
                return default
        return self.scheduler_defaults[-1]


ENGINES = ("vllm",)


@cache
def _read(name: str) -> Engine:
    with open(os.path.join(os.path.dirname(__file__), "data", f"{name}.json"), "rb") as file:
        return msgspec.json.decode(file.read(), type=Engine)


def find_engine(text: str) -> Engine:
    """The engine called `vllm` or `vllm==0.32`. Other engines and versions are refused: their laws differ."""
    name, _, version = text.strip().lower().partition("==")
    if name not in ENGINES:
        raise BadInput("engine '{name}' is not known; narrows knows: {known}", name=text[:40], known=", ".join(ENGINES))
    engine = _read(name)
    if version and version != engine.version and not version.startswith(engine.version + "."):
        raise BadInput(
            "{name} {version} is not known yet; narrows knows the memory law of {known}",
            name=name,
            version=version[:20],
            known=engine.label,
        )
    return engine

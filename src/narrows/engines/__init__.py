"""Facts about serving engines by version: defaults by device, and what of its memory they claim. Data, not code."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Any, Generic, Literal, TypeVar

import msgspec

from narrows.engines.version import Version, parse_version, version_text
from narrows.text import BadInput, Text

T = TypeVar("T")
Sampler = Literal["sort", "triton", "flashinfer"]
Captured = Literal["decode", "pieces", "both_fine", "both"]


class SchedulerDefault(msgspec.Struct, frozen=True):
    """Defaults of the scheduler on devices with at least `least_memory` bytes, unless named `except_name`.

    only_names: the device's name has one of these in it (empty: any).
    """

    max_num_batched_tokens: int
    max_num_seqs: int
    least_memory: int = 0
    except_name: str = ""
    only_names: tuple[str, ...] = ()

    def holds_for(self, memory: int, name: str) -> bool:
        """Whether a device of `memory` bytes with this name gets these defaults."""
        upper = name.upper()
        if memory < self.least_memory or (self.except_name and self.except_name in upper):
            return False
        return not self.only_names or any(only in upper for only in self.only_names)


class Since(msgspec.Struct, Generic[T], frozen=True):
    """A fact that holds from the version `since` on, until the next entry."""

    since: str
    value: T
    source: str


class _Facts(msgspec.Struct, frozen=True):
    """The data file of one engine: every fact as a list by version, the oldest first."""

    name: str
    oldest: str
    newest: str
    gpu_memory_utilization_flag: str
    as_of: str
    measured_to: str
    source: str
    gpu_memory_utilization: tuple[Since[float], ...]
    graphs_in_budget: tuple[Since[bool], ...]
    captured: tuple[Since[Captured], ...]
    nccl_in_budget: tuple[Since[bool], ...]
    nvlink_in_budget: tuple[Since[bool], ...]
    counts_reserved: tuple[Since[bool], ...]
    sampler: tuple[Since[Sampler], ...]
    second_runner: tuple[Since[Literal["none", "dense", "all"]], ...]
    second_runner_sampler: tuple[Since[bool], ...]
    second_runner_graphs: tuple[Since[bool], ...]
    whole_prompts: tuple[Since[bool], ...]
    chunk_above: tuple[Since[tuple[int, int]], ...]
    tokens_as_concurrency: tuple[Since[bool], ...]
    scheduler_defaults: tuple[Since[tuple[SchedulerDefault, ...]], ...]


class Engine(msgspec.Struct, frozen=True):
    """One engine at one version.

    gpu_memory_utilization: share of the device's memory the engine claims for weights, activations and KV cache.
    graphs_in_budget: memory of CUDA graphs comes out of that share (newer versions) or on top of it.
    captured: which CUDA graphs there are: of decode steps, of any step piece by piece, or both; `both_fine`: with more
        sizes for the large ones.
    nccl_in_budget: the communication library's buffers come out of that share (older versions) or on top of it.
    nvlink_in_budget: those it makes for NVLink on Hopper and newer devices do, with or without the others.
    counts_reserved: the peak counts all that the allocator has reserved (older versions), not what was in use.
    sampler: how top-k and top-p are done, which decides the memory of sampling: by sorting all logits, or fused.
    second_runner: models that vLLM's model runner V2 runs; second_runner_sampler: it sets memory aside for sampling,
        shared out over tensor-parallel ranks; second_runner_graphs: it does so for graphs.
    whole_prompts: a step takes whole prompts, so the profiled batch is max_model_len tokens; above `chunk_above[0]`
        tokens prompts are cut, into steps of `chunk_above[1]` tokens.
    tokens_as_concurrency: "KV cache size" in tokens is int(concurrency × max_model_len), not blocks × block size.
    measured: the version is not newer than the newest whose logs the memory law was scored on.
    sources: fact → where it is from. assumptions: what had to be assumed about the version.
    """

    name: str
    version: str
    gpu_memory_utilization: float
    gpu_memory_utilization_flag: str
    graphs_in_budget: bool
    captured: Captured
    nccl_in_budget: bool
    nvlink_in_budget: bool
    counts_reserved: bool
    sampler: Sampler
    second_runner: Literal["none", "dense", "all"]
    second_runner_sampler: bool
    second_runner_graphs: bool
    whole_prompts: bool
    chunk_above: tuple[int, int]
    tokens_as_concurrency: bool
    scheduler_defaults: tuple[SchedulerDefault, ...]
    measured: bool
    source: str
    as_of: str
    sources: dict[str, str]
    assumptions: tuple[Text, ...] = ()

    @property
    def label(self) -> str:
        """`vllm==0.32`."""
        return f"{self.name}=={self.version}"

    def scheduler_default(self, memory: int, name: str) -> SchedulerDefault:
        """The defaults for a device of `memory` bytes with this name."""
        for default in self.scheduler_defaults:
            if default.holds_for(memory, name):
                return default
        return self.scheduler_defaults[-1]

    def step_tokens(self, max_length: int, default: SchedulerDefault, compute_capability: str | None = None) -> int:
        """The default of max_num_batched_tokens for sequences of up to `max_length` tokens on such a device."""
        if not self.whole_prompts:
            return default.max_num_batched_tokens
        above, chunk = self.chunk_above
        cuts = max_length > above and compute_capability != _NEVER_CUTS
        return chunk if cuts else max(max_length, default.max_num_batched_tokens)


ENGINES = ("vllm",)
_NEVER_CUTS = "7.0"
"""Compute capability without chunked prefill in versions that take whole prompts otherwise: Volta, by vLLM's table of
features by hardware; vllm-project/vllm#11251 profiles 40,000 tokens on two V100."""
_BY_VERSION = (
    "gpu_memory_utilization",
    "graphs_in_budget",
    "captured",
    "nccl_in_budget",
    "nvlink_in_budget",
    "counts_reserved",
    "sampler",
    "second_runner",
    "second_runner_sampler",
    "second_runner_graphs",
    "whole_prompts",
    "chunk_above",
    "tokens_as_concurrency",
    "scheduler_defaults",
)
"""Facts that hold from a version on."""


@cache
def _read(name: str) -> _Facts:
    with open(os.path.join(os.path.dirname(__file__), "data", f"{name}.json"), "rb") as file:
        return msgspec.json.decode(file.read(), type=_Facts)


def _known(text: str) -> Version:
    version = parse_version(text)
    assert version is not None, text
    return version


def _at(facts: tuple[Since[T], ...], version: Version) -> Since[T]:
    """The entry that holds at a version."""
    return [one for one in facts if _known(one.since) <= version][-1]


@cache
def find_engine(text: str) -> Engine:
    """The engine called `vllm` (its newest known version) or `vllm==0.8.5`. Raises BadInput.

    A version between two known ones has the facts that hold for it. One beyond the known ones gets those of the
    nearest, and says so. Ranges such as `vllm>=0.6` are refused: the facts differ within them.
    """
    found = re.match(r"([a-z._-]*[a-z])\s*(==|>=|<=|~=|!=|>|<|=)?\s*(.*)$", text.strip().lower())
    name, sign, written = (found[1], found[2], found[3].strip()) if found else (text.strip(), None, "")
    if name not in ENGINES:
        raise BadInput("engine '{name}' is not known; narrows knows: {known}", name=name[:40], known=", ".join(ENGINES))
    facts = _read(name)
    if sign is None:
        if written:
            raise BadInput(
                "'{text}' is not an engine; write one version with ==, such as {name}=={newest}",
                text=text.strip()[:40],
                name=name,
                newest=facts.newest,
            )
        return _engine(facts, _known(facts.newest), ())
    if sign != "==":
        raise BadInput(
            "'{text}' is a range, and memory differs within it; name one version, such as {name}=={newest}",
            text=text.strip()[:40],
            name=name,
            newest=facts.newest,
        )
    version = parse_version(written)
    if version is None:
        raise BadInput(
            "'{version}' is not a version of {name}; write it as in {name}=={newest}",
            version=written[:40],
            name=name,
            newest=facts.newest,
        )
    oldest, newest = _known(facts.oldest), _known(facts.newest)
    nearest = oldest if version < oldest else newest if version[:2] > newest[:2] else version
    if nearest == version:
        if "dev" not in written:
            return _engine(facts, version, ())
        build = Text(
            "{name} {version} is a development build; the facts of {release}, which it leads to, are taken",
            name=name,
            version=written[:40],
            release=version_text(version),
        )
        return _engine(facts, version, (build,))
    return _engine(
        facts,
        nearest,
        (
            Text(
                "{name} {version} is not known yet; the facts of {nearest}, the nearest known, are taken",
                name=name,
                version=version_text(version),
                nearest=version_text(nearest),
            ),
        ),
    )


def _engine(facts: _Facts, version: Version, assumptions: tuple[Text, ...]) -> Engine:
    held: dict[str, Since[Any]] = {name: _at(getattr(facts, name), version) for name in _BY_VERSION}
    return Engine(
        name=facts.name,
        version=version_text(version),
        gpu_memory_utilization_flag=facts.gpu_memory_utilization_flag,
        measured=version[:2] <= _known(facts.measured_to)[:2],
        source=facts.source,
        as_of=facts.as_of,
        sources={name: one.source for name, one in held.items()},
        assumptions=assumptions,
        **{name: one.value for name, one in held.items()},
    )

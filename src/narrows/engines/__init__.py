"""Facts about serving engines by version: defaults by device, and what of its memory they claim. Data, not code."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Any, Generic, Literal, TypeVar

import msgspec

from narrows.engines.types import Captured, Engine, FallsBack, Offload, Sampler, SchedulerDefault
from narrows.engines.version import Version, parse_version, version_text
from narrows.text import BadInput, Text

T = TypeVar("T")


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
    first_core_as: str
    source: str
    gpu_memory_utilization: tuple[Since[float], ...]
    graphs_in_budget: tuple[Since[bool], ...]
    captured: tuple[Since[Captured], ...]
    nccl_in_budget: tuple[Since[bool], ...]
    nvlink_in_budget: tuple[Since[bool], ...]
    counts_reserved: tuple[Since[bool], ...]
    others_in_budget: tuple[Since[bool], ...]
    checks_free: tuple[Since[bool], ...]
    sampler: tuple[Since[Sampler], ...]
    second_runner: tuple[Since[Literal["none", "dense", "all"]], ...]
    second_runner_sampler: tuple[Since[bool], ...]
    second_runner_graphs: tuple[Since[bool], ...]
    whole_prompts: tuple[Since[bool], ...]
    chunk_above: tuple[Since[tuple[int, int]], ...]
    latent_cache: tuple[Since[bool], ...]
    cache_groups: tuple[Since[bool], ...]
    captures_follow_sequences: tuple[Since[bool], ...]
    tokens_within_sequences: tuple[Since[bool], ...]
    sequences_within_tokens: tuple[Since[bool], ...]
    tokens_as_concurrency: tuple[Since[bool], ...]
    first_core: tuple[Since[tuple[FallsBack, ...]], ...]
    first_core_gone: tuple[Since[bool], ...]
    lora_ranks: tuple[Since[tuple[int, ...]], ...]
    aligned_latent: tuple[Since[bool], ...]
    materializes_latent: tuple[Since[bool], ...]
    offload: tuple[Since[Offload], ...]
    shares_prediction_head: tuple[Since[bool], ...]
    shares_draft_embedding: tuple[Since[bool], ...]
    draft_models: tuple[Since[bool], ...]
    delta_kernels: tuple[Since[Literal["none", "first", "tuned", "late"]], ...]
    experts_at_once: tuple[Since[int], ...]
    experts_padded_to: tuple[Since[int], ...]
    scheduler_defaults: tuple[Since[tuple[SchedulerDefault, ...]], ...]


__all__ = [
    "ENGINES",
    "Engine",
    "SchedulerDefault",
    "Since",
    "find_engine",
    "held_at",
    "on_first_core",
    "resolve_version",
]

_RUN_LLAMA = ("ollama", "lmstudio", "lm-studio", "koboldcpp", "llamafile", "llama-cpp-python", "jan", "gpt4all")
"""Programs that serve models by llama.cpp inside."""
ENGINES = ("vllm", "sglang", "llama.cpp")
_BY_VERSION = (
    "gpu_memory_utilization",
    "graphs_in_budget",
    "captured",
    "nccl_in_budget",
    "nvlink_in_budget",
    "counts_reserved",
    "others_in_budget",
    "checks_free",
    "sampler",
    "second_runner",
    "second_runner_sampler",
    "second_runner_graphs",
    "whole_prompts",
    "chunk_above",
    "latent_cache",
    "cache_groups",
    "captures_follow_sequences",
    "tokens_within_sequences",
    "sequences_within_tokens",
    "tokens_as_concurrency",
    "first_core",
    "first_core_gone",
    "lora_ranks",
    "aligned_latent",
    "materializes_latent",
    "offload",
    "shares_prediction_head",
    "shares_draft_embedding",
    "draft_models",
    "delta_kernels",
    "experts_at_once",
    "experts_padded_to",
    "scheduler_defaults",
)
"""Facts that hold from a version on."""
_OF_CORE = (
    "captured",
    "others_in_budget",
    "checks_free",
    "whole_prompts",
    "chunk_above",
    "cache_groups",
    "captures_follow_sequences",
    "tokens_within_sequences",
    "sequences_within_tokens",
    "scheduler_defaults",
)
"""Those that are of an engine's core: where an older one runs, they are as in the last version that had it alone."""


@cache
def _read(name: str) -> _Facts:
    with open(os.path.join(os.path.dirname(__file__), "data", f"{name}.json"), "rb") as file:
        return msgspec.json.decode(file.read(), type=_Facts)


def _known(text: str) -> Version:
    version = parse_version(text)
    assert version is not None, text
    return version


def held_at(facts: tuple[Since[T], ...], version: Version) -> Since[T]:
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
    if name in _RUN_LLAMA:
        raise BadInput("{name} runs llama.cpp: use --engine llama.cpp", name=name)
    if name not in ENGINES:
        raise BadInput("engine '{name}' is not known; narrows knows: {known}", name=name[:40], known=", ".join(ENGINES))
    if name == "llama.cpp":
        from narrows.engines.llamacpp import llama_engine

        return llama_engine(sign, written)
    if name == "sglang":
        from narrows.engines.sglang import sglang_engine

        return sglang_engine(text, sign, written)
    facts = _read(name)
    version, assumptions = resolve_version(name, text, sign, written, facts.oldest, facts.newest)
    asked = parse_version(written)
    older = version_text(asked) if asked is not None and asked < _known(facts.oldest) else ""
    found_facts = _engine(facts, version, assumptions)
    return msgspec.structs.replace(found_facts, older=older, measured=False) if older else found_facts


def resolve_version(
    name: str,
    text: str,
    sign: str | None,
    written: str,
    oldest_known: str,
    newest_known: str,
    *,
    newer_patches_known: bool = True,
) -> tuple[Version, tuple[Text, ...]]:
    """The known version whose facts hold for what was written, and what had to be assumed. Raises BadInput.

    newer_patches_known: a patch of the newest known release has its facts.
    """
    oldest, newest = _known(oldest_known), _known(newest_known)
    if sign is None:
        if written:
            raise BadInput(
                "'{text}' is not an engine; write one version with ==, such as {name}=={newest}",
                text=text.strip()[:40],
                name=name,
                newest=newest_known,
            )
        return newest, ()
    if sign != "==":
        raise BadInput(
            "'{text}' is a range, and memory differs within it; name one version, such as {name}=={newest}",
            text=text.strip()[:40],
            name=name,
            newest=newest_known,
        )
    version = parse_version(written)
    if version is None:
        raise BadInput(
            "'{version}' is not a version of {name}; write it as in {name}=={newest}",
            version=written[:40],
            name=name,
            newest=newest_known,
        )
    beyond = version[:2] > newest[:2] if newer_patches_known else version > newest
    nearest = oldest if version < oldest else newest if beyond else version
    if nearest == version:
        if "dev" not in written:
            return version, ()
        build = Text(
            "{name} {version} is a development build; the facts of {release}, which it leads to, are taken",
            name=name,
            version=written[:40],
            release=version_text(version),
        )
        return version, (build,)
    return nearest, (
        Text(
            "{name} {version} is not known yet; the facts of {nearest}, the nearest known, are taken",
            name=name,
            version=version_text(version),
            nearest=version_text(nearest),
        ),
    )


def _engine(facts: _Facts, version: Version, assumptions: tuple[Text, ...]) -> Engine:
    held: dict[str, Since[Any]] = {name: held_at(getattr(facts, name), version) for name in _BY_VERSION}
    return Engine(
        name=facts.name,
        version=version_text(version),
        gpu_memory_utilization_flag=facts.gpu_memory_utilization_flag,
        measured=version[:2] <= _known(facts.measured_to)[:2],
        source=facts.source,
        as_of=facts.as_of,
        sources={name: one.source for name, one in held.items()},
        assumptions=assumptions,
        core="V0" if "all" in held["first_core"].value else "V1" if held["first_core"].value else "",
        **{name: one.value for name, one in held.items()},
    )


def on_first_core(engine: Engine) -> Engine:
    """The same version where it runs on its older core (vLLM's V0): defaults and profiling are those of that core."""
    facts = _read(engine.name)
    held: dict[str, Since[Any]] = {
        name: held_at(getattr(facts, name), _known(facts.first_core_as)) for name in _OF_CORE
    }
    return msgspec.structs.replace(
        engine,
        core="V0",
        sources=engine.sources | {name: one.source for name, one in held.items()},
        **{name: one.value for name, one in held.items()},
    )

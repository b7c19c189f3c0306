"""Facts about llama.cpp, which allocates everything at its start: weights, cells for every slot, one compute buffer."""

from __future__ import annotations

import os
import re
from functools import cache
from typing import Generic, TypeVar

import msgspec

from narrows.engines.types import Engine, SchedulerDefault
from narrows.text import BadInput

NAME = "llama.cpp"

T = TypeVar("T")


class Fact(msgspec.Struct, Generic[T], frozen=True):
    """A value and where it is from."""

    value: T
    source: str


class LlamaFacts(msgspec.Struct, frozen=True):
    """The data file. ubatch: tokens of a step. parallel: slots; most_slots: as many as a build
    can have. cell_padding: cells come in multiples of it.

    windowed: families of which it keeps windows; of all others it keeps whole sequences. cache_types: of the KV cache.
    """

    name: str
    as_of: str
    source: str
    ubatch: Fact[int]
    parallel: Fact[int]
    most_slots: Fact[int]
    cell_padding: Fact[int]
    windowed: Fact[tuple[str, ...]]
    cache_types: Fact[tuple[str, ...]]


@cache
def llama_facts() -> LlamaFacts:
    """All facts."""
    with open(os.path.join(os.path.dirname(__file__), "data", f"{NAME}.json"), "rb") as file:
        return msgspec.json.decode(file.read(), type=LlamaFacts)


def llama_engine(sign: str | None, written: str) -> Engine:
    """llama.cpp, perhaps at a build (`llama.cpp==b8680`): what is known of it does not differ by build.

    sign, written: what stands behind the name. Raises BadInput where that is no build.
    """
    build = re.fullmatch(r"b?(\d{1,6})", written)
    if (sign or written) and (sign != "==" or build is None):
        raise BadInput(
            "'{text}' is not a build of llama.cpp; write llama.cpp alone, or one build as in llama.cpp==b8680",
            text=f"{NAME}{sign or ''}{written}"[:60],
        )
    facts = llama_facts()
    default = SchedulerDefault(facts.ubatch.value, facts.parallel.value)
    return Engine(
        name=NAME,
        version=f"b{build[1]}" if build else "",
        gpu_memory_utilization=1.0,
        gpu_memory_utilization_flag="--gpu-memory-utilization",
        graphs_in_budget=True,
        captured="decode",
        nccl_in_budget=True,
        nvlink_in_budget=False,
        counts_reserved=False,
        sampler="sort",
        second_runner="none",
        second_runner_sampler=False,
        second_runner_graphs=False,
        # its step does not depend on the longest sequence, and it claims no share of the memory
        whole_prompts=True,
        chunk_above=(0, facts.ubatch.value),
        tokens_as_concurrency=True,
        scheduler_defaults=(default,),
        most_sequences=facts.most_slots.value,
        measured=True,
        source=facts.source,
        as_of=facts.as_of,
        sources={"scheduler_defaults": f"{facts.ubatch.source}; {facts.parallel.source}"},
    )

"""Measured collectives: time by message size, for each device, operation, library and number of ranks."""

from __future__ import annotations

import os
from functools import cache

import msgspec


class CollectiveTable(msgspec.Struct, frozen=True):
    """What ranks took to exchange messages, as `scripts/import_collectives.py` read it.

    op: as in `narrows.step.Collective`. library: `nccl` (also oneCCL), `custom` (the all-reduce of vLLM, inside a CUDA
    graph), `trtllm`. nodes: machines that the ranks are spread over. bytes: as
    one rank holds them before; microseconds: median of the runs, as measured:
    73 of 156 tables fall somewhere with size, by up to 2.3 times; `narrows.roofline.collectives` reads them as rising.
    """

    device: str
    op: str
    library: str
    ranks: int
    nodes: int
    bytes: tuple[int, ...]
    microseconds: tuple[float, ...]
    source: str


@cache
def collective_tables() -> tuple[CollectiveTable, ...]:
    """All tables of collective-tables.jsonl."""
    path = os.path.join(os.path.dirname(__file__), "data", "collective-tables.jsonl")
    with open(path, "rb") as file:
        return tuple(msgspec.json.decode(line, type=CollectiveTable) for line in file if line.strip())

"""How an engine pages the KV cache, by platform: block sizes, tokens in flight, precision of constant state."""

from __future__ import annotations

import os
from functools import cache

import msgspec


class PagingRules(msgspec.Struct, frozen=True):
    """Facts about pages of one engine on one platform.

    block: tokens of a page; latent_block: the same for MLA, and latent_block_fp8 for MLA with an 8-bit cache, which
    other kernels serve; indexed_block for MLA with a sparse indexer. align: a block that grows to hold constant
    state grows by multiples of it. in_flight: steps of max_num_batched_tokens that a window keeps beside itself (2
    where the next step is scheduled while one runs). state_format: format of recurrent state (empty: the model's).
    state_blocks: pages of constant state per sequence with prefix caching, which keeps the last and the running one;
    mamba2_state_blocks: the same for Mamba-2, with one for the checkpoint of a prompt.
    """

    engine: str
    platform: str
    block: int
    latent_block: int
    latent_block_fp8: int
    indexed_block: int
    align: int
    in_flight: int
    state_format: str
    state_blocks: int
    mamba2_state_blocks: int
    source: str


@cache
def paging_rules(engine: str, platform: str) -> PagingRules:
    """The rules of `engine` on `platform` (`cuda` or `cpu`). KeyError for one that is not in the file."""
    path = os.path.join(os.path.dirname(__file__), "data", "paging.jsonl")
    with open(path, "rb") as file:
        for row in msgspec.json.Decoder(PagingRules).decode_lines(file.read()):
            if (row.engine, row.platform) == (engine, platform):
                return row
    raise KeyError((engine, platform))

"""Blocks, tokens and concurrency equal those of vLLM's own allocator, to the integer."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import pytest

from narrows.deployment import deploy
from narrows.engines.paging import paging_rules
from narrows.hardware import find_accelerator
from narrows.memory.pages import LayerPages
from narrows.memory.paging import Paging, lay_out, paging
from narrows.models import read_config

from .conftest import DATA

ROWS = [json.loads(line) for line in gzip.decompress((DATA / "kv-oracle.jsonl.gz").read_bytes()).splitlines()]
DEVICES = {"cuda90": "h100-sxm", "cuda86_A10": "a10", "cpu": "epyc-9654"}


def layout(row: dict[str, Any]) -> Paging:
    device = DEVICES[row["folder"].removesuffix("_fp8kv").removesuffix("_tp8")]
    deployment = deploy(
        read_config(row["config"], name=row["name"]),
        find_accelerator(device),
        tensor_parallel=row["tp"],
        kv_cache_dtype="fp8" if row["folder"].endswith("_fp8kv") else "auto",
        max_num_batched_tokens=row["max_num_batched_tokens"],
        max_length=row["max_model_len"],
        device_memory=80 * 2**30,
    )
    return paging(deployment)


def ids(row: dict[str, Any]) -> str:
    return f"{row['folder']}-{row['name']}"


def test_the_oracle_has_uniform_windowed_latent_and_hybrid_models() -> None:
    families = {row["config"]["model_type"] for row in ROWS}
    assert families >= {"llama", "mistral", "gemma2", "gemma3_text", "gpt_oss", "deepseek_v3", "jamba", "qwen3_next"}
    assert len(ROWS) >= 60


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_blocks_are_the_allocators(row: dict[str, Any]) -> None:
    found = layout(row)
    assert found.block == row["block_size"]
    assert found.block_bytes == row["bytes_per_block_pool"]
    assert found.blocks(row["kv_bytes"]) == row["num_blocks"]


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_tokens_and_concurrency_are_the_allocators(row: dict[str, Any]) -> None:
    found = layout(row)
    assert found.tokens(row["kv_bytes"], row["max_model_len"]) == row["kv_cache_size_tokens"]
    assert found.concurrency(row["kv_bytes"], row["max_model_len"]) == pytest.approx(row["max_concurrency"], rel=1e-12)
    for length, stated in row["capacity_at"].items():
        assert found.blocks_per_request(int(length)) == stated["blocks_per_request"]
        assert found.tokens(row["kv_bytes"], int(length)) == stated["tokens"]


def test_a_pool_admits_one_block_less_than_its_log_states() -> None:
    """vLLM's null block: 32 blocks of 128 log as 4,096 tokens, and a request can have 3,968."""
    row = next(r for r in ROWS if r["folder"] == "cpu" and r["name"].startswith("meta-llama--Llama-2"))
    found = layout(row)
    pool = 32 * found.block_bytes
    assert found.tokens(pool, 4096) == 4096
    assert found.longest(pool, 8192) == 3968


@pytest.mark.parametrize(("full", "windowed", "groups"), [(5, 4, 3), (6, 5, 2), (4, 4, 2), (4, 1, 5)])
def test_groups_are_as_large_as_the_rarest_kind_unless_the_commonest_has_hardly_more(
    full: int, windowed: int, groups: int
) -> None:
    """1.25 times as many is too many: 5 and 4 layers make groups of 4, 6 and 5 layers make groups of 6."""
    counts = Counter({LayerPages(4096): full, LayerPages(4096, window=1024): windowed})
    assert lay_out(counts, paging_rules("vllm", "cuda"), 16, 2048).group_count == groups

"""Parameters and caches equal what transformers builds, for every row of the oracle of the families narrows reads."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from narrows.models import ModelSpec, read_config
from narrows.models.tensors import CacheRow

from .conftest import DATA

ROWS = [json.loads(line) for line in gzip.decompress((DATA / "oracle.jsonl.gz").read_bytes()).splitlines()]


def spec_of(row: dict[str, Any]) -> ModelSpec:
    return read_config(row["config"], name=row["key"])


def cached_by_transformers(spec: ModelSpec, length: int, encoder_tokens: int | None) -> int:
    """transformers keeps W − 1 tokens of a window (the next one completes it), and counts constant state as cache.

    The rows of encoder-decoders were made with an encoder's length of their own.
    """

    def tokens(row: CacheRow) -> int:
        if row.encoder:
            assert encoder_tokens is not None
            assert row.fixed in (None, encoder_tokens)
            return encoder_tokens
        return length if row.window is None else min(length, row.window - 1)

    kept = sum(layers * row.elements_per_token * tokens(row) for layers, row in spec.cache_rows())
    return kept + spec.state_elements()


def ids(row: dict[str, Any]) -> str:
    return f"{row['set'].split('-')[1]}-{row['key']}-{row['seed']}"


def test_the_oracle_covers_every_family_that_has_a_class_of_its_own() -> None:
    from narrows.models.readers import FAMILIES

    # kimi_k2 is DeepSeek-V3's class under another name; the whole Qwen 3-Omni builds from no default
    assert {row["config"]["model_type"] for row in ROWS} == set(FAMILIES) - {"kimi_k2", "qwen3_omni_moe"}
    assert len(ROWS) == 249


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_unique_parameters_are_exact(row: dict[str, Any]) -> None:
    assert spec_of(row).unique_parameters() == row["total_params"]


@pytest.mark.parametrize("row", [r for r in ROWS if r["active_params"]], ids=ids)
def test_active_parameters_are_exact(row: dict[str, Any]) -> None:
    assert spec_of(row).active_parameters() == row["active_params"]


@pytest.mark.parametrize("row", [r for r in ROWS if r["cache_elements"]], ids=ids)
def test_cache_and_state_elements_are_exact(row: dict[str, Any]) -> None:
    spec = spec_of(row)
    for length, elements in row["cache_elements"].items():
        assert cached_by_transformers(spec, int(length), row.get("encoder_tokens")) == elements


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_bytes_are_additive_over_layers(row: dict[str, Any]) -> None:
    """The table's bytes are those of the layers, one by one, plus what stands outside them."""
    spec = spec_of(row)
    layers = sum(
        part.stored_bytes
        for group in spec.groups
        for index in range(group.first, group.first + group.repeat)
        for part in spec.layer_rows(group.layer, (index,))
    )
    outside = sum(part.stored_bytes for part in spec.outer_rows())
    towers = sum(part.stored_bytes for tower in spec.towers for part in spec.tower_rows(tower))
    assert layers + outside + towers == spec.checkpoint_bytes()

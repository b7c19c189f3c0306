"""Parameters and caches equal what transformers builds, for every row of the oracle of the families narrows reads."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from conformance.adapter import cached_by_transformers
from narrows.models import ModelSpec, read_config

from .conftest import DATA

ROWS = [json.loads(line) for line in gzip.decompress((DATA / "oracle.jsonl.gz").read_bytes()).splitlines()]


def spec_of(row: dict[str, Any]) -> ModelSpec:
    return read_config(row["config"], name=row["key"])


def ids(row: dict[str, Any]) -> str:
    return f"{row['set'].split('-')[1]}-{row['key']}-{row['seed']}"


def test_the_oracle_covers_every_family_that_has_a_class_of_its_own() -> None:
    from narrows.models.readers import FAMILIES
    from narrows.models.readers.remote_families import REMOTE_FAMILIES

    from .test_oracle_more import MORE

    # kimi_k2 is DeepSeek-V3's class under another name, internvl_chat InternVL's own spelling of its files; the whole
    # Qwen 3-Omni builds from no default; `new` is what GTE's own files call it; GLM-5.3 Flash's
    # decoder has no class without the tower; remote families are held against published files
    others = {"kimi_k2", "internvl_chat", "qwen3_omni_moe", "new", "glm5_next_text", *REMOTE_FAMILIES}
    assert {row["config"]["model_type"] for row in ROWS} | MORE == set(FAMILIES) - others
    assert len(ROWS) == 717


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_unique_parameters_are_exact(row: dict[str, Any]) -> None:
    assert spec_of(row).unique_parameters() == row["total_params"]


@pytest.mark.parametrize("row", [r for r in ROWS if r["embedding_params"]], ids=ids)
def test_embedding_parameters_are_exact(row: dict[str, Any]) -> None:
    table = [tensor.elements for _, tensor in spec_of(row).outer_tensors() if tensor.role == "embedding"]
    assert table == [row["embedding_params"]]


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

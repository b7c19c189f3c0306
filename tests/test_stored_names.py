"""Every tensor that transformers builds finds its place in the tensor table, and fills it exactly.

transformers 5 renames and fuses what older files split (experts in one tensor, gate and up together), so that these
names are another dialect than the files' own, which `tests/test_stored.py` uses.
"""

from __future__ import annotations

import gzip
import json
from math import prod
from typing import Any

import pytest

from narrows.models import read_config
from narrows.models.stored import Inventory, StoredTensor
from narrows.models.stored.model import stored_model

from .conftest import DATA


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress((DATA / name).read_bytes()).splitlines()]


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["set"], row["key"], row["seed"], row["total_params"]


BY_SUMS = frozenset(
    """
    apertus1p5 axk1 blip camembert deepseek_v4 ernie4_5_vl_moe hrm_text janus kimi_k25 longcat_flash
    mistral_large4 nemotron_h_omni nllb-moe pi0 switch_transformers video_llava xlm-roberta
    """.split()  # noqa: SIM905
)
"""Families some of whose tensors are not told apart by name: totals are the files', and what is not placed is said."""

ROWS = rows("stored-names.jsonl.gz")
CONFIGS = {key(row): row["config"] for row in rows("oracle.jsonl.gz")}


def layers_of(text: str) -> list[int]:
    """`0-2,5` → 0, 1, 2, 5."""
    bounds = [piece.partition("-") for piece in text.split(",")]
    return [i for first, _, last in bounds for i in range(int(first), int(last or first) + 1)]


def tensors_of(row: dict[str, Any]) -> tuple[StoredTensor, ...]:
    found = []
    for pattern, shape, count, *layers in row["tensors"]:
        indices = layers_of(str(layers[0])) if layers else [None]
        for index in indices:
            name = pattern if index is None else pattern.replace("{}", str(index), 1)
            for copy in range(count // len(indices)):
                one = name.replace("{}", str(copy))
                found.append(StoredTensor(one, "BF16", tuple(shape), 2 * prod(shape), "model.safetensors"))
    return tuple(found)


def test_there_are_names_of_every_family_of_the_oracle() -> None:
    assert {key(row) for row in ROWS} == set(CONFIGS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['set'].split('-')[1]}-{row['key']}-{row['seed']}")
def test_every_tensor_finds_its_place_and_fills_it(row: dict[str, Any]) -> None:
    config = {**CONFIGS[key(row)], "dtype": "bfloat16"}
    tensors = tensors_of(row)
    plain = read_config(config, name="m")
    spec = stored_model(config, Inventory("safetensors", "m", tensors, ("model.safetensors",), 1), name="m")
    assert spec.stored is not None
    assert spec.checkpoint_bytes() == sum(one.bytes for one in tensors)
    if config["model_type"] in BY_SUMS:
        said = spec.stored.unattributed_tensors or spec.assumptions != plain.assumptions or spec.measured is not None
        assert said or spec.checkpoint_bytes() == 2 * plain.unique_parameters()
        return
    assert spec.stored.unattributed_tensors == 0
    assert spec.assumptions == plain.assumptions
    assert spec.measured is None
    assert spec.checkpoint_bytes() == sum(one.bytes for one in tensors) == 2 * plain.unique_parameters()

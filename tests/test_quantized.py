"""Quantized checkpoints have the size that is published, from the config alone."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from narrows.models import ModelSpec, read_config

with gzip.open(Path(__file__).parent / "data" / "quantized.jsonl.gz", "rt", encoding="utf-8") as _file:
    ROWS: list[dict[str, Any]] = [json.loads(line) for line in _file]

_BESIDE_INTEGERS = {"qzeros", "scales", "g_idx"}


def counted(spec: ModelSpec, how: str) -> int:
    """What a publisher's total counts, by its own convention (`scripts/import_quantized.py`)."""
    if how == "bytes":
        return spec.checkpoint_bytes()
    total = 0
    for row in spec.tensor_table():
        for part in row.parts:
            elements = part.elements * row.tensor.copies * row.count
            if how == "packed bytes twice" and part.format.name == "uint8" and part.suffix != "scales":
                elements *= 2
            if how == "gptq" and part.suffix == "qweight":
                elements = elements * 32 // spec.precision.scheme.bits  # type: ignore[attr-defined]
            if how != "gptq" or part.suffix not in _BESIDE_INTEGERS:
                total += elements
    return total


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["model"])
def test_a_quantized_checkpoint_has_its_published_size_within_half_a_percent(row: dict[str, Any]) -> None:
    spec = read_config(row["config"], name=row["model"])
    found = counted(spec, row["counts"]) + 2 * row["beside_elements"]
    # elements of everything that is not packed are exact (scalars may be left out); AutoGPTQ's zero biases are not told
    exact = row["counts"] == "elements" or spec.precision.scheme.label.startswith(("bnb", "mlx", "mxfp4"))
    assert found == pytest.approx(row["known"], rel=1e-6 if exact else 5e-3)


def row_of(model: str) -> dict[str, Any]:
    return next(row for row in ROWS if row["model"] == model)


def assumptions(model: str) -> str:
    return " ".join(map(str, read_config(row_of(model)["config"], name=model).assumptions))


def test_what_a_config_cannot_tell_of_an_old_gptq_file_is_said() -> None:
    assert "which tool wrote it" in assumptions("TheBloke/wizard-mega-13B-GPTQ")
    assert "which tool wrote it" not in assumptions("TheBloke/Genz-70b-GPTQ")


def test_a_tied_head_that_the_tool_stores_again_is_said_and_not_served() -> None:
    model = "RedHatAI/Llama-3.2-1B-Instruct-FP8-dynamic"
    assert "second time" in assumptions(model)
    spec = read_config(row_of(model)["config"], name=model)
    assert [tower.served for tower in spec.towers] == [False]
    assert spec.unique_parameters() == 1_235_814_400

"""The JSON of every answer is documented by a schema in the repository, and obeys it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from narrows import api
from narrows.answers.base import Printed
from narrows.answers.calibration import calibration
from scripts.schema import ANSWERS, FOLDER, rendered

from .test_measure import measured
from .test_measure_load import answered, ran
from .test_measure_model import modelled

LOGS = Path(__file__).parent / "data" / "logs"


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_the_schema_in_the_repository_is_that_of_the_type(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text("utf-8") == rendered(ANSWERS[name]), "run `make schema`"


@cache
def answers() -> dict[str, Printed]:
    return {
        "fit": api.fit("llama-2-7b", ["a10g", "mi300x"], batch=400, max_len=4096),
        "roofline": api.roofline(
            "llama-2-7b", ["l40s", "t4"], sweep="batch=1,2", operator="mlp.down", generations=True, naive_attention=True
        ),
        "check": api.check(str(LOGS / "excerpts" / "vllm-0.19.1-oom.log")),
        "models": api.models("qwen3"),
        "model": api.model("jamba-v0.1", length=1000),
        "gpus": api.gpus("l40s"),
        "calibration": calibration(),
        "explain": api.explain(),
        "accuracy": api.accuracy("memory"),
        "measure-load": answered(ran([0.7])),
        "measure-machine": measured(),
        "measure-model": modelled(precision=["fp32"]),
        "accuracy-loading": api.accuracy("loading"),
        "load": api.load("llama-2-7b", "l40s", source="efs", tp=2),
        "accuracy-roofline": api.accuracy("roofline"),
    }


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_an_answer_obeys_its_schema(name: str) -> None:
    schema = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(answers()[name].to_json()), schema)


STABLE = {
    "model": {
        "name",
        "unique_parameters",
        "active_parameters",
        "checkpoint_bytes",
        "cache_elements",
        "state_elements",
        "kv_bytes_per_token",
        "kv_bytes_per_sequence",
        "state_bytes_per_sequence",
    },
    "fit": {"model", "candidates"},
    "load": {"stages", "total_sequential", "total_pipelined", "narrow_stage", "remedies"},
    "roofline": {"phases", "operators", "turning_points", "prescriptions"},
}
CANDIDATE = {
    "gpu",
    "count",
    "tensor_parallel",
    "pipeline_parallel",
    "engine",
    "fits",
    "verdict",
    "terms",
    "max_batch",
    "max_length",
    "kv_tokens",
    "max_concurrency",
    "usd_per_hour",
    "mend",
}
PHASE = {"time", "bound", "flops", "bytes", "intensity", "ridge"}
EVERY_ANSWER = {"schema", "narrows_version", "command", "assumptions", "sources"}


def test_the_stable_names_are_there() -> None:
    found: dict[str, Any] = {name: json.loads(answer.to_json()) for name, answer in answers().items()}
    for name, answer in found.items():
        assert set(answer) >= EVERY_ANSWER | STABLE.get(name, set())
    assert set(found["fit"]["model"]) >= STABLE["model"]
    assert set(found["fit"]["candidates"][0]) >= CANDIDATE
    assert set(found["roofline"]["phases"]) == {"prefill", "decode"}
    assert all(set(phase) >= PHASE for phase in found["roofline"]["phases"].values())


def test_sizes_are_whole_bytes() -> None:
    found = json.loads(api.fit("llama-2-7b", "l40s", max_len=4096).to_json())
    assert all(isinstance(value, int) for value in found["candidates"][0]["terms"].values())

"""Writes the JSON Schemas of the answers to schema/; `check` (in the tests) compares them with the types."""

from __future__ import annotations

import json
from pathlib import Path

from narrows.answers.accuracy import Accuracy, RooflineAccuracy
from narrows.answers.accuracy_loading import LoadingAccuracy
from narrows.answers.base import Printed, json_schema
from narrows.answers.calibration import Calibration
from narrows.answers.check import Check
from narrows.answers.explain import Explanation
from narrows.answers.fit import Fit
from narrows.answers.gpus import GpuList
from narrows.answers.load_types import Load
from narrows.answers.measure import MachineMeasured
from narrows.answers.measure_load_types import LoadMeasured
from narrows.answers.measure_model import ModelMeasured
from narrows.answers.models import ModelDetail, ModelList
from narrows.answers.roofline import Roofline

FOLDER = Path(__file__).resolve().parent.parent / "schema"
ANSWERS: dict[str, type[Printed]] = {
    "calibration": Calibration,
    "fit": Fit,
    "roofline": Roofline,
    "check": Check,
    "models": ModelList,
    "model": ModelDetail,
    "gpus": GpuList,
    "load": Load,
    "explain": Explanation,
    "accuracy": Accuracy,
    "measure-load": LoadMeasured,
    "measure-machine": MachineMeasured,
    "measure-model": ModelMeasured,
    "accuracy-loading": LoadingAccuracy,
    "accuracy-roofline": RooflineAccuracy,
}


def rendered(kind: type[Printed]) -> str:
    """The schema of an answer as text."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **json_schema(kind)}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write every schema."""
    FOLDER.mkdir(exist_ok=True)
    for name, kind in ANSWERS.items():
        (FOLDER / f"{name}.json").write_text(rendered(kind), "utf-8")


if __name__ == "__main__":
    main()

"""The Python API: the functions of the command line, whose answers print and display themselves."""

from __future__ import annotations

from typing import Any

from narrows.answers.accuracy import accuracy
from narrows.answers.base import Printed
from narrows.answers.check import check
from narrows.answers.explain import explain
from narrows.answers.fit import fit
from narrows.answers.gpus import gpus
from narrows.answers.load import load
from narrows.answers.measure import measure_machine
from narrows.answers.measure_load import measure_load
from narrows.answers.measure_model import measure_model
from narrows.answers.models import model, models
from narrows.answers.roofline import roofline
from narrows.models import load_model
from narrows.report.render import answer_html, answer_text
from narrows.text import BadInput

Printed.as_text = staticmethod(answer_text)
Printed.as_html = staticmethod(answer_html)

__all__: list[Any] = [
    "BadInput",
    "accuracy",
    "check",
    "explain",
    "fit",
    "gpus",
    "load",
    "load_model",
    "measure_load",
    "measure_machine",
    "measure_model",
    "model",
    "models",
    "roofline",
]

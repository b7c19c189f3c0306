"""Options that several questions share: by themselves they are what `deploy`, Python and the command line agree on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import click
import pytest

from narrows.answers.fit import fit
from narrows.answers.load import load
from narrows.answers.options import OPTIONS, asked_of, deploy_options, said_of
from narrows.answers.roofline import roofline
from narrows.cli import fit as fit_command
from narrows.cli import load as load_command
from narrows.cli import roofline as roofline_command
from narrows.deployment import deploy

QUESTIONS = ((fit, fit_command.command), (roofline, roofline_command.command), (load, load_command.command))


def defaults(function: Callable[..., Any]) -> dict[str, Any]:
    found = inspect.signature(function).parameters.values()
    return {one.name: one.default for one in found if one.kind is one.KEYWORD_ONLY}


def test_every_parameter_of_a_deployment_is_set_by_one_option_and_is_by_itself_what_that_is() -> None:
    known = defaults(deploy)
    del known["driver"]  # logs alone say it
    assert deploy_options({}) == known


@pytest.mark.parametrize(("question", "command"), QUESTIONS)
def test_an_option_is_by_itself_the_same_in_python_on_the_command_line_and_in_a_deployment(
    question: Callable[..., Any], command: click.Command
) -> None:
    own = defaults(question)
    shared = own.keys() & OPTIONS.keys()
    assert {"engine", "tp", "pp", "dtype", "quantization", "enforce_eager"} <= shared
    assert {name: own[name] for name in shared} == {name: OPTIONS[name].usual for name in shared}
    flags = command.make_context("narrows", ["llama-2-7b", "--gpu", "l40s"]).params
    assert {name: flags[name] for name in shared & flags.keys()} == {
        name: OPTIONS[name].usual for name in shared & flags.keys()
    }


def test_only_what_differs_from_what_it_is_by_itself_is_said_and_in_the_order_of_the_question() -> None:
    asked = asked_of({"model": "m", "gpu": "g", "tp": 2, "engine": "vllm", "batch": None, "peak": [], "progress": None})
    assert list(asked) == ["tp", "engine", "batch", "peak"]
    assert said_of(asked) == {"tp": 2}

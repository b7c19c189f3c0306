"""`narrows accuracy`."""

from __future__ import annotations

import click

from narrows.cli.options import Command, as_json, emit, lang
from narrows.report.i18n import _


def _run(topic: str, as_json: bool) -> None:
    from narrows.answers.accuracy import accuracy

    emit(accuracy(topic), as_json)


command = Command(
    "accuracy",
    callback=_run,
    help=_(
        "Why should I believe any of this? Predictions held against public measurements, each source predicted by "
        "coefficients refitted without it, beside named baselines. TOPIC is: memory, roofline, loading."
    ),
    params=[click.Argument(["topic"], required=False, default="memory"), as_json(), lang()],
)

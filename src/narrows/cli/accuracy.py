"""`narrows accuracy`."""

from __future__ import annotations

import click

from narrows.cli.options import Command, as_json, emit, example, lang, option
from narrows.report.i18n import _


def _run(topic: str, as_json: bool, full: bool) -> None:
    from narrows.answers.accuracy import accuracy

    emit(accuracy(topic), as_json, full=full)


command = Command(
    "accuracy",
    callback=_run,
    help=_(
        "Why should I believe any of this? Predictions held against public measurements that taught them nothing, "
        "beside named baselines. TOPIC is memory, roofline (takes half a minute, and numpy) or loading. Exit 0, 2: bad "
        "input."
    ),
    epilog=example("narrows accuracy roofline --all"),
    params=[
        click.Argument(["topic"], required=False, default="memory"),
        option("--all", "full", is_flag=True, help=_("Every board, its laws, and what is left out and why.")),
        as_json(),
        lang(),
    ],
)

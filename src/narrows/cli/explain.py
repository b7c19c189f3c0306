"""`narrows explain`."""

from __future__ import annotations

import click

from narrows.answers.explain import TOPICS
from narrows.cli.options import Command, as_json, draw, emit, lang, plot
from narrows.report.i18n import _


def _run(topic: str | None, as_json: bool, plot: str | None) -> None:
    from narrows.answers.explain import explain

    answer = explain(topic)
    draw(answer, plot)
    emit(answer, as_json)


command = Command(
    "explain",
    callback=_run,
    help=_(
        "Where does this number come from? The worked examples of the chapter on serving bottlenecks, computed, with "
        "the numbers put in. TOPIC is one of: {topics}. Without it: all of them."
    ).format(topics=", ".join(TOPICS)),
    params=[click.Argument(["topic"], required=False), as_json(), plot(), lang()],
)

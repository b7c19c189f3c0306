"""Options that several commands share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from narrows.report.i18n import LANGUAGES, _

if TYPE_CHECKING:
    from narrows.answers.base import Printed
    from narrows.cli.progress import Bar

PATIENCE = 1.0
"""Seconds of reading before a bar is shown."""


class Command(click.Command):
    """A command whose options with one value may be given once: which of two is meant is not guessed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse a repeated option, and one without a value, before anything is read."""
        values, _rest, order = self.make_parser(ctx).parse_args(list(args))
        for one in set(order):
            if isinstance(one, click.Option) and not one.multiple and not one.is_flag and order.count(one) > 1:
                raise click.UsageError(_("{option} is given twice; it takes one value").format(option=one.opts[0]), ctx)
            # one that is required names what it wants
            checked = isinstance(one, click.Option) and not one.required
            given = values.get(one.name) if checked and one.name else None
            if any(isinstance(value, str) and not value.strip() for value in _each(given)):
                raise click.UsageError(
                    _("{option} is empty; give a value, or leave it out").format(option=one.opts[0]), ctx
                )
        return super().parse_args(ctx, args)


def _each(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def lang() -> click.Option:
    """`--lang`: read before parsing (help texts need it), declared here so that it is allowed anywhere."""
    return click.Option(["--lang"], metavar="|".join(LANGUAGES), expose_value=False, help=_("Language of the output."))


def as_json() -> click.Option:
    """`--json`."""
    return click.Option(["--json", "as_json"], is_flag=True, help=_("Print the answer as JSON."))


def plot() -> click.Option:
    """`--plot`."""
    return click.Option(
        ["--plot"], metavar="FILE", help=_("Draw the answer to FILE: .png, .svg, or .html that works offline.")
    )


def example(command: str) -> str:
    """The end of a command's help."""
    return _("Example: {command}").format(command=command)


def option(*names: str, **settings: Any) -> click.Option:
    """A plain option."""
    return click.Option(list(names), **settings)


def waiting() -> Callable[[int, int], None]:
    """What is told (done, total) while headers are read: a bar on a terminal, once it takes longer than a second."""
    begun = time.monotonic()
    bar: Bar | None = None

    def told(done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            if done >= total or time.monotonic() - begun < PATIENCE or not sys.stderr.isatty():
                return
            from narrows.cli.progress import Bar

            bar = Bar(total)
        bar.to(done, total)

    return told


def sizes(options: dict[str, Any], *names: str) -> None:
    """Bytes in place of what these options were given as (`--memory 44.4GiB`). Raises BadInput."""
    for name in names:
        if options[name] is not None:
            from narrows.text import flag_of
            from narrows.units import size

            options[name] = size(flag_of(name), options[name])


def draw(answer: Printed, plot: str | None) -> None:
    """What `--plot` asks for, if it was given."""
    if plot is not None:
        from narrows.report import render

        render.draw(answer, plot)


def emit(answer: Printed, as_json: bool, **how: bool) -> None:
    """Print an answer: as JSON untouched by terminal width or colour, or as the report, told `how`."""
    if as_json:
        # as bytes: JSON is UTF-8 whatever the terminal speaks
        click.echo(answer.to_json().encode())
        return
    from narrows.report.console import show
    from narrows.report.render import parts_of

    show(parts_of(answer, **how))

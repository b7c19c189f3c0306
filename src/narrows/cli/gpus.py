"""`narrows gpus`."""

from __future__ import annotations

import click

from narrows.cli.options import Command, as_json, emit, example, lang, option
from narrows.report.i18n import _


def _run(
    text: str, vendor: str | None, min_memory: str | None, precision: str | None, cloud: str | None, as_json: bool
) -> None:
    from narrows.answers.gpus import gpus
    from narrows.units import size

    least = size("--min-memory", min_memory) if min_memory is not None else None
    emit(gpus(text, vendor=vendor, min_memory=least, precision=precision, cloud=cloud), as_json)


command = Command(
    "gpus",
    callback=_run,
    help=_("Accelerators whose names hold TEXT (default: all), with usable memory, peaks, ridge points and prices."),
    epilog=example("narrows gpus h100"),
    params=[
        click.Argument(["text"], required=False, default=""),
        option("--vendor", metavar="VENDOR", help=_("Of this vendor, such as nvidia.")),
        option("--min-memory", metavar="SIZE", help=_("With at least this memory, such as 80GB.")),
        option("--precision", metavar="FORMAT", help=_("With a peak at this precision, such as fp8.")),
        option("--cloud", metavar="CLOUD", help=_("Prices of this cloud only, such as aws.")),
        as_json(),
        lang(),
    ],
)

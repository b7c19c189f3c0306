"""`narrows calibration`."""

from __future__ import annotations

from narrows.cli.options import Command, as_json, emit, example, lang, option
from narrows.report.i18n import _


def _run(forget: int | None, as_json: bool) -> None:
    from narrows.answers.calibration import calibration

    emit(calibration(forget=forget), as_json)


command = Command(
    "calibration",
    callback=_run,
    help=_("The corrections that 'check --calibrate' kept, which predictions of the same machines use and name."),
    epilog=example("narrows calibration --forget 2"),
    params=[
        option("--forget", type=int, metavar="N", help=_("Take out the correction with this number.")),
        as_json(),
        lang(),
    ],
)

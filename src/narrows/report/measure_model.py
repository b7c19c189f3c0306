"""The report of `measure model`."""

from __future__ import annotations

from narrows.answers.measure_model import DRIFT, ModelMeasured, PointMeasured
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.measure import spread
from narrows.report.words import word
from narrows.units import count, parameters, seconds


def decoder_report(answer: ModelMeasured) -> list[Part]:
    """How well prediction and measurement agree, then every point."""
    parts: list[Part] = [Paragraph(_headline(answer), "heading"), *_verdict(answer)]
    for precision in dict.fromkeys(one.precision for one in answer.points):
        parts.append(_table(precision, [one for one in answer.points if one.precision == precision]))
    for turn in answer.turning:
        parts.append(
            Paragraph(
                _("{precision}: decode turns compute-bound at a batch of {measured}; predicted {predicted}").format(
                    precision=turn.precision, measured=_rows(turn.measured), predicted=_rows(turn.predicted)
                )
            )
        )
    parts.append(Paragraph(_("How this is known"), "heading"))
    parts += [Paragraph("· " + say(text), "dim") for text in answer.assumptions]
    return parts


def _rows(rows: float | None) -> str:
    return _("none of these") if rows is None else f"{rows:.0f}"


def _headline(answer: ModelMeasured) -> str:
    return _("{model}, {size} parameters, on {device} through {engine}").format(
        model=answer.model, size=parameters(answer.parameters), device=answer.device, engine=answer.engine
    )


def _verdict(answer: ModelMeasured) -> list[Part]:
    line = _(
        "{n} points: median error {median} %, nine in ten within {p90} %; {right} of {verdicts} clear verdicts right"
    ).format(
        n=len(answer.points),
        median=f"{100 * answer.median_error:.0f}",
        p90=f"{100 * answer.p90_error:.0f}",
        right=answer.right,
        verdicts=answer.verdicts,
    )
    parts: list[Part] = [Paragraph(line, "good" if answer.agrees else "bad")]
    parts += [
        Paragraph(_("not quiet: {reason}").format(reason=say(reason)), "bad") for reason in answer.conditions.contended
    ]
    if not 1 / DRIFT <= answer.drift <= DRIFT:
        line = _(
            "the machine is now {times} times as slow as when it was measured: measure it again; with that put in, the "
            "median error is {median} %"
        ).format(times=f"{answer.drift:.2f}", median=f"{100 * answer.median_error_now:.0f}")
        parts.append(Paragraph(line, "bad"))
    return parts


def _table(precision: str, points: list[PointMeasured]) -> Table:
    columns = [
        Column(precision),
        Column(_("batch"), "right"),
        Column(_("tokens"), "right"),
        Column(_("measured"), "right"),
        Column(_("spread"), "right"),
        Column(_("predicted"), "right"),
        Column(_("error"), "right"),
        Column(_("most of it")),
        Column(_("predicted verdict")),
        Column(_("observed")),
    ]
    rows = [
        (
            word(one.phase),
            count(one.batch),
            count(one.length),
            seconds(one.measured.value),
            spread(one.measured),
            seconds(one.predicted.value),
            f"{100 * one.error:+.0f} %",
            _most(one),
            word(one.bound) + ("" if one.separation >= 3 else " ~"),
            "–" if one.observed.bound is None else word(one.observed.bound),
        )
        for one in points
    ]
    return Table(columns, rows)


def _most(one: PointMeasured) -> str:
    name = max(one.parts, key=lambda part: one.parts[part])
    return f"{word(name)} {100 * one.parts[name] / sum(one.parts.values()):.0f} %"

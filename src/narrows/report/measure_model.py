"""The report of `measure model`."""

from __future__ import annotations

from narrows.answers.measure_model import DRIFT, KernelChange, ModelMeasured, PointMeasured
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.measure import spread
from narrows.report.words import word
from narrows.units import count, parameters, seconds


def decoder_report(answer: ModelMeasured) -> list[Part]:
    """How well prediction and measurement agree, then every point."""
    parts: list[Part] = [Paragraph(_headline(answer), "heading"), *_verdict(answer)]
    for precision in dict.fromkeys(one.precision for one in answer.points):
        changes = [one for one in answer.kernel_changes if one.precision == precision]
        parts.append(_table(precision, [one for one in answer.points if one.precision == precision], changes))
        parts += [Paragraph("* " + _change(one)) for one in changes]
    for turn in answer.turning:
        parts.append(
            Paragraph(
                _("{precision}: decode turns compute-bound at a batch of {measured}; predicted {predicted}").format(
                    precision=turn.precision,
                    measured=_rows(turn.measured, turn.measured_bound),
                    predicted=_rows(turn.predicted, turn.predicted_bound),
                )
            )
        )
    parts.append(Paragraph(_("How this is known"), "heading"))
    parts += [Paragraph("· " + say(text), "dim") for text in answer.assumptions]
    return parts


def _change(one: KernelChange) -> str:
    return _(
        "{phase}: from {fewer} to {more} rows the library changes the kernel of its products: the step takes "
        "{measured} times as long, {predicted} times by this machine's own curve, though arithmetic and traffic ask "
        "for {roof}; growth is counted within one kernel"
    ).format(
        phase=word(one.phase),
        fewer=count(one.fewer),
        more=count(one.more),
        measured=f"{one.measured:.2f}",
        predicted=f"{one.predicted:.2f}",
        roof=f"{one.roof:.2f}",
    )


def _rows(rows: float | None, bound: str | None) -> str:
    if rows is not None:
        return f"{rows:.0f}"
    if bound is None:
        return _("none of these")
    return _("none of these, which are all {bound}").format(bound=word(bound))


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


def _table(precision: str, points: list[PointMeasured], changes: list[KernelChange]) -> Table:
    changed = {(one.phase, one.more) for one in changes}
    columns = [
        Column(precision),
        Column(_("batch"), "right"),
        Column(_("tokens"), "right"),
        Column(_("measured"), "right"),
        Column(_("spread"), "right"),
        Column(_("predicted"), "right"),
        Column(_("error"), "right"),
        Column(_("most of it")),
        Column(_("of its roof"), "right"),
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
            f"{round(100 * one.error):+d} %",
            _most(one),
            f"{100 * one.reached:.0f} %",
            word(one.bound) + ("" if one.separation >= 3 else " ~"),
            ("–" if one.observed.bound is None else word(one.observed.bound))
            + (" *" if (one.phase, rows_of(one)) in changed else ""),
        )
        for one in points
    ]
    return Table(columns, rows)


def rows_of(one: PointMeasured) -> int:
    """Rows that the step multiplies its weights with."""
    return one.batch * (one.length if one.phase == "prefill" else 1)


def _most(one: PointMeasured) -> str:
    name = max(one.parts, key=lambda part: one.parts[part])
    return f"{word(name)} {100 * one.parts[name] / sum(one.parts.values()):.0f} %"

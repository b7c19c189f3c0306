"""The picture of `roofline`: what was asked for, one panel under the other.

The roofline of the first deployment and the bars of all; curves where there is a sweep; the memory wall where
generations were asked for.
"""

from __future__ import annotations

from typing import Any

from narrows.answers.roofline.types import Bounds, Roofline
from narrows.report.charts import FAINT, INK, label, plotting, text_width, themed
from narrows.report.i18n import _
from narrows.report.memory_wall_chart import wall_chart
from narrows.report.roofline_extras import parameter_word, wall
from narrows.report.roofline_step_chart import WIDTH, step_chart
from narrows.report.roofline_words import label as deployment
from narrows.report.roofline_words import phase_word
from narrows.report.spending_chart import spending_chart
from narrows.report.sweep_chart import sweep_chart
from narrows.report.words import word
from narrows.units import count

_SMALL = 11.5


def bounds_chart(answer: Roofline) -> Any:
    """All panels. Returns an altair chart; raises BadInput where the extra `plot` is not installed."""
    alt = plotting()
    first = answer.candidates[0]
    panels = [
        step_chart(first, _title(alt, _verdict(first), *_how(first))),
        spending_chart(answer, WIDTH, _title(alt, _("Where the time of each phase goes"))),
    ]
    if first.sweep is not None:
        text = _("How {phase} moves with {parameter}, and what bounds it").format(
            phase=phase_word(first.sweep.phase), parameter=parameter_word(first.sweep.parameter)
        )
        panels.append(sweep_chart(answer, WIDTH, _title(alt, text, _("dashed and pale: more than memory holds"))))
    if answer.generations:
        text = _("The memory wall: FLOPs for each byte that it takes to fill the arithmetic")
        panels.append(wall_chart(answer.generations, WIDTH, _title(alt, text, *_wrapped(wall(answer.generations)))))
    title = alt.TitleParams(text=_headline(answer), fontSize=18, limit=WIDTH + 60)
    return themed(alt.vconcat(*panels, spacing=30, title=title).resolve_scale(color="independent", shape="independent"))


def _headline(answer: Roofline) -> str:
    return _("{name}: prefill of {prompt} tokens, decode of {batch} × {context} tokens").format(
        name=label(answer.model.name, 48),
        prompt=count(answer.prompt),
        batch=count(answer.batch),
        context=count(answer.context),
    )


def _verdict(one: Bounds) -> str:
    return _("{name}: prefill is {prefill}, decode is {decode}").format(
        name=label(deployment(one), 48),
        prefill=word(one.phases.prefill.bound),
        decode=word(one.phases.decode.bound),
    )


def _how(one: Bounds) -> list[str]:
    lines = [
        _("marks: operators, their area and % by share of the phase's time; dotted: up to what the device could reach"),
        _("rings: whole phases, decode from batch to batch"),
    ]
    return lines if one.fits else [*lines, _("memory does not hold this load: times are as if it fit")]


def _wrapped(text: str) -> list[str]:
    """Lines that are not longer than the picture is wide."""
    lines = [""]
    for piece in text.split():
        longer = f"{lines[-1]} {piece}".strip()
        if lines[-1] and text_width(longer, _SMALL) > WIDTH:
            lines.append(piece)
        else:
            lines[-1] = longer
    return lines


def _title(alt: Any, text: str, *how: str) -> Any:
    more = {"subtitle": list(how), "subtitleFontSize": _SMALL, "subtitleColor": FAINT} if how else {}
    return alt.TitleParams(text=text, fontSize=14, color=INK, anchor="start", frame="group", offset=10, **more)

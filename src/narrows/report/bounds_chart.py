"""The picture of `roofline`: what was asked for, one panel under the other.

The roofline of the first deployment and the bars of all; curves where there is a sweep; the memory wall where
generations were asked for.
"""

from __future__ import annotations

from typing import Any

from narrows.answers.roofline.types import Bounds, Roofline
from narrows.report.charts import FAINT, INK, label, plotting, themed, wrapped
from narrows.report.hierarchy_chart import hierarchy_chart, hierarchy_title
from narrows.report.i18n import _
from narrows.report.memory_wall_chart import wall_chart
from narrows.report.roofline_extras import wall
from narrows.report.roofline_step_chart import WIDTH, step_chart
from narrows.report.roofline_words import headline, short
from narrows.report.spending_chart import spending_chart, spending_note
from narrows.report.sweep_chart import sweep_chart, sweep_title
from narrows.report.words import word

_SMALL = 11.5


def bounds_chart(answer: Roofline) -> Any:
    """All panels. Returns an altair chart; raises BadInput where the extra `plot` is not installed."""
    alt = plotting()
    first, several = answer.candidates[0], len(answer.candidates) > 1
    operators = _title(alt, _verdict(first), *_how(first)) if several else _quiet(alt, *_how(first))
    panels = [
        step_chart(first, operators),
        spending_chart(answer, WIDTH, _title(alt, _("Where the time of each phase goes"))),
    ]
    if first.hierarchy:
        how = _("least time of each level by itself; pale: assumed bandwidth")
        panels.append(hierarchy_chart(first.hierarchy, WIDTH, _title(alt, hierarchy_title(first.hierarchy), how)))
    if first.sweep is not None:
        how = _("dashed and pale: more than memory holds")
        panels.append(sweep_chart(answer, WIDTH, _title(alt, sweep_title(answer), how)))
    if answer.generations:
        text = _("The memory wall: FLOPs for each byte that it takes to fill the arithmetic")
        panels.append(
            wall_chart(answer.generations, WIDTH, _title(alt, text, *wrapped(wall(answer.generations), _SMALL, WIDTH)))
        )
    finding = spending_note(answer) if several else _verdict(first)
    title = alt.TitleParams(
        text=wrapped(finding, 18, WIDTH + 40),
        subtitle=headline(answer, label(answer.model.name, 60)),
        fontSize=18,
        lineHeight=23,
        subtitleFontSize=13,
    )
    return themed(alt.vconcat(*panels, spacing=30, title=title).resolve_scale(color="independent", shape="independent"))


def _verdict(one: Bounds) -> str:
    name = short(one, 48)
    if not one.generates:
        return _("{name}: prefill is {prefill}").format(name=name, prefill=word(one.phases.prefill.bound))
    if one.phases.prefill.bound == one.phases.decode.bound:
        return _("{name}: prefill and decode are both {bound}").format(name=name, bound=word(one.phases.decode.bound))
    return _("{name}: prefill is {prefill}, decode is {decode}").format(
        name=name,
        prefill=word(one.phases.prefill.bound),
        decode=word(one.phases.decode.bound),
    )


def _how(one: Bounds) -> list[str]:
    lines = [
        _("marks: operators, their area and % by share of the phase's time; dotted: up to what the device could reach"),
        _("rings: whole phases, decode from batch to batch") if one.generates else _("ring: the whole phase"),
    ]
    return lines if one.fits else [*lines, _("memory does not hold this load: times are as if it fit")]


def _quiet(alt: Any, *how: str) -> Any:
    """A title that only says how to read the panel: the finding stands over the whole picture."""
    return alt.TitleParams(
        text=list(how), fontSize=_SMALL, fontWeight="normal", color=FAINT, anchor="start", frame="group", offset=10
    )


def _title(alt: Any, text: str, *how: str) -> Any:
    more = {"subtitle": list(how), "subtitleFontSize": _SMALL, "subtitleColor": FAINT} if how else {}
    return alt.TitleParams(text=text, fontSize=14, color=INK, anchor="start", frame="group", offset=10, **more)

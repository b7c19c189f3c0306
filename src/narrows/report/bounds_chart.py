"""The picture of `roofline`: what was asked for, one panel under the other.

The roofline of the first deployment and the bars of all; curves where there is a sweep; the memory wall where
generations were asked for.
"""

from __future__ import annotations

from typing import Any

from narrows.answers.roofline.types import Bounds, Roofline
from narrows.report.charts import FAINT, INK, label, plotting, themed
from narrows.report.i18n import _
from narrows.report.memory_wall_chart import wall_chart
from narrows.report.roofline_extras import parameter_word
from narrows.report.roofline_step_chart import WIDTH, step_chart
from narrows.report.roofline_words import label as deployment
from narrows.report.roofline_words import phase_word
from narrows.report.spending_chart import spending_chart
from narrows.report.sweep_chart import sweep_chart
from narrows.report.words import word
from narrows.units import count


def bounds_chart(answer: Roofline) -> Any:
    """All panels. Returns an altair chart; raises BadInput where the extra `plot` is not installed."""
    alt = plotting()
    first = answer.candidates[0]
    roofline = _("{name}: every operator under the roofs of the device").format(name=label(deployment(first), 50))
    how = _(
        "area and %: share of the phase's time; dotted: up to what the device could reach; rings: whole phases, decode "
        "from batch to batch"
    )
    panels = [
        step_chart(first, _title(alt, roofline, how)),
        spending_chart(answer, WIDTH, _title(alt, _("Where the time of each phase goes"))),
    ]
    if first.sweep is not None:
        text = _("{phase} by {parameter}, and what bounds it").format(
            phase=phase_word(first.sweep.phase), parameter=parameter_word(first.sweep.parameter)
        )
        panels.append(sweep_chart(answer, WIDTH, _title(alt, text, _("dashed and pale: more than memory holds"))))
    if answer.generations:
        text = _("The memory wall: FLOPs per byte that it takes to fill the arithmetic, by year of launch")
        panels.append(wall_chart(answer.generations, WIDTH, _title(alt, text)))
    title = alt.TitleParams(text=label(answer.model.name, 90), subtitle=[_verdict(answer, first)], fontSize=19)
    chart = alt.vconcat(*panels, spacing=36, title=title)
    return themed(chart.resolve_scale(color="independent", shape="independent", size="independent"))


def _verdict(answer: Roofline, first: Bounds) -> str:
    return _("prefill of {prompt} tokens is {prefill}; decode of {batch} × {context} tokens is {decode}").format(
        prompt=count(answer.prompt),
        prefill=word(first.phases.prefill.bound),
        batch=count(answer.batch),
        context=count(answer.context),
        decode=word(first.phases.decode.bound),
    )


def _title(alt: Any, text: str, how: str = "") -> Any:
    more = {"subtitle": [how], "subtitleFontSize": 11.5, "subtitleColor": FAINT} if how else {}
    return alt.TitleParams(text=text, fontSize=14, color=INK, anchor="start", offset=10, **more)

"""Predicted against measured times of a real decoder, log-log, with the line where both are equal."""

from __future__ import annotations

from typing import Any

from narrows.answers.measure_model import ModelMeasured
from narrows.report.charts import BLUE, FAINT, GREEN, INK, VERMILLION, label, plotting, themed
from narrows.report.i18n import _
from narrows.report.sweep_chart import ticks
from narrows.report.words import word
from narrows.units import count, parameters, seconds

_SIDE = 460


def decoder_chart(answer: ModelMeasured) -> Any:
    """A point per forward pass; the band is a fifth either way. Returns an altair chart; raises BadInput without it."""
    alt = plotting()
    times = [at for one in answer.points for at in (one.measured.value, one.predicted.value)]
    low, high = min(times) / 1.6, max(times) * 1.6
    rows = [
        {
            "x": one.measured.value,
            "y": one.predicted.value,
            "precision": one.precision,
            "phase": word(one.phase),
            "text": f"{one.precision} {word(one.phase)} {count(one.batch)} × {count(one.length)}",
            "error": f"{100 * one.error:+.0f} %",
        }
        for one in answer.points
    ]
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    marks = ticks(low, high)
    x = alt.X("x:Q", scale=scale, axis=alt.Axis(title=_("measured seconds (log scale)"), format="~g", values=marks))
    y = alt.Y("y:Q", scale=scale, axis=alt.Axis(title=_("predicted seconds (log scale)"), format="~g", values=marks))
    band = [{"x": at, "low": at / 1.2, "high": at * 1.2} for at in (low, high)]
    area = alt.Chart(alt.Data(values=band)).mark_area(color=FAINT, opacity=0.12, clip=True)
    line = alt.Chart(alt.Data(values=[{"x": at, "y": at} for at in (low, high)])).mark_line(color=INK, strokeWidth=1)
    names = list(dict.fromkeys(one.precision for one in answer.points))
    colour = alt.Color(
        "precision:N",
        scale=alt.Scale(domain=names, range=[BLUE, VERMILLION, GREEN][: len(names)]),
        legend=alt.Legend(title=None, orient="top"),
    )
    points = alt.Chart(alt.Data(values=rows)).mark_point(size=70, filled=True, opacity=0.85)
    points = points.encode(
        x=x,
        y=y,
        color=colour,
        shape=alt.Shape(
            "phase:N",
            scale=alt.Scale(domain=[word("prefill"), word("decode")], range=["circle", "diamond"]),
            legend=alt.Legend(title=None, orient="top"),
        ),
        tooltip=[alt.Tooltip("text:N", title=" "), alt.Tooltip("error:N", title="  ")],
    )
    layers = [area.encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q"), line.encode(x=x, y=y), points]
    title = _("{model}: {n} forward passes, median error {median} %").format(
        model=label(answer.model), n=len(answer.points), median=f"{100 * answer.median_error:.0f}"
    )
    under = _("{size} parameters on {device}; grey: a fifth either way; fastest {fastest}").format(
        size=parameters(answer.parameters),
        device=answer.device,
        fastest=seconds(min(one.measured.value for one in answer.points)),
    )
    chart = alt.layer(*layers).properties(width=_SIDE, height=_SIDE, title={"text": title, "subtitle": under})
    return themed(chart)

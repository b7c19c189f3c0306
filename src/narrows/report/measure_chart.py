"""The measured roofline of this machine: what it reached, under the roofs of its own measurement."""

from __future__ import annotations

import math
from typing import Any

from narrows.answers.measure import MachineMeasured
from narrows.measure.compute import BYTES
from narrows.report.charts import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, VERMILLION, label, plotting, themed
from narrows.report.i18n import _
from narrows.roofline import Roof
from narrows.units import bandwidth, binary, count, rate

_WIDTH, _HEIGHT = 760, 440
_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE)


def machine_chart(answer: MachineMeasured) -> Any:
    """Matrix products of few to many rows under the measured roofs, log-log; bandwidths of the caches as thin lines.

    A dashed roof is the data sheet's. Returns an altair chart; raises BadInput without the extra `plot`.
    """
    alt = plotting()
    unit, scale = ("TFLOP/s", 1e12) if max(one.flops.value for one in answer.peaks) >= 1e12 else ("GFLOP/s", 1e9)
    low, high = 0.25, 4096.0
    high = max(high, *(4 * one.ridge for one in answer.peaks))
    bottom = min(answer.bandwidth.value * low, *(one.flops.value for one in answer.products)) / 2
    top = 3 * max(one.flops.value for one in answer.peaks)
    x = _axis(alt.X, "x:Q", alt, low, high, _("arithmetic intensity in FLOP/B (log scale)"))
    title = _("measured {unit} (log scale)").format(unit=unit)
    y = _axis(alt.Y, "y:Q", alt, bottom / scale, top / scale, title)
    names = [one.precision for one in answer.peaks]
    colour = alt.Color(
        "precision:N",
        scale=alt.Scale(domain=names, range=list(_COLOURS[: len(names)])),
        legend=alt.Legend(title=None, orient="top"),
    )
    layers = [
        *_caches(alt, answer, x, y, low, high, scale),
        *_roofs(alt, answer, x, y, colour, low, high, scale),
        *_paper(alt, answer, x, y, low, high, scale),
        *_products(alt, answer, x, y, colour, scale),
    ]
    heading = _("{name}, measured: {bandwidth} from memory").format(
        name=label(answer.name), bandwidth=bandwidth(answer.bandwidth.value)
    )
    under = _("matrix products by rows, weights out of the caches; lines: the measured roof of each precision")
    chart = alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT, title={"text": heading, "subtitle": under})
    return themed(chart)


def _axis(channel: Any, field: str, alt: Any, low: float, high: float, title: str) -> Any:
    ticks = [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    axis = alt.Axis(title=title, values=ticks, format=",~r", grid=False)
    return channel(field, scale=alt.Scale(type="log", domain=[low, high], nice=False), axis=axis)


def _line(roof: Roof, low: float, high: float, scale: float, **more: Any) -> list[dict[str, Any]]:
    stops = sorted({low, min(max(roof.ridge, low), high), high})
    return [{"x": at, "y": roof.attainable(at) / scale, **more} for at in stops]


def _roofs(
    alt: Any, answer: MachineMeasured, x: Any, y: Any, colour: Any, low: float, high: float, scale: float
) -> list[Any]:
    rows = [
        row
        for one in answer.peaks
        for row in _line(Roof(one.flops.value, answer.bandwidth.value), low, high, scale, precision=one.precision)
    ]
    lines = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour)
    ends = [
        {"x": high, "y": one.flops.value / scale, "text": f"{one.precision} {rate(one.flops.value)}"}
        for one in answer.peaks
    ]
    texts = alt.Chart(alt.Data(values=ends)).mark_text(align="right", baseline="bottom", dx=-4, dy=-3, color=INK)
    return [lines, texts.encode(x=x, y=y, text="text:N")]


def _caches(alt: Any, answer: MachineMeasured, x: Any, y: Any, low: float, high: float, scale: float) -> list[Any]:
    """Reading from working sets that caches hold: thin slopes, only those a tenth faster than the next larger set."""
    peak = max(one.flops.value for one in answer.peaks)
    reads = sorted((one for one in answer.bandwidths if one.operation == "read"), key=lambda one: -one.working_set)
    kept, last = [], answer.bandwidth.value
    for one in reads:
        if one.bandwidth.value > 1.25 * last:
            kept.append(one)
            last = one.bandwidth.value
    layers = []
    for one in kept:
        roof = Roof(peak, one.bandwidth.value)
        end = min(roof.ridge, high)
        rows = [{"x": at, "y": roof.attainable(at) / scale} for at in (low, end) if at >= low]
        layers.append(
            alt.Chart(alt.Data(values=rows)).mark_line(color=FAINT, strokeWidth=0.8, strokeDash=[2, 2]).encode(x=x, y=y)
        )
        text = f"{binary(one.working_set, 0)}: {bandwidth(one.bandwidth.value)}"
        at = [{"x": low, "y": roof.attainable(low) / scale, "text": text}]
        mark = alt.Chart(alt.Data(values=at)).mark_text(align="left", baseline="top", dx=10, dy=3, color=FAINT)
        layers.append(mark.encode(x=x, y=y, text="text:N"))
    return layers


def _paper(alt: Any, answer: MachineMeasured, x: Any, y: Any, low: float, high: float, scale: float) -> list[Any]:
    """The data sheet's roof at the precision with the highest peak."""
    known = [one for one in answer.peaks if one.datasheet]
    if not known or not answer.datasheet_bandwidth:
        return []
    best = max(known, key=lambda one: one.datasheet or 0)
    rows = _line(Roof(best.datasheet or 1, answer.datasheet_bandwidth), low, high, scale)
    line = alt.Chart(alt.Data(values=rows)).mark_line(color=INK, strokeWidth=1.2, strokeDash=[6, 4], clip=True)
    text = _("data sheet: {device}").format(device=answer.datasheet)
    at = [{"x": low, "y": answer.datasheet_bandwidth * low / scale, "text": text}]
    mark = alt.Chart(alt.Data(values=at)).mark_text(align="left", baseline="top", dx=10, dy=3, color=INK)
    return [line.encode(x=x, y=y), mark.encode(x=x, y=y, text="text:N")]


def _products(alt: Any, answer: MachineMeasured, x: Any, y: Any, colour: Any, scale: float) -> list[Any]:
    rows = []
    for one in answer.products:
        if one.m == one.k:
            continue
        moved = BYTES[one.precision] * (one.m * one.k + one.k * one.n + one.m * one.n)
        text = _("{rows} rows × {k} × {n}").format(rows=count(one.m), k=one.k, n=one.n)
        rows.append(
            {
                "x": 2 * one.m * one.k * one.n / moved,
                "y": one.flops.value / scale,
                "precision": one.precision,
                "shape": f"{one.k}×{one.n}",
                "text": text,
            }
        )
    data = alt.Data(values=rows)
    shape = alt.Shape("shape:N", legend=alt.Legend(title=None, orient="top"))
    tooltip = [alt.Tooltip("text:N", title=" "), alt.Tooltip("y:Q", title="FLOP/s", format=",.3~r")]
    points = alt.Chart(data).mark_point(size=48, filled=True, opacity=0.9)
    return [points.encode(x=x, y=y, color=colour, shape=shape, tooltip=tooltip)]

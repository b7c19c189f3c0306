"""The measured roofline of this machine: what it reached, under the roofs of its own measurement."""

from __future__ import annotations

import math
from typing import Any

from narrows.answers.measure import MachineMeasured
from narrows.measure.compute import BYTES
from narrows.report.charts import BLUE, FAINT, GREEN, INK, ORANGE, PURPLE, VERMILLION, label, plotting, themed, wrapped
from narrows.report.i18n import _
from narrows.report.roofline_axes import pixel
from narrows.report.sweep_chart import spread
from narrows.roofline import Roof
from narrows.units import bandwidth, binary, count, rate

_WIDTH, _HEIGHT, _TITLE, _LINE = 760, 440, 17, 14
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
        *_caches(alt, answer, x, y, (low, high), (bottom, top), scale),
        *_roofs(alt, answer, x, y, colour, (low, high), (bottom, top), scale),
        *_paper(alt, answer, x, y, low, high, scale),
        *_products(alt, answer, x, y, colour, scale),
    ]
    best = max(answer.peaks, key=lambda one: one.flops.value)
    heading = _("{name} reaches {peak} in {precision}, and {bandwidth} from memory").format(
        name=label(answer.name, 60),
        peak=rate(best.flops.value),
        precision=best.precision,
        bandwidth=bandwidth(answer.bandwidth.value),
    )
    under = _("marks: matrix products of few to many rows, whose weights no cache holds; lines: the measured roofs")
    title = alt.TitleParams(wrapped(heading, _TITLE, _WIDTH + 40), subtitle=under, lineHeight=_TITLE + 5)
    chart = alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT, title=title)
    return themed(chart)


def _axis(channel: Any, field: str, alt: Any, low: float, high: float, title: str) -> Any:
    ticks = [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    axis = alt.Axis(title=title, values=ticks, format=",~r", grid=False)
    return channel(field, scale=alt.Scale(type="log", domain=[low, high], nice=False), axis=axis)


def _line(roof: Roof, low: float, high: float, scale: float, **more: Any) -> list[dict[str, Any]]:
    stops = sorted({low, min(max(roof.ridge, low), high), high})
    return [{"x": at, "y": roof.attainable(at) / scale, **more} for at in stops]


def _roofs(
    alt: Any,
    answer: MachineMeasured,
    x: Any,
    y: Any,
    colour: Any,
    across: tuple[float, float],
    up: tuple[float, float],
    scale: float,
) -> list[Any]:
    low, high = across
    rows = [
        row
        for one in answer.peaks
        for row in _line(Roof(one.flops.value, answer.bandwidth.value), low, high, scale, precision=one.precision)
    ]
    lines = alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2).encode(x=x, y=y, color=colour)
    # behind the plot, where no line runs through them: peaks that are nearly alike have their names one over the other
    wanted = [_HEIGHT * (1 - math.log(one.flops.value / up[0]) / math.log(up[1] / up[0])) for one in answer.peaks]
    ends = [
        {
            "x": _WIDTH + 2,
            "x2": _WIDTH + 12,
            "at": _WIDTH + 15,
            "y": end,
            "y2": place,
            "text": f"{one.precision} {rate(one.flops.value)}",
        }
        for one, end, place in zip(answer.peaks, wanted, spread(wanted, _LINE, _LINE, _HEIGHT), strict=True)
    ]
    data = alt.Chart(alt.Data(values=ends))
    y, y2 = pixel(alt.Y, "y:Q"), pixel(alt.Y, "y2:Q")
    leaders = data.mark_rule(color=FAINT, strokeWidth=0.8).encode(x=pixel(alt.X, "x:Q"), x2="x2:Q", y=y, y2="y2:Q")
    texts = data.mark_text(align="left", baseline="middle", color=INK)
    return [lines, leaders, texts.encode(x=pixel(alt.X, "at:Q"), y=y2, text="text:N")]


def _caches(
    alt: Any,
    answer: MachineMeasured,
    x: Any,
    y: Any,
    across: tuple[float, float],
    up: tuple[float, float],
    scale: float,
) -> list[Any]:
    """Reading from working sets that caches hold: thin slopes, only those a quarter faster than the next larger set.

    Each is named along itself: across, up: what the axes span.
    """
    low, high = across
    turn = math.atan(_HEIGHT / math.log(up[1] / up[0]) / (_WIDTH / math.log(high / low)))
    peak = max(one.flops.value for one in answer.peaks)
    reads = sorted((one for one in answer.bandwidths if one.operation == "read"), key=lambda one: -one.working_set)
    kept, last = [], answer.bandwidth.value
    for one in reads:
        if one.bandwidth.value > 1.25 * last and peak > 3 * low * one.bandwidth.value:  # else no slope to be seen
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
        mark = alt.Chart(alt.Data(values=at)).mark_text(
            align="left", baseline="bottom", dx=16, dy=-2, angle=360 - math.degrees(turn), color=FAINT
        )
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
                "shape": _("weights {k} × {n}").format(k=one.k, n=one.n),
                "text": text,
            }
        )
    data = alt.Data(values=rows)
    shape = alt.Shape("shape:N", legend=alt.Legend(title=None, orient="top"))
    tooltip = [alt.Tooltip("text:N", title=" "), alt.Tooltip("y:Q", title="FLOP/s", format=",.3~r")]
    points = alt.Chart(data).mark_point(size=48, filled=True, opacity=0.9)
    return [points.encode(x=x, y=y, color=colour, shape=shape, tooltip=tooltip)]

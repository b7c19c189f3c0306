"""What every log-log roofline is drawn of: axes, regions, roofs with their ridge points, texts that were laid out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from narrows.report.charts import BLUE, FAINT, INK, VERMILLION
from narrows.report.i18n import _
from narrows.report.labels import SIZE, Box, Frame, Label
from narrows.roofline import Roof
from narrows.units import bandwidth

BLUE_INK, RED_INK = "#00507D", "#A33C00"
"""What memory bounds, and what compute bounds: blue and vermillion dark enough to read as text."""
Slope = tuple[str, float, float, float]
"""text, x, y, degrees"""


def along(frame: Frame, over: Roof, stops: Iterable[float]) -> tuple[Slope, list[Box]]:
    """The bandwidth written along the slope, in the widest gap between `stops` (pixels); what it covers."""
    ridge = frame.x(over.ridge)
    marked = sorted([0.0, *(x for x in stops if x < ridge), ridge])
    gap, start = max((right - left, left) for left, right in pairwise(marked))
    return _written(frame, over, start + gap / 2)


def along_clear(frame: Frame, over: Roof, avoid: Sequence[Box]) -> tuple[Slope, list[Box]]:
    """The same where it covers nothing of `avoid`: in the middle of the longest free part of the slope."""
    tried = [(x, _written(frame, over, x)) for x in range(0, int(frame.x(over.ridge)), 6)]
    inside = [(x, made) for x, made in tried if made[1][0].left >= 2 and made[1][0].bottom <= frame.height]
    hits = [sum(box.meets(other) for box in made[1] for other in avoid) for _x, made in inside]
    least = min(hits)
    best: list[int] = []
    run: list[int] = []
    for i, hit in enumerate(hits):
        run = [*run, i] if hit == least else []
        best = max(best, run, key=len)
    return inside[best[len(best) // 2]][1]


def _written(frame: Frame, over: Roof, x: float) -> tuple[Slope, list[Box]]:
    ridge = frame.x(over.ridge)
    rise = (frame.roof(over, 0) - frame.roof(over, ridge)) / ridge
    turn = math.atan(rise)
    text = _("memory {bandwidth}").format(bandwidth=bandwidth(over.bandwidth))
    half = len(text) * SIZE * 0.3 * math.cos(turn)
    across = 10 * math.sin(turn), 10 * math.cos(turn)
    y = frame.roof(over, x)
    boxes = [
        Box(x + d - across[0] - 8, y - d * rise - across[1] - 8, x + d - across[0] + 8, y - d * rise - across[1] + 8)
        for d in (half * step / 4 for step in range(-4, 5))
    ]
    return (text, x - across[0], y - across[1], -math.degrees(turn)), boxes


def axes(alt: Any, frame: Frame, rate: str) -> tuple[Any, Any]:
    """The x axis (FLOP/B) and the y axis (TFLOP/s, under the title `rate`), logarithmic, with a tick per decade."""
    x = _scaled(alt.X, "x:Q", alt, frame.low[0], frame.high[0], _("arithmetic intensity in FLOP/B (log scale)"))
    return x, _scaled(alt.Y, "y:Q", alt, frame.low[1] / 1e12, frame.high[1] / 1e12, rate)


def _scaled(channel: Any, field: str, alt: Any, low: float, high: float, title: str) -> Any:
    ticks = [10.0**power for power in range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)]
    axis = alt.Axis(title=title, values=ticks, format=",", grid=False)
    return channel(field, scale=alt.Scale(type="log", domain=[low, high], nice=False), axis=axis)


def regions(alt: Any, frame: Frame, x: Any, below: float, above: float) -> list[Any]:
    """Left of the lowest ridge point and right of the highest, lightly shaded."""
    layers = []
    for low, high, colour in ((frame.low[0], below, BLUE), (above, frame.high[0], VERMILLION)):
        data = alt.Data(values=[{"x": low, "x2": high}])
        layers.append(alt.Chart(data).mark_rect(color=colour, opacity=0.09).encode(x=x, x2="x2:Q"))
    return layers


def roof_lines(alt: Any, frame: Frame, roofs: Sequence[Roof], x: Any, y: Any, marked: int = 1) -> list[Any]:
    """The roofs, the first one strong; the first `marked` ridge points, with a line from the first to its intensity."""
    first = roofs[0]
    layers = []
    for one in reversed(roofs):
        # all roofs of a device share the slope; what is higher than the first one leaves it at the first one's ridge
        start = frame.low[0] if one == first else min(first.ridge, one.ridge)
        ends = [{"x": at, "y": one.attainable(at) / 1e12} for at in (start, one.ridge, frame.high[0])]
        look = {"strokeWidth": 2.5} if one == first else {"strokeWidth": 1.5, "strokeDash": [5, 4]}
        layers.append(alt.Chart(alt.Data(values=ends)).mark_line(color=INK, **look).encode(x=x, y=y))
    foot = alt.Data(values=[{"x": first.ridge, "y": frame.low[1] / 1e12, "y2": first.peak / 1e12}])
    layers.append(alt.Chart(foot).mark_rule(color=FAINT, strokeDash=[3, 3]).encode(x=x, y=y, y2="y2:Q"))
    for one in roofs[:marked]:
        corner = alt.Data(values=[{"x": one.ridge, "y": one.peak / 1e12}])
        size, stroke = (320, 2.0) if one == first else (160, 1.5)
        mark = alt.Chart(corner).mark_point(shape="diamond", filled=False, color=INK, size=size, strokeWidth=stroke)
        layers.append(mark.encode(x=x, y=y))
    return layers


def texts(alt: Any, labels: Sequence[Label], colour: str, weight: str = "normal") -> list[Any]:
    """Texts where the layout put them, in pixels."""
    layers = []
    for align in ("left", "center", "right"):
        rows = [{"x": x, "y": y, "text": line} for one in labels if one.align == align for x, y, line in one.lines]
        if rows:
            text = alt.Chart(alt.Data(values=rows)).mark_text(
                align=align, baseline="middle", fontSize=SIZE, fontWeight=weight, color=colour
            )
            layers.append(text.encode(x=pixel(alt.X, "x:Q"), y=pixel(alt.Y, "y:Q"), text="text:N"))
    return layers


def pixel(channel: Any, field: str) -> Any:
    """A channel in pixels."""
    return channel(field, scale=None, axis=None)


def slope_text(alt: Any, slope: Slope) -> list[Any]:
    """The bandwidth along the slope."""
    text, x, y, degrees = slope
    data = alt.Data(values=[{"x": x, "y": y, "text": text}])
    mark = alt.Chart(data).mark_text(align="center", baseline="middle", angle=degrees % 360, fontSize=SIZE, color=FAINT)
    return [mark.encode(x=pixel(alt.X, "x:Q"), y=pixel(alt.Y, "y:Q"), text="text:N")]


def leaders(alt: Any, labels: Sequence[Label]) -> list[Any]:
    """Thin lines to the labels that are not next to their points."""
    rows = [dict(zip(("x", "y", "x2", "y2"), one.leader, strict=True)) for one in labels if one.leader]
    if not rows:
        return []
    rules = alt.Chart(alt.Data(values=rows)).mark_rule(color=FAINT, strokeWidth=0.8)
    return [rules.encode(x=pixel(alt.X, "x:Q"), y=pixel(alt.Y, "y:Q"), x2="x2:Q", y2="y2:Q")]

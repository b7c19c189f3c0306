"""Curves of a sweep: time and tokens per second over a parameter, a curve per deployment, and below what bounds it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise
from typing import Any

import msgspec

from narrows.answers.roofline.types import Bounds, Roofline, Sweep, SweepPoint
from narrows.report import charts
from narrows.report.charts import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, VERMILLION, text_width
from narrows.report.i18n import _
from narrows.report.roofline_axes import pixel
from narrows.report.roofline_extras import parameter_word, thinned
from narrows.report.roofline_words import bound_word, phase_word, short
from narrows.report.words import word
from narrows.roofline.timed import Cause
from narrows.units import count, seconds

CURVES = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, INK, SKY)
"""Of the deployments, in the order they were asked for; numbers at their ends tell them apart where colours do not."""
VERDICTS: dict[Cause, str] = {
    "memory bandwidth": BLUE,
    "compute": VERMILLION,
    "interconnect": PURPLE,
    "overhead": GREY,
}
_HEIGHT, _STRIP, _GAP, _SIZE = 230, 16, 4, 11
_GUTTER, _LINE = 26, 12
"""Pixels to the right of curves for their numbers, and from one number to the next at least."""
_MARKED, _DRAWN = 40, 200
"""A curve of more points has no marks on them; and of a curve as many are drawn at most."""


class Run(msgspec.Struct, frozen=True):
    """A stretch of a sweep with one verdict, from pixel to pixel."""

    row: int
    left: float
    right: float
    bound: Cause
    fits: bool


class Curves(msgspec.Struct, frozen=True):
    """The sweeps by deployment, and the span of their parameter."""

    names: tuple[str, ...]
    sweeps: tuple[Sweep, ...]
    low: float
    high: float
    width: int

    def x(self, value: float) -> float:
        """Pixel of a value of the parameter, on a logarithmic axis."""
        return self.width * math.log(value / self.low) / math.log(self.high / self.low)


def sweep_chart(answer: Roofline, width: int, title: Any = None) -> Any:
    """Time and tokens/s side by side, `width` pixels together. Returns an altair chart."""
    alt = charts.plotting()
    several = sum(one.sweep is not None for one in answer.candidates) > 1
    made = curves(answer.candidates, (width - 90) // 2 - (_GUTTER if several else 0))
    sides = [
        alt.vconcat(_curves(alt, made, field, name, scale), _strips(alt, made), spacing=30)
        for field, name, scale in (
            ("time", _("time in ms (log scale)"), 1e3),
            ("tokens_per_second", _("tokens/s (log scale)"), 1.0),
        )
    ]
    both = alt.hconcat(*sides, spacing=20)
    if several:
        return alt.vconcat(_legend(alt, made, width, title), both, spacing=14)
    return both if title is None else both.properties(title=title)


def sweep_title(answer: Roofline) -> str:
    """What the curves say: where the verdict of the one deployment turns, or which of several is fastest in the end."""
    found = [(one, one.sweep) for one in answer.candidates if one.sweep is not None]
    sweep = found[0][1]
    phase, parameter = phase_word(sweep.phase), parameter_word(sweep.parameter)
    if len(found) > 1:
        # where any of them still holds the load
        fitting = [at for _one, each in found for at, point in enumerate(each.points) if point.fits]
        last = max(fitting, default=len(sweep.points) - 1)
        held = [(one, each.points[last]) for one, each in found if each.points[last].fits or not fitting]
        time, name = min((point.time, short(one)) for one, point in held)
        return _("{phase} at {parameter} {value}: {name} is fastest ({time})").format(
            phase=phase,
            parameter=parameter,
            value=count(sweep.points[last].value),
            name=name,
            time=seconds(time),
        )
    stretches = [(bound, next(points).value) for bound, points in groupby(sweep.points, key=lambda one: one.bound)]
    first, last_value = stretches[0][1], sweep.points[-1].value
    if len(stretches) == 1 and first != last_value:
        return _("{phase} is {bound} at every {parameter} from {low} to {high}").format(
            phase=phase, bound=word(stretches[0][0]), parameter=parameter, low=count(first), high=count(last_value)
        )
    if len(stretches) == 2:
        return _("{phase} turns from {before} to {after} at {parameter} {value}").format(
            phase=phase,
            before=word(stretches[0][0]),
            after=word(stretches[1][0]),
            parameter=parameter,
            value=count(stretches[1][1]),
        )
    return _("How {phase} moves with {parameter}, and what bounds it").format(phase=phase, parameter=parameter)


def curves(candidates: Sequence[Bounds], width: int) -> Curves:
    """The sweeps of an answer that has them."""
    found = [(one, one.sweep) for one in candidates if one.sweep is not None]
    names: list[str] = []
    for one, _sweep in found:
        name = short(one)
        names.append(name if name not in names else f"{name} ({len(names) + 1})")
    values = [point.value for _one, sweep in found for point in sweep.points]
    low, high = float(min(values)), float(max(values))
    if low == high:
        low, high = low / 2, high * 2
    return Curves(tuple(names), tuple(sweep for _one, sweep in found), low, high, width)


def runs(made: Curves) -> list[Run]:
    """Stretches of one verdict; between two points the border is in the middle, as the axis shows it."""
    found = []
    for row, sweep in enumerate(made.sweeps):
        points = list(sweep.points)
        xs = [made.x(point.value) for point in points]
        borders = [0.0, *((a + b) / 2 for a, b in pairwise(xs)), float(made.width)]
        cells = list(zip(points, borders, borders[1:], strict=False))
        for (bound, fits), members in groupby(cells, key=lambda cell: (cell[0].bound, cell[0].fits)):
            run = list(members)
            found.append(Run(row, run[0][1], run[-1][2], bound, fits))
    return found


def ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Round values on a logarithmic axis: 1, 2, 5, 10, … or only powers of ten, of a thousand."""
    tenths = tuple(step / 10 for step in range(10, 100))
    fifths = (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9)
    for steps, decades in (
        (tenths, 1),
        (fifths, 1),
        ((1, 1.5, 2, 3, 5, 7), 1),
        ((1, 2, 5), 1),
        ((1, 3), 1),
        ((1,), 1),
        ((1,), 2),
        ((1,), 3),
    ):
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1, decades)
        values = [float(f"{step * 10.0**power:.3g}") for power in powers for step in steps]
        found = [value for value in values if low * 0.999 <= value <= high * 1.001]
        if len(found) <= most:
            return found
    return [low, high]


def doublings(low: float, high: float, most: int = 9) -> list[int]:
    """Powers of two between, each, or every second, …"""
    powers = range(math.ceil(math.log2(low)), math.floor(math.log2(high)) + 1)
    step = max(1, math.ceil(len(powers) / most))
    return [2**power for power in powers if power % step == 0 and power >= 0]


def _curves(alt: Any, made: Curves, field: str, name: str, scale: float) -> Any:
    values = [scale * getattr(point, field) for sweep in made.sweeps for point in sweep.points]
    low, high = min(values) / 1.15, max(values) * 1.15
    x = alt.X(
        "x:Q",
        scale=alt.Scale(type="log", domain=[made.low, made.high], nice=False),
        axis=alt.Axis(
            title=_axis(made.sweeps[0].parameter),
            values=doublings(made.low, made.high, int(made.width / (text_width(f"{made.high:,.0f}", 11) + 14))),
            format=",d",
            labelFlush=False,
            labelOverlap=False,
        ),
    )
    y = alt.Y(
        "y:Q",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(title=name, values=ticks(low, high), format=",~r", grid=True, gridColor="#EEEEEE"),
    )
    tooltip = [
        alt.Tooltip("name:N", title=" "),
        alt.Tooltip("x:Q", title=parameter_word(made.sweeps[0].parameter), format=",d"),
        alt.Tooltip("y:Q", title=name, format=",.3~r"),
        alt.Tooltip("bound:N", title=_("bound")),
    ]
    layers = []
    for i, (one, sweep) in enumerate(zip(made.names, made.sweeps, strict=True)):
        for points, look in _parts(_drawn(sweep.points)):
            rows = [
                {
                    "name": one,
                    "x": point.value,
                    "y": scale * getattr(point, field),
                    "bound": bound_word(point.bound),
                }
                for point in points
            ]
            hue = CURVES[i % len(CURVES)]
            mark = {"point": {"size": 22, "filled": True, "color": hue}} if len(sweep.points) <= _MARKED else {}
            line = alt.Chart(alt.Data(values=rows)).mark_line(color=hue, strokeWidth=2, **mark, **look)
            layers.append(line.encode(x=x, y=y, tooltip=tooltip))
    if len(made.sweeps) > 1:
        ends = [scale * getattr(sweep.points[-1], field) for sweep in made.sweeps]
        layers += _numbers(alt, made, [_HEIGHT * (1 - math.log(end / low) / math.log(high / low)) for end in ends])
    return alt.layer(*layers).properties(width=made.width, height=_HEIGHT)


def _axis(parameter: str) -> str:
    """What is swept, and in what it is counted."""
    return {
        "batch": _("batch in sequences (log scale)"),
        "context": _("context in cached tokens of each sequence (log scale)"),
        "prompt": _("prompt in tokens (log scale)"),
    }[parameter]


def spread(wanted: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Places near the wanted ones, in their order, at least so far apart (or as far as there is room)."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    apart = min(apart, (high - low) / max(1, len(wanted) - 1))
    places = list(wanted)
    at = low - apart
    for i in order:
        at = places[i] = max(wanted[i], at + apart)
    at = high + apart
    for i in reversed(order):
        at = places[i] = min(places[i], at - apart)
    return places


def _numbers(alt: Any, made: Curves, ends: Sequence[float]) -> list[Any]:
    """The number of each curve where it ends, with a line to it."""
    places = spread(ends, _LINE, 4, _HEIGHT - 4)
    rows = [
        {
            "x": min(made.width, made.x(sweep.points[-1].value)) + 4,
            "x2": made.width + 11,
            "y": end,
            "y2": place,
            "at": made.width + 14,
            "text": str(i + 1),
            "colour": CURVES[i % len(CURVES)],
        }
        for i, (sweep, end, place) in enumerate(zip(made.sweeps, ends, places, strict=True))
    ]
    data = alt.Chart(alt.Data(values=rows))
    x, y = pixel(alt.X, "x:Q"), pixel(alt.Y, "y:Q")
    colour = alt.Color("colour:N", scale=None, legend=None)
    lines = data.mark_rule(strokeWidth=1).encode(x=x, x2="x2:Q", y=y, y2="y2:Q", color=colour)
    text = data.mark_text(align="left", baseline="middle", fontSize=_SIZE, color=INK)
    return [lines, text.encode(x=pixel(alt.X, "at:Q"), y=pixel(alt.Y, "y2:Q"), text="text:N")]


def _legend(alt: Any, made: Curves, width: int, title: Any) -> Any:
    """Names of the curves, in lines that are not longer than the picture is wide."""
    rows, at, line = [], 0.0, 0
    for i, name in enumerate(f"{i + 1}: {name}" for i, name in enumerate(made.names)):
        room = 24 + text_width(name, 12) + 18
        if at and at + room > width:
            at, line = 0.0, line + 1
        rows.append({"x": at, "x2": at + 18, "text": name, "y": 20 * line + 8, "colour": CURVES[i % len(CURVES)]})
        rows[-1]["at"] = at + 24
        at += room
    data = alt.Chart(alt.Data(values=rows))
    y = pixel(alt.Y, "y:Q")
    lines = data.mark_rule(strokeWidth=3).encode(
        x=pixel(alt.X, "x:Q"), x2="x2:Q", y=y, color=alt.Color("colour:N", scale=None, legend=None)
    )
    names = data.mark_text(align="left", baseline="middle", fontSize=12, color=INK)
    chart = alt.layer(lines, names.encode(x=pixel(alt.X, "at:Q"), y=y, text="text:N"))
    chart = chart.properties(width=width, height=20 * (line + 1) - 4)
    return chart if title is None else chart.properties(title=title)


def _drawn(points: Sequence[SweepPoint]) -> list[SweepPoint]:
    """Points enough for a smooth curve, both sides of where memory ends among them."""
    kept = thinned([point.value for point in points], _DRAWN)
    kept |= {at for i, (a, b) in enumerate(pairwise(points)) if a.fits != b.fits for at in (i, i + 1)}
    return [points[i] for i in sorted(kept)]


def _parts(points: Sequence[SweepPoint]) -> list[tuple[list[SweepPoint], dict[str, Any]]]:
    """What memory holds, and what it does not, dashed."""
    held = [point for point in points if point.fits]
    beyond = [*held[-1:], *(point for point in points if not point.fits)]
    parts: list[tuple[list[SweepPoint], dict[str, Any]]] = [(held, {})] if held else []
    if len(beyond) > 1 or not held:
        parts.append((beyond, {"strokeDash": [5, 4]}))
    return parts


def _strips(alt: Any, made: Curves) -> Any:
    """A row per deployment: what bounds it along the parameter; pale where memory does not hold it."""
    found = runs(made)
    rows = [
        {
            "x": run.left,
            "x2": run.right,
            "y": run.row * (_STRIP + _GAP),
            "y2": run.row * (_STRIP + _GAP) + _STRIP,
            "bound": bound_word(run.bound),
            "colour": VERDICTS[run.bound],
            "opacity": 0.5 if run.fits else 0.18,
        }
        for run in found
    ]
    x, y = pixel(alt.X, "x:Q"), pixel(alt.Y, "y:Q")
    colour = alt.Color("colour:N", scale=None, legend=None)
    bars = alt.Chart(alt.Data(values=rows)).mark_rect(stroke="white", strokeWidth=1)
    opacity = alt.Opacity("opacity:Q", scale=None, legend=None)
    layers = [bars.encode(x=x, y=y, x2="x2:Q", y2="y2:Q", color=colour, opacity=opacity)]
    if len(made.names) > 1:
        numbers = [{"x": -6, "y": i * (_STRIP + _GAP) + _STRIP / 2, "text": str(i + 1)} for i in range(len(made.names))]
        text = alt.Chart(alt.Data(values=numbers)).mark_text(align="right", baseline="middle", fontSize=_SIZE)
        layers.append(text.encode(x=x, y=y, text="text:N", color=alt.value(INK)))
    words = [
        {"x": (run.left + run.right) / 2, "y": run.row * (_STRIP + _GAP) + _STRIP / 2, "text": text}
        for run in found
        if (text := _run_text(run)) and run.right - run.left > text_width(text, _SIZE) + 6
    ]
    if words:
        text = alt.Chart(alt.Data(values=words)).mark_text(align="center", baseline="middle", fontSize=_SIZE, color=INK)
        layers.append(text.encode(x=x, y=y, text="text:N"))
    height = len(made.names) * (_STRIP + _GAP) - _GAP
    return alt.layer(*layers).properties(width=made.width, height=height)


def _run_text(run: Run) -> str:
    bound = bound_word(run.bound)
    if run.fits:
        return bound
    longer = _("{bound}, does not fit").format(bound=bound)
    return longer if run.right - run.left > text_width(longer, _SIZE) + 6 else bound

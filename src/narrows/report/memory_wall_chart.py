"""The memory wall: ridge points of accelerators over the years they came out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from narrows.report import charts
from narrows.report.charts import BLUE, GREEN, INK, VERMILLION
from narrows.report.i18n import _
from narrows.report.labels import Label, Spot, arrange
from narrows.report.roofline_axes import leaders, texts
from narrows.report.roofline_words import bound_word, least
from narrows.report.sweep_chart import ticks
from narrows.roofline.memory_wall import Generation
from narrows.units import bandwidth, count, rate

HEIGHT, RADIUS = 300, 6.0
_VENDORS = ((GREEN, "circle"), (VERMILLION, "square"), (BLUE, "triangle-up"), (INK, "diamond"))


class Wall(msgspec.Struct, frozen=True):
    """Devices and where their labels stand; spans: of the years, and of the ridge points in FLOP/B."""

    devices: tuple[Generation, ...]
    years: tuple[float, float]
    ridges: tuple[float, float]
    spots: tuple[Spot, ...]
    labels: tuple[Label, ...]


def wall_layout(devices: Sequence[Generation], width: int) -> Wall:
    """Lay out: devices that one spot shows together have one label."""
    years = min(one.year for one in devices) - 0.8, max(one.year for one in devices) + 0.8
    ridges = min(one.ridge for one in devices) / 1.35, max(one.ridge for one in devices) * 1.35
    groups: dict[tuple[int, float], list[Generation]] = {}
    for one in devices:
        groups.setdefault((one.year, round(one.ridge, 1)), []).append(one)
    spots = []
    for (year, ridge), members in groups.items():
        x = width * (year - years[0]) / (years[1] - years[0])
        y = HEIGHT * (1 - math.log(ridge / ridges[0]) / math.log(ridges[1] / ridges[0]))
        names = ", ".join(dict.fromkeys(_short(one.name) for one in members))
        spots.append(Spot(f"{names}: {least(ridge)}", x, y, RADIUS))
    found = arrange(width, HEIGHT, spots, [], [], lambda _box: False)
    return Wall(tuple(devices), years, ridges, tuple(spots), tuple(found[i] for i in sorted(found)))


def _short(name: str) -> str:
    """`NVIDIA B200 (HGX/DGX)` → `B200`: neither vendor nor what stands in brackets."""
    return charts.label(name.split(" ", 1)[-1].split(" (", 1)[0], 30)


def wall_chart(devices: Sequence[Generation], width: int, title: Any = None) -> Any:
    """Ridge points over years, a label each. Returns an altair chart."""
    alt = charts.plotting()
    made = wall_layout(devices, width)
    whole = list(range(math.ceil(made.years[0]), math.floor(made.years[1]) + 1))
    x = alt.X(
        "year:Q",
        scale=alt.Scale(domain=list(made.years), nice=False, zero=False),
        axis=alt.Axis(title=_("year"), values=whole, format="d"),
    )
    low, high = made.ridges
    y = alt.Y(
        "ridge:Q",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(
            title=_("ridge point in FLOP/B (log scale)"),
            values=ticks(low, high),
            format=",~r",
            grid=True,
            gridColor="#EEEEEE",
        ),
    )
    vendors = list(dict.fromkeys(one.name.split(" ", 1)[0] for one in devices))
    looks = [_VENDORS[min(i, len(_VENDORS) - 1)] for i in range(len(vendors))]
    legend = alt.Legend(title=None, orient="top", direction="horizontal")
    colour = alt.Color(
        "vendor:N", scale=alt.Scale(domain=vendors, range=[colour for colour, _ in looks]), legend=legend
    )
    shape = alt.Shape("vendor:N", scale=alt.Scale(domain=vendors, range=[shape for _, shape in looks]), legend=legend)
    rows = [
        {
            "year": one.year,
            "ridge": one.ridge,
            "vendor": one.name.split(" ", 1)[0],
            "name": charts.label(one.name),
            "peak": f"{rate(one.peak)} {one.precision}",
            "bandwidth": bandwidth(one.bandwidth),
            "batch": count(one.turning_batch) if one.turning_batch else _("never"),
            "bound": bound_word(one.decode_bound),
        }
        for one in made.devices
    ]
    tooltip = [
        alt.Tooltip("name:N", title=" "),
        alt.Tooltip("peak:N", title=_("peak")),
        alt.Tooltip("bandwidth:N", title=_("bandwidth")),
        alt.Tooltip("batch:N", title=_("compute-bound from batch")),
        alt.Tooltip("bound:N", title=_("decode")),
    ]
    marks = alt.Chart(alt.Data(values=rows)).mark_point(
        filled=True, size=(2 * RADIUS) ** 2, opacity=0.9, stroke="white", strokeWidth=1
    )
    layers = [
        marks.encode(x=x, y=y, color=colour, shape=shape, tooltip=tooltip),
        *leaders(alt, made.labels),
        *texts(alt, made.labels, INK),
    ]
    chart = alt.layer(*layers).properties(width=width, height=HEIGHT)
    return chart if title is None else chart.properties(title=title)

"""The picture of `fit`: per candidate, the ledger growing from idle to peak, against the engine's budget."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from narrows.answers.fit import Candidate, Fit, Moment
from narrows.report.charts import (
    BLUE,
    FAINT,
    GREEN,
    GREY,
    INK,
    MIST,
    ORANGE,
    PURPLE,
    VERMILLION,
    label,
    plotting,
    themed,
    wrapped,
)
from narrows.report.i18n import _
from narrows.report.words import word
from narrows.units import GIB, count, usd

# From the floor up: what is there from the start lies below, and the KV cache on top, so that its growth is the
# growth of the bar and what overshoots the budget is the KV cache.
TERMS = (
    ("others", FAINT),
    ("weights", BLUE),
    ("runtime", GREY),
    ("graphs", GREEN),
    ("activations", MIST),
    ("state", PURPLE),
    ("kv_cache", ORANGE),
)
_ON_DARK = ("others", "weights", "graphs")
_STEPS, _HEIGHT, _GUTTER = {1: 112, 2: 84}, 310, 104
"""Pixels: from bar to bar by how many panels there are (else `_STEP`), height of a panel, and room to the right of the
bars for what the lines mean."""
_STEP, _BETWEEN, _AXIS, _TITLE = 66, 18, 45, 17
"""Pixels: from bar to bar, between panels, for the y axis; and the size of the title's letters."""
_LINE, _HEAD = 13, 34
"""Pixels: height of a line of small text; room over the highest bar or line for two of them: text that left the panel
would push that panel's title up, out of line with its neighbours'."""
GREEN_INK, RED_INK = "#00694D", "#B03A00"
"""Green and vermillion of the palette, dark enough to read as text on white."""


def fit_chart(answer: Fit) -> Any:
    """A panel per candidate with four stacked bars in GiB per device, on one scale. Returns an altair chart.

    Raises BadInput where the extra `plot` is not installed.
    """
    alt = plotting()
    shown = [
        name for name, _colour in TERMS if any(getattr(m.terms, name) for c in answer.candidates for m in c.growth)
    ]
    largest = max(max(one.terms.usable, *(moment.used for moment in one.growth)) for one in answer.candidates)
    top = largest / GIB * _HEIGHT / (_HEIGHT - _HEAD)
    notes = max(len(_notes(one)) for one in answer.candidates)
    step = _STEPS.get(len(answer.candidates), _STEP)
    panels = [_panel(alt, one, shown, top, notes, step) for one in answer.candidates]
    columns = 2 if len(panels) == 4 else min(3, len(panels))
    wide = max(len(one.growth) for one in answer.candidates) * step + _GUTTER
    room = columns * (wide + _AXIS + _BETWEEN) - _BETWEEN
    title = alt.TitleParams(
        text=wrapped(_headline(answer, min(60, int(room / (0.62 * _TITLE)))), _TITLE, room),
        subtitle=_("memory of one device from idle to peak, in GiB"),
        lineHeight=_TITLE + 5,
    )
    chart = alt.concat(*panels, columns=columns, spacing={"row": 34, "column": _BETWEEN}, title=title)
    return themed(chart.resolve_scale(color="shared"))


def _headline(answer: Fit, longest: int) -> str:
    """What was asked, and where it fits; of one alone its own title says that."""
    fitting = sum(one.fits for one in answer.candidates)
    asked = _("{model}, {length} tokens per sequence")
    if len(answer.candidates) > 1:
        asked = _("{model}, {length} tokens per sequence: {n} of {all} fit")
    return asked.format(
        model=label(answer.model.name, longest),
        length=count(answer.model.length),
        n=fitting,
        all=len(answer.candidates),
    )


def _panel(alt: Any, one: Candidate, shown: list[str], top: float, notes: int, step: int) -> Any:
    limits = ((one.terms.usable - one.terms.unclaimed) / GIB, one.terms.usable / GIB)
    moments = [word(moment.name) for moment in one.growth]
    segments = [row for moment in one.growth for row in _segments(moment, shown)]
    x = alt.X(
        "moment:N",
        sort=moments,
        scale=alt.Scale(domain=moments, paddingInner=0.22, paddingOuter=0.11),
        axis=alt.Axis(title=None, labelAngle=0, labelOverlap=False, ticks=False, labelPadding=6, labelColor=INK),
    )
    scale = alt.Scale(domain=[0, top], nice=False, zero=True)
    colour = alt.Color(
        "term:N",
        scale=alt.Scale(domain=[word(name) for name in shown], range=[hue for name, hue in TERMS if name in shown]),
        sort=[word(name) for name in shown],
        legend=alt.Legend(title=None, orient="top", direction="horizontal", columns=len(shown), offset=14),
    )
    tooltip = [
        alt.Tooltip("moment:N", title=" "),
        alt.Tooltip("term:N", title="  "),
        alt.Tooltip("size:N", title="GiB"),
    ]
    bars = alt.Chart(alt.Data(values=segments)).mark_bar()
    y = alt.Y("bottom:Q", scale=scale, axis=alt.Axis(title=_("GiB per device"), tickCount=6))
    layers = [
        _band(alt, limits, scale),
        bars.encode(x=x, y=y, y2="top:Q", color=colour, tooltip=tooltip),
        *_figures(alt, segments, limits, x, scale, top),
        *_lines(alt, limits, scale, step * len(moments)),
        *_totals(alt, one, limits, x, scale, top),
    ]
    return alt.layer(*layers).properties(width=step * len(moments), height=_HEIGHT, title=_title(alt, one, notes, step))


def _segments(moment: Moment, shown: list[str]) -> list[dict[str, Any]]:
    rows, bottom = [], 0.0
    for name in shown:
        value = getattr(moment.terms, name) / GIB
        if value > 0:
            rows.append(
                {
                    "moment": word(moment.name),
                    "term": word(name),
                    "code": name,
                    "bottom": bottom,
                    "top": bottom + value,
                    "size": _figure(value),
                }
            )
            bottom += value
    return rows


def _figure(value: float) -> str:
    return f"{value:,.2f}" if value < 100 else f"{value:,.1f}"


def _band(alt: Any, limits: tuple[float, float], scale: Any) -> Any:
    """What lies outside the engine's utilization, shaded: bytes that exist and are not the engine's."""
    band = alt.Chart(alt.Data(values=[{"low": limits[0], "high": limits[1]}])).mark_rect(color=INK, opacity=0.09)
    return band.encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")


def _figures(
    alt: Any, segments: list[dict[str, Any]], limits: tuple[float, float], x: Any, scale: Any, top: float
) -> list[Any]:
    """Values inside the segments, where a line of text has room and no limit's line crosses it."""
    rows = []
    for row in segments:
        cuts = [row["bottom"], *(limit for limit in limits if row["bottom"] < limit < row["top"]), row["top"]]
        size, middle = max((high - low, (low + high) / 2) for low, high in pairwise(cuts))
        if size * _HEIGHT / top >= _LINE + 1:
            rows.append({**row, "middle": middle})
    layers = []
    for dark in (True, False):
        chosen = [row for row in rows if (row["code"] in _ON_DARK) == dark]
        if chosen:
            text = alt.Chart(alt.Data(values=chosen)).mark_text(fontSize=11, color="white" if dark else INK)
            layers.append(text.encode(x=x, y=alt.Y("middle:Q", scale=scale), text="size:N"))
    return layers


def _lines(alt: Any, limits: tuple[float, float], scale: Any, width: int) -> list[Any]:
    """The two limits, named to the right of the bars: usable above its line, the budget below its own."""
    layers = []
    for value, name, usable in ((limits[1], word("usable"), True), (limits[0], _("engine's budget"), False)):
        data = alt.Data(values=[{"at": value, "name": [name, f"{_figure(value)} GiB"]}])
        y = alt.Y("at:Q", scale=scale)
        rule = {"strokeWidth": 1.2, "strokeDash": [4, 3]} if usable else {"strokeWidth": 2.2}
        layers.append(alt.Chart(data).mark_rule(color=INK, **rule).encode(y=y))
        place = {"baseline": "bottom", "dy": -_LINE} if usable else {"baseline": "top", "dy": 1}
        look = {"color": FAINT} if usable else {"color": INK, "fontWeight": "bold"}
        text = alt.Chart(data).mark_text(align="left", dx=6, fontSize=11, lineHeight=_LINE, **place, **look)
        layers.append(text.encode(x=alt.value(width), y=y, text="name:N"))
    return layers


def _totals(alt: Any, one: Candidate, limits: tuple[float, float], x: Any, scale: Any, top: float) -> list[Any]:
    """The sum over each bar; where it is over the budget, by how much, and that part outlined."""
    budget = limits[0]
    fitting: list[dict[str, Any]] = []
    over: list[dict[str, Any]] = []
    for moment in one.growth:
        used = moment.used / GIB
        excess = [_("{size} over").format(size=f"+{_figure(used - budget)}")] if used > budget else []
        text = [_figure(used), *excess]
        # a figure that moved above a limit's line would read as one that exceeds it
        at = _clear(used, len(text), limits, top) if excess else used + 3 * top / _HEIGHT
        row = {"moment": word(moment.name), "used": used, "budget": budget, "at": at, "text": text}
        (over if excess else fitting).append(row)
    layers = []
    if over:
        frame = alt.Chart(alt.Data(values=over)).mark_bar(filled=False, stroke=VERMILLION, strokeWidth=3)
        layers.append(frame.encode(x=x, y=alt.Y("budget:Q", scale=scale), y2="used:Q"))
    for rows, lines, colour in ((over, 2, RED_INK), (fitting, 1, INK)):
        if rows:
            mark = {"fontSize": 11, "lineHeight": _LINE, "fontWeight": "bold", "color": colour}
            mark |= {"baseline": "bottom", "dy": -(lines - 1) * _LINE}  # the first of the lines stands at `at`
            for halo in ({"stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}, {}):
                texts = alt.Chart(alt.Data(values=rows)).mark_text(**mark, **halo)
                layers.append(texts.encode(x=x, y=alt.Y("at:Q", scale=scale), text="text:N"))
    return layers


def _clear(value: float, lines: int, limits: tuple[float, float], top: float) -> float:
    """Where text of so many lines over a bar stands so that no limit's line runs through it, in GiB."""
    pixel = top / _HEIGHT
    foot = value + 3 * pixel
    for limit in limits:  # from the lower to the higher
        if foot - 2 * pixel < limit < foot + (lines * _LINE + 1) * pixel:
            foot = limit + 3 * pixel
    return foot


def _notes(one: Candidate) -> list[str]:
    price = [_("{price} per hour").format(price=usd(one.usd_per_hour))] if one.usd_per_hour is not None else []
    price += [label(one.instance, 36)] if one.instance else []
    lines = [" · ".join(price)] if price else []
    if one.mend is not None:
        lines.append(_("fits with {change}").format(change=one.mend.change))
    return lines


def _title(alt: Any, one: Candidate, notes: int, step: int) -> Any:
    name = label(one.gpu_name.split(" ", 1)[-1], 38)  # without the vendor
    lines = _notes(one)
    return alt.TitleParams(
        text=[name if one.count == 1 else f"{one.count} × {name}", _verdict(one)],
        subtitle=[*lines, *[" "] * (notes - len(lines))],  # as many lines everywhere, so that the panels align
        color=GREEN_INK if one.fits else RED_INK,
        fontSize=14,
        lineHeight=18,
        subtitleFontSize=12,
        offset=12,
        limit=step * len(one.growth) + _GUTTER,
    )


def _verdict(one: Candidate) -> str:
    figures = {"batch": count(one.batch), "length": count(one.length), "most": count(one.max_batch)}
    if one.fits and one.batch == one.max_batch:
        return _("fits: at most {most} × {length} tokens").format(**figures)
    if one.fits:
        return _("fits: {batch} × {length} tokens; at most {most}").format(**figures)
    if one.verdict == "this load does not fit":
        return _("{batch} × {length} tokens do not fit; at most {most}").format(**figures)
    return word(one.verdict)

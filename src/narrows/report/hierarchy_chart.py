"""One operator at every level of the memory hierarchy: how long each level takes at least, as bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from narrows.answers.roofline.types import Hierarchy
from narrows.report import charts
from narrows.report.charts import BLUE, FAINT, GREEN, INK, MIST, VERMILLION, text_width
from narrows.report.i18n import _
from narrows.report.roofline_axes import pixel
from narrows.report.roofline_extras import level_word
from narrows.report.roofline_words import phase_word
from narrows.report.words import word
from narrows.roofline.hierarchy import Level
from narrows.units import bandwidth, decimal, seconds

COLOURS = {"device memory": BLUE, "L2": MIST, "on-chip": GREEN, "arithmetic": VERMILLION}
_ROW, _BAR, _SIZE, _LEAST = 26, 16, 12, 2
"""Pixels from bar to bar, height of a bar, font size, and length of what takes next to nothing."""


def hierarchy_title(shown: Sequence[Hierarchy]) -> str:
    """The narrowest level of each phase."""
    found = ", ".join(
        _("{phase}: {level}").format(phase=phase_word(one.phase), level=level_word(one.narrowest)) for one in shown
    )
    return _("{operator}: the level that takes longest ({levels})").format(operator=shown[0].operator, levels=found)


def hierarchy_chart(shown: Sequence[Hierarchy], width: int, title: Any = None) -> Any:
    """A bar per level of each phase, its least time; the narrowest bold, assumed ones pale. Returns an altair chart."""
    alt = charts.plotting()
    every = [level for one in shown for level in one.levels]
    left = 12 + max(text_width(level_word(level.name), _SIZE) for level in every)
    room = width - left - 12 - 1.08 * max(text_width(_note(level), _SIZE) for level in every)
    bars, names, notes = [], [], []
    at = 0
    for one in shown:
        longest = max(level.time or 0.0 for level in one.levels)
        text = charts.label(f"{phase_word(one.phase)}: {one.shape}", 100)
        names.append({"x": 0, "y": at + _BAR / 2, "text": text, "kind": "heading"})
        for level in one.levels:
            at += _ROW
            kind = "narrow" if level.name == one.narrowest else "plain"
            names.append({"x": left - 8, "y": at + _BAR / 2, "text": level_word(level.name), "kind": kind})
            length = max(_LEAST, room * level.time / longest) if level.time is not None and longest else 0
            notes.append({"x": left + length + 6, "y": at + _BAR / 2, "text": _note(level), "kind": kind})
            if length:
                bars.append(
                    {
                        "x": left,
                        "x2": left + length,
                        "y": at,
                        "y2": at + _BAR,
                        "colour": COLOURS[level.name],
                        "opacity": 0.5 if level.kind == "assumed" else 1.0,
                        "text": _note(level),
                    }
                )
        at += _ROW
    x, y = pixel(alt.X, "x:Q"), pixel(alt.Y, "y:Q")
    drawn = (
        alt.Chart(alt.Data(values=bars))
        .mark_rect()
        .encode(
            x=x,
            x2="x2:Q",
            y=y,
            y2="y2:Q",
            color=alt.Color("colour:N", scale=None, legend=None),
            opacity=alt.Opacity("opacity:Q", scale=None, legend=None),
            tooltip=[alt.Tooltip("text:N", title=" ")],
        )
    )
    layers = [drawn]
    looks: dict[str, dict[str, Any]] = {
        "heading": {"align": "left", "fontWeight": "bold", "color": INK},
        "narrow": {"align": "right", "fontWeight": "bold", "color": INK},
        "plain": {"align": "right", "color": INK},
    }
    for kind, look in looks.items():
        for rows, more in ((names, {}), (notes, {"align": "left", **({"color": FAINT} if kind == "plain" else {})})):
            chosen = [row for row in rows if row["kind"] == kind]
            if chosen:
                mark = alt.Chart(alt.Data(values=chosen)).mark_text(
                    **{"baseline": "middle", "fontSize": _SIZE, **look, **more}
                )
                layers.append(mark.encode(x=x, y=y, text="text:N"))
    chart = alt.layer(*layers).properties(width=width, height=at - (_ROW - _BAR))
    return chart if title is None else chart.properties(title=title)


def _note(level: Level) -> str:
    """Time, traffic and bandwidth of a level; where no bandwidth is known, the one from which it is not in the way."""
    if level.time is None:
        if level.needed is None:
            return "–"
        return _("{traffic}; not in the way from {bandwidth} on").format(
            traffic=decimal(level.bytes), bandwidth=bandwidth(level.needed)
        )
    if level.bandwidth is None or not level.bytes:
        return seconds(level.time)
    return _("{time}: {traffic} at {bandwidth}, {kind}").format(
        time=seconds(level.time),
        traffic=decimal(level.bytes),
        bandwidth=bandwidth(level.bandwidth),
        kind=word(level.kind),
    )

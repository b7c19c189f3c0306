"""Bars of where the time of both phases goes, per deployment: arithmetic, what is moved, interconnect, overhead."""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.answers.roofline.types import Bounds, Phase, Roofline, Spending
from narrows.report import charts
from narrows.report.charts import BLUE, FAINT, GREEN, GREY, INK, MIST, ORANGE, PURPLE, VERMILLION, text_width
from narrows.report.i18n import _
from narrows.report.roofline_axes import pixel
from narrows.report.roofline_words import SMALL, SPENT, phase_word, short, spent_word
from narrows.units import count, seconds

COLOURS: dict[Spending, str] = {
    "weights": BLUE,
    "kv_cache": ORANGE,
    "state": GREEN,
    "activations": MIST,
    "compute": VERMILLION,
    "interconnect": PURPLE,
    "overhead": GREY,
}
_ON_DARK = ("weights", "compute")
_ROW, _BAR, _SIZE = 28, 20, 12
"""Pixels: from bar to bar, height of a bar, and font size."""


class Row(msgspec.Struct, frozen=True):
    """A bar, or the heading over the bars of a phase."""

    text: str
    phase: Phase | None = None


def spending_rows(answer: Roofline) -> list[Row]:
    """The bars of each phase, under a heading where several deployments are compared."""
    candidates = answer.candidates
    headings = {
        "prefill": _("prefill, {prompt} tokens").format(prompt=count(answer.prompt)),
        "decode": _("decode, {batch} × {context}").format(batch=count(answer.batch), context=count(answer.context)),
    }
    if len(candidates) == 1:
        return [Row(headings[phase.name], phase) for phase in reversed(candidates[0].shown)]
    rows = []
    for name, heading in headings.items():
        if name == "decode" and not answer.generates:
            continue
        rows.append(Row(heading))
        rows += [Row(short(one), getattr(one.phases, name)) for one in candidates]
    return rows


def spending_chart(answer: Roofline, width: int, title: Any = None) -> Any:
    """A bar per phase and deployment: percent of its time by cause, and the time. Returns an altair chart."""
    alt = charts.plotting()
    rows = spending_rows(answer)
    left = 12 + max(text_width(row.text, _SIZE) for row in rows if row.phase is not None)
    times = [_time(row.phase) for row in rows if row.phase is not None]
    room = width - left - 14 - 1.05 * max(text_width(text, _SIZE) for text in times)
    shown = [name for name in SPENT if any(one.spending[name] > 0 for one in _phases(answer.candidates))]
    # what nobody can see in any bar needs no name
    named = [
        spent_word(name)
        for name in shown
        if any(one.spending[name] >= SMALL * one.time.value for one in _phases(answer.candidates))
    ]
    segments = [
        segment
        for i, row in enumerate(rows)
        if row.phase is not None
        for segment in _segments(row.phase, row.text, shown, (left, room), _ROW * i)
    ]
    colour = alt.Color(
        "cause:N",
        scale=alt.Scale(domain=[spent_word(name) for name in shown], range=[COLOURS[name] for name in shown]),
        legend=alt.Legend(title=None, orient="top", direction="horizontal", columns=len(named), offset=8, values=named),
    )
    tooltip = [
        alt.Tooltip("row:N", title=" "),
        alt.Tooltip("cause:N", title="  "),
        alt.Tooltip("share:N", title=_("share")),
        alt.Tooltip("time:N", title=_("time")),
    ]
    x, y = pixel(alt.X, "x:Q"), pixel(alt.Y, "y:Q")
    bars = alt.Chart(alt.Data(values=segments)).mark_rect(stroke="white", strokeWidth=1)
    layers = [bars.encode(x=x, y=y, x2="x2:Q", y2="y2:Q", color=colour, tooltip=tooltip)]
    layers += _figures(alt, segments)
    names = [
        {"x": left - 8 if row.phase else 0, "y": _ROW * i + _BAR / 2, "text": row.text, "phase": row.phase is not None}
        for i, row in enumerate(rows)
    ]
    for bar in (True, False):
        chosen = [one for one in names if one["phase"] == bar]
        if chosen:
            look = {"align": "right"} if bar else {"align": "left", "fontWeight": "bold"}
            text = alt.Chart(alt.Data(values=chosen)).mark_text(baseline="middle", fontSize=_SIZE, color=INK, **look)
            layers.append(text.encode(x=x, y=y, text="text:N"))
    best = {id(phase) for phase in fastest(answer.candidates)}
    for first in (True, False):
        ends = [
            {"x": left + room + 8, "y": _ROW * i + _BAR / 2, "text": _time(row.phase)}
            for i, row in enumerate(rows)
            if row.phase is not None and (id(row.phase) in best) == first
        ]
        look = {"color": INK, "fontWeight": "bold"} if first else {"color": FAINT}
        if ends:
            text = alt.Chart(alt.Data(values=ends)).mark_text(align="left", baseline="middle", fontSize=_SIZE, **look)
            layers.append(text.encode(x=x, y=y, text="text:N"))
    chart = alt.layer(*layers).properties(width=width, height=_ROW * len(rows) - (_ROW - _BAR))
    return chart if title is None else chart.properties(title=title)


def _phases(candidates: tuple[Bounds, ...]) -> list[Phase]:
    return [phase for one in candidates for phase in one.shown]


def fastest(candidates: tuple[Bounds, ...]) -> list[Phase]:
    """Of several deployments, the prefill and the decode that take least."""
    if len(candidates) == 1:
        return []
    prefills, decodes = [one.phases.prefill for one in candidates], [one.phases.decode for one in candidates]
    return [min(phases, key=lambda one: one.time.value) for phases in (prefills, decodes)]


def spending_note(answer: Roofline) -> str:
    """What the bars of several deployments say together: who is fastest."""
    names = {id(phase): short(one) for one in answer.candidates for phase in (one.phases.prefill, one.phases.decode)}
    prefill, decode = fastest(answer.candidates)
    first, second = names[id(prefill)], names[id(decode)]
    if not answer.generates:
        text = _("Fastest: {name} (prefill {prefill_time})")
        return text.format(name=first, prefill_time=seconds(prefill.time.value))
    times = {"prefill_time": seconds(prefill.time.value), "decode_time": seconds(decode.time.value)}
    if first == second:
        return _("Fastest: {name} (prefill {prefill_time}, decode {decode_time})").format(name=first, **times)
    return _("Fastest: prefill on {prefill} ({prefill_time}), decode on {decode} ({decode_time})").format(
        prefill=first, decode=second, **times
    )


def _time(phase: Phase) -> str:
    time = phase.time
    return _("{time} ({low} to {high})").format(
        time=seconds(time.value), low=seconds(time.low or 0.0), high=seconds(time.high or 0.0)
    )


def _segments(
    phase: Phase, name: str, shown: list[Spending], span: tuple[float, float], top: float
) -> list[dict[str, Any]]:
    left, room = span
    rows, at = [], 0.0
    for cause in shown:
        share = phase.spending[cause] / phase.time.value
        if share > 0:
            rows.append(
                {
                    "row": f"{phase_word(phase.name)}: {name}",
                    "code": cause,
                    "cause": spent_word(cause),
                    "x": left + room * at,
                    "x2": left + room * (at + share),
                    "y": top,
                    "y2": top + _BAR,
                    "share": f"{100 * share:.0f} %",
                    "time": seconds(phase.spending[cause]),
                }
            )
        at += share
    return rows


def _holds(segment: dict[str, Any], text: str) -> bool:
    """Whether a text is the longest that a segment has room for."""
    room = segment["x2"] - segment["x"] - 6
    whole = f"{segment['cause']} {segment['share']}"
    return text_width(text, 11) < room and (text == whole or text_width(whole, 11) >= room)


def _figures(alt: Any, segments: list[dict[str, Any]]) -> list[Any]:
    """Inside the segments that have room: what it is and its percents, or the percents alone."""
    layers = []
    for dark in (True, False):
        rows = [
            {"x": (one["x"] + one["x2"]) / 2, "y": (one["y"] + one["y2"]) / 2, "text": text}
            for one in segments
            for text in [f"{one['cause']} {one['share']}", one["share"]]
            if (one["code"] in _ON_DARK) == dark and _holds(one, text)
        ]
        if rows:
            text = alt.Chart(alt.Data(values=rows)).mark_text(
                align="center", baseline="middle", fontSize=11, color="white" if dark else INK
            )
            layers.append(text.encode(x=pixel(alt.X, "x:Q"), y=pixel(alt.Y, "y:Q"), text="text:N"))
    return layers

"""The roofline as a picture: the roof of a device, its ridge point, and work as points on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from narrows.answers.explain.types import Explanation, RooflinePicture, RooflinePoint
from narrows.hardware import find_accelerator
from narrows.report.charts import BLUE, FAINT, INK, VERMILLION, label, plotting, themed
from narrows.report.i18n import _, say
from narrows.report.labels import Frame, Label, boxed, place
from narrows.report.roofline_axes import (
    BLUE_INK,
    RED_INK,
    Slope,
    along,
    axes,
    leaders,
    regions,
    roof_lines,
    slope_text,
    texts,
)
from narrows.report.words import word
from narrows.roofline import Roof, roof
from narrows.text import BadInput
from narrows.units import rate

_WIDTH, _HEIGHT = 820, 460
_OVERVIEW = ("matmul", "phases", "batching")
"""Topics whose work is drawn together: matrix products of one device, so that they compare."""


class Layout(msgspec.Struct, frozen=True):
    """All that is drawn, and where: roofs by precision (the points lie under the first), points, texts."""

    device: str
    frame: Frame
    roofs: dict[str, Roof]
    points: tuple[RooflinePoint, ...]
    labels: tuple[Label, ...]
    notes: tuple[Label, ...]
    slope: Slope


def roofline_chart(source: Explanation | RooflinePicture | None = None) -> Any:
    """The workloads of `explain` under the roof of their device, log-log. Returns an altair chart.

    source: one picture, or an answer of `explain` whose topic has one. None, or any other answer: the chapter's matrix
    products, prefill and decode together. Raises BadInput where the extra `plot` is not installed.
    """
    alt = plotting()
    made = layout(_pictures(source))
    frame, first = made.frame, next(iter(made.roofs.values()))
    title = _("{device}: below {ridge} FLOP/B memory bandwidth is the limit, above it compute").format(
        device=label(made.device), ridge=_figure(first.ridge)
    )
    x, y = axes(alt, frame, _("attainable TFLOP/s (log scale)"))
    layers = [
        *regions(alt, frame, x, first.ridge, first.ridge),
        *roof_lines(alt, frame, list(made.roofs.values()), x, y),
        *texts(alt, made.notes[:1], BLUE_INK, "bold"),
        *texts(alt, made.notes[1:2], RED_INK, "bold"),
        *texts(alt, made.notes[2:3], INK, "bold"),
        *texts(alt, made.notes[3:], FAINT),
        *slope_text(alt, made.slope),
        *leaders(alt, made.labels),
        *_points(alt, made, x, y),
        *texts(alt, made.labels, INK),
    ]
    return themed(alt.layer(*layers).properties(width=frame.width, height=frame.height, title=title))


def _pictures(source: Explanation | RooflinePicture | None) -> list[RooflinePicture]:
    if isinstance(source, RooflinePicture):
        return [source]
    found = {topic.id: topic.roofline for topic in source.topics if topic.roofline} if source else {}
    if len(found) == 1:
        return list(found.values())
    from narrows.answers.explain import explain

    return [one for name in _OVERVIEW for topic in explain(name).topics if (one := topic.roofline)]


def layout(pictures: Sequence[RooflinePicture]) -> Layout:
    """Lay out pictures of one device: coinciding points merged under one label, no text on another or on a line."""
    first = pictures[0]
    roofs = {first.precision: Roof(first.peak, first.bandwidth), **_higher(first)}
    groups = _merged([point for one in pictures for point in one.points])
    points = tuple(group[0] for group in groups)
    low = min(1.0, *(point.intensity for point in points)) / 2.2
    high = max(*(one.ridge for one in roofs.values()), *(point.intensity for point in points)) * 3.5
    peak = max(one.peak for one in roofs.values())
    frame = Frame(_WIDTH, _HEIGHT, (low, first.bandwidth * low), (high, peak * 3.2))
    notes = _notes(frame, roofs)
    slope, around = along(frame, roofs[first.precision], [frame.x(point.intensity) for point in points])
    names = [_joined([label(say(point.label)) for point in group]) for group in groups]
    named = [
        (
            _("{work}: {intensity}").format(work=text, intensity=_figure(point.intensity)),
            point.intensity,
            point.attainable,
        )
        for text, point in zip(names, points, strict=True)
    ]
    labels = place(frame, named, list(roofs.values()), [*(note.box for note in notes), *around])
    return Layout(first.device, frame, roofs, points, tuple(labels), tuple(notes), slope)


def _higher(picture: RooflinePicture) -> dict[str, Roof]:
    """The FP8 roof of the same device, where it has one that is higher: what cheaper FLOPs would give."""
    try:
        over = roof(find_accelerator(picture.device), "fp8")
    except BadInput:
        return {}
    return {"fp8": over} if over.peak > picture.peak else {}


def _merged(points: Sequence[RooflinePoint]) -> list[list[RooflinePoint]]:
    """Points in the order of intensity; those that a reader could not tell apart (to 0.1 %) together."""
    groups: list[list[RooflinePoint]] = []
    for point in sorted(points, key=lambda one: one.intensity):
        if groups and math.isclose(groups[-1][0].intensity, point.intensity, rel_tol=1e-3):
            groups[-1].append(point)
        else:
            groups.append([point])
    return groups


def _joined(names: list[str]) -> str:
    """The names of one spot; "decode" goes without saying beside "decode B = 1"."""
    kept = [
        name for name in dict.fromkeys(names) if not any(other != name and other.startswith(name) for other in names)
    ]
    return ", ".join(kept)


def _figure(intensity: float) -> str:
    return f"{intensity:,.1f}" if intensity < 100 else f"{intensity:,.0f}"


def _notes(frame: Frame, roofs: dict[str, Roof]) -> list[Label]:
    """The names of regions, of the ridge point and of the ceilings."""
    first = next(iter(roofs.values()))
    ridge = frame.x(first.ridge)
    notes = [
        boxed(word("memory bandwidth"), ridge / 2, 14, "center"),
        boxed(word("compute"), (ridge + frame.width) / 2, 14, "center"),
        boxed(_("ridge point {ridge} FLOP/B").format(ridge=_figure(first.ridge)), ridge + 7, frame.height - 14, "left"),
    ]
    for precision, one in roofs.items():
        text = _("{precision} peak {rate}").format(precision=precision.upper(), rate=rate(one.peak))
        notes.append(boxed(text, frame.width - 4, frame.y(one.peak) - 9, "right"))
    return notes


def _points(alt: Any, made: Layout, x: Any, y: Any) -> list[Any]:
    """The work, in the colour of what bounds it."""
    rows = [
        {"x": point.intensity, "y": point.attainable / 1e12, "bound": word(point.bound), "text": one.text}
        for point, one in zip(made.points, made.labels, strict=True)
    ]
    colour = alt.Color(
        "bound:N",
        scale=alt.Scale(domain=[word("memory bandwidth"), word("compute")], range=[BLUE, VERMILLION]),
        legend=None,
    )
    tooltip = [
        alt.Tooltip("text:N", title=" "),
        alt.Tooltip("y:Q", title="TFLOP/s", format=",.3~r"),
        alt.Tooltip("bound:N", title="  "),
    ]
    marks = alt.Chart(alt.Data(values=rows)).mark_point(size=70, filled=True, opacity=1, stroke="white", strokeWidth=1)
    return [marks.encode(x=x, y=y, color=colour, tooltip=tooltip)]

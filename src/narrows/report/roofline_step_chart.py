"""Both phases under the roofs of their device: every operator, and decode on its way as the batch grows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from narrows.answers.roofline.types import Bounds, OperatorRow, Ridge, SweepPoint
from narrows.report.charts import FAINT, GREEN, label
from narrows.report.i18n import _
from narrows.report.labels import Box, Frame, Label, Spot, arrange, boxed, crossed
from narrows.report.roofline_axes import (
    BLUE_INK,
    RED_INK,
    Slope,
    along_clear,
    axes,
    leaders,
    regions,
    roof_lines,
    slope_text,
    texts,
)
from narrows.report.roofline_words import bound_word, least, phase_word
from narrows.report.words import word
from narrows.roofline import Roof
from narrows.units import count, rate, seconds

WIDTH, HEIGHT = 860, 470
WINE = "#882255"
"""Of decode; beside the green of prefill it is also darker, and the marks differ in shape."""
PHASES = {"prefill": (GREEN, "circle", "#00694D"), "decode": (WINE, "diamond", WINE)}
"""Phase → colour and shape of its marks, and the colour of its texts."""
LABELLED, LEAST_SHARE, LINES = 7, 0.02, 4
"""Operators of a phase that are labelled at most; their share of its time at least; and lines of one label at most."""
FARTHEST = 80
"""A label that finds no place nearer than this is left out: its name is in the tooltip and the table."""


class Dot(NamedTuple):
    """An operator where it is drawn."""

    row: OperatorRow
    x: float
    y: float
    radius: float

    def near(self, other: Dot) -> bool:
        """Whether both make one spot to the eye."""
        return math.hypot(self.x - other.x, self.y - other.y) < max(9.0, self.radius, other.radius)


class Whole(msgspec.Struct, frozen=True):
    """A whole phase: a ring. batch: of decode."""

    phase: str
    intensity: float
    attained: float
    batch: int = 0
    fits: bool = True


class StepLayout(msgspec.Struct, frozen=True):
    """All that is drawn, and where. roofs: as they are used, that of most FLOPs first; notes: memory, compute, others.

    around: what the text along the slope covers; gaps: from the largest operator of each label up to its roof:
    intensity, reached, attainable.
    """

    frame: Frame
    roofs: dict[str, Roof]
    dots: tuple[Dot, ...]
    wholes: tuple[Whole, ...]
    labels: dict[str, tuple[Label, ...]]
    notes: tuple[Label, ...]
    slope: Slope
    around: tuple[Box, ...]
    gaps: tuple[tuple[float, float, float], ...]


def step_chart(one: Bounds, title: Any = None) -> Any:
    """Every operator of both phases under the roofs in use, log-log: FLOP/s reached over intensity.

    The area of a mark is the operator's share of its phase's time; rings are whole phases. Operators without FLOPs
    have no place here: their time is in the bars. Returns an altair chart; BadInput without the extra `plot`.
    """
    from narrows.report.charts import plotting

    alt = plotting()
    made = step_layout(one)
    frame, roofs = made.frame, list(made.roofs.values())
    ridges = sorted(roof.ridge for roof in roofs)
    x, y = axes(alt, frame, _("TFLOP/s reached (log scale)"))
    layers = [
        *regions(alt, frame, x, ridges[0], ridges[-1]),
        *_gaps(alt, made, x, y),
        *roof_lines(alt, frame, roofs, x, y, marked=len(roofs)),
        *texts(alt, made.notes[:1], BLUE_INK, "bold"),
        *texts(alt, made.notes[1:2], RED_INK, "bold"),
        *texts(alt, made.notes[2:], FAINT),
        *slope_text(alt, made.slope),
        *_path(alt, made, x, y),
        *(layer for found in made.labels.values() for layer in leaders(alt, found)),
        _marks(alt, made, x, y),
        *_rings(alt, made, x, y),
        *(layer for phase, found in made.labels.items() for layer in texts(alt, found, PHASES[phase][2])),
    ]
    chart = alt.layer(*layers).properties(width=frame.width, height=frame.height)
    return chart if title is None else chart.properties(title=title)


def step_layout(one: Bounds) -> StepLayout:
    """Lay out the picture of one deployment: no text on another, on a line or on a mark."""
    roofs = _roofs(one.ridges, one.precision)
    rows = sorted((row for row in one.operators if row.intensity > 0 and row.attained > 0), key=lambda row: -row.share)
    wholes = _wholes(one)
    frame = _frame(list(roofs.values()), [*rows, *wholes])
    dots = tuple(
        Dot(row, frame.x(row.intensity), frame.y(row.attained), math.sqrt(40 + 1500 * row.share) / 2) for row in rows
    )
    trail = _trail(frame, [whole for whole in wholes if whole.phase == "decode"])
    notes = _notes(frame, roofs)
    spots = [(frame.x(whole.intensity), frame.y(whole.attained)) for whole in wholes]
    marks = [*(Spot("", dot.x, dot.y, dot.radius).mark for dot in dots), *(Box(x, y, x, y).grown(5) for x, y in spots)]
    marks += [Box(x, y, x, y).grown(8) for x, y in _corners(frame, roofs.values())]
    first = next(iter(roofs.values()))
    slope, around = along_clear(frame, first, [*marks, *trail, *(note.box for note in notes)])
    groups = [(phase, group) for phase in PHASES for group in _groups([dot for dot in dots if dot.row.phase == phase])]
    gaps = tuple(gap for _phase, group in groups if (gap := _missing(roofs, group[0].row)))
    marks += [Box(frame.x(at), frame.y(high), frame.x(at), frame.y(low)).grown(1) for at, low, high in gaps]
    groups.sort(key=lambda pair: -sum(dot.row.share for dot in pair[1]))  # the largest chooses first
    wanted = [
        (whole.phase, Spot(text, x, y, 5))
        for whole, (x, y) in zip(wholes, spots, strict=True)
        if (text := _whole_text(one, whole, wholes))
    ]
    wanted.sort(key=lambda pair: len(pair[1].text), reverse=True)
    wanted += [(phase, _spot(group)) for phase, group in groups]
    taken = [*marks, *trail], [*(note.box for note in notes), *around]
    found = arrange(
        frame.width,
        frame.height,
        [spot for _phase, spot in wanted],
        *taken,
        lambda box: crossed(frame, box, list(roofs.values())),
        farthest=FARTHEST,
    )
    found |= _over_the_ridge(frame, roofs, [spot for _phase, spot in wanted], len(wanted) - len(groups), found, taken)
    labels = {phase: tuple(found[i] for i in sorted(found) if wanted[i][0] == phase) for phase in PHASES}
    return StepLayout(frame, roofs, dots, wholes, labels, tuple(notes), slope, tuple(around), gaps)


def _over_the_ridge(
    frame: Frame,
    roofs: dict[str, Roof],
    spots: Sequence[Spot],
    wholes: int,
    found: dict[int, Label],
    taken: tuple[list[Box], list[Box]],
) -> dict[int, Label]:
    """Whole phases that found no place: their names may stand on the thin line of the ridge point, not go unsaid."""
    missing = [i for i in range(wholes) if i not in found]
    marks, texts = taken
    texts = [*texts, *(label.box for label in found.values())]
    marks = [*marks, *(spot.mark for i, spot in enumerate(spots) if i not in missing)]
    placed = arrange(
        frame.width,
        frame.height,
        [spots[i] for i in missing],
        marks,
        texts,
        lambda box: crossed(frame, box, list(roofs.values()), ridge=False),
    )
    return {missing[i]: label for i, label in placed.items()}


def _roofs(ridges: Sequence[Ridge], first: str) -> dict[str, Roof]:
    """The roofs in use by precision, `first` in front; those that coincide under one name."""
    used = sorted((one for one in ridges if one.used), key=lambda one: (one.precision != first, -one.peak))
    names: dict[Roof, list[str]] = {}
    for one in used:
        names.setdefault(Roof(one.peak, one.bandwidth), []).append(one.precision)
    return {", ".join(precisions): roof for roof, precisions in names.items()}


def _wholes(one: Bounds) -> tuple[Whole, ...]:
    prefill = one.phases.prefill
    path: tuple[SweepPoint, ...] = one.path
    found = [Whole("decode", at.intensity, at.attained, at.value, at.fits) for at in path if at.intensity > 0]
    return (Whole("prefill", prefill.intensity, prefill.attained), *found)


def _frame(roofs: Sequence[Roof], points: Sequence[OperatorRow | Whole]) -> Frame:
    low = min(point.intensity for point in points) / 2.5
    high = max(*(4 * point.intensity for point in points), *(30 * roof.ridge for roof in roofs))
    bottom = min(point.attained for point in points) / 3
    return Frame(WIDTH, HEIGHT, (low, bottom), (high, 5 * max(roof.peak for roof in roofs)))


def _corners(frame: Frame, roofs: Any) -> list[tuple[float, float]]:
    return [(frame.x(roof.ridge), frame.y(roof.peak)) for roof in roofs]


def _trail(frame: Frame, wholes: Sequence[Whole]) -> list[Box]:
    """The path of decode as small boxes: text may not stand on it."""
    spots = [(frame.x(one.intensity), frame.y(one.attained)) for one in wholes]
    boxes = []
    for (x, y), (x2, y2) in pairwise(spots):
        steps = max(2, int(math.hypot(x2 - x, y2 - y) / 4))
        for i in range(steps + 1):
            at = x + (x2 - x) * i / steps, y + (y2 - y) * i / steps
            boxes.append(Box(*at, *at).grown(2))
    return boxes


def _notes(frame: Frame, roofs: dict[str, Roof]) -> list[Label]:
    """The names of the regions, of the ceilings at their right end, and of the ridge points at their left end."""
    ridges = sorted(frame.x(roof.ridge) for roof in roofs.values())
    notes = [
        boxed(word("memory bandwidth"), ridges[0] / 2, 14, "center"),
        boxed(word("compute"), (ridges[-1] + frame.width) / 2, 14, "center"),
    ]
    for precision, roof in roofs.items():
        peak = _("{precision} peak {rate}").format(precision=precision.upper(), rate=rate(roof.peak))
        ridge = _("ridge point {ridge} FLOP/B").format(ridge=least(roof.ridge))
        notes.append(boxed(peak, frame.width - 4, frame.y(roof.peak) - 9, "right"))
        notes.append(boxed(ridge, frame.x(roof.ridge) - 13, frame.y(roof.peak) - 4, "right"))
    return notes


def _groups(dots: Sequence[Dot]) -> list[list[Dot]]:
    """The largest shares of a phase, those on one spot together; the largest of each in front."""
    groups: list[list[Dot]] = []
    for dot in [dot for dot in dots if dot.row.share >= LEAST_SHARE][:LABELLED]:
        close = next((group for group in groups if any(dot.near(other) for other in group)), None)
        if close is None:
            groups.append([dot])
        else:
            close.append(dot)
    return groups


def _spot(group: Sequence[Dot]) -> Spot:
    """The names and shares of a group, as one label."""
    shown, rest = (group, []) if len(group) <= LINES else (group[: LINES - 1], group[LINES - 1 :])
    lines = [f"{label(dot.row.name, 28)} {100 * dot.row.share:.0f} %" for dot in shown]
    if rest:
        share = f"{100 * sum(dot.row.share for dot in rest):.0f}"
        lines.append(_("{n} more {share} %").format(n=len(rest), share=share))
    return Spot("\n".join(lines), group[0].x, group[0].y, group[0].radius)


def _whole_text(one: Bounds, whole: Whole, wholes: Sequence[Whole]) -> str:
    """Of prefill, and of decode at its ends, at the batch asked for and at the largest that memory holds."""
    if whole.phase == "prefill":
        return _("all of prefill: {rate}").format(rate=rate(whole.attained))
    batches = [other.batch for other in wholes if other.phase == "decode"]
    if whole.batch == one.phases.decode.sequences:
        return _("all of decode, B = {batch}: {rate}").format(batch=count(whole.batch), rate=rate(whole.attained))
    if whole.batch == one.max_batch:
        return _("B = {batch}, all that memory holds").format(batch=count(whole.batch))
    return f"B = {count(whole.batch)}" if whole.batch in (batches[0], batches[-1]) else ""


def _missing(roofs: dict[str, Roof], row: OperatorRow) -> tuple[float, float, float] | None:
    """From an operator straight up to its own roof: intensity, FLOP/s reached and attainable."""
    roof = next((roof for names, roof in roofs.items() if row.precision in names.split(", ")), None)
    if roof is None or roof.attainable(row.intensity) <= row.attained:
        return None
    return row.intensity, row.attained, roof.attainable(row.intensity)


def _gaps(alt: Any, made: StepLayout, x: Any, y: Any) -> list[Any]:
    if not made.gaps:
        return []
    rows = [{"x": at, "y": low / 1e12, "y2": high / 1e12} for at, low, high in made.gaps]
    rules = alt.Chart(alt.Data(values=rows)).mark_rule(color=FAINT, strokeWidth=1, strokeDash=[1, 2])
    return [rules.encode(x=x, y=y, y2="y2:Q")]


def _path(alt: Any, made: StepLayout, x: Any, y: Any) -> list[Any]:
    """Decode as its batch grows; dashed where memory does not hold the batch."""
    steps = [whole for whole in made.wholes if whole.phase == "decode"]
    held = [whole for whole in steps if whole.fits]
    beyond = [*held[-1:], *(whole for whole in steps if not whole.fits)]
    layers = []
    for part, look in ((held, {}), (beyond, {"strokeDash": [4, 4]})):
        if len(part) > 1:
            rows = [{"x": one.intensity, "y": one.attained / 1e12, "batch": one.batch} for one in part]
            line = alt.Chart(alt.Data(values=rows)).mark_line(color=WINE, strokeWidth=1.5, **look)
            layers.append(line.encode(x=x, y=y, order="batch:Q"))
    return layers


def _marks(alt: Any, made: StepLayout, x: Any, y: Any) -> Any:
    rows = [
        {
            "x": dot.row.intensity,
            "y": dot.row.attained / 1e12,
            "size": (2 * dot.radius) ** 2,
            "phase": phase_word(dot.row.phase),
            "name": label(dot.row.name),
            "shape": label(f"{dot.row.count} × {dot.row.shape} {dot.row.precision}"),
            "share": f"{100 * dot.row.share:.1f} %",
            "time": seconds(dot.row.time.value),
            "bound": bound_word(dot.row.bound),
        }
        for dot in made.dots
    ]
    present = [look for phase, look in PHASES.items() if any(whole.phase == phase for whole in made.wholes)]
    words = [phase_word(phase) for phase in PHASES if any(whole.phase == phase for whole in made.wholes)]
    legend = alt.Legend(title=None, orient="top", direction="horizontal", offset=10)
    colour = alt.Color(
        "phase:N", scale=alt.Scale(domain=words, range=[colour for colour, _, _ in present]), legend=legend
    )
    shape = alt.Shape("phase:N", scale=alt.Scale(domain=words, range=[shape for _, shape, _ in present]), legend=legend)
    tooltip = [
        alt.Tooltip("name:N", title=" "),
        alt.Tooltip("phase:N", title="  "),
        alt.Tooltip("shape:N", title="   "),
        alt.Tooltip("share:N", title=_("share")),
        alt.Tooltip("time:N", title=_("time")),
        alt.Tooltip("x:Q", title="FLOP/B", format=",.3~r"),
        alt.Tooltip("y:Q", title="TFLOP/s", format=",.3~r"),
        alt.Tooltip("bound:N", title=_("bound")),
    ]
    marks = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, opacity=0.85, stroke="white", strokeWidth=1)
    size = alt.Size("size:Q", scale=None, legend=None)
    return marks.encode(x=x, y=y, color=colour, shape=shape, size=size, tooltip=tooltip)


def _rings(alt: Any, made: StepLayout, x: Any, y: Any) -> list[Any]:
    """Whole phases."""
    layers = []
    for phase, (colour, shape, _ink) in PHASES.items():
        rows = [
            {
                "x": whole.intensity,
                "y": whole.attained / 1e12,
                "what": phase_word(phase) + (f", B = {count(whole.batch)}" if whole.batch else ""),
            }
            for whole in made.wholes
            if whole.phase == phase
        ]
        rings = alt.Chart(alt.Data(values=rows)).mark_point(
            shape=shape, filled=True, fill="white", stroke=colour, strokeWidth=1.8, size=60, opacity=1
        )
        tooltip = [alt.Tooltip("what:N", title=" "), alt.Tooltip("y:Q", title="TFLOP/s", format=",.3~r")]
        layers.append(rings.encode(x=x, y=y, tooltip=tooltip))
    return layers

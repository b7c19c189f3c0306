"""Where the labels of points under a roofline stand: next to their points, off the lines, clear of each other.

Everything is in pixels from the upper left corner of the plot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from narrows.report.charts import text_width
from narrows.roofline import Roof

SIZE, HEIGHT = 11.5, 15
"""Font size of a label, and the height it takes."""
_CLEAR = 9
"""From the middle of a point to its label."""


class Frame(msgspec.Struct, frozen=True):
    """The plot: its size, and what its logarithmic axes span (FLOP/B, FLOP/s)."""

    width: int
    height: int
    low: tuple[float, float]
    high: tuple[float, float]

    def x(self, intensity: float) -> float:
        """Pixel of an intensity."""
        return self.width * math.log(intensity / self.low[0]) / math.log(self.high[0] / self.low[0])

    def y(self, flops: float) -> float:
        """Pixel of a rate."""
        return self.height * (1 - math.log(flops / self.low[1]) / math.log(self.high[1] / self.low[1]))

    def roof(self, roof: Roof, x: float) -> float:
        """Pixel height of a roof over a pixel of the x axis."""
        return self.y(roof.attainable(self.low[0] * (self.high[0] / self.low[0]) ** (x / self.width)))


class Box(msgspec.Struct, frozen=True):
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether the two share area."""
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )

    def grown(self, margin: float) -> Box:
        """The same with room around it."""
        return Box(self.left - margin, self.top - margin, self.right + margin, self.bottom + margin)


class Label(msgspec.Struct, frozen=True):
    """A text and where it stands; `leader`: from the point to the text, where that is not next to it."""

    text: str
    box: Box
    align: Literal["left", "center", "right"]
    leader: tuple[float, float, float, float] | None = None

    @property
    def anchor(self) -> tuple[float, float]:
        """Where the text is put: the middle of its height, at the side it is aligned to."""
        x = {"left": self.box.left, "right": self.box.right, "center": (self.box.left + self.box.right) / 2}[self.align]
        return x, (self.box.top + self.box.bottom) / 2


def boxed(text: str, x: float, y: float, align: Literal["left", "center", "right"], size: float = SIZE) -> Label:
    """A label at (x, y), the middle of its height."""
    width = text_width(text, size)
    left = {"left": x, "right": x - width, "center": x - width / 2}[align]
    return Label(text, Box(left, y - HEIGHT / 2, left + width, y + HEIGHT / 2), align)


def place(
    frame: Frame, points: Sequence[tuple[str, float, float]], roofs: Sequence[Roof], taken: Iterable[Box]
) -> list[Label]:
    """A label for each (text, intensity, FLOP/s), in the order of the points.

    Each takes the nearest free place, work on the slope below it to the right or over it to the left. The middle of
    a crowd chooses last, since the others cannot pass it by.
    """
    spots = [(frame.x(intensity), frame.y(rate)) for _text, intensity, rate in points]
    marks = [Box(x, y, x, y).grown(6) for x, y in spots]
    corner = frame.x(roofs[0].ridge), frame.y(roofs[0].peak)
    marks.append(Box(*corner, *corner).grown(9))
    texts = list(taken)
    found: dict[int, Label] = {}
    for index in sorted(range(len(points)), key=lambda one: _crowd(spots, one)):
        text, x, y = points[index][0], *spots[index]
        # A leader leaves a crowd through the marks that its own point touches.
        passed = [*texts, *(mark for mark in marks if not mark.meets(marks[index]))]
        places = list(_places(text, x, y))
        open_places = [one for one in places if _free(frame, one, roofs, [*texts, *marks])]
        clear = [one for one in open_places if not any(step.meets(box) for step in _trail(one) for box in passed)]
        label = next(iter([*clear, *open_places, *places]))
        found[index] = label
        texts += [label.box, *_trail(label)]
    return [found[index] for index in range(len(points))]


def _crowd(spots: Sequence[tuple[float, float]], one: int) -> float:
    """Minus the distance to the nearest other point: lonely ones first."""
    x, y = spots[one]
    return -min((math.hypot(x - a, y - b) for i, (a, b) in enumerate(spots) if i != one), default=math.inf)


def _places(text: str, x: float, y: float) -> Iterator[Label]:
    yield boxed(text, x + _CLEAR, y + _CLEAR, "left")
    yield boxed(text, x - _CLEAR, y - _CLEAR, "right")
    yield boxed(text, x, y + _CLEAR + HEIGHT / 2, "center")
    yield boxed(text, x, y - _CLEAR - HEIGHT / 2, "center")
    for steps in range(1, 25):
        away = _CLEAR + 0.75 * steps * HEIGHT
        for side, align, dx in ((1, "left", 14), (-1, "right", -14), (1, "center", 0), (-1, "center", 0)):
            label = boxed(text, x + dx, y + side * (away + HEIGHT / 2), align)  # type: ignore[arg-type]
            end = label.box.top if side > 0 else label.box.bottom
            # The line ends under the text's near end, not beyond it.
            yield msgspec.structs.replace(label, leader=(x, y, x + dx * 1.2, end))


def _trail(label: Label) -> list[Box]:
    """A leader as small boxes, for what must not stand on it; its first pixels belong to the point."""
    if label.leader is None:
        return []
    x, y, x2, y2 = label.leader
    steps = [step / 12 for step in range(4, 12)]
    return [Box(x + (x2 - x) * t, y + (y2 - y) * t, x + (x2 - x) * t, y + (y2 - y) * t).grown(1) for t in steps]


def _free(frame: Frame, label: Label, roofs: Sequence[Roof], blocked: Sequence[Box]) -> bool:
    box = label.box
    inside = box.left >= 2 and box.right <= frame.width - 2 and box.top >= 2 and box.bottom <= frame.height - 2
    return inside and not any(box.meets(one) for one in blocked) and not _crossed(frame, box.grown(1.5), roofs)


def _crossed(frame: Frame, box: Box, roofs: Sequence[Roof]) -> bool:
    """Whether a roof, or the ridge line of the first, runs through the box. Roofs only rise, so their ends decide."""
    for roof in roofs:
        left, right = frame.roof(roof, box.left), frame.roof(roof, box.right)
        if right < box.bottom and left > box.top:
            return True
    ridge = frame.x(roofs[0].ridge)
    return box.left < ridge < box.right and box.bottom > frame.roof(roofs[0], ridge)

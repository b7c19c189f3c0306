"""Where the labels of points in a picture stand: next to their points, off the lines, clear of each other.

Everything is in pixels from the upper left corner of the plot.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import msgspec

from narrows.report.charts import text_width
from narrows.roofline import Roof

SIZE, HEIGHT = 11.5, 15
"""Font size of a label, and the height it takes."""
_CLEAR = 3
"""From the edge of a point's mark to its label."""
_THROUGH, _ACROSS = 40, 24
"""How many places further away a label is put before its leader runs through a mark, or across a line."""


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


class Spot(NamedTuple):
    """A point with a label: its text, one line or several; its middle; the radius of its mark."""

    text: str
    x: float
    y: float
    radius: float = 6.0

    @property
    def mark(self) -> Box:
        """The square that the mark covers."""
        return Box(self.x, self.y, self.x, self.y).grown(self.radius)


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

    @property
    def lines(self) -> list[tuple[float, float, str]]:
        """x and y of the middle of each line, and its text."""
        x = self.anchor[0]
        return [(x, self.box.top + HEIGHT * (i + 0.5), line) for i, line in enumerate(self.text.split("\n"))]


def boxed(text: str, x: float, y: float, align: Literal["left", "center", "right"], size: float = SIZE) -> Label:
    """A label at (x, y), the middle of its height."""
    lines = text.split("\n")
    width, half = max(text_width(line, size) for line in lines), len(lines) * HEIGHT / 2
    left = {"left": x, "right": x - width, "center": x - width / 2}[align]
    return Label(text, Box(left, y - half, left + width, y + half), align)


def place(
    frame: Frame, points: Sequence[tuple[str, float, float]], roofs: Sequence[Roof], taken: Iterable[Box]
) -> list[Label]:
    """A label for each (text, intensity, FLOP/s), in the order of the points.

    Each takes the nearest free place, work on the slope below it to the right or over it to the left. The middle of
    a crowd chooses last, since the others cannot pass it by.
    """
    spots = [Spot(text, frame.x(intensity), frame.y(rate)) for text, intensity, rate in points]
    corner = frame.x(roofs[0].ridge), frame.y(roofs[0].peak)
    marks = [Box(*corner, *corner).grown(9)]
    order = sorted(range(len(spots)), key=lambda one: _crowd(spots, one))
    found = arrange(frame.width, frame.height, spots, marks, taken, lambda box: crossed(frame, box, roofs), order)
    return [found.get(i, next(_places(spot))) for i, spot in enumerate(spots)]


def arrange(
    width: float,
    height: float,
    spots: Sequence[Spot],
    marks: Iterable[Box],
    taken: Iterable[Box],
    crossed: Callable[[Box], bool],
    order: Iterable[int] | None = None,
    farthest: float = math.inf,
) -> dict[int, Label]:
    """Labels by the index of their spots, each in the best free place; a spot whose label has none is left out.

    marks: of other things, which a label must not cover but a leader may cross; taken: what neither may; crossed:
    whether a line runs through a box; order: in which spots choose, by itself as they are given; farthest: how many
    places away a label may stand.
    """
    own = [spot.mark for spot in spots]
    everything = [*own, *marks]
    texts = list(taken)
    found: dict[int, Label] = {}
    for index in order or range(len(spots)):
        # A leader leaves a crowd through the marks that its own point touches.
        passed = [mark for mark in everything if not mark.meets(own[index])]
        best: tuple[int, Label] | None = None
        for far, label in enumerate(_places(spots[index])):
            if far >= (farthest if best is None else best[0]):
                break
            box, trail = label.box, _trail(label)
            if (
                _inside(box, width, height)
                and not any(box.meets(one) for one in (*texts, *everything))
                and not any(step.meets(one) for step in trail for one in texts)
                and not crossed(box.grown(1.5))
            ):
                through = any(step.meets(one) for step in trail for one in passed)
                cost = far + (_THROUGH if through else 0) + (_ACROSS if any(crossed(step) for step in trail) else 0)
                best = min(best, (cost, label), key=lambda pair: pair[0]) if best else (cost, label)
        if best is not None and best[0] <= farthest:
            found[index] = best[1]
            texts += [best[1].box, *_trail(best[1])]
    return found


def _crowd(spots: Sequence[Spot], one: int) -> float:
    """Minus the distance to the nearest other point: lonely ones first."""
    x, y = spots[one][1:3]
    return -min((math.hypot(x - other.x, y - other.y) for i, other in enumerate(spots) if i != one), default=math.inf)


def _places(spot: Spot) -> Iterator[Label]:
    text, x, y, radius = spot
    clear, half = radius + _CLEAR, HEIGHT * (1 + text.count("\n")) / 2
    low = y + clear + half - HEIGHT / 2
    yield boxed(text, x + clear, low, "left")
    yield boxed(text, x - clear, 2 * y - low, "right")
    yield boxed(text, x, y + clear + half, "center")
    yield boxed(text, x, y - clear - half, "center")
    yield boxed(text, x + clear, y, "left")
    yield boxed(text, x - clear, y, "right")
    for steps in range(1, 25):
        away = clear + 0.75 * steps * HEIGHT
        for side, align, dx in ((1, "left", 14), (-1, "right", -14), (1, "center", 0), (-1, "center", 0)):
            label = boxed(text, x + dx, y + side * (away + half), align)  # type: ignore[arg-type]
            end = label.box.top if side > 0 else label.box.bottom
            # The line ends under the text's near end, not beyond it.
            yield msgspec.structs.replace(label, leader=(x, y, x + dx * 1.2, end))
        for right, dy in ((1, 0.5), (1, -0.5), (-1, -0.5), (-1, 0.5)):
            at = x + right * (away + 6), y + dy * away
            label = boxed(text, *at, "left" if right > 0 else "right")
            yield msgspec.structs.replace(label, leader=(x, y, at[0] - right * 2, at[1]))


def _trail(label: Label) -> list[Box]:
    """A leader as small boxes, for what must not stand on it; its first pixels belong to the point."""
    if label.leader is None:
        return []
    x, y, x2, y2 = label.leader
    length = math.hypot(x2 - x, y2 - y)
    steps = [at / length for at in range(8, int(length), 3)]
    return [Box(x + (x2 - x) * t, y + (y2 - y) * t, x + (x2 - x) * t, y + (y2 - y) * t).grown(1) for t in steps]


def _inside(box: Box, width: float, height: float) -> bool:
    return box.left >= 2 and box.right <= width - 2 and box.top >= 2 and box.bottom <= height - 2


def crossed(frame: Frame, box: Box, roofs: Sequence[Roof], ridge: bool = True) -> bool:
    """Whether a roof, or (`ridge`) the ridge line of the first, runs through the box.

    Roofs only rise, so their ends decide.
    """
    for roof in roofs:
        left, right = frame.roof(roof, box.left), frame.roof(roof, box.right)
        if right < box.bottom and left > box.top:
            return True
    at = frame.x(roofs[0].ridge)
    return ridge and box.left < at < box.right and box.bottom > frame.roof(roofs[0], at)

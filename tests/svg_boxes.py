"""The texts of a drawn SVG as rectangles, so that a test can ask whether one stands on another or is cut."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

from narrows.report import charts

SVG = "{http://www.w3.org/2000/svg}"
TALL, DROP = 0.72, 0.05
"""Of the font size: height of letters over the baseline, and how far below it counts."""
TIGHT = 0.94
"""Share of the width that a label is laid out with which its letters surely cover."""

Matrix = tuple[float, float, float, float, float, float]


class Text(NamedTuple):
    """A line of text: its corners, the size of its letters."""

    text: str
    corners: tuple[tuple[float, float], ...]
    size: float

    @property
    def box(self) -> tuple[float, float, float, float]:
        """left, top, right, bottom of what it covers."""
        xs, ys = [x for x, _ in self.corners], [y for _, y in self.corners]
        return min(xs), min(ys), max(xs), max(ys)


def _times(a: Matrix, b: Matrix) -> Matrix:
    return (
        a[0] * b[0] + a[2] * b[1],
        a[1] * b[0] + a[3] * b[1],
        a[0] * b[2] + a[2] * b[3],
        a[1] * b[2] + a[3] * b[3],
        a[0] * b[4] + a[2] * b[5] + a[4],
        a[1] * b[4] + a[3] * b[5] + a[5],
    )


def _matrix(transform: str) -> Matrix:
    found: Matrix = (1, 0, 0, 1, 0, 0)
    for name, inside in re.findall(r"(\w+)\(([^)]*)\)", transform):
        values = [float(one) for one in re.split(r"[ ,]+", inside.strip())]
        if name == "translate":
            found = _times(found, (1, 0, 0, 1, values[0], values[1] if len(values) > 1 else 0))
        elif name == "rotate":
            turn = math.radians(values[0])
            found = _times(found, (math.cos(turn), math.sin(turn), -math.sin(turn), math.cos(turn), 0, 0))
        elif name == "scale":
            found = _times(found, (values[0], 0, 0, values[-1], 0, 0))
        else:
            raise AssertionError(transform)
    return found


def _at(matrix: Matrix, x: float, y: float) -> tuple[float, float]:
    return matrix[0] * x + matrix[2] * y + matrix[4], matrix[1] * x + matrix[3] * y + matrix[5]


def _pixels(value: str | None, default: float = 0.0) -> float:
    return float(value.removesuffix("px")) if value else default


def _lines(node: ET.Element, matrix: Matrix) -> Iterator[Text]:
    matrix = _times(matrix, _matrix(node.get("transform", "")))
    size = _pixels(node.get("font-size"), 11.0)
    weighty = "Hangul" not in node.get("font-family", "") and node.get("font-weight") in ("bold", "600", "700")
    bold = 1.04 if weighty else 1.0
    pieces, y = [], 0.0
    if node.text:
        pieces.append((node.text, 0.0, 0.0))
    for span in node.iter(f"{SVG}tspan"):
        y += _pixels(span.get("dy"))
        pieces.append((span.text or "", _pixels(span.get("x")), y))
    for text, x, down in pieces:
        width = TIGHT * bold * charts.text_width(text.strip(), size)
        left = x - {"middle": width / 2, "end": width}.get(node.get("text-anchor", "start"), 0.0)
        ends = [(left, down - TALL * size), (left + width, down - TALL * size)]
        ends += [(left + width, down + DROP * size), (left, down + DROP * size)]
        if text.strip():
            yield Text(text.strip(), tuple(_at(matrix, *end) for end in ends), size)


def texts(svg: str) -> list[Text]:
    """Every visible line of text of a drawing."""
    found: list[Text] = []

    def walk(node: ET.Element, matrix: Matrix) -> None:
        if node.get("opacity") == "0" or node.get("display") == "none" or node.get("visibility") == "hidden":
            return
        if node.tag == f"{SVG}text":
            found.extend(_lines(node, matrix))
            return
        inner = _times(matrix, _matrix(node.get("transform", "")))
        for child in node:
            walk(child, inner)

    walk(ET.fromstring(svg), (1, 0, 0, 1, 0, 0))
    return found


def _apart(one: Text, other: Text) -> bool:
    """Whether a line lies between the two: rectangles that are turned count as what they are."""
    for shape in (one.corners, other.corners):
        for (x, y), (x2, y2) in zip(shape, (*shape[1:], shape[0]), strict=True):
            across = (y - y2, x2 - x)
            a = [px * across[0] + py * across[1] for px, py in one.corners]
            b = [px * across[0] + py * across[1] for px, py in other.corners]
            if max(a) <= min(b) + 0.5 or max(b) <= min(a) + 0.5:
                return True
    return False


def faults(svg: str) -> list[str]:
    """What a reader would stumble over: a text on another, outside the drawing, cut short, or too small."""
    root = ET.fromstring(svg)
    width, height = _pixels(root.get("width")), _pixels(root.get("height"))
    every = texts(svg)
    found = []
    for one in every:
        left, top, right, bottom = one.box
        if left < 0 or top < 0 or right > width or bottom > height:
            found.append(f"outside: {one.text!r}")
        if one.size < 10.5:
            found.append(f"small: {one.text!r} {one.size}")
    for one, other in combinations(every, 2):
        # a halo is the same text in the same place
        same = one.text == other.text and math.dist(one.corners[0], other.corners[0]) < 0.5
        if not same and not _apart(one, other):
            found.append(f"overlap: {one.text!r} and {other.text!r}")
    return found


def drawn(chart: Any) -> str:
    """A chart as SVG."""
    return charts._svg(chart.to_dict()).decode()

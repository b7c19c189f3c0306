"""The roofline as a picture: the roof of a device, its ridge point, and work as points on it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from narrows.hardware import Accelerator, find_accelerator
from narrows.report.charts import BLUE, FAINT, INK, ORANGE, SKY, VERMILLION, label, plotting, themed
from narrows.report.i18n import _
from narrows.report.labels import Frame, Placed, corner, place
from narrows.report.words import word
from narrows.roofline import Bound, Roof, roof, turning_batch
from narrows.step import Matmul
from narrows.units import bandwidth, rate


class RooflinePoint(msgspec.Struct, frozen=True):
    """Work to show: intensity in FLOP/B, attainable FLOP/s under the first roof, and what bounds it."""

    label: str
    intensity: float
    attainable: float
    bound: Bound


def chapter_points(device: Accelerator, hidden: int = 4096) -> list[RooflinePoint]:
    """The chapter's matrix products: square ones, prefill and decode of one [hidden, hidden] projection, in 16 bits.

    The last decode batch is the first that is compute-bound on this device, where there is one.
    """
    over = roof(device)
    turn = turning_batch(hidden, over.ridge)
    work = [(_("matmul {n}").format(n=n), Matmul(n, n, n)) for n in (64, 512, 4096)]
    work += [(_("prefill {n}").format(n=n), Matmul(n, hidden, hidden)) for n in (64, 512, 4096)]
    work.append((_("decode"), Matmul(1, hidden, hidden)))
    for batch in (16, turn):
        if batch:
            work.append((_("decode, batch {n}").format(n=batch), Matmul(batch, hidden, hidden)))
    return [RooflinePoint(name, one.intensity, over.attainable(one.intensity), over.bound(one.intensity)) for name, one in work]


def chapter_chart(gpu: str = "l40s") -> Any:
    """The chapter's examples on the roofline of an accelerator: what `narrows explain --plot` draws."""
    device = find_accelerator(gpu)
    roofs = {"BF16": roof(device)} | ({"FP8": roof(device, "fp8")} if device.fp8 else {})
    return roofline_chart(chapter_points(device), device_name=device.name, roofs=roofs)


def roofline_chart(
    points: Sequence[RooflinePoint] | None = None,
    *,
    device_name: str = "",
    roofs: Mapping[str, Roof] | None = None,
) -> Any:
    """A log-log roofline. Returns an altair chart; without points, the chapter's.

    roofs: by precision, of one device; the first is the one that the points are held against, and the one whose
    ridge point is marked. Raises BadInput where the extra `plot` is not installed.
    """
    if points is None or not roofs:
        return chapter_chart()
    alt = plotting()
    first = next(iter(roofs.values()))
    frame = _frame(points, roofs)
    x = alt.X("x:Q", scale=alt.Scale(type="log", domain=list(frame.x), nice=False), axis=_axis(alt, frame.x, _X_TITLE()))
    y = alt.Y("y:Q", scale=alt.Scale(type="log", domain=list(frame.y), nice=False), axis=_axis(alt, frame.y, _Y_TITLE()))
    fixed = _fixed(frame, roofs)
    groups = _merged(points)
    named = [(f"{' = '.join(p.label for p in group)}: {_figure(group[0].intensity)}", group[0]) for group in groups]
    placed = place(frame, [(text, p.intensity, p.attainable / 1e12) for text, p in named], roofs_of(roofs), fixed)
    layers = [
        *_regions(alt, frame, first, x),
        *_roofs(alt, frame, roofs, x, y),
        *_texts(alt, fixed, FAINT),
        _leaders(alt, placed),
        _points(alt, groups, x, y),
        *_texts(alt, placed, INK),
    ]
    title = _("{device}: below {ridge} FLOP/B memory bandwidth is the limit, above it compute").format(
        device=label(device_name), ridge=_figure(first.ridge)
    )
    return themed(alt.layer(*layers).properties(width=frame.width, height=frame.height, title=title))

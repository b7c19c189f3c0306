"""The chart of `roofline`: both phases under the roof of their device."""

from __future__ import annotations

from typing import Any

from narrows.answers.explain.types import RooflinePicture, RooflinePoint
from narrows.answers.roofline.types import Roofline
from narrows.report.roofline_chart import roofline_chart
from narrows.roofline import Roof
from narrows.text import Text


def phases_chart(answer: Roofline) -> Any:
    """Prefill and decode under the roof, log-log. Returns an altair chart; BadInput without the extra `plot`."""
    top = next(one for one in answer.ridges if one.precision == answer.precision)
    roof = Roof(top.peak, top.bandwidth)
    labels = (
        (answer.phases.prefill, Text("prefill, {prompt} tokens", prompt=answer.prompt)),
        (answer.phases.decode, Text("decode, {batch} × {context}", batch=answer.batch, context=answer.context)),
    )
    points = tuple(
        RooflinePoint(text, one.intensity, roof.attainable(one.intensity), roof.bound(one.intensity))
        for one, text in labels
    )
    picture = RooflinePicture(answer.gpu_name, top.precision, top.peak, top.bandwidth, top.ridge, points)
    return roofline_chart(picture)

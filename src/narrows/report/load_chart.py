"""The picture of `load`: a waterfall of the stages from process start to the first answer, each with its interval."""

from __future__ import annotations

from typing import Any

from narrows.answers.load_types import Load, LoadStage
from narrows.report.charts import BLUE, FAINT, INK, ORANGE, label, plotting, text_width, themed, wrapped
from narrows.report.i18n import _
from narrows.report.load import stage_name
from narrows.units import bandwidth, decimal, seconds

_ROW, _WIDTH = 36, 660
"""Pixels: from bar to bar, and of the drawing."""
_SMALL, _TITLE = 11, 17
PALE = "#C4C4C4"
"""Of stages that move nothing: paler than the narrow one without colour too."""


def load_chart(answer: Load) -> Any:
    """Bars over time, one per stage in order; the narrow one stands out; what it says stands beside each bar.

    Blue bars move weights, grey ones do not, the orange one is the narrow stage. Returns an altair chart. Raises
    BadInput where the extra `plot` is not installed.
    """
    alt = plotting()
    names = [stage_name(one.name) for one in answer.stages]
    rows = [_row(one) for one in answer.stages]
    end = max(row["end"] for row in rows)
    top = end * 1.02
    for row in rows:
        # a figure stands behind its bar, or before it where the drawing would end inside it
        room = text_width(row["note"], _SMALL) + 12
        behind = row["end"] / top * _WIDTH + room <= _WIDTH
        row["before"] = not behind and row["begin"] / top * _WIDTH > room
    scale = alt.Scale(domain=[0, top], nice=False)
    y = alt.Y(
        "stage:N",
        sort=names,
        scale=alt.Scale(domain=names, paddingInner=0.45, paddingOuter=0.2),
        axis=alt.Axis(title=None, ticks=False, domain=False, labelColor=INK, labelFontSize=12, labelLimit=260),
    )
    x = alt.X(
        "begin:Q",
        scale=scale,
        axis=alt.Axis(title=_("seconds after process start"), tickCount=8, grid=True, labelFlush=False),
    )
    kinds = [_("moves weights"), _("moves none"), _("narrow stage")]
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=kinds, range=[BLUE, PALE, ORANGE]),
        sort=kinds,
        legend=alt.Legend(title=None, orient="top", direction="horizontal", offset=8),
    )
    tooltip = [alt.Tooltip("stage:N", title=" "), alt.Tooltip("note:N", title="  ")]
    data = alt.Data(values=rows)
    bars = alt.Chart(data).mark_bar(height=_ROW // 2).encode(x=x, x2="end:Q", y=y, color=colour, tooltip=tooltip)
    layers = [bars]
    for before in (False, True):
        chosen = [row for row in rows if row["before"] == before]
        if chosen:
            mark = {"align": "right", "dx": -6} if before else {"align": "left", "dx": 6}
            at = "begin:Q" if before else "end:Q"
            for narrow in (True, False):
                rows_of = [row for row in chosen if row["narrow"] == narrow]
                if rows_of:
                    look = {"fontSize": _SMALL, "color": INK, "baseline": "middle", **mark}
                    look |= {"fontWeight": "bold"} if narrow else {}
                    text = alt.Chart(alt.Data(values=rows_of)).mark_text(**look)
                    layers.append(text.encode(x=alt.X(at, scale=scale), y=y, text="note:N"))
    total = _("{model}: first answer after {total}; the narrow stage is: {stage}").format(
        model=label(answer.model.name, 60),
        total=seconds(answer.total.value),
        stage=stage_name(answer.narrow_stage),
    )
    title = alt.TitleParams(wrapped(total, _TITLE, _WIDTH + 100), subtitle=_subtitle(answer), lineHeight=_TITLE + 5)
    chart = alt.layer(*layers).properties(width=_WIDTH, height=_ROW * len(rows), title=title)
    return themed(chart).configure_axis(
        labelColor=FAINT, titleColor=FAINT, labelFontSize=11, titleFontSize=11, titleFontWeight="normal",
        grid=False, gridColor="#EEEEEE",
    )  # fmt: skip


def _subtitle(answer: Load) -> list[str]:
    low, high = answer.total.low or 0.0, answer.total.high or 0.0
    way = _("{size} from {storage} to {gpu}, loaded by {loader}").format(
        size=decimal(answer.bytes),
        storage=label(_(answer.storage_name), 50),
        gpu=label(answer.gpu_name if answer.ranks == 1 else f"{answer.ranks} × {answer.gpu_name}", 50),
        loader=_(answer.loader_name),
    )
    sure = _("80 % between {low} and {high}; behind each bar its own such interval").format(
        low=seconds(low), high=seconds(high)
    )
    return [*wrapped(way, 12, _WIDTH + 100), sure]


def _row(one: LoadStage) -> dict[str, Any]:
    kind = _("narrow stage") if one.narrow else _("moves none") if one.bytes is None else _("moves weights")
    low, high = one.time.low or 0.0, one.time.high or 0.0
    parts = [f"{seconds(one.time.value)} ({seconds(low)} … {seconds(high)})"]
    if one.bytes is not None and one.bandwidth is not None:
        parts.append(f"{decimal(one.bytes, 1)}, {bandwidth(one.bandwidth.value)}")
    return {
        "stage": stage_name(one.name),
        "begin": one.begins,
        "end": one.ends,
        "kind": kind,
        "narrow": one.narrow,
        "note": " · ".join(parts),
    }

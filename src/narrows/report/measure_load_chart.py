"""The picture of `measure load`: for each loader, measured beside predicted, with what 80 % of the runs took."""

from __future__ import annotations

from typing import Any

from narrows.answers.measure_load_types import LoadMeasured
from narrows.report.charts import BLUE, INK, ORANGE, plotting, themed
from narrows.report.i18n import _
from narrows.report.measure_load import measured_stage
from narrows.units import bandwidth, decimal, seconds


def loading_chart(answer: LoadMeasured) -> Any:
    """Two bars per loader, seconds; whiskers are 80 % of the runs. Returns an altair chart.

    Raises BadInput where the extra `plot` is not installed.
    """
    alt = plotting()
    measured, predicted = _("measured"), _("predicted")
    rows: list[dict[str, Any]] = []
    for one in answer.loaders:
        for kind, value in ((measured, one.time), (predicted, one.predicted)):
            note = seconds(value.value)
            if kind == measured:
                note += f" · {bandwidth(one.bandwidth.value)} · {measured_stage(one.narrow_stage)}"
            rows.append(
                {
                    "loader": one.loader,
                    "kind": kind,
                    "time": value.value,
                    "low": value.low if value.low is not None else value.value,
                    "high": value.high if value.high is not None else value.value,
                    "note": note,
                }
            )
    names = [one.loader for one in answer.loaders]
    top = max(row["high"] for row in rows) * 1.6
    x = alt.X(
        "time:Q",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(title=_("seconds"), tickCount=8, labelFlush=False),
    )
    y = alt.Y(
        "loader:N", sort=names, axis=alt.Axis(title=None, ticks=False, domain=False, labelColor=INK, labelFontSize=12)
    )
    offset = alt.YOffset("kind:N", sort=[measured, predicted])
    colour = alt.Color(
        "kind:N",
        scale=alt.Scale(domain=[measured, predicted], range=[BLUE, ORANGE]),
        legend=alt.Legend(title=None, orient="top", direction="horizontal"),
    )
    base = alt.Chart(alt.Data(values=rows))
    layers = [
        base.mark_bar().encode(x=x, y=y, yOffset=offset, color=colour, tooltip=["loader:N", "kind:N", "note:N"]),
        base.mark_rule(color=INK).encode(x=alt.X("low:Q"), x2="high:Q", y=y, yOffset=offset),
        base.mark_text(align="left", dx=6, fontSize=11, color=INK).encode(
            x=alt.X("high:Q"), y=y, yOffset=offset, text="note:N"
        ),
    ]
    shown = next((one for one in answer.loaders if one.loader == answer.loader), answer.loaders[0])
    title = _("{size} loaded with {loader}: {measured} measured, {predicted} predicted").format(
        size=decimal(answer.bytes),
        loader=shown.loader,
        measured=seconds(shown.time.value),
        predicted=seconds(shown.predicted.value),
    )
    subtitle = _("bars: medians of {pairs} rounds; lines: 80 % of the runs; the storage varied ×{times}").format(
        pairs=answer.pairs, times=f"{answer.varied:.1f}"
    )
    chart = alt.layer(*layers).properties(
        width=660, height=46 * len(names), title=alt.TitleParams(title, subtitle=[subtitle])
    )
    return themed(chart)

"""The report of `gpus`."""

from __future__ import annotations

from narrows.answers.gpus import Gpu, GpuList
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.units import GIB, bandwidth, rate, usd


def gpus_report(answer: GpuList) -> list[Part]:
    """A table; for a single accelerator also every peak, and where its figures come from."""
    if not answer.gpus:
        return [Paragraph(_("No accelerator of the catalogue is like that."))]
    columns = [
        Column(_("id")),
        Column(_("name")),
        Column(_("usable GiB"), "right"),
        Column(_("bandwidth"), "right"),
        Column(_("bf16 dense"), "right"),
        Column(_("ridge FLOP/B"), "right"),
        Column(_("fp8 dense"), "right"),
        Column(_("$/h"), "right"),
    ]
    parts: list[Part] = [Table(columns, [_row(one) for one in answer.gpus])]
    if len(answer.gpus) == 1:
        parts += _details(answer.gpus[0])
    else:
        parts.append(
            Paragraph(_("~ assumed, not measured. $/h: the cheapest on-demand instance with one of them."), "dim")
        )
    return parts


def _row(one: Gpu) -> tuple[str, ...]:
    # devices without bfloat16 compute in float16; older Apple ones only state float16
    sixteen = "bf16" if "bf16" in one.peaks else "fp16"
    mark = "" if one.usable_kind == "measured" else "~"
    return (
        one.id,
        one.name,
        f"{mark}{one.usable_bytes / GIB:.1f}" if one.usable_bytes else "–",
        bandwidth(one.memory_bandwidth),
        (rate(one.peaks[sixteen]) + ("" if sixteen == "bf16" else " fp16")) if sixteen in one.peaks else "–",
        f"{one.ridge[sixteen]:.0f}" if sixteen in one.ridge else "–",
        rate(one.peaks["fp8"]) if "fp8" in one.peaks else "–",
        usd(one.usd_per_hour) if one.usd_per_hour is not None else "–",
    )


def _details(one: Gpu) -> list[Part]:
    rows = [(name, rate(peak), f"{one.ridge[name]:.1f}") for name, peak in one.peaks.items()]
    columns = [Column(_("precision")), Column(_("dense peak"), "right"), Column(_("ridge FLOP/B"), "right")]
    parts: list[Part] = [Table(columns, rows)]
    if one.usable_basis is not None:
        parts.append(Paragraph("· " + _("usable memory: {basis}").format(basis=say(one.usable_basis)), "dim"))
    if one.instance:
        price = _("price: {instance} {usd} ({date})").format(
            instance=one.instance, usd=usd(one.usd_per_hour or 0), date=one.price_as_of
        )
        parts.append(Paragraph("· " + price, "dim"))
    parts.append(Paragraph("· " + _("source: {source}").format(source=one.source), "dim"))
    return parts

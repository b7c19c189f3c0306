"""The report of `measure machine`."""

from __future__ import annotations

from collections.abc import Sequence

from narrows.answers.measure import MachineMeasured
from narrows.measure.compute import Product
from narrows.quantity import Quantity
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.words import word
from narrows.units import bandwidth, binary, count, decimal, rate, seconds


def machine_report(answer: MachineMeasured) -> list[Part]:
    """What it does, whether that is to be trusted and kept; then the tables."""
    parts: list[Part] = [Paragraph(_headline(answer), "heading"), *_kept(answer), _peaks(answer)]
    for precision in dict.fromkeys(one.precision for one in answer.products):
        rows = [one for one in answer.products if one.precision == precision and one.m != one.k]
        if rows:
            parts.append(_curve(precision, rows))
    parts += [_memory(answer), *_small(answer)]
    if answer.transfers:
        parts.append(_transfers(answer))
    if answer.all_reduces:
        parts.append(_sums(answer))
    if answer.disk is not None and answer.disk.rates:
        parts.append(_disk(answer))
    parts.append(Paragraph(_("How this is known"), "heading"))
    parts += [Paragraph("· " + say(text), "dim") for text in answer.assumptions]
    parts.append(Paragraph("· " + _surroundings(answer), "dim"))
    return parts


def _headline(answer: MachineMeasured) -> str:
    best = max(answer.peaks, key=lambda one: one.flops.value)
    return _("{name}: {bandwidth} from memory, {peak} at {precision}; below {ridge} FLOP/B memory decides").format(
        name=answer.name if answer.count == 1 else f"{answer.count} × {answer.name}",
        bandwidth=bandwidth(answer.bandwidth.value),
        peak=rate(best.flops.value),
        precision=best.precision,
        ridge=f"{best.ridge:.1f}",
    )


def _kept(answer: MachineMeasured) -> list[Part]:
    parts: list[Part] = [
        Paragraph(_("not quiet: {reason}").format(reason=say(reason)), "bad") for reason in answer.conditions.contended
    ]
    if answer.stored:
        parts.append(Paragraph(_("kept as this-machine in {path}").format(path=answer.store), "good"))
    elif answer.reason is not None:
        parts.append(Paragraph(_("not kept: {reason}").format(reason=say(answer.reason)), "bad"))
    return parts


def spread(value: Quantity) -> str:
    """± half the interval's width, in percent of the value."""
    if value.low is None or value.high is None or not value.value:
        return "–"
    return f"± {50 * (value.high - value.low) / value.value:.0f} %"


def _peaks(answer: MachineMeasured) -> Table:
    columns = [
        Column(_("precision")),
        Column(_("measured peak"), "right"),
        Column(_("spread"), "right"),
        Column(_("ridge FLOP/B"), "right"),
        Column(_("of the data sheet"), "right"),
        Column(_("shape"), "right"),
        Column(_("library")),
    ]
    rows = [
        (
            one.precision,
            rate(one.flops.value),
            spread(one.flops),
            f"{one.ridge:.1f}",
            "–" if one.share is None else f"{100 * one.share:.0f} %",
            "×".join(map(str, one.shape)),
            one.library,
        )
        for one in answer.peaks
    ]
    return Table(columns, rows)


def _curve(precision: str, products: Sequence[Product]) -> Table:
    """One row per number of rows; per weight: time, FLOP/s, and bytes/s of the weights."""
    shapes = list(dict.fromkeys((one.k, one.n) for one in products))
    columns = [Column(_("rows at {precision}").format(precision=precision))]
    for k, n in shapes:
        columns += [Column(f"{k}×{n}", "right"), Column("FLOP/s", "right"), Column(_("weights"), "right")]
    by = {(one.m, one.k, one.n): one for one in products}
    rows = []
    for m in sorted({one.m for one in products}):
        cells = [count(m)]
        for k, n in shapes:
            found = by.get((m, k, n))
            cells += (
                [seconds(found.time.value), rate(found.flops.value), bandwidth(found.weight_bandwidth.value)]
                if found
                else ["–", "–", "–"]
            )
        rows.append(tuple(cells))
    return Table(columns, rows)


def _memory(answer: MachineMeasured) -> Table:
    names = [name for name in ("read", "copy", "add") if any(one.operation == name for one in answer.bandwidths)]
    columns = [Column(_("working set"))]
    for name in names:
        columns += [Column(word(name), "right"), Column(_("spread"), "right")]
    # where there is one processor only, all is one thread's
    by = {(one.working_set, one.operation): one for one in answer.bandwidths if one.threads != 1 or answer.cores == 1}
    rows = []
    for size in sorted({one.working_set for one in by.values()}):
        cells = [binary(size, 0)]
        for name in names:
            found = by.get((size, name))
            cells += [bandwidth(found.bandwidth.value), spread(found.bandwidth)] if found else ["–", "–"]
        rows.append(tuple(cells))
    return Table(columns, rows)


def _small(answer: MachineMeasured) -> list[Part]:
    lines = [
        _("the smallest operation takes {issued} to issue and {waited} when waited for").format(
            issued=seconds(answer.launch.value), waited=seconds(answer.round_trip.value)
        )
    ]
    for one in answer.bandwidths:
        if one.threads == 1 and answer.cores > 1:
            lines.append(
                _("one thread copies {rate} ({size} read and written)").format(
                    rate=bandwidth(one.bandwidth.value), size=binary(one.working_set, 0)
                )
            )
    if answer.first_touch is not None:
        lines.append(
            _("memory fresh from the system is touched first at {rate} by one thread").format(
                rate=bandwidth(answer.first_touch.value)
            )
        )
    if answer.bandwidth_share is not None:
        lines.append(
            _("reading memory reaches {percent} % of the data sheet's {paper} ({device})").format(
                percent=f"{100 * answer.bandwidth_share:.0f}",
                paper=bandwidth(answer.datasheet_bandwidth or 0),
                device=answer.datasheet,
            )
        )
    return [Paragraph(line) for line in lines]


def _transfers(answer: MachineMeasured) -> Table:
    columns = [
        Column(_("between host and device")),
        Column(_("memory")),
        Column(_("piece"), "right"),
        Column(_("bandwidth"), "right"),
        Column(_("spread"), "right"),
    ]
    rows = [
        (
            word(one.direction),
            _("pinned") if one.pinned else _("pageable"),
            binary(one.size, 0),
            bandwidth(one.bandwidth.value),
            spread(one.bandwidth),
        )
        for one in answer.transfers
    ]
    return Table(columns, rows)


def _sums(answer: MachineMeasured) -> Table:
    columns = [
        Column(_("all-reduce of {ranks} devices").format(ranks=answer.all_reduces[0].ranks)),
        Column(_("time"), "right"),
        Column(_("bandwidth"), "right"),
        Column(_("spread"), "right"),
    ]
    rows = [
        (binary(one.message, 0), seconds(one.time.value), bandwidth(one.bandwidth.value), spread(one.time))
        for one in answer.all_reduces
    ]
    return Table(columns, rows)


def _disk(answer: MachineMeasured) -> Table:
    assert answer.disk is not None
    columns = [
        Column(_("disk under {folder}").format(folder=answer.disk.folder)),
        Column(_("block"), "right"),
        Column(_("in flight"), "right"),
        Column(_("page cache")),
        Column(_("bandwidth"), "right"),
        Column(_("spread"), "right"),
    ]
    state = {True: _("cold"), False: _("warm"), None: "–"}
    rows = [
        (
            word(one.way),
            binary(one.block, 0),
            str(one.depth),
            _("passed by") if one.way == "direct" else state[one.cold],
            bandwidth(one.bandwidth.value),
            spread(one.bandwidth),
        )
        for one in answer.disk.rates
    ]
    return Table(columns, rows)


def _surroundings(answer: MachineMeasured) -> str:
    known = answer.conditions

    def share(value: float | None) -> str:
        return "–" if value is None else f"{100 * value:.1f} %"

    text = (
        _(
            "measured in {seconds} with {libraries} on one core; others took {others} of the processors, the "
            "hypervisor {stolen}; waiting for a processor {waiting}, load {load}; repeats differ by {spread}; {free} "
            "of {memory} free"
        )
        if answer.cores == 1
        else _(
            "measured in {seconds} with {libraries} on {cores} cores; others took {others} of the processors, the "
            "hypervisor {stolen}; waiting for a processor {waiting}, load {load}; repeats differ by {spread}; {free} "
            "of {memory} free"
        )
    )
    return text.format(
        seconds=seconds(answer.seconds),
        libraries=", ".join(answer.libraries),
        cores=answer.cores,
        others=share(known.others),
        stolen=share(known.stolen),
        waiting=share(known.waiting),
        load="–" if known.load is None else f"{known.load:.1f}",
        spread=share(known.spread),
        free=decimal(answer.usable_bytes),
        memory=decimal(answer.memory_bytes),
    )

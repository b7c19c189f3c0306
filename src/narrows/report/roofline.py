"""The report of `roofline`: verdict per phase, where time goes, operators, turning points, prescriptions."""

from __future__ import annotations

from collections.abc import Iterator

from narrows.answers.roofline.types import Bounds, OperatorRow, Phase, Roofline, Spending
from narrows.report.console import Bars, Column, Paragraph, Part, Segment, Table
from narrows.report.i18n import _, say
from narrows.report.roofline_extras import generations, hierarchy, naive, sweep
from narrows.report.roofline_words import (
    SMALL,
    SPENT,
    bound_word,
    headline,
    kind_word,
    label,
    least,
    phase_word,
    spent_word,
)
from narrows.report.words import word
from narrows.roofline.prescriptions import Prescription
from narrows.roofline.timed import Cause
from narrows.roofline.turning import TurningPoint
from narrows.step.operators import Phase as PhaseName
from narrows.units import count, decimal, seconds, usd


def roofline_report(answer: Roofline) -> list[Part]:
    """All parts, in the order a person asks: what bounds it, on what does time go, where does it turn, what helps."""
    candidates = answer.candidates
    first = candidates[0]
    parts: list[Part] = [Paragraph(headline(answer, answer.model.name), "heading")]
    parts += [Paragraph(say(text), "bad") for text in answer.cautions]
    for one in candidates:
        if len(candidates) > 1:
            parts.append(Paragraph(label(one), "heading"))
        parts += _verdicts(one)
    if len(candidates) > 1:
        parts.append(_comparison(candidates) if first.generates else _prefills(candidates))
        text = _("Operators, turning points and prescriptions are of the first ({name}); --json has those of all.")
        parts.append(Paragraph(text.format(name=label(first)), "dim"))
    parts.append(_bars(candidates))
    parts.append(Paragraph(_ridges(first)))
    parts += [_operators(first, "prefill"), *([_operators(first, "decode")] if first.generates else [])]
    parts.append(Paragraph(_("Where the verdict turns"), "heading"))
    parts += [Paragraph("· " + text) for text in dict.fromkeys(_turn(one) for one in first.turning_points)]
    parts += (_prescriptions(first, "decode") if first.generates else []) + _prescriptions(first, "prefill")
    for extra in (hierarchy(first), naive(first), sweep(candidates), generations(answer)):
        parts += extra
    parts.append(Paragraph(_("How this is known"), "heading"))
    parts += [Paragraph("· " + say(text), "dim") for text in answer.assumptions]
    parts += [Paragraph("· " + text, "dim") for text in dict.fromkeys(_laws(first))]
    parts.append(
        Paragraph("· " + _("times are predicted; the range behind them holds 80 % of what was measured"), "dim")
    )
    asked: list[Bounds | Prescription] = [one for one in candidates if one.instance]
    asked += [one for one in first.prescriptions if one.instance]
    priced = {one.instance: one for one in asked}
    if priced:
        shown = "; ".join(f"{one.instance} {usd(one.usd_per_hour or 0)} ({one.price_as_of})" for one in priced.values())
        parts.append(Paragraph("· " + _("price per hour, on demand: {instances}").format(instances=shown), "dim"))
    return parts


def _verdicts(one: Bounds) -> list[Part]:
    decode, prefill = one.phases.decode, one.phases.prefill
    sentence = _("decode is {bound}: {time} per step ({low} to {high}), {parts}; {rate} tokens/s, {each} per sequence")
    parts: list[Part] = [
        Paragraph(
            sentence.format(
                bound=word(decode.bound),
                **_times(decode),
                parts=_spending(decode),
                rate=least(decode.tokens_per_second.value),
                each=least(decode.tokens_per_second.value / decode.sequences),
            ),
            "good",
        )
    ]
    if not one.generates:
        parts = []
    sentence = _("prefill is {bound}: {time} ({low} to {high}), {parts}; {rate} tokens/s")
    parts.append(
        Paragraph(
            sentence.format(
                bound=word(prefill.bound),
                **_times(prefill),
                parts=_spending(prefill),
                rate=least(prefill.tokens_per_second.value),
            ),
            "good",
        )
    )
    if not one.fits:
        text = _("this load is capacity-bound: {reason}. Times are as if it fit.")
        parts.append(Paragraph(text.format(reason=say(one.capacity)), "bad"))
    else:
        parts.append(Paragraph(_("memory holds it: {reason}").format(reason=say(one.capacity))))
    return parts


def _times(phase: Phase) -> dict[str, str]:
    time = phase.time
    return {"time": seconds(time.value), "low": seconds(time.low or 0.0), "high": seconds(time.high or 0.0)}


def _spending(phase: Phase) -> str:
    """`71 % weights, 22 % KV cache, 7 % overhead`: what takes at least a hundredth, the most first.

    What is moved stands together, so that the verdict is what comes first.
    """
    causes: dict[str, Cause] = {"compute": "compute", "interconnect": "interconnect", "overhead": "overhead"}

    def rank(item: tuple[Spending, float]) -> tuple[float, float]:
        return -phase.shares.get(causes.get(item[0], "memory bandwidth"), 0.0), -item[1]

    ranked = sorted(phase.spending.items(), key=rank)
    found = [(name, value / phase.time.value) for name, value in ranked]
    return ", ".join(f"{100 * share:.0f} % {spent_word(name)}" for name, share in found if share >= 0.01)


def _comparison(candidates: tuple[Bounds, ...]) -> Table:
    columns = [
        Column(_("deployment")),
        Column(_("prefill"), "right"),
        Column(_("bound")),
        Column(_("decode step"), "right"),
        Column(_("bound")),
        Column(_("tokens/s"), "right"),
        Column(_("compute-bound from batch"), "right"),
        Column(_("max batch"), "right"),
        Column(_("$/h"), "right"),
        Column(_("$ per M tokens"), "right"),
    ]
    rows = []
    for one in candidates:
        turn = next(point.value for point in one.turning_points if point.name == "decode_compute")
        rows.append(
            (
                label(one),
                seconds(one.phases.prefill.time.value),
                bound_word(one.phases.prefill.bound),
                seconds(one.phases.decode.time.value),
                bound_word(one.phases.decode.bound),
                least(one.phases.decode.tokens_per_second.value),
                count(turn) if turn else _("never"),
                count(one.max_batch),
                usd(one.usd_per_hour) if one.usd_per_hour is not None else "–",
                usd(one.usd_per_million_tokens) if one.usd_per_million_tokens is not None else "–",
            )
        )
    return Table(columns, rows)


def _prefills(candidates: tuple[Bounds, ...]) -> Table:
    """Deployments of a model that generates nothing."""
    columns = [
        Column(_("deployment")),
        Column(_("prefill"), "right"),
        Column(_("bound")),
        Column(_("tokens/s"), "right"),
        Column(_("$/h"), "right"),
        Column(_("$ per M tokens"), "right"),
    ]
    rows = [
        (
            label(one),
            seconds(one.phases.prefill.time.value),
            bound_word(one.phases.prefill.bound),
            least(one.phases.prefill.tokens_per_second.value),
            usd(one.usd_per_hour) if one.usd_per_hour is not None else "–",
            usd(one.usd_per_million_tokens) if one.usd_per_million_tokens is not None else "–",
        )
        for one in candidates
    ]
    return Table(columns, rows)


def _bars(candidates: tuple[Bounds, ...]) -> Bars:
    """Percent of each phase's time: phases differ too much in seconds to share a scale."""
    rows: list[tuple[str, list[Segment], str]] = []
    phases = [phase for one in candidates for phase in one.shown]
    # of every bar the same ones, so that all have the same fills
    shown = [name for name in SPENT if any(one.spending[name] >= SMALL * one.time.value for one in phases)]
    for one in candidates:
        if len(candidates) > 1:
            rows.append((label(one), [], ""))
        for phase in one.shown:
            segments = [Segment(spent_word(name), 100 * phase.spending[name] / phase.time.value) for name in shown]
            rows.append((phase_word(phase.name), segments, seconds(phase.time.value)))
    return Bars(rows, 100)


def _ridges(one: Bounds) -> str:
    shown = ", ".join(f"{ridge.precision}{' *' if ridge.used else ''} {ridge.ridge:,.0f}" for ridge in one.ridges)
    if not one.generates:
        text = _("Ridge points of the {gpu} in FLOP/B (* in use here): {ridges}. Prefill has {prefill} FLOP/B.")
        return text.format(gpu=one.gpu_name, ridges=shown, prefill=least(one.phases.prefill.intensity))
    return _(
        "Ridge points of the {gpu} in FLOP/B (* in use here): {ridges}. Prefill has {prefill} FLOP/B, decode {decode}."
    ).format(
        gpu=one.gpu_name,
        ridges=shown,
        prefill=least(one.phases.prefill.intensity),
        decode=least(one.phases.decode.intensity),
    )


def _laws(one: Bounds) -> Iterator[str]:
    """What the times of each kind of operator rest on, in the order of the step."""
    for law in one.laws:
        phase = f" ({phase_word(law.phase)})" if law.phase in ("prefill", "decode") else ""
        kind = kind_word(law.kind) + phase + (f" {law.precision}" if law.precision else "")
        if law.n:
            text = _("{kind}: by the law of {device}, from {n} measurements").format(
                kind=kind, device=_("any device") if law.device == "any" else law.device, n=count(law.n)
            )
        elif law.device != "any":
            # the device was measured, but not this kernel, such as MLA's
            text = _("{kind}: assumed, by the law of another kernel of {device}").format(kind=kind, device=law.device)
        else:
            text = _("{kind}: assumed, no measurement of a device like this one").format(kind=kind)
        yield text


def _operators(one: Bounds, phase: PhaseName) -> Table:
    rows = sorted((row for row in one.operators if row.phase == phase), key=lambda row: -row.share)
    whole: Phase = getattr(one.phases, phase)
    large = [row for row in rows if row.share >= SMALL]
    small = [row for row in rows if row.share < SMALL]
    cells = [_operator(row) for row in large]
    if small:
        text = _("{n} more").format(n=len(small))
        cells.append(_sum(text, small, whole))
    rest = whole.time.value - sum(row.time.value for row in rows)
    if rest / whole.time.value >= 0.0005:
        share = f"{100 * rest / whole.time.value:.1f} %"
        cells.append((_("engine, per step and layer"), *("",) * 5, seconds(rest), share, bound_word("overhead")))
    cells.append(
        (
            _("{phase}, in all").format(phase=phase_word(phase)),
            "",
            "",
            f"{whole.flops / 1e9:,.1f}",
            decimal(whole.bytes),
            least(whole.intensity),
            seconds(whole.time.value),
            "100 %",
            bound_word(whole.bound),
        )
    )
    columns = [
        Column(_("{phase}: operator").format(phase=phase_word(phase))),
        Column(_("shape")),
        Column(_("count"), "right"),
        Column(_("GFLOP"), "right"),
        Column(_("bytes"), "right"),
        Column(_("FLOP/B"), "right"),
        Column(_("time"), "right"),
        Column(_("share"), "right"),
        Column(_("bound")),
    ]
    return Table(columns, cells, strong=frozenset({len(cells) - 1}))


def _operator(row: OperatorRow) -> tuple[str, ...]:
    return (
        row.name,
        f"{row.shape} {row.precision}" if row.flops else row.shape,
        f"×{row.count}",
        f"{row.flops / 1e9:,.1f}",
        decimal(row.bytes),
        least(row.intensity),
        seconds(row.time.value),
        f"{100 * row.share:.1f} %",
        bound_word(row.bound),
    )


def _sum(name: str, rows: list[OperatorRow], whole: Phase) -> tuple[str, ...]:
    flops, moved = sum(row.flops for row in rows), sum(row.bytes for row in rows)
    time = sum(row.time.value for row in rows)
    return (
        name,
        "",
        "",
        f"{flops / 1e9:,.1f}",
        decimal(moved),
        least(flops / moved) if moved else "",
        seconds(time),
        f"{100 * time / whole.time.value:.1f} %",
        "",
    )


def _turn(point: TurningPoint) -> str:
    text = say(point.text)
    if point.by_peaks is not None and point.by_peaks != point.value:
        return _("{text} (by peak and bandwidth alone: {value})").format(text=text, value=count(point.by_peaks))
    return text


def _prescriptions(one: Bounds, phase: PhaseName) -> list[Part]:
    found = [change for change in one.prescriptions if change.phase == phase]
    whole: Phase = getattr(one.phases, phase)
    short = phase == "decode" and not one.fits
    sentence = (
        _("What makes it fit, and what helps {phase}, which is {bound}")
        if short
        else _("What helps {phase}, which is {bound}")
    )
    title = sentence.format(phase=phase_word(phase), bound=word(whole.bound))
    if not found:
        nothing = _("{title}: nothing that was tried gains 3 %").format(title=title)
        return [Paragraph(nothing, "heading")]
    each = _("time per token") if phase == "decode" else _("time")
    columns = [
        Column(_("change")),
        Column(_("gain"), "right"),
        Column(each, "right"),
        Column(_("tokens/s"), "right"),
        Column(_("$ per M tokens"), "right"),
        Column(_("fits (max batch)")),
        Column(_("why")),
    ]
    rows = [_change(change) for change in found]
    notes = [
        Paragraph(
            "· " + _("assumed of {change}: {what}").format(change=word(change.change), what=say(change.assumed)), "dim"
        )
        for change in found
        if change.assumed is not None
    ]
    return [Table(columns, rows, title), *notes]


def _change(change: Prescription) -> tuple[str, ...]:
    prices = (change.usd_per_million_tokens_before, change.usd_per_million_tokens_after)
    fits = _("yes ({n})") if change.fits else _("no ({n})")
    return (
        word(change.change) or _("without --enforce-eager"),
        f"{change.speedup:.2f} ×",
        f"{seconds(change.before)} → {seconds(change.after)}",
        f"{least(change.tokens_per_second_before)} → {least(change.tokens_per_second_after)}",
        " → ".join("–" if price is None else usd(price) for price in prices),
        fits.format(n=count(change.max_batch)),
        say(change.text),
    )

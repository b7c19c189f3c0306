"""Parts of the roofline's report that are asked for by an option: hierarchy, naive attention, sweep, memory wall."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from narrows.answers.roofline.types import Bounds, Roofline
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.roofline_words import bound_word, label, least, phase_word
from narrows.report.words import word
from narrows.roofline.memory_wall import Generation
from narrows.units import bandwidth, count, decimal, rate, seconds

ROWS = 24
"""Points of a sweep that are printed at most; JSON has all."""


def hierarchy(one: Bounds) -> list[Part]:
    """One operator at every level."""
    parts: list[Part] = []
    for shown in one.hierarchy:
        title = _("{operator} {shape} in {phase}, one of them: the narrowest level is {level}").format(
            operator=shown.operator,
            shape=shown.shape,
            phase=phase_word(shown.phase),
            level=level_word(shown.narrowest),
        )
        columns = [
            Column(_("level")),
            Column(_("traffic"), "right"),
            Column(_("FLOP/B"), "right"),
            Column(_("bandwidth"), "right"),
            Column(_("least time"), "right"),
            Column(_("enough would be"), "right"),
            Column(_("how it is counted")),
        ]
        rows = [
            (
                level_word(level.name),
                decimal(level.bytes) if level.bytes else "–",
                least(level.intensity) if level.intensity is not None else "–",
                f"{bandwidth(level.bandwidth)} ({word(level.kind)})" if level.bandwidth is not None else "–",
                seconds(level.time) if level.time is not None else "–",
                bandwidth(level.needed) if level.needed is not None else "–",
                say(level.text),
            )
            for level in shown.levels
        ]
        parts.append(Table(columns, rows, title))
    return parts


def level_word(name: str) -> str:
    """A level of the hierarchy."""
    return {
        "device memory": _("device memory"),
        "L2": "L2",
        "on-chip": _("on-chip memory"),
        "arithmetic": _("arithmetic"),
    }[name]


def naive(one: Bounds) -> list[Part]:
    """Attention whose scores go through device memory."""
    found = one.naive_attention
    if found is None:
        return []
    text = _(
        "Attention of the prefill moves {fused} and takes {time}. Kernels that keep their scores in device memory "
        "would move {naive} and take {slower} at least, {times} × as long."
    )
    return [
        Paragraph(
            text.format(
                fused=decimal(found.fused_bytes),
                time=seconds(found.fused_time),
                naive=decimal(found.naive_bytes),
                slower=seconds(found.naive_time),
                times=least(found.naive_time / found.fused_time),
            )
        )
    ]


def sweep(candidates: tuple[Bounds, ...]) -> list[Part]:
    """The points: of many those that double about evenly, and all where bound or fit changes."""
    parts: list[Part] = []
    for one in candidates:
        if one.sweep is None:
            continue
        points = one.sweep.points
        turns = {i + 1 for i, (a, b) in enumerate(pairwise(points)) if (a.bound, a.fits) != (b.bound, b.fits)}
        kept = thinned([point.value for point in points], ROWS) if len(points) > ROWS else None
        title = _("{phase} of {name} by {parameter}").format(
            phase=phase_word(one.sweep.phase), name=label(one), parameter=parameter_word(one.sweep.parameter)
        )
        columns = [
            Column(parameter_word(one.sweep.parameter), "right"),
            Column(_("time"), "right"),
            Column(_("tokens/s"), "right"),
            Column(_("FLOP/B"), "right"),
            Column(_("FLOP/s reached"), "right"),
            Column(_("bound")),
            Column(_("fits")),
        ]
        rows = [
            (
                count(point.value),
                seconds(point.time),
                least(point.tokens_per_second),
                least(point.intensity),
                rate(point.attained),
                bound_word(point.bound),
                _("yes") if point.fits else _("no"),
            )
            for i, point in enumerate(points)
            if kept is None or i in kept or i in turns
        ]
        parts.append(Table(columns, rows, title))
        if kept is not None:
            shown = _("{shown} of {all} points; --json has all").format(shown=count(len(rows)), all=count(len(points)))
            parts.append(Paragraph(shown, "dim"))
    return parts


def thinned(values: list[int], most: int) -> set[int]:
    """Indices of at most `most` values whose ratios are about alike, the ends among them."""
    if len(values) <= most:
        return set(range(len(values)))
    ratio = values[-1] / values[0]
    wanted = [values[0] * ratio ** (i / (most - 1)) for i in range(most)]
    return {min(bisect_left(values, round(value)), len(values) - 1) for value in wanted}


def parameter_word(name: str) -> str:
    """What a sweep varies."""
    return {"batch": _("batch"), "context": _("context"), "prompt": _("prompt")}[name]


def generations(answer: Roofline) -> list[Part]:
    """The memory wall."""
    if not answer.generations:
        return []
    columns = [
        Column(_("accelerator")),
        Column(_("year"), "right"),
        Column(_("peak"), "right"),
        Column(_("bandwidth"), "right"),
        Column(_("ridge, FLOP/B"), "right"),
        Column(_("compute-bound from batch"), "right"),
        Column(_("prefill"), "right"),
        Column(_("bound")),
        Column(_("decode step"), "right"),
        Column(_("bound")),
        Column(_("tokens/s"), "right"),
        Column(_("fits")),
    ]
    rows = [
        (
            one.name,
            str(one.year),
            f"{rate(one.peak)} {one.precision}",
            bandwidth(one.bandwidth),
            least(one.ridge),
            count(one.turning_batch) if one.turning_batch else _("never"),
            seconds(one.prefill),
            bound_word(one.prefill_bound),
            seconds(one.decode),
            bound_word(one.decode_bound),
            least(one.tokens_per_second),
            _("yes") if one.fits else _("no"),
        )
        for one in answer.generations
    ]
    if not answer.generates:
        # without what is said of decode
        kept = [at for at in range(len(columns)) if at not in _OF_DECODE]
        columns, shown = [columns[at] for at in kept], [tuple(row[at] for at in kept) for row in rows]
    else:
        shown = [*rows]
    return [
        Table(columns, shown, _("The memory wall: the same load, one device each")),
        Paragraph(wall(answer.generations)),
    ]


_OF_DECODE = (5, 8, 9, 10)
"""Columns of the memory wall."""


def wall(devices: Sequence[Generation]) -> str:
    """By how much peak, bandwidth and ridge point grew from the oldest device to the newest of its vendor."""
    first = min(devices, key=lambda one: (one.year, -one.bandwidth))
    last = max(devices, key=lambda one: (one.year, one.name.startswith(first.name.split()[0])))
    return _(
        "From the {first} ({start}) to the {last} ({end}) the peak grew {peak} × and bandwidth {bandwidth} ×: the "
        "ridge point, and with it the batch that fills the arithmetic, {ridge} ×."
    ).format(
        first=first.name,
        start=first.year,
        last=last.name,
        end=last.year,
        peak=least(last.peak / first.peak),
        bandwidth=least(last.bandwidth / first.bandwidth),
        ridge=least(last.ridge / first.ridge),
    )

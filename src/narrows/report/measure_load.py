"""The report of `measure load`: does it agree, which stage decides, each loader, its stages, and the limits."""

from __future__ import annotations

from narrows.answers.measure_load_types import LoaderMeasured, LoadLimit, LoadMeasured, MeasuredStage
from narrows.quantity import Quantity
from narrows.report.console import Column, Paragraph, Part, Table
from narrows.report.i18n import _, say
from narrows.report.load import limit_name, stage_name
from narrows.units import bandwidth, count, decimal, seconds


def loading_report(answer: LoadMeasured) -> list[Part]:
    """All parts, in the order a person asks."""
    parts: list[Part] = [
        Paragraph(_headline(answer), "heading"),
        *_verdict(answer),
        Paragraph(
            _("The narrow stage of {loader} is {stage} — {reason}.").format(
                loader=answer.loader, stage=measured_stage(answer.narrow_stage), reason=say(answer.narrow_reason)
            ),
            "bad",
        ),
        _loaders(answer),
        _costs(answer),
    ]
    parts += [
        Paragraph(
            _("{loader} is labelled warm: {reason}").format(loader=one.loader, reason=say(one.reason)), "bad", indent=2
        )
        for one in answer.loaders
        if not one.cold and one.reason is not None
    ]
    parts += [
        Paragraph(_("{loader} did not load: {reason}").format(loader=one.loader, reason=say(one.reason)), indent=2)
        for one in answer.failed
    ]
    parts.append(_stages(answer))
    parts += [
        Paragraph(f"{one.loader}: {say(one.narrow_reason)}", "dim", indent=2)
        for one in answer.loaders
        if one.loader != answer.loader
    ]
    parts.append(_limits(answer))
    if answer.reader_share is not None:
        parts.append(
            Paragraph(
                _("Our own reader reached {percent} % of what the storage gave beside it.").format(
                    percent=f"{100 * answer.reader_share:.0f}"
                )
            )
        )
    if answer.calibrated:
        parts.append(Paragraph(_("Kept for predictions on this machine: 'narrows calibration' lists it."), "good"))
    parts.append(Paragraph(_("How this is known"), "heading"))
    parts += [Paragraph("· " + say(one.name), "dim") for one in answer.loaders]
    parts += [Paragraph("· " + say(text), "dim") for text in answer.assumptions]
    return parts


def _headline(answer: LoadMeasured) -> str:
    fastest = next(one for one in answer.loaders if one.loader == answer.fastest)
    return _("{size} loaded in {time} by {loader}, {rate}").format(
        size=decimal(fastest.bytes),
        time=seconds(fastest.time.value),
        loader=fastest.loader,
        rate=bandwidth(fastest.bandwidth.value),
    )


def _verdict(answer: LoadMeasured) -> list[Part]:
    why = "; ".join(say(one) for one in answer.reasons)
    if answer.error is None:
        return [
            Paragraph(_("Nothing to compare: no loader was cold, or only those that measure the limits ran."), "bad")
        ]
    error, pairs = f"{100 * answer.error:.0f}", count(answer.pairs)
    if answer.verdict == "agrees":
        text = _("Prediction and measurement agree: median error {error} % over {pairs} rounds.")
        return [Paragraph(text.format(error=error, pairs=pairs), "good"), *_noted(why)]
    if answer.verdict == "inconclusive":
        text = _("Inconclusive: {reason} (median error {error} % over {pairs} rounds).")
        return [Paragraph(text.format(reason=why, error=error, pairs=pairs), "bad")]
    text = _("Prediction and measurement differ: median error {error} % over {pairs} rounds.")
    return [Paragraph(text.format(error=error, pairs=pairs), "bad")]


def _noted(why: str) -> list[Part]:
    return [Paragraph(_("All the same, {reason}.").format(reason=why), "dim")] if why else []


def measured_stage(code: str) -> str:
    """The name of a stage, in the language in use."""
    own = {"mapping": _("mapping pages"), "page_cache": _("filling the page cache")}
    return own.get(code) or stage_name(code)


def verdict_name(code: str) -> str:
    """A verdict, in the language in use."""
    return {
        "agrees": _("agrees"),
        "differs": _("differs"),
        "inconclusive": _("inconclusive"),
        "warm": _("warm"),
    }[code]


def range_of(value: Quantity) -> str:
    """80 % of the runs."""
    return "–" if value.low is None else f"{seconds(value.low)} … {seconds(value.high or 0.0)}"


def _loaders(answer: LoadMeasured) -> Table:
    columns = [
        Column(_("loader")),
        Column(_("measured"), "right"),
        Column(_("80 % of runs"), "right"),
        Column(_("bandwidth"), "right"),
        Column(_("predicted"), "right"),
        Column(_("error"), "right"),
        Column(_("verdict")),
        Column(_("narrow stage")),
        Column(_("predicted")),
    ]
    rows = [
        (
            one.loader,
            seconds(one.time.value),
            range_of(one.time),
            bandwidth(one.bandwidth.value),
            seconds(one.predicted.value),
            f"{100 * one.error:.0f} %",
            _("the limit itself") if one.is_limit and one.cold else verdict_name(one.verdict),
            measured_stage(one.narrow_stage),
            measured_stage(one.predicted_narrow),
        )
        for one in answer.loaders
    ]
    strong = frozenset(index for index, one in enumerate(answer.loaders) if one.loader == answer.loader)
    return Table(columns, rows, strong=strong)


def _costs(answer: LoadMeasured) -> Table:
    columns = [
        Column(_("loader")),
        Column(_("page cache")),
        Column(_("again, warm"), "right"),
        Column(_("processor s/GB"), "right"),
        Column(_("peak memory"), "right"),
        Column(_("faults that waited"), "right"),
        Column(_("others"), "right"),
        Column(_("from storage"), "right"),
    ]
    return Table(columns, [_cost(one) for one in answer.loaders])


def _cost(one: LoaderMeasured) -> tuple[str, ...]:
    return (
        one.loader,
        _("cold") if one.cold else _("warm"),
        "–" if one.warm is None else seconds(one.warm.value),
        f"{one.cpu_per_gb:.2f}",
        decimal(one.peak_rss_bytes),
        count(one.major_faults),
        count(one.minor_faults),
        "–" if one.stored_share is None else f"{one.stored_share:.2f} ×",
    )


def _stages(answer: LoadMeasured) -> Table:
    columns = [
        Column(_("loader")),
        Column(_("stage")),
        Column(_("measured alone"), "right"),
        Column(_("predicted"), "right"),
        Column(_("bytes"), "right"),
        Column(_("bandwidth"), "right"),
        Column(_("limited by")),
    ]
    pairs = [(loader, stage) for loader in answer.loaders for stage in loader.stages]
    strong = frozenset(index for index, (_loader, stage) in enumerate(pairs) if stage.narrow)
    return Table(columns, [_stage(loader, stage) for loader, stage in pairs], strong=strong)


def _stage(loader: LoaderMeasured, stage: MeasuredStage) -> tuple[str, ...]:
    return (
        loader.loader,
        measured_stage(stage.name),
        _("hidden") if stage.time is None else seconds(stage.time.value),
        seconds(stage.predicted.value),
        decimal(stage.bytes),
        bandwidth(stage.bandwidth.value),
        limit_name(stage.limit),
    )


def _limits(answer: LoadMeasured) -> Table:
    columns = [Column(_("limit of this machine")), Column(_("bandwidth"), "right"), Column(_("80 % of runs"), "right")]
    rows = [
        (
            _limit(one),
            bandwidth(one.bandwidth.value),
            "–"
            if one.bandwidth.low is None
            else f"{bandwidth(one.bandwidth.low)} … {bandwidth(one.bandwidth.high or 0.0)}",
        )
        for one in answer.limits
    ]
    rows.append((_("one page of 4 KiB, alone"), seconds(answer.latency.value), range_of(answer.latency)))
    return Table(columns, rows)


def _limit(one: LoadLimit) -> str:
    if one.name == "storage":
        return _("storage, {depth} reads of 4 MiB at once").format(depth=one.depth)
    return {
        "one_reader": _("one reader through the page cache"),
        "cached": _("from the page cache into a buffer"),
        "mapping": _("mapping what is in the page cache"),
        "memcpy": _("copy between buffers"),
        "first_touch": _("memory new from the system, first touch"),
        "pinned": _("host to device, pinned"),
        "pageable": _("host to device, pageable"),
    }[one.name]

"""The report of `load`: how long, the narrow stage, stages with intervals, remedies, host memory, what was assumed."""

from __future__ import annotations

from narrows.answers.load_types import FromHostMemory, Load, LoadStage
from narrows.quantity import Quantity
from narrows.report.console import Bars, Column, Paragraph, Part, Segment, Table
from narrows.report.i18n import _, say
from narrows.report.words import word
from narrows.units import bandwidth, decimal, parameters, seconds

SHOWN_REMEDIES = 8


def load_report(answer: Load) -> list[Part]:
    """All parts, in the order a person asks: how long, why, what would help, and what else is there."""
    parts: list[Part] = [
        Paragraph(
            _("{name}: {total} parameters, {size} from {storage} to {gpu} with {engine}").format(
                name=answer.model.name,
                total=parameters(answer.model.unique_parameters),
                size=decimal(answer.bytes),
                storage=_(answer.storage_name),
                gpu=_devices(answer),
                engine=answer.engine,
            ),
            "heading",
        ),
        Paragraph(
            _("The first answer comes after {total}; of that the weights take {weights} with {loader}.").format(
                total=between(answer.total), weights=between(answer.weights), loader=_(answer.loader_name)
            )
        ),
        Paragraph(
            _("The narrow stage is {stage} — {reason}.").format(
                stage=stage_name(answer.narrow_stage), reason=say(answer.narrow_reason)
            ),
            "bad",
        ),
    ]
    parts[1:1] = [Paragraph(say(text), "bad") for text in answer.warnings]
    if answer.narrow_transfer != answer.narrow_stage:
        parts.append(
            Paragraph(
                _("On the way of the weights it is {stage} — {reason}.").format(
                    stage=stage_name(answer.narrow_transfer), reason=say(answer.narrow_transfer_reason)
                )
            )
        )
    parts += [_stages(answer), _bars(answer)]
    parts.append(
        Paragraph(
            _("One after the other {sequential}; with all transfers overlapped {pipelined}.").format(
                sequential=seconds(answer.total_sequential.value), pipelined=seconds(answer.total_pipelined.value)
            )
        )
    )
    parts += _remedies(answer)
    parts += _host_memory(answer)
    parts.append(Paragraph(_("How this is known"), "heading"))
    parts += [Paragraph("· " + say(text), "dim") for text in answer.assumptions]
    return parts


def _devices(answer: Load) -> str:
    return answer.gpu_name if answer.ranks == 1 else f"{answer.ranks} × {answer.gpu_name}"


def between(time: Quantity) -> str:
    """A time with its interval."""
    if time.low is None or time.high is None:
        return seconds(time.value)
    return _("{value} (80 % between {low} and {high})").format(
        value=seconds(time.value), low=seconds(time.low), high=seconds(time.high)
    )


def stage_name(code: str) -> str:
    """The name of a stage, in the language in use."""
    return {
        "process_start": _("process start"),
        "download": _("download"),
        "read": _("read from storage"),
        "host_allocation": _("host memory, first touch"),
        "host_copy": _("copy in host memory"),
        "host_to_device": _("host to device"),
        "initialise": _("set up after loading"),
        "compile": _("profile and compile"),
        "graph_capture": _("capture CUDA graphs"),
        "first_request": _("first request"),
    }[code]


def limit_name(code: str | None) -> str:
    """What limits a stage, in the language in use."""
    return {
        None: "",
        "readers": _("readers"),
        "storage": _("storage"),
        "machine": _("machine"),
        "processor": _("processor"),
        "link": _("link"),
        "loader": _("loader"),
        "memory": _("memory"),
    }[code]


def _stages(answer: Load) -> Table:
    columns = [
        Column(_("stage")),
        Column(_("time"), "right"),
        Column(_("80 % interval"), "right"),
        Column(_("bytes"), "right"),
        Column(_("bandwidth"), "right"),
        Column(_("limited by")),
        Column(_("known")),
    ]
    return Table(
        columns,
        [_row(one) for one in answer.stages],
        strong=frozenset(index for index, one in enumerate(answer.stages) if one.narrow),
    )


def _row(one: LoadStage) -> tuple[str, ...]:
    return (
        stage_name(one.name),
        seconds(one.time.value),
        "–" if one.time.low is None else f"{seconds(one.time.low)} … {seconds(one.time.high or 0.0)}",
        decimal(one.bytes) if one.bytes is not None else "",
        bandwidth(one.bandwidth.value) if one.bandwidth is not None else "",
        limit_name(one.limit),
        word(one.time.kind),
    )


def _bars(answer: Load) -> Bars:
    last = max((one.begins + one.time.value for one in answer.stages), default=0.0)
    rows = [
        (
            stage_name(one.name),
            [Segment("", one.begins), Segment(_("time"), one.time.value)],
            seconds(one.time.value),
        )
        for one in answer.stages
    ]
    return Bars(rows, last)


def _remedies(answer: Load) -> list[Part]:
    if not answer.remedies:
        return [Paragraph(_("No single change that is known makes this start faster."))]
    columns = [
        Column(_("what would help")),
        Column(_("saves"), "right"),
        Column(_("then"), "right"),
        Column(_("how")),
    ]
    rows = [
        (say(one.text), seconds(one.seconds_saved), seconds(one.total), one.change)
        for one in answer.remedies[:SHOWN_REMEDIES]
    ]
    parts: list[Part] = [Table(columns, rows)]
    if len(answer.steps) > 1:
        parts.append(Paragraph(_("Step by step, each with those before it:")))
        parts += [
            Paragraph(
                _("{step}. {change}: first answer after {total}").format(
                    step=number, change=say(one.text), total=seconds(one.total)
                ),
                indent=2,
            )
            for number, one in enumerate(answer.steps, 1)
        ]
    return parts


def _host_memory(answer: Load) -> list[Part]:
    found = answer.host_memory
    if found is None:
        return []
    # few tokens touch a part of the experts alone
    sparse = answer.model.active_parameters < answer.model.unique_parameters
    text = (
        _(
            "If the weights stayed in host memory, a pass that touches all experts, as a prompt does, would move "
            "{size} to each device at {rate}: {request}, {layer} a layer, against {here} from the device's own memory: "
            "{times} × as long. Few tokens touch fewer experts, here as there."
        )
        if sparse
        else _(
            "If the weights stayed in host memory, every pass would move {size} to each device at {rate}: {request} "
            "for the first token of a request and for each one after it, {layer} a layer, against {here} from the "
            "device's own memory: {times} × as long."
        )
    )
    return [
        Paragraph(
            text.format(
                size=decimal(found.bytes),
                rate=bandwidth(found.bandwidth.value),
                request=seconds(found.per_request.value),
                layer=seconds(found.per_layer.value),
                here=seconds(found.from_device_memory.value),
                times=f"{found.slowdown:.0f}",
            )
        ),
        *_asleep(found),
    ]


def _asleep(found: FromHostMemory) -> list[Part]:
    if found.wake is None:
        return []
    return [
        Paragraph(
            _("An engine that sleeps with its weights in host memory serves again after {wake}.").format(
                wake=between(found.wake)
            )
        ),
    ]

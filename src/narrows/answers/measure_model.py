"""`measure model`: a real decoder on this machine, measured against what the machine's measurement predicts."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import msgspec

from narrows.answers.base import Answer, command_line
from narrows.hardware.this_machine import machine_path, this_machine
from narrows.measure.compute import BYTES, copies_of
from narrows.measure.contention import Conditions, Watch
from narrows.measure.decoder import Decoder, Point, Run, Runs
from narrows.measure.limits import last_level_cache
from narrows.measure.machine import chosen
from narrows.measure.predict import Bound, Machine, Predicted, measured_here, predicted
from narrows.measure.timing import Pace, median, quantile, sample
from narrows.measure.verdicts import (
    Observed,
    agrees,
    asked_of,
    growths,
    kernel_changes,
    observed,
    throughout,
    turning_rows,
)
from narrows.quantity import Quantity
from narrows.text import BadInput, Text

PROMPTS, BATCHES, CONTEXTS = (32, 128, 512), (1, 2, 4, 8, 16, 32, 64), (128, 1024)
LONG_BATCHES = (1, 4, 8)
"""Batches at the longer contexts."""
GOOD = 0.20
"""Median error up to which measurement and prediction are said to agree."""
DRIFT = 1.15


class PointMeasured(msgspec.Struct, frozen=True):
    """One point: seconds as measured and as predicted from the machine alone; error: predicted ÷ measured − 1.

    parts: seconds of the prediction by what is done (products, attention, elementwise, copies, host). bound:
    predicted; observed: what the measured time says by itself; right: whether both agree (None: not clear).
    reached: of what the peaks allow its products, the share that the machine's curve of them reaches. drift: how many
    times slower the machine was just then than when it was measured.
    """

    precision: str
    phase: str
    batch: int
    length: int
    measured: Quantity
    predicted: Quantity
    error: float
    parts: dict[str, float]
    flops: int
    bytes: int
    bound: str
    separation: float
    observed: Observed
    right: bool | None
    reached: float
    drift: float


class KernelChange(msgspec.Struct, frozen=True):
    """From `fewer` to `more` rows the library changes the kernel of its products, by the machine's own curve.

    measured, predicted: how many times longer the step takes; roof: how many times longer it would with the arithmetic
    and the traffic alone.
    """

    precision: str
    phase: str
    fewer: int
    more: int
    measured: float
    predicted: float
    roof: float


class Turning(msgspec.Struct, frozen=True):
    """The batch at which decode turns from memory- to compute-bound at a precision; None: not within what was run.

    measured_bound, predicted_bound: what bounds at every batch that was run, where it does not turn.
    """

    precision: str
    context: int
    measured: float | None
    predicted: float | None
    measured_bound: Bound | None
    predicted_bound: Bound | None


class ModelMeasured(Answer, frozen=True, kw_only=True):
    """The answer of `measure model`.

    parameters: of the decoder; random: its weights are random. median_error, p90_error: of |predicted ÷ measured − 1|.
    verdicts, right: points whose verdict is clear, and those of them that agree. agrees: all do, and the median error
    is at most 20 %. kernel_changes: where growth is not counted, since another kernel begins. drift: median over the
    points; median_error_now: of the predictions times their drift.
    """

    schema: str = "narrows.measure-model/1"
    model: str
    device: str
    engine: str
    parameters: int
    random: bool
    points: tuple[PointMeasured, ...]
    turning: tuple[Turning, ...]
    kernel_changes: tuple[KernelChange, ...]
    median_error: float
    p90_error: float
    verdicts: int
    right: int
    agrees: bool
    drift: float
    median_error_now: float
    conditions: Conditions


Building = Callable[[str, str, str], Runs]
Ran = tuple[str, Point, Run, Predicted, float]
"""A precision, a point that was run at it, what it took and was predicted to take, and the drift."""


def measure_model(
    model: str,
    *,
    device: str | None = None,
    precision: Sequence[str] = (),
    prompt: Sequence[int] = (),
    batch: Sequence[int] = (),
    context: Sequence[int] = (),
    seconds: float = 300.0,
    progress: Callable[[float, Text], None] = lambda share, stage: None,
    building: Building = Decoder,
) -> ModelMeasured:
    """Run the decoder of a folder or a config.json (random weights where it has none) and compare with predictions.

    precision: bf16, fp32, fp16; by default those of bf16 and fp32 that the machine was measured at. prompt: lengths of
    prefill; batch, context: of decode. Points that would take too long for `seconds` in all are left out. Raises
    BadInput where this machine was not measured, for a config that transformers does not know, or memory too small.
    """
    known = measured_here()
    wanted = tuple(precision) or tuple(name for name in ("fp32", "bf16") if name in known.curves)
    for name in wanted:
        if name not in known.curves:
            raise BadInput(
                "this machine was not measured at {precision}; it was at {known}",
                precision=name[:20],
                known=", ".join(known.curves),
            )
    for flag, values in (("--prompt", prompt), ("--batch", batch), ("--context", context)):
        if any(not 1 <= value <= 2**20 for value in values):
            raise BadInput("{flag} must be from 1 to 1,048,576", flag=flag)
    place = chosen(device)[0] if building is Decoder else "cpu"
    points = _points(tuple(prompt) or PROMPTS, tuple(batch) or BATCHES, tuple(context) or CONTEXTS, not batch)
    watch, pace = Watch(), Pace(time.monotonic, seconds)
    found: list[Ran] = []
    notes: list[Text] = []
    refusal: BadInput | None = None
    parameters, random, engine = 0, True, ""
    for index, name in enumerate(wanted):
        progress(index / len(wanted), Text("building the decoder at {precision}", precision=name))
        decoder = building(model, name, place)
        parameters, random, engine = decoder.parameters, decoder.random, decoder.name
        part = pace.part(pace.left / (len(wanted) - index))
        for number, point in enumerate(points):
            share = (index + number / len(points)) / len(wanted)
            progress(share, Text("{phase} at {precision}", phase=point.phase, precision=name))
            if _least(point, decoder, known, name) * 5 > part.left:
                notes.append(
                    Text(
                        "{phase} of {batch} × {length} tokens at {precision} was left out: it takes too long",
                        phase=point.phase,
                        batch=point.batch,
                        length=point.length,
                        precision=name,
                    )
                )
                continue
            drift = _drift(decoder, known, name)
            try:
                run = decoder.run(point)
            except BadInput as refused:
                refusal = refused
                notes.append(refused.text)
                continue
            found.append((name, point, run, predicted(run.calls, known, decoder.weight_bytes), drift))
        del decoder
    progress(1.0, Text("done"))
    if not found and refusal is not None:
        raise refusal
    if not found:
        raise BadInput("no point could be run in {seconds} seconds; raise --seconds", seconds=f"{seconds:g}")
    command = command_line(
        "measure", "model", model, device=device, precision=list(precision), prompt=list(prompt), batch=list(batch),
        context=list(context),
    )  # fmt: skip
    return _answer(model, place, engine, parameters, random, found, known, watch.stop(), notes, command)


def _points(prompts: Sequence[int], batches: Sequence[int], contexts: Sequence[int], fewer: bool) -> list[Point]:
    points = [Point("decode", batch, min(contexts)) for batch in batches]
    points += [Point("prefill", 1, length) for length in sorted(prompts)]
    for context in sorted(contexts)[1:]:
        points += [Point("decode", batch, context) for batch in (LONG_BATCHES if fewer else batches)]
    return points


def _least(point: Point, decoder: Runs, machine: Machine, precision: str) -> float:
    """Seconds that a point takes at least: its products at the measured peak, or its weights at the bandwidth."""
    tokens = point.batch * (point.length if point.phase == "prefill" else 1)
    return max(2 * decoder.applied * tokens / machine.peaks[precision], decoder.weight_bytes / machine.bandwidth)


def _drift(decoder: Runs, machine: Machine, precision: str) -> float:
    """How many times slower the machine is now than when it was measured: two products of the curve, timed again."""
    ratios = []
    for rows in (1, 64):
        try:
            copies = copies_of(BYTES[precision] * 1024**2, last_level_cache(), 2**30)
            run = decoder.library.linear(rows, 1024, 1024, precision, copies)
        except (AttributeError, RuntimeError):
            return 1.0
        taken = sample(run, settle=decoder.library.settle, budget=0.1)
        ratios.append(taken.median / machine.curves[precision].seconds(rows, 1024, 1024))
    return math.sqrt(ratios[0] * ratios[1])


def _answer(
    model: str,
    place: str,
    engine: str,
    parameters: int,
    random: bool,
    found: list[Ran],
    machine: Machine,
    conditions: Conditions,
    notes: list[Text],
    command: str,
) -> ModelMeasured:
    points = tuple(_point(one, _growth(one, found), machine) for one in found)
    errors = sorted(abs(one.error) for one in points)
    clear = [one.right for one in points if one.right is not None]
    return ModelMeasured(
        command=command,
        model=model,
        device=place,
        engine=engine,
        parameters=parameters,
        random=random,
        points=points,
        turning=tuple(_turnings(found)),
        kernel_changes=tuple(_changes(found)),
        median_error=median(errors),
        p90_error=quantile(errors, 0.9),
        verdicts=len(clear),
        right=sum(clear),
        agrees=all(clear) and median(errors) <= GOOD,
        drift=median([one.drift for one in points]),
        median_error_now=median([abs((1 + one.error) * one.drift - 1) for one in points]),
        conditions=conditions,
        assumptions=(*dict.fromkeys(notes), *_how(random)),
        sources=(this_machine().source, machine_path()),
    )


def _growth(one: Ran, found: list[Ran]) -> float | None:
    """How the time grows with the rows around a point. Of decode at the shortest context alone: at longer ones the
    cache is traffic that grows with the batch too.
    """
    precision, point, *_ = one
    if point.phase == "decode" and point.length != _shortest(found):
        return None
    series = _series(found, precision, point.phase)
    expected = _expected(series)
    return growths(_measured(series), kernel_changes(expected), asked_of(expected))[_rows(point)]


def _shortest(found: list[Ran]) -> int:
    return min((point.length for _, point, *_ in found if point.phase == "decode"), default=0)


def _rows(point: Point) -> int:
    return point.batch * (point.length if point.phase == "prefill" else 1)


def _series(found: list[Ran], precision: str, phase: str) -> dict[int, Ran]:
    """What was run by rows: all prefills of a precision, or its decodes at the shortest context."""
    return {
        _rows(one[1]): one
        for one in found
        if one[0] == precision and one[1].phase == phase and (phase == "prefill" or one[1].length == _shortest(found))
    }


def _measured(series: dict[int, Ran]) -> dict[int, float]:
    return {rows: run.time.median for rows, (_, _, run, _, _) in series.items()}


def _expected(series: dict[int, Ran]) -> dict[int, Predicted]:
    return {rows: expected for rows, (_, _, _, expected, _) in series.items()}


def _changes(found: list[Ran]) -> Iterator[KernelChange]:
    for name, phase in dict.fromkeys((one[0], one[1].phase) for one in found):
        series = _series(found, name, phase)
        measured, expected = _measured(series), _expected(series)
        for fewer, more in pairwise(sorted(series)):
            if more in kernel_changes(expected):
                a, b = expected[fewer], expected[more]
                roof = b.products * b.reached / (a.products * a.reached)
                yield KernelChange(name, phase, fewer, more, measured[more] / measured[fewer], b.time / a.time, roof)


def _turnings(found: list[Ran]) -> Iterator[Turning]:
    for name in dict.fromkeys(one[0] for one in found):
        series = _series(found, name, "decode")
        expected = _expected(series)
        changes, asked = kernel_changes(expected), asked_of(expected)
        times, forecast = _measured(series), {rows: one.time for rows, one in expected.items()}
        yield Turning(
            name,
            _shortest(found),
            measured=turning_rows(times, changes, asked),
            predicted=turning_rows(forecast, changes, asked),
            measured_bound=throughout(times, changes, asked),
            predicted_bound=throughout(forecast, changes, asked),
        )


def _point(one: Ran, growth: float | None, machine: Machine) -> PointMeasured:
    precision, point, run, expected, drift = one
    seen = observed(growth, run.time.median, expected, machine.peaks[precision], machine.bandwidth)
    return PointMeasured(
        precision=precision,
        phase=point.phase,
        batch=point.batch,
        length=point.length,
        measured=run.time.seconds,
        predicted=Quantity(expected.time, "s", "predicted"),
        error=expected.time / run.time.median - 1,
        parts={
            "products": expected.products,
            "attention": expected.attention,
            "elementwise": expected.elementwise,
            "copies": expected.copies,
            "host": expected.host,
        },
        flops=expected.flops,
        bytes=expected.bytes,
        bound=expected.bound,
        separation=expected.separation,
        observed=seen,
        right=agrees(expected, seen),
        reached=expected.reached,
        drift=drift,
    )


def _how(random: bool) -> Sequence[Text]:
    found = [
        Text(
            "each operator that transformers issues is recorded with its shapes in a run that is not timed; its time "
            "is taken from the measurement of this machine alone"
        ),
        Text("the cache is transformers' own, which is copied whole for every token; those copies are predicted too"),
        Text(
            "flat in the batch means memory-bound, linear compute-bound, within the rows of one kernel; where growth "
            "says nothing, the share of peak and bandwidth that is reached decides"
        ),
    ]
    if random:
        found.append(Text("weights are random: they take as long as real ones, except where a router chooses experts"))
    return found

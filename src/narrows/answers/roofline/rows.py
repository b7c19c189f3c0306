"""Phases and operators of an answer from the times of steps."""

from __future__ import annotations

from collections.abc import Iterator

from narrows.answers.roofline.types import Moved, OperatorRow, Phase, Ridge, Spending, UsedLaw
from narrows.hardware import Accelerator
from narrows.quantity import Quantity
from narrows.roofline.cost import Costs
from narrows.roofline.phases import PhaseTime, main_precision
from narrows.roofline.timed import Cause, Timed
from narrows.step import AttentionShape, Collective, Elementwise, Experts, Gemm, Scan, Shape
from narrows.step.operators import Phase as PhaseName
from narrows.units import decimal


def predicted(value: float, unit: str, low: float, high: float) -> Quantity:
    """A prediction with its 80 % interval."""
    return Quantity(value, unit, "predicted", low, high)


def phase_of(name: PhaseName, time: PhaseTime, device: Accelerator, sequences: int, tokens: int, context: int) -> Phase:
    """A phase in which `sequences` run `tokens` new tokens in all."""
    flops, moved = time.flops, time.bytes
    precision = main_precision(time.operators)
    return Phase(
        name=name,
        time=predicted(time.time, "s", time.low, time.high),
        bound=time.bound,
        sequences=sequences,
        tokens=tokens,
        context=context,
        steps=time.count,
        flops=flops,
        bytes=moved,
        intensity=flops / moved if moved else 0.0,
        ridge=device.ridge(precision),
        precision=precision,
        attained=flops / time.time,
        tokens_per_second=predicted(tokens / time.time, "1/s", tokens / time.high, tokens / time.low),
        traffic=traffic(time),
        shares=time.shares,
        spending=spending(time),
    )


def traffic(time: PhaseTime) -> dict[Moved, int]:
    """Bytes of one rank by what is moved."""
    found: dict[Moved, int] = {"weights": 0, "kv_cache": 0, "state": 0, "activations": 0}
    for times, one in time.operators:
        count = times * one.count
        found["weights"] += count * one.weights
        found["kv_cache"] += count * one.kv
        found["state"] += count * one.state
        found["activations"] += count * (one.reads + one.writes)
    return found


def spending(time: PhaseTime) -> dict[Spending, float]:
    """Cause → seconds, with the share of memory bandwidth told apart by what is moved.

    It is cut as the traffic of the operators that wait for memory is, each weighted by its seconds.
    """
    shares = time.shares
    moved: dict[Spending, float] = {"weights": 0.0, "kv_cache": 0.0, "state": 0.0, "activations": 0.0}
    rows = [(times, one) for times, step in time.steps for one in step.operators if one.operator.bytes]
    waiting = [(times, one) for times, one in rows if one.bound == "memory bandwidth"] or rows
    for times, one in waiting:
        operator = one.operator
        each = times * operator.count * one.memory / operator.bytes
        moved["weights"] += each * operator.weights
        moved["kv_cache"] += each * operator.kv
        moved["state"] += each * operator.state
        moved["activations"] += each * (operator.reads + operator.writes)
    whole = sum(moved.values())
    memory = shares.get("memory bandwidth", 0.0)
    found: dict[Spending, float] = {name: memory * part / whole if whole else 0.0 for name, part in moved.items()}
    for cause in ("compute", "interconnect", "overhead"):
        found[cause] = shares.get(cause, 0.0)
    return found


def ridges(device: Accelerator, used: set[str]) -> tuple[Ridge, ...]:
    """The roofs of the device, by precision."""
    return tuple(
        Ridge(name, device.peak(name), device.memory_bandwidth, device.ridge(name), name in used)
        for name in device.precisions
    )


def operator_rows(phase: PhaseName, time: PhaseTime) -> Iterator[OperatorRow]:
    """The operators of a phase in the order of a step; those of all steps together, where there are several."""
    found: dict[tuple[str, str, int], list[tuple[int, Timed]]] = {}
    for times, step in time.steps:
        seen: dict[tuple[str, str], int] = {}
        for one in step.operators:
            key = (one.operator.name, one.operator.precision)
            # operators of one name are told apart by their place: shapes differ between the steps of one prompt
            place = seen[key] = seen.get(key, 0) + 1
            found.setdefault((*key, place), []).append((times, one))
    for (name, precision, _), members in found.items():
        yield _row(phase, name, precision, members, time.time)


def _row(phase: PhaseName, name: str, precision: str, members: list[tuple[int, Timed]], whole: float) -> OperatorRow:
    counted = [(times * one.operator.count, one) for times, one in members]
    flops = sum(count * one.operator.flops for count, one in counted)
    moved = sum(count * one.operator.bytes for count, one in counted)
    seconds, low, high = (
        sum(count * getattr(one, field) for count, one in counted) for field in ("time", "low", "high")
    )
    bounds: dict[Cause, float] = {}
    for count, one in counted:
        bounds[one.bound] = bounds.get(one.bound, 0.0) + count * one.time
    longest = max(counted, key=lambda pair: pair[0] * pair[1].time)[1]
    return OperatorRow(
        phase=phase,
        name=name,
        kind=kind_of(longest.operator.shape),
        shape=shape_text(longest.operator.shape),
        count=sum(count for count, _ in counted),
        precision=precision,
        flops=flops,
        bytes=moved,
        weights=sum(count * one.operator.weights for count, one in counted),
        kv_cache=sum(count * one.operator.kv for count, one in counted),
        state=sum(count * one.operator.state for count, one in counted),
        intensity=flops / moved if moved else 0.0,
        attained=flops / seconds if seconds else 0.0,
        time=predicted(seconds, "s", low, high),
        share=seconds / whole,
        bound=max(bounds, key=lambda cause: bounds[cause]),
    )


def used_laws(costs: Costs, *times: PhaseTime) -> tuple[UsedLaw, ...]:
    """The laws behind these phases, each once; those of collectives, whose law changes with the message, left out."""
    found: dict[UsedLaw, None] = {}
    for time in times:
        for _, one in time.operators:
            if not isinstance(one.shape, Collective):
                law = costs.law_of(one)[1]
                kind, precision = kind_of(one.shape), one.precision if one.flops else ""
                phase = one.shape.phase if isinstance(one.shape, AttentionShape) else ""
                used = UsedLaw(kind, phase, precision, law.device, law.n, law.low, law.high, law.basis, law.source)
                found[used] = None
    if costs.steps is not None:
        whole = costs.steps
        used = UsedLaw("step", "", "", whole.device, whole.n, whole.low, whole.high, whole.basis, whole.source)
        found[used] = None
    return tuple(found)


def kind_of(shape: Shape) -> str:
    """`gemm`, `attention`, …"""
    return str(type(shape).__struct_config__.tag)


def shape_text(shape: Shape) -> str:
    """A shape in signs: `[16, 4096] × [4096, 22016]`."""
    if isinstance(shape, Gemm):
        text = f"[{shape.m}, {shape.k}] × [{shape.k}, {shape.n}]"
        return text if shape.copies == 1 else f"{shape.copies} × {text}"
    if isinstance(shape, Experts):
        return f"[{shape.tokens}, {shape.hidden}] × {shape.touched:.1f}/{shape.experts} × {shape.intermediate}"
    if isinstance(shape, AttentionShape):
        heads = f"{shape.heads}/{shape.kv_heads}"
        # a window tells its layers from those without one, whose prompts show as many queries and keys
        causal = shape.queries * shape.keys - shape.queries * (shape.queries - 1) // 2
        windowed = shape.phase == "prefill" and shape.sequences == 1 and shape.pairs < causal
        each = f" ({shape.pairs / shape.queries:,.0f}/q)" if windowed else ""
        return f"q {shape.queries} · k {shape.keys}{each} · {heads} × {shape.key_dim}"
    if isinstance(shape, Scan):
        return f"{shape.sequences} × {shape.tokens} · {shape.state}"
    if isinstance(shape, Elementwise):
        return f"[{shape.rows}, {shape.width}]"
    assert isinstance(shape, Collective)
    return f"{shape.ranks} × {decimal(shape.message)}"

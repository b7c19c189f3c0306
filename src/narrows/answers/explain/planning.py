"""`plan`: requests that an A10 and an L40S take: by arithmetic, in the chapter's practice, by the engine's ledger."""

from __future__ import annotations

from narrows.answers.explain.prices import price_steps
from narrows.answers.explain.subjects import GPUS, LENGTH, NAMED, Gpu, model, plan_on
from narrows.answers.explain.types import (
    CHAPTER,
    ExampleTable,
    Known,
    Row,
    Step,
    Topic,
    exact,
    formula,
    number,
    of_kind,
    row,
    step,
    table,
    words,
)
from narrows.deployment import Deployment
from narrows.hardware import find_accelerator
from narrows.memory import Capacity, capacity, reserve
from narrows.quantity import Kind
from narrows.text import Text
from narrows.units import GB, GIB, MIB, gib, rate


def plan() -> Topic:
    """Requests of 4096 tokens beside the weights on each GPU, counted three ways, and what they cost."""
    spec = model()
    weights = NAMED * spec.precision.dtype.bits // 8
    request = spec.kv_bytes_per_sequence(LENGTH)
    found = [(gpu, deployment, capacity(deployment)) for gpu in GPUS for deployment in [plan_on(gpu.id)]]
    steps: list[Step] = [
        step(
            "request",
            Text("KV cache of one request, in the chapter's units (they are MiB):"),
            f"0.5 MB × {LENGTH} = {request // MIB} MB",
            exact(request, "B"),
        )
    ]
    rows: list[Row] = []
    for gpu, _, room in found:
        left = gpu.label - weights // GB
        fits = left * 1024 // (request // MIB)
        steps.append(
            step(
                f"{gpu.name.lower()}_arithmetic",
                Text("{gpu}: what its label leaves beside the weights, divided by one request:", gpu=gpu.name),
                f"{gpu.label} − {weights // GB} = {left} GB;  {left} × 1024 MB ÷ {request // MIB} MB = {fits}",
                exact(fits, "requests"),
            )
        )
        rows += [
            _counted(gpu, "arithmetic", Text("arithmetic on the label"), f"{left} GB", left * GB, fits),
            _counted(gpu, "practice", Text("the chapter's practice"), "", None, gpu.practice),
            _counted(gpu, "ledger", Text("the engine's ledger"), gib(room.pool), room.pool, room.max_batch),
        ]
    steps += [
        step(
            "ledger",
            Text(
                "The arithmetic maximum cannot be used. The driver keeps part of the memory, the engine claims a share "
                "of the rest, and activations, CUDA graphs and runtime need room. Computed for {engine}, per GPU "
                "in GiB:",
                engine=found[0][1].engine.label,
            ),
            table=_ledger([(deployment, room) for _, deployment, room in found]),
        ),
        *(_by_ledger(gpu, deployment, room) for gpu, deployment, room in found),
        step(
            "table",
            Text("Three counts of the same thing, requests of {length} tokens at once:", length=str(LENGTH)),
            table=table((Text("GPU"), Text("counted by"), Text("left for KV"), Text("requests")), *rows),
        ),
        *_units(),
        *_ratios(weights // GB, [room for _, _, room in found]),
        *price_steps(GPUS),
        _naming(),
    ]
    return Topic(
        "plan",
        Text("GPU plan: an A10 or an L40S for requests of {length} tokens", length=str(LENGTH)),
        tuple(steps),
        (f"{CHAPTER}, table 5-7", found[0][1].engine.source),
        tuple(dict.fromkeys(text for _, one, _ in found for text in (*one.assumptions, *reserve(one).basis))),
        "narrows fit llama-2-7b --gpu a10g --gpu l40s --max-len 4096 --gpu-memory-utilization 0.9",
    )


_KINDS: dict[str, Kind] = {"arithmetic": "exact", "practice": "cited", "ledger": "predicted"}


def _counted(gpu: Gpu, how: str, label: Text, shown: str, left: float | None, fits: int) -> Row:
    return row(
        f"{gpu.name.lower()}_{how}",
        words(gpu.name),
        words(label),
        words(Text("not stated")) if left is None else number(shown, left, "B", _KINDS[how]),
        number(str(fits), fits, "requests", _KINDS[how]),
        known=_known(_KINDS[how]),
    )


def _known(kind: Kind) -> Known:
    return "computed" if kind == "exact" else kind


def _ledger(found: list[tuple[Deployment, Capacity]]) -> ExampleTable:
    """Budget, terms and what is left for KV on each GPU, in GiB."""

    def line(name: str, label: Text, values: list[float], sign: str = "", kind: Kind = "predicted") -> Row:
        cells = (number(f"{sign}{value / GIB:.2f}", value, "B", kind) for value in values)
        return row(name, words(label), *cells, known=_known(kind))

    kept = [reserve(deployment) for deployment, _ in found]
    weights: list[float] = [room.shard.weights + one.tables for (_, room), one in zip(found, kept, strict=True)]
    share = Text("of it the engine's share ({share})", share=found[0][0].utilization)
    return table(
        (Text("GiB"), *(formula(deployment.accelerator.id.upper()) for deployment, _ in found)),
        line("usable", Text("usable, as CUDA reports it"), [d.usable for d, _ in found], "", "measured"),
        line("budget", share, [d.budget for d, _ in found], "", "exact"),
        line("weights", Text("weights"), weights, "− ", "exact"),
        line("activations", Text("activation peak"), [one.activations for one in kept], "− "),
        line("graphs", Text("CUDA graphs"), [one.graphs for one in kept], "− "),
        line("runtime", Text("runtime"), [one.runtime for one in kept], "− "),
        line("pool", Text("left for the KV cache"), [room.pool for _, room in found], "= "),
    )


def _by_ledger(gpu: Gpu, deployment: Deployment, room: Capacity) -> Step:
    each = room.shard.sequence_bytes(LENGTH)
    return step(
        f"{gpu.name.lower()}_ledger",
        Text("{gpu}: divided by one request, and rounded down:", gpu=deployment.accelerator.id.upper()),
        f"{gib(room.pool)} ÷ {gib(each)} = {room.concurrency:.2f} → {room.max_batch}",
        of_kind(room.max_batch, "requests", "predicted"),
    )


def _units() -> list[Step]:
    """What three numbers for one memory hide."""
    return [
        step(
            f"{gpu.name.lower()}_visible",
            Text(
                "{gpu}: the label says {label} GB, the driver shows {driver}, and a process can get {usable}. Of "
                "{label} GiB that is:",
                gpu=device.name,
                label=gpu.label,
                driver=gib(device.memory_bytes),
                usable=gib(device.usable.bytes),
            ),
            f"{gib(device.usable.bytes)} ÷ {gpu.label} GiB = {device.usable.bytes / (gpu.label * GIB) * 100:.1f} %",
            of_kind(device.usable.bytes, "B", device.usable.kind),
        )
        for gpu in GPUS
        for device in [find_accelerator(gpu.id)]
    ]


def _ratios(weights: int, rooms: list[Capacity]) -> list[Step]:
    """Four times the concurrency for about twice the price, and why."""
    small, large = GPUS
    growth = (large.label - weights) / (small.label - weights)
    dearer = large.usd_per_hour / small.usd_per_hour
    return [
        step(
            "concurrency_ratio",
            Text("In the chapter's practice the L40S takes four times as many requests:"),
            f"{large.practice} ÷ {small.practice} = {large.practice / small.practice:g} ×",
            of_kind(large.practice / small.practice, "1", "cited"),
        ),
        step(
            "ledger_ratio",
            Text("By the ledger the ratio is nearly the same:"),
            f"{rooms[1].max_batch} ÷ {rooms[0].max_batch} = {rooms[1].max_batch / rooms[0].max_batch:.2f} ×",
            of_kind(rooms[1].max_batch / rooms[0].max_batch, "1", "predicted"),
        ),
        step(
            "why",
            Text("The memory is only twice as large, but the weights are paid once, and what is left grows faster:"),
            f"({large.label} − {weights}) ÷ ({small.label} − {weights}) = {growth:.1f} ×",
            exact(growth, "1"),
        ),
        step(
            "price_ratio",
            Text("The chapter's prices per GPU and hour, by contrast, are less than twice apart:"),
            f"{large.usd_per_hour:.2f} $ ÷ {small.usd_per_hour:.2f} $ = {dearer:.2f} ×",
            of_kind(dearer, "1", "cited"),
        ),
    ]


def _naming() -> Step:
    a10, a10g = find_accelerator("a10"), find_accelerator("a10g")
    share = a10g.peak("bf16") / a10.peak("bf16")
    return step(
        "naming",
        Text(
            "What the name hides: AWS has no A10, its g5 instances carry the A10G: the same {label} and the same "
            "bandwidth, but another BF16 peak:",
            label=a10.memory_label,
        ),
        f"{rate(a10g.peak('bf16'))} ÷ {rate(a10.peak('bf16'))} = {share * 100:.0f} %",
        exact(share, "1"),
    )

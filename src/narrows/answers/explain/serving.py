"""`serving`: how memory grows from idle to peak, the usual accident, and the levers."""

from __future__ import annotations

from narrows.answers.explain.subjects import BATCH, LENGTH, model, plan_on
from narrows.answers.explain.types import (
    CHAPTER,
    ExampleTable,
    Row,
    Topic,
    exact,
    number,
    of_kind,
    row,
    step,
    table,
    words,
)
from narrows.deployment import Deployment
from narrows.memory import capacity, growth, ledger, reserve
from narrows.text import Text
from narrows.units import GIB, decimal, gib

_MOMENTS = {
    "loaded": Text("idle: loaded"),
    "first prefill": Text("first prefill"),
    "mid-decode": Text("half of the answer"),
    "peak": Text("end of the answer"),
}


def serving() -> Topic:
    """The L40S at its largest batch of 4096 tokens: moments, one request too many, levers, rule of thumb."""
    here = plan_on("l40s")
    room = capacity(here)
    batch = room.max_batch
    over = ledger(here, batch + 1, LENGTH)
    size = model().checkpoint_bytes()
    thumb = capacity(plan_on("l40s", device_memory=2 * size))
    wanted = (room.shard.weights + BATCH * room.shard.sequence_bytes(LENGTH) + reserve(here).total) / here.utilization
    return Topic(
        "serving",
        Text("While serving: from idle to peak"),
        (
            step(
                "growth",
                Text(
                    "Idle memory is the weights. Running adds KV cache, which grows with every token, and working memory. "
                    "{gpu}, {batch} requests with {prompt} tokens of prompt and {answer} of answer, in GiB:",
                    gpu=here.accelerator.name,
                    batch=batch,
                    prompt=str(LENGTH // 2),
                    answer=str(LENGTH // 2),
                ),
                table=_growth(here, batch),
            ),
            step(
                "peak",
                Text(
                    "The peak comes at the end of the answers, and it must fit: {free} of the engine's share are left.",
                    free=gib(room.pool - batch * room.shard.sequence_bytes(LENGTH)),
                ),
                f"{batch} × {gib(room.shard.sequence_bytes(LENGTH))} = {gib(batch * room.shard.sequence_bytes(LENGTH))} ≤ {gib(room.pool)}",
                of_kind(batch * room.shard.sequence_bytes(LENGTH), "B", "exact"),
            ),
            step(
                "accident",
                Text(
                    "The usual accident: the weights fit, the tests pass, and under load one request more overflows. "
                    "An engine that claims its KV cache at start then preempts or queues; others run out of memory."
                ),
                f"{batch + 1} × {gib(room.shard.sequence_bytes(LENGTH))} = {gib(over.kv_cache)} > {gib(room.pool)}",
                of_kind(over.free, "B", "predicted"),
            ),
            step(
                "levers",
                Text("The four levers, and what each does to the requests of full length that fit:"),
                table=_levers(here),
            ),
            step(
                "rule_of_thumb",
                Text("Rule of thumb: start with GPU memory of twice the model's size."),
                f"2 × {decimal(size)} = {decimal(2 * size)} = {gib(2 * size)}",
                exact(2 * size, "B"),
            ),
            step(
                "thumb_requests",
                Text("That much memory starts the model, but serves few requests of this length:"),
                f"{gib(thumb.pool)} ÷ {gib(thumb.shard.sequence_bytes(LENGTH))} = {thumb.concurrency:.2f} → {thumb.max_batch}",
                of_kind(thumb.max_batch, "requests", "predicted"),
            ),
            step(
                "needed",
                Text(
                    "The real answer follows from the load. For {batch} × {length} tokens, at utilization {share}:",
                    batch=BATCH,
                    length=str(LENGTH),
                    share=here.utilization,
                ),
                f"({room.shard.weights / GIB:.2f} + {BATCH * room.shard.sequence_bytes(LENGTH) / GIB:.2f} + {reserve(here).total / GIB:.2f}) GiB ÷ "
                f"{here.utilization} = {gib(wanted)} = {wanted / size:.1f} × {gib(size)}",
                of_kind(wanted, "B", "predicted"),
            ),
            step("more", Text("Prefix caching and whatever else keeps KV between requests wants more still.")),
        ),
        (CHAPTER, here.engine.source),
        "narrows fit llama-2-7b --gpu l40s --batch 13 --max-len 4096 --gpu-memory-utilization 0.9",
    )


def _growth(deployment: Deployment, batch: int) -> ExampleTable:
    """Weights, KV, working memory and their sum at each moment, in GiB."""
    rows: list[Row] = []
    for name, one in growth(deployment, batch, LENGTH // 2):
        working = one.activations + one.graphs + one.runtime
        values = (one.weights, one.kv_cache, working, one.weights + one.kv_cache + working, one.unclaimed)
        cells = (number(f"{value / GIB:.2f}", value, "B", "predicted") for value in values)
        rows.append(row(name, words(_MOMENTS[name]), *cells))
    columns = (
        Text("moment"),
        Text("weights"),
        Text("KV cache"),
        Text("working memory"),
        Text("used"),
        Text("unclaimed"),
    )
    return table(columns, *rows)


def _levers(before: Deployment) -> ExampleTable:
    """Each lever moved once: KV pool in bytes, and requests of full length."""
    fits = capacity(before).max_batch
    length, utilization = LENGTH // 2, 0.95
    moved = (
        ("max_num_seqs", before.max_num_seqs, fits, {"max_num_seqs": fits}, Text("caps the peak at what fits")),
        ("max_model_len", LENGTH, length, {"max_length": length}, Text("shorter requests, more of them")),
        ("max_num_batched_tokens", before.max_num_batched_tokens, 16384, {"max_num_batched_tokens": 16384}, Text("larger steps take activations from the KV cache")),
        ("gpu_memory_utilization", before.utilization, utilization, {"utilization": utilization}, Text("claims more, leaves less for others")),
    )  # fmt: skip
    rows = []
    for name, old, new, change, effect in moved:
        after = capacity(plan_on("l40s", **change))
        rows.append(
            row(
                name,
                words(name),
                words(f"{old} → {new}"),
                number(f"{after.pool / GIB:.2f} GiB", after.pool, "B", "predicted"),
                number(f"{fits} → {after.max_batch}", after.max_batch, "requests", "predicted"),
                words(effect),
            )
        )
    columns = (Text("lever"), Text("from → to"), Text("KV room"), Text("requests"), Text("effect"))
    return table(columns, *rows)

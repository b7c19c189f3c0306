"""`serving`: how memory grows from idle to peak, the usual accident, and the levers."""

from __future__ import annotations

from narrows.answers.explain.subjects import BATCH, LENGTH, model, plan_on
from narrows.answers.explain.types import (
    CHAPTER,
    ExampleTable,
    Row,
    Topic,
    exact,
    fixed,
    number,
    of_kind,
    row,
    step,
    table,
    words,
)
from narrows.deployment import Deployment
from narrows.memory import capacity, growth, ledger, reserve
from narrows.quantity import Kind
from narrows.text import Text
from narrows.units import GIB, decimal, gib

_MOMENTS = {
    "loaded": Text("idle: loaded"),
    "first prefill": Text("first prefill"),
    "mid-decode": Text("half of the answer"),
    "peak": Text("end of the answer"),
}

EXACT: Kind = "exact"
PREDICTED: Kind = "predicted"

_EFFECTS = (
    Text("max_num_seqs caps the concurrency, so that the peak stays within what fits"),
    Text("max_model_len makes room for more requests, by making each shorter"),
    Text("max_num_batched_tokens: larger steps prefill faster, and take room for activations from the KV cache"),
    Text("gpu_memory_utilization claims more of the device, and leaves less for everything else on it"),
)


def serving() -> Topic:
    """The L40S at its largest batch of 4096 tokens: moments, one request too many, levers, rule of thumb."""
    here = plan_on("l40s")
    room = capacity(here)
    batch, each = room.max_batch, room.shard.sequence_bytes(LENGTH)
    over = ledger(here, batch + 1, LENGTH)
    size = model().checkpoint_bytes()
    thumb = capacity(plan_on("l40s", device_memory=2 * size))
    terms = (room.shard.weights, BATCH * each, reserve(here).total)
    wanted = sum(terms) / here.utilization
    return Topic(
        "serving",
        Text("While serving: from idle to peak"),
        (
            step(
                "growth",
                Text(
                    "Idle memory is the weights. Running adds the KV cache, which grows with every token, and working "
                    "memory (activations, buffers, graphs). {gpu}, {batch} requests of {prompt} tokens of prompt and "
                    "{answer} of answer, in GiB, of {budget} that the engine may use:",
                    gpu=here.accelerator.name,
                    batch=batch,
                    prompt=str(LENGTH // 2),
                    answer=str(LENGTH // 2),
                    budget=fixed(here.budget / GIB, 2),
                ),
                table=_growth(here, batch),
            ),
            step(
                "peak",
                Text("The peak comes at the end of the answers, and it must fit. The KV cache then needs:"),
                f"{batch} × {gib(each)} = {gib(batch * each)} ≤ {gib(room.pool)}",
                exact(batch * each, "B"),
            ),
            step(
                "accident",
                Text(
                    "The usual accident: the weights fit, the tests pass, and under load one request more overflows. "
                    "An engine that claims its KV cache at start then preempts or queues; others run out of memory."
                ),
                f"{batch + 1} × {gib(each)} = {gib(over.kv_cache)} > {gib(room.pool)}",
                of_kind(over.free, "B", "predicted"),
            ),
            step(
                "levers",
                Text("The four levers, each moved once, and what they do to the requests of full length that fit:"),
                points=_EFFECTS,
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
                f"{gib(thumb.pool)} ÷ {gib(each)} = {thumb.concurrency:.2f} → {thumb.max_batch}",
                of_kind(thumb.max_batch, "requests", "predicted"),
            ),
            step(
                "needed",
                Text(
                    "The real answer follows from the load. {batch} × {length} tokens at utilization {share} need "
                    "{times} × the model's size:",
                    batch=BATCH,
                    length=str(LENGTH),
                    share=here.utilization,
                    times=fixed(wanted / size, 1),
                ),
                f"({' + '.join(f'{term / GIB:.2f}' for term in terms)}) GiB ÷ {here.utilization} = {gib(wanted)}",
                of_kind(wanted, "B", "predicted"),
            ),
            step("more", Text("Prefix caching, and whatever else keeps KV between requests, wants more still.")),
        ),
        (CHAPTER, here.engine.source),
        (*here.assumptions, *reserve(here).basis),
        "narrows fit llama-2-7b --gpu l40s --batch 13 --max-len 4096 --gpu-memory-utilization 0.9",
    )


def _growth(deployment: Deployment, batch: int) -> ExampleTable:
    """Weights, KV, working memory and their sum at each moment, in GiB."""
    rows: list[Row] = []
    for name, one in growth(deployment, batch, LENGTH // 2):
        working = one.activations + one.graphs + one.runtime
        cells = (
            number(f"{value / GIB:.2f}", value, "B", kind)
            for value, kind in (
                (one.weights, EXACT),
                (one.kv_cache, EXACT),
                (working, PREDICTED),
                (one.weights + one.kv_cache + working, PREDICTED),
            )
        )
        rows.append(row(name, words(_MOMENTS[name]), *cells, known="predicted"))
    return table((Text("moment"), Text("weights"), Text("KV cache"), Text("working"), Text("used")), *rows)


def _levers(before: Deployment) -> ExampleTable:
    """Each lever moved once: KV pool in bytes, and requests of full length."""
    fits = capacity(before).max_batch
    moved: tuple[tuple[str, str, float, float], ...] = (
        ("max_num_seqs", "max_num_seqs", before.max_num_seqs, fits),
        ("max_model_len", "max_length", LENGTH, LENGTH // 2),
        ("max_num_batched_tokens", "max_num_batched_tokens", before.max_num_batched_tokens, 16384),
        ("gpu_memory_utilization", "utilization", before.utilization, 0.95),
    )
    rows = []
    for name, setting, old, new in moved:
        after = capacity(plan_on("l40s", **{setting: new}))
        room = number(f"{after.pool / GIB:.2f} GiB", after.pool, "B", PREDICTED)
        requests = number(f"{fits} → {after.max_batch}", after.max_batch, "requests", PREDICTED)
        rows.append(row(name, words(name), words(f"{old} → {new}"), room, requests, known="predicted"))
    return table((Text("lever"), Text("from → to"), Text("KV room"), Text("requests")), *rows)

"""`fit`: does a model fit, and how much work fits beside it?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from narrows.answers.base import Answer, command_line
from narrows.answers.mend import Mend, mends_of
from narrows.answers.model import ModelFacts, model_facts
from narrows.deployment import Deployment, deploy, whole
from narrows.hardware import cheapest, find_accelerator
from narrows.memory import Capacity, Ledger, capacity, growth, ledger, predicted_kv, reserve
from narrows.models import ModelSpec, load_model
from narrows.quantity import Quantity
from narrows.text import BadInput, Text
from narrows.units import binary

Verdict = Literal["fits", "weights do not fit", "no room for one sequence", "this load does not fit"]


class Moment(msgspec.Struct, frozen=True):
    """Memory of one device at one moment from idle to peak; `used` is all that is taken, bytes."""

    name: str
    used: int
    terms: Ledger


class RuleOfThumb(msgspec.Struct, frozen=True):
    """The rule "start with twice the model's size", held against the device's usable memory."""

    bytes: int
    holds: bool


class Candidate(msgspec.Struct, frozen=True):
    """One deployment: does the load fit, what would at most, what it costs, and how memory grows.

    terms: bytes per device on the binding rank, for `batch` sequences of `length` tokens. max_batch: sequences of
    that length; max_length: tokens each of `max_length_batch` sequences can have, the model's limit at most.
    kv_cache_available: bytes per device for KV cache and state, with an 80 % interval.
    """

    gpu: str
    gpu_name: str
    count: int
    tensor_parallel: int
    pipeline_parallel: int
    engine: str
    gpu_memory_utilization: float
    max_num_seqs: int
    max_num_batched_tokens: int
    fits: bool
    verdict: Verdict
    reason: Text
    batch: int
    length: int
    terms: Ledger
    reserve_basis: tuple[Text, ...]
    max_batch: int
    max_length: int
    max_length_batch: int
    kv_tokens: int
    kv_cache_available: Quantity
    max_concurrency: float
    rule_of_thumb: RuleOfThumb
    usd_per_hour: float | None
    instance: str | None
    price_as_of: str | None
    usd_per_hour_per_sequence: float | None
    growth: tuple[Moment, ...]
    mend: Mend | None
    other_mends: tuple[Mend, ...]


class Fit(Answer, frozen=True, kw_only=True):
    """The answer of `fit`."""

    schema: str = "narrows.fit/1"
    model: ModelFacts
    candidates: tuple[Candidate, ...]

    @property
    def fits(self) -> bool:
        """Whether any candidate fits."""
        return any(candidate.fits for candidate in self.candidates)


def fit(
    model: str | ModelSpec,
    gpu: str | Sequence[str],
    *,
    batch: int | None = None,
    max_len: int | None = None,
    prompt: int | None = None,
    tp: int = 1,
    pp: int = 1,
    engine: str = "vllm",
    dtype: str = "auto",
    kv_cache_dtype: str = "auto",
    gpu_memory_utilization: float | None = None,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | None = None,
    enforce_eager: bool = False,
    memory: int | None = None,
    cloud: str | None = None,
    assume: str | None = None,
) -> Fit:
    """Does `model` fit on `gpu` (one or several to compare), and how much work fits beside it?

    batch: sequences at once (None: as many as fit). max_len: tokens per sequence, prompt and answer (None: the
    model's own limit). prompt: tokens of it that are prompt, for the growth from idle to peak (None: half).
    memory: usable bytes per device in place of the catalogue's. Raises BadInput.

    >>> fit("llama-2-7b", gpu="l40s", max_len=4096).candidates[0].max_batch
    13
    """
    spec = model if isinstance(model, ModelSpec) else load_model(model, assume=assume)
    names = [gpu] if isinstance(gpu, str) else list(gpu)
    if not names:
        raise BadInput("no accelerator given; add --gpu, such as --gpu l40s ('narrows gpus' lists them)")
    if batch is not None:
        whole("--batch", batch)
    options: dict[str, Any] = {
        "engine": engine,
        "tensor_parallel": tp,
        "pipeline_parallel": pp,
        "dtype": dtype,
        "kv_cache_dtype": kv_cache_dtype,
        "max_length": max_len,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max_num_batched_tokens,
        "utilization": gpu_memory_utilization,
        "enforce_eager": enforce_eager,
        "device_memory": memory,
    }
    deployments = [deploy(spec, find_accelerator(name), **options) for name in names]
    first = deployments[0]
    given = whole("--prompt", prompt) if prompt is not None else max(1, first.max_length // 2)
    if given > first.max_length:
        raise BadInput(
            "--prompt is {prompt}, longer than --max-len {length}, which counts prompt and answer together",
            prompt=given,
            length=first.max_length,
        )
    candidates = tuple(_candidate(one, batch, given, cloud, options, prompt or 1) for one in deployments)
    return Fit(
        command=command_line(
            "fit",
            model if isinstance(model, str) else spec.name,
            gpu=names,
            max_len=max_len,
            batch=batch,
            prompt=prompt,
            tp=tp if tp != 1 else None,
            pp=pp if pp != 1 else None,
            engine=engine if engine != "vllm" else None,
            dtype=dtype if dtype != "auto" else None,
            kv_cache_dtype=kv_cache_dtype if kv_cache_dtype != "auto" else None,
            gpu_memory_utilization=gpu_memory_utilization,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            enforce_eager=enforce_eager,
            memory=memory,
            cloud=cloud,
            assume=assume,
        ),
        model=model_facts(spec, first.max_length, first.kv),
        candidates=candidates,
        assumptions=_assumptions(spec, deployments, prompt is None, given),
        sources=_sources(spec, deployments, candidates),
    )


def _assumptions(model: ModelSpec, deployments: list[Deployment], half: bool, prompt: int) -> tuple[Text, ...]:
    found = list(model.assumptions)
    found += [text for one in deployments for text in one.assumptions]
    found.append(
        Text("KV sizes are logical: an engine's pages, and the tokens in flight it keeps beyond a window, come on top")
        if any(row.window for _, row in model.cache_rows())
        else Text("KV sizes are logical: an engine rounds each sequence up to whole pages")
    )
    if half:
        found.append(Text("idle to peak is drawn for prompts of {prompt} tokens, half of the length", prompt=prompt))
    return tuple(dict.fromkeys(found))


def _sources(model: ModelSpec, deployments: list[Deployment], candidates: tuple[Candidate, ...]) -> tuple[str, ...]:
    found = [model.source] if model.source else []
    found += [one.accelerator.source for one in deployments]
    found.append(deployments[0].engine.source)
    return tuple(dict.fromkeys(found))


def _candidate(
    deployment: Deployment,
    batch: int | None,
    prompt: int,
    cloud: str | None,
    options: dict[str, Any],
    least_length: int,
) -> Candidate:
    room = capacity(deployment, batch or 1)
    load = batch if batch is not None else max(1, room.max_batch)
    fits = room.max_batch >= load
    price = cheapest(deployment.accelerator.id, deployment.count, cloud)
    verdict = _verdict(fits, room, batch)
    mends = () if fits else tuple(mends_of(deployment, room, load, options, cloud, least_length))
    twice = 2 * room.shard.weights
    return Candidate(
        gpu=deployment.accelerator.id,
        gpu_name=deployment.accelerator.name,
        count=deployment.count,
        tensor_parallel=deployment.tensor_parallel,
        pipeline_parallel=deployment.pipeline_parallel,
        engine=deployment.engine.label,
        gpu_memory_utilization=deployment.utilization,
        max_num_seqs=deployment.max_num_seqs,
        max_num_batched_tokens=deployment.max_num_batched_tokens,
        fits=fits,
        verdict=verdict,
        reason=_reason(deployment, room, load, verdict),
        batch=load,
        length=deployment.max_length,
        terms=ledger(deployment, load, deployment.max_length, shard=room.shard),
        reserve_basis=reserve(deployment).basis,
        max_batch=room.max_batch,
        max_length=room.max_length,
        max_length_batch=batch or 1,
        kv_tokens=room.kv_tokens,
        kv_cache_available=predicted_kv(deployment),
        max_concurrency=round(room.concurrency, 4),
        rule_of_thumb=RuleOfThumb(twice, twice <= deployment.usable),
        usd_per_hour=price.usd_per_hour if price else None,
        instance=price.label if price else None,
        price_as_of=price.as_of if price else None,
        usd_per_hour_per_sequence=price.usd_per_hour / room.max_batch if price and room.max_batch else None,
        growth=tuple(
            Moment(name, one.usable - one.unclaimed - one.free, one) for name, one in growth(deployment, load, prompt)
        ),
        mend=mends[0] if mends else None,
        other_mends=mends[1:],
    )


def _verdict(fits: bool, room: Capacity, batch: int | None) -> Verdict:
    if fits:
        return "fits"
    if room.pool < 0:
        return "weights do not fit"
    return "no room for one sequence" if room.max_batch == 0 else "this load does not fit"


def _reason(deployment: Deployment, room: Capacity, load: int, verdict: Verdict) -> Text:
    """Why, in one sentence with the figures that decide."""
    if verdict == "weights do not fit":
        return Text(
            "weights take {weights} and the engine's reserve {reserve}, of {budget} that {engine} may use on a {gpu}",
            weights=binary(room.shard.weights),
            reserve=binary(reserve(deployment).total),
            budget=binary(deployment.budget),
            engine=deployment.engine.name,
            gpu=deployment.accelerator.name,
        )
    needed = load * room.shard.sequence_bytes(deployment.max_length)
    if verdict == "fits":
        return Text(
            "{batch} × {length} tokens take {needed} of the {pool} left for KV cache and state",
            batch=load,
            length=deployment.max_length,
            needed=binary(needed),
            pool=binary(room.pool),
        )
    return Text(
        "{batch} × {length} tokens need {needed} for KV cache and state, and {pool} is left beside weights and reserve",
        batch=load,
        length=deployment.max_length,
        needed=binary(needed),
        pool=binary(room.pool),
    )

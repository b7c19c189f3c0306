"""Fits the coefficients of an engine's memory from records, source by source."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import NamedTuple

import msgspec

from narrows.accuracy.priors import PRIORS, TABLE, VERSIONS
from narrows.accuracy.records import Case
from narrows.calibration import Coefficient, Coefficients
from narrows.memory.activations import (
    captures,
    dense_elements,
    expert_elements,
    gathered_bytes,
    graphs_inside,
    peak,
    sampler_of,
    vision_bytes,
)
from narrows.memory.ledger import (
    GRAPH_BASE,
    driver_matters,
    graph_name,
    layers_of,
    peer_name,
    reserve,
    runtime_name,
    spread,
)
from narrows.models.experts import has_experts


class Seen(NamedTuple):
    """One observation of a coefficient: from which record and source."""

    origin: str
    record: str
    value: float


def actual_reserve(case: Case) -> float | None:
    """What the engine kept beside weights and cache, from its log: budget − weights − KV. Bytes."""
    weights = case.record.weights_bytes
    return kept_beside(case, case.weights if weights is None else weights)


def kept_beside(case: Case, weights: int) -> float | None:
    """What is left of the budget beside these weights and the reported cache. Bytes."""
    pool = case.pool_bytes
    if pool is None or not case.record.has_device:
        return None
    return case.deployment.budget - case.deployment.others_inside - weights - pool


def fit(cases: Iterable[Case], engine: str = "vllm") -> Coefficients:
    """All coefficients from these cases; a prior where none of them bears on one.

    Each is the median of the sources' medians, so that a repository with many rows counts once. In this order, since
    later ones use earlier ones: runtime, samplers, forward, experts, what is reserved beside, runtime of several
    devices, NCCL, graphs. Cases with a reason of their own to differ (`reason_of`) are left out.
    """
    given = list(cases)
    clean = [case for case in given if case.teaches]
    apart = [case for case in given if case.teaches_runtime]
    known = {name: _prior(engine, name) for name in PRIORS}

    def learn(
        name: str, observe: Callable[[Case, Coefficients], float | None], teachers: Sequence[Case] = clean
    ) -> None:
        found = [
            Seen(case.record.origin, case.record.id, value)
            for case in teachers
            if (value := observe(case, known)) is not None and value > 0
        ]
        if found:
            known[name] = _learnt(engine, name, found)

    for name in ("runtime_bytes", "runtime_bytes_whole_prompts"):
        learn(name, _outside(name), apart)
    for sampler in ("sort", "triton", "flashinfer"):
        learn(f"sampler_{sampler}_bytes_per_logit", _per_logit(sampler))
    learn("runtime_bytes_rocm", _rocm)
    learn("vision_copies", _vision_copies)
    learn("forward_copies", _forward_copies, apart)
    learn("expert_copies", _expert_copies)
    learn("reserved_bytes", _reserved)
    learn("runtime_bytes_parallel", _parallel_runtime)
    for name in ("nccl_bytes_per_peer", "nvlink_bytes_per_peer"):
        learn(name, _per_peer(name))
    for name in ("graph_bytes_per_layer", "graph_bytes_per_layer_cut_experts"):
        newer = _of_newer_drivers(clean, _per_layer(name), known["graph_times_old_driver"].value)
        learn(name, _per_layer(name), newer)
    return known


class Missed(NamedTuple):
    """The error of a reserve that was not fitted on: of which kind (`error_name`), source, in units of `spread`."""

    name: str
    origin: str
    value: float


def with_error(known: Coefficients, errors: Sequence[Missed], engine: str = "vllm") -> Coefficients:
    """The coefficients with the 80 % interval of the errors of each kind.

    A record to come is of a source to come, so each source has one vote. Below nine sources no tenth can be told from
    their extremes: the interval then holds those and the assumed one.
    """
    found = dict(known)
    for name in sorted({one.name for one in errors}):
        seen = [(one.origin, one.value) for one in errors if one.name == name]
        low, high = (sign * _upper([(origin, sign * value) for origin, value in seen]) for sign in (-1.0, 1.0))
        if len({origin for origin, _ in seen}) < 9:
            _, _, least, most, _ = PRIORS[name]
            low, high = min(low, least), max(high, most)
        middle = median(value for _, value in seen)
        basis = "errors of the reserve when a source is left out, in units of 100 MiB and a tenth of the reserve"
        found[name] = Coefficient(
            engine, name, middle, "ratio", low, high, len(seen), basis, _sources(seen), VERSIONS[name]
        )
    return found


def _upper(seen: Sequence[tuple[str, float]]) -> float:
    """The value that nine tenths of the sources' votes are not above."""
    of = Counter(origin for origin, _ in seen)
    wanted, votes = 0.9 * len(of), 0.0
    for origin, value in sorted(seen, key=lambda one: one[1]):
        votes += 1 / of[origin]
        if votes >= wanted - 1e-9:
            return value
    return max(value for _, value in seen)


def error_of(case: Case, known: Coefficients) -> float | None:
    """Error of what is predicted beside the cache, in units of `spread`; None where the log does not tell.

    The predicted weights count, not the reported ones: the interval is for the cache that is left beside both.
    """
    kept = kept_beside(case, case.weights)
    if kept is None:
        return None
    predicted = predicted_reserve(case, known)
    return (kept - predicted) / spread(predicted)


def predicted_reserve(case: Case, known: Coefficients) -> float:
    """Activation peak, runtime and, where they count, graphs. Bytes."""
    kept = reserve(case.deployment, known)
    return kept.claimed - kept.tables


# --- what a case says about one coefficient ------------------------------------------------------------------------


def _outside(name: str) -> Callable[[Case, Coefficients], float | None]:
    def observe(case: Case, _: Coefficients) -> float | None:
        found = None if case.deployment.memory_in_use else case.record.non_torch_bytes
        return float(found) if found is not None and runtime_name(case.deployment) == name else None

    return observe


def _rocm(case: Case, known: Coefficients) -> float | None:
    actual = actual_reserve(case)
    if actual is None or case.deployment.count > 1 or runtime_name(case.deployment) != "runtime_bytes_rocm":
        return None
    return actual - peak(case.deployment, known).largest - _graphs(case, known)


def _activations(case: Case, known: Coefficients) -> float | None:
    """The activation peak as reported, or what the reserve leaves for it on a single device."""
    record, deployment = case.record, case.deployment
    if record.activation_bytes is not None:
        return float(record.activation_bytes)
    actual = actual_reserve(case)
    if actual is None or deployment.count > 1 or deployment.engine.counts_reserved:
        return None
    name = runtime_name(deployment)
    if name == "runtime_bytes_rocm":  # learnt from what the samplers leave
        return None
    told = None if deployment.memory_in_use else record.non_torch_bytes
    runtime = known[name].value if told is None else float(told)
    graphs = 0.0
    if graphs_inside(deployment) and deployment.graphs:
        if record.graph_estimate_bytes is None:
            return None
        graphs = float(record.graph_estimate_bytes)
    return actual - runtime - graphs


def _graphs(case: Case, known: Coefficients) -> float:
    """Bytes of CUDA graphs that come out of the engine's share, as the log states them or as they are predicted."""
    if not (graphs_inside(case.deployment) and case.deployment.graphs):
        return 0.0
    stated = case.record.graph_estimate_bytes
    stated = case.record.graph_bytes if stated is None else stated
    return float(reserve(case.deployment, known).graphs) if stated is None else float(stated)


def _per_logit(sampler: str) -> Callable[[Case, Coefficients], float | None]:
    def observe(case: Case, known: Coefficients) -> float | None:
        deployment = case.deployment
        if sampler_of(deployment) != sampler or case.one_rank_samples:
            return None
        moments = peak(deployment, known)
        if moments.sampling < 1.5 * max(moments.forward, moments.vision):
            return None
        found = _activations(case, known)
        if found is None:
            return None
        hidden = deployment.max_num_batched_tokens * deployment.model.hidden * deployment.dtype.bits // 8
        beside = hidden + gathered_bytes(deployment, moments.rows)
        return (found - beside) / (moments.rows * deployment.model.vocab)

    return observe


def _forward(case: Case, known: Coefficients, experts: bool) -> tuple[float, float, float] | None:
    """(bytes of the dense part, of the experts' part, of the peak) where a forward pass makes the peak."""
    deployment = case.deployment
    width = deployment.dtype.bits // 8
    layers = [layer for layer, _ in deployment.model.kinds]
    widest = max(layers, key=lambda layer: dense_elements(layer, deployment) + expert_elements(layer, deployment))
    step = deployment.max_num_batched_tokens * width
    dense, moe = step * dense_elements(widest, deployment), step * expert_elements(widest, deployment)
    if bool(moe) is not experts:
        return None
    moments = peak(deployment, known)
    if moments.forward < 1.2 * max(moments.sampling, moments.vision):
        return None
    found = _activations(case, known)
    if found is None and not peer_name(deployment) and not deployment.engine.counts_reserved:
        actual = actual_reserve(case)
        found = None if actual is None else actual - known["runtime_bytes"].value
    return None if found is None else (float(dense), float(moe), found)


def _forward_copies(case: Case, known: Coefficients) -> float | None:
    if case.deployment.count > 1 and case.record.activation_bytes is None:
        return None
    if case.few_sequences and not has_experts(case.deployment.model):
        # so few that sampling them is no peak
        step = case.deployment.max_num_batched_tokens * (case.deployment.dtype.bits // 8)
        dense = step * max(dense_elements(layer, case.deployment) for layer, _ in case.deployment.model.kinds)
        return (case.record.activation_bytes or 0) / dense
    parts = _forward(case, known, experts=False)
    return parts and parts[2] / parts[0]


def _expert_copies(case: Case, known: Coefficients) -> float | None:
    parts = _forward(case, known, experts=True)
    return parts and (parts[2] - parts[0] * known["forward_copies"].value) / parts[1]


def _vision_copies(case: Case, known: Coefficients) -> float | None:
    """Where the tower's peak is all there is: neither sampling nor a forward pass comes near what the log tells.

    Not of eager steps: their forward pass is not fused, and what it keeps is told from a tower's peak by little.
    """
    deployment = case.deployment
    towers = [one for one in deployment.model.towers if one.served and one.rotary]
    if deployment.accelerator.vendor != "nvidia" or case.record.enforce_eager:
        return None
    plain = max((vision_bytes(deployment, one) for one in towers), default=0)
    found = _activations(case, known) if plain else None
    if found is None:
        return None
    moments = peak(deployment, known)
    return found / plain if found > 1.2 * max(moments.sampling, moments.forward) else None


def _reserved(case: Case, known: Coefficients) -> float | None:
    """What a version that counts the allocator's reserve keeps on one device beside the peak and the runtime."""
    deployment, actual = case.deployment, actual_reserve(case)
    if actual is None or deployment.count > 1 or not deployment.engine.counts_reserved:
        return None
    return actual - peak(deployment, known).largest - known[runtime_name(deployment)].value


def _parallel_runtime(case: Case, known: Coefficients) -> float | None:
    if runtime_name(case.deployment) != "runtime_bytes_parallel" or peer_name(case.deployment):
        return None
    if has_experts(case.deployment.model):
        return None
    if case.record.non_torch_bytes is not None:
        return float(case.record.non_torch_bytes)
    actual = actual_reserve(case)
    if actual is None:
        return None
    return actual - peak(case.deployment, known).largest - _graphs(case, known)


def _per_peer(name: str) -> Callable[[Case, Coefficients], float | None]:
    def observe(case: Case, known: Coefficients) -> float | None:
        if runtime_name(case.deployment) != "runtime_bytes_parallel" or peer_name(case.deployment) != name:
            return None
        actual = actual_reserve(case)
        if actual is None:
            return None
        beside = peak(case.deployment, known).largest + known["runtime_bytes_parallel"].value + _graphs(case, known)
        if case.deployment.engine.counts_reserved:
            beside += known["reserved_bytes"].value
        return (actual - beside) / (case.deployment.count - 1)

    return observe


def _per_layer(name: str) -> Callable[[Case, Coefficients], float | None]:
    def observe(case: Case, _: Coefficients) -> float | None:
        record, deployment, number = case.record, case.deployment, captures(case.deployment)
        if deployment.accelerator.vendor != "nvidia" or graph_name(deployment) != name:  # graphs of another runtime
            return None
        taken = record.graph_estimate_bytes if record.graph_estimate_bytes is not None else record.graph_bytes
        if not number or taken is None or taken <= 0:
            return None
        return taken / (number + GRAPH_BASE) / layers_of(deployment)

    return observe


def _of_newer_drivers(
    cases: Sequence[Case], observe: Callable[[Case, Coefficients], float | None], times: float
) -> list[Case]:
    """The cases but those whose graphs show an older driver, where none is stated and the version runs on both.

    Such a driver takes `times` as much (vllm-project/vllm#5517): nearer to that than to the median are its records.
    """
    seen = {case.record.id: value for case in cases if (value := observe(case, {})) is not None}
    by_source: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        if case.record.id in seen:
            by_source[case.record.origin].append(seen[case.record.id])
    if not by_source:
        return list(cases)
    usual = median(median(values) for values in by_source.values())
    return [
        case
        for case in cases
        if not driver_matters(case.deployment) or seen.get(case.record.id, 0.0) < usual * (1 + times) / 2
    ]


# --- from observations to a coefficient ----------------------------------------------------------------------------


def _prior(engine: str, name: str) -> Coefficient:
    value, unit, low, high, basis = PRIORS[name]
    return Coefficient(engine, name, value, unit, low, high, 0, basis, "see basis; not fitted", VERSIONS.get(name, ""))


def _learnt(engine: str, name: str, found: list[Seen]) -> Coefficient:
    by_source: dict[str, list[float]] = defaultdict(list)
    for one in found:
        by_source[one.origin].append(one.value)
    prior = PRIORS[name]
    measured = [prior[0]] if prior[4].startswith(TABLE) else []  # a table of measurements is a source too
    value = median([*(median(values) for values in by_source.values()), *measured])
    values = sorted(one.value for one in found)
    cut = len(values) // 10
    low, high = values[cut], values[-1 - cut]
    if len(by_source) < 5:  # too few to know the spread: as wide as the prior is, around the value
        low, high = min(low, value * prior[2] / prior[0]), max(high, value * prior[3] / prior[0])
    basis = "median of its sources' medians, from public start-up logs"
    return Coefficient(
        engine=engine,
        name=name,
        value=value,
        unit=prior[1],
        low=low,
        high=high,
        n=len(values),
        basis=basis,
        source=_sources((one.origin, one.value) for one in found),
        versions=VERSIONS.get(name, ""),
    )


def _sources(found: Iterable[tuple[str, float]]) -> str:
    return "; ".join(sorted({origin for origin, _ in found}))


def rows(known: Coefficients) -> list[bytes]:
    """The coefficients as lines of a fact file, rounded to what the logs' two digits bear."""
    lines = []
    for row in known.values():
        kept = {name: _rounded(getattr(row, name), row.unit, row.value) for name in ("value", "low", "high")}
        lines.append(msgspec.json.encode(msgspec.structs.replace(row, **kept)))
    return lines


def _rounded(value: float, unit: str, scale: float) -> float:
    return float(round(value)) if unit == "B" and abs(scale) > 1000 else round(value, 3)

"""The scoreboard of the memory ledger: every source predicted by coefficients that were refitted without it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import median

import msgspec

from narrows.accuracy.board import (
    MIN_CLAIM,
    NAMED_ABOVE,
    Interval,
    LeftOut,
    MemoryScores,
    Outcomes,
    Outlier,
    Protocol,
    Score,
)
from narrows.accuracy.fitting import actual_reserve, error_of, fit, with_error
from narrows.accuracy.records import Case, MemoryRecord, memory_cases, reason_of
from narrows.calibration import Coefficients
from narrows.memory.available import Start, start
from narrows.memory.capacity import stated_tokens
from narrows.text import Text


class Predicted(msgspec.Struct, frozen=True):
    """A case with its prediction, and what the two baselines say of its bytes for KV cache."""

    case: Case
    start: Start
    plus_tenth: float
    constant: float


def leave_one_source_out(cases: Sequence[Case] | None = None) -> list[Predicted]:
    """Every source predicted by what the others teach, its interval from errors made among the others."""
    given = memory_cases()[0] if cases is None else cases
    found = []
    for origin, held in _by_origin(given).items():
        others = [case for case in given if case.record.origin != origin]
        known = calibrated(others)
        overhead = _constant_overhead(others)
        found += [_predict(case, known, overhead) for case in held]
    return found


def shipped_on_test_split(cases: Sequence[Case] | None = None) -> list[Predicted]:
    """The `test` records predicted by what the `fit` records teach: the coefficients that narrows ships."""
    given = memory_cases()[0] if cases is None else cases
    taught = [case for case in given if case.record.split == "fit"]
    known, overhead = calibrated(taught), _constant_overhead(taught)
    return [_predict(case, known, overhead) for case in given if case.record.split == "test"]


def calibrated(cases: Sequence[Case]) -> Coefficients:
    """Coefficients fitted on these cases, with an interval from errors on sources left out among them."""
    errors = []
    for origin, held in _by_origin(cases).items():
        known = fit(case for case in cases if case.record.origin != origin)
        for case in held:
            error = error_of(case, known) if reason_of(case) is None else None
            if error is not None:
                errors.append((origin, error))
    return with_error(fit(cases), errors)


def memory_scores(protocol: Protocol) -> MemoryScores:
    """The scoreboard by one protocol."""
    found = leave_one_source_out() if protocol == "leave one source out" else shipped_on_test_split()
    scores = [
        *_scores("KV tokens", found, _kv_of),
        *_scores("weights", found, _weights_of),
        *_scores("activations", found, _activations_of),
    ]
    groups: list[Score] = []
    for name, key in _GROUPINGS.items():
        parts: dict[str, list[Predicted]] = defaultdict(list)
        for one in found:
            if _kv_of(one, "narrows") is not None and reason_of(one.case) is None:
                parts[key(one.case)].append(one)
        groups += [
            _score("KV tokens", f"{name}: {part}", "narrows", _pairs(parts[part], _kv_of, "narrows"))
            for part in sorted(parts)
        ]
    return MemoryScores(
        protocol=protocol,
        scores=tuple(scores),
        groups=tuple(groups),
        outcomes=tuple(
            _outcomes(found, group, method) for group in ("all", "without a named reason") for method in METHODS
        ),
        interval=_interval(found),
        outliers=tuple(_outliers(found)),
    )


def left_out() -> tuple[LeftOut, ...]:
    """Records nothing is predicted on, the commonest reason first."""
    reasons: dict[str, tuple[Text, list[str]]] = {}
    for record, reason in memory_cases()[1]:
        reasons.setdefault(str(reason), (_without_model(record, reason), []))[1].append(record.id)
    merged: dict[str, tuple[Text, list[str]]] = {}
    for reason, ids in reasons.values():
        merged.setdefault(str(reason), (reason, []))[1].extend(ids)
    return tuple(LeftOut(reason, tuple(ids)) for reason, ids in sorted(merged.values(), key=lambda pair: -len(pair[1])))


# --- predictions and baselines ---------------------------------------------------------------------------------------

METHODS = ("narrows", "weights + 10 %", "constant overhead")


def _by_origin(cases: Iterable[Case]) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        found[case.record.origin].append(case)
    return found


def _constant_overhead(cases: Iterable[Case]) -> float:
    """The baseline of planners with one overhead: the median reserve of the sources' medians. Bytes."""
    per_source: dict[str, list[float]] = defaultdict(list)
    for case in cases:
        actual = actual_reserve(case)
        if actual is not None and reason_of(case) is None:
            per_source[case.record.origin].append(actual)
    return median(median(values) for values in per_source.values()) if per_source else 0.0


def _predict(case: Case, known: Coefficients, overhead: float) -> Predicted:
    found = start(case.deployment, known)
    budget, weights = case.deployment.budget, found.shard.weights
    return Predicted(case, found, budget - 1.1 * weights, budget - weights - overhead)


def _pool(one: Predicted, method: str) -> float:
    return {"narrows": one.start.kv.value, METHODS[1]: one.plus_tenth, METHODS[2]: one.constant}[method]


def _tokens_comparable(case: Case) -> bool:
    """Whether tokens can be had from bytes whatever the version's rules for windows and state."""
    kinds = case.deployment.model
    return not any(row.window for _, row in kinds.cache_rows()) and not any(True for _ in kinds.state_rows())


def _kv_of(one: Predicted, method: str) -> tuple[float, float] | None:
    """(predicted, reported) KV tokens where both are known, else bytes: the error is relative."""
    record, deployment = one.case.record, one.case.deployment
    if not record.has_device or (record.kv_bytes is None and record.kv_tokens is None):
        return None
    pool = _pool(one, method)
    if record.kv_tokens is not None and _tokens_comparable(one.case):
        return float(stated_tokens(deployment, one.start.pages, int(pool))), float(record.kv_tokens)
    return None if record.kv_bytes is None else (pool, float(record.kv_bytes))


def _weights_of(one: Predicted, method: str) -> tuple[float, float] | None:
    reported = one.case.record.weights_bytes
    if reported is None or method == METHODS[2]:
        return None
    return (one.start.weights if method == "narrows" else 1.1 * one.start.shard.weights), float(reported)


def _activations_of(one: Predicted, method: str) -> tuple[float, float] | None:
    record = one.case.record
    if record.activation_bytes is None or method == METHODS[1]:
        return None
    if method == "narrows":
        return float(one.start.reserve.activations), float(record.activation_bytes)
    overhead = one.case.deployment.budget - one.start.shard.weights - one.constant
    return overhead - (record.non_torch_bytes or 0), float(record.activation_bytes)


def _pairs(
    found: Iterable[Predicted], value: Callable[[Predicted, str], tuple[float, float] | None], method: str
) -> list[tuple[str, float]]:
    return [
        (one.case.record.origin, pair[0] / pair[1] - 1) for one in found if (pair := value(one, method)) and pair[1]
    ]


def _scores(
    quantity: str, found: list[Predicted], value: Callable[[Predicted, str], tuple[float, float] | None]
) -> list[Score]:
    lines = []
    for method in METHODS:
        pairs = _pairs(found, value, method)
        plain = _pairs([one for one in found if reason_of(one.case) is None], value, method)
        if pairs:
            lines.append(_score(quantity, "all", method, pairs))
            if len(plain) < len(pairs):
                lines.append(_score(quantity, "without a named reason", method, plain))
    return lines


def _score(quantity: str, group: str, method: str, pairs: list[tuple[str, float]]) -> Score:
    sizes = sorted(abs(error) for _, error in pairs)
    return Score(
        quantity=quantity,
        group=group,
        method=method,
        n=len(sizes),
        sources=len({origin for origin, _ in pairs}),
        median=median(sizes),
        p90=sizes[min(len(sizes) - 1, -(-len(sizes) * 9 // 10) - 1)],
        worst=sizes[-1],
        bias=median(error for _, error in pairs),
        claims=len(sizes) >= MIN_CLAIM,
    )


def _version(case: Case) -> str:
    major, minor = case.deployment.engine.version.split(".")[:2]
    low = int(minor) // 4 * 4
    return f"vLLM {major}.{low}–{major}.{low + 3}" if int(major) == 0 else f"vLLM {major}"


def _family(case: Case) -> str:
    return " + ".join(name for name in case.record.family if name != "quantized") or "unknown"


def _device(case: Case) -> str:
    return case.deployment.accelerator.name if case.record.device else "not named"


_GROUPINGS: dict[str, Callable[[Case], str]] = {"version": _version, "device": _device, "family": _family}


# --- started or not, intervals, outliers -----------------------------------------------------------------------------


def _outcomes(found: list[Predicted], group: str, method: str) -> Outcomes:
    counts: Counter[str] = Counter()
    stages: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in found:
        record = one.case.record
        if not record.has_device or record.outcome not in ("started", "oom_load", "oom_kv"):
            continue
        if group != "all" and reason_of(one.case) is not None:
            continue
        needed = one.start.pages.request_bytes(one.case.deployment.max_length)
        stage = one.start.stage if method == "narrows" else "started" if _pool(one, method) >= needed else "kv"
        really = record.outcome.removeprefix("oom_")
        if really == "started":
            counts["started"] += 1
            counts["started right"] += stage == "started"
            continue
        counts["failed"] += 1
        counts["failed right"] += stage != "started"
        row = stages[really]
        row[0] += stage != "started"
        row[1] += stage == really
        row[2] += 1
    specificity = counts["started right"] / max(1, counts["started"])
    recall = counts["failed right"] / max(1, counts["failed"])
    return Outcomes(
        group=group,
        method=method,
        started=counts["started"],
        started_right=counts["started right"],
        failed=counts["failed"],
        failed_right=counts["failed right"],
        balanced_accuracy=(specificity + recall) / 2,
        recall=recall,
        by_stage={stage: (row[0], row[1], row[2]) for stage, row in sorted(stages.items())},
    )


def _interval(found: list[Predicted]) -> Interval:
    inside, widths = 0, []
    for one in found:
        reported, kv = one.case.record.kv_bytes, one.start.kv
        if reported is None or not one.case.record.has_device or reason_of(one.case) is not None:
            continue
        assert kv.low is not None
        assert kv.high is not None
        # the log has two digits after the point
        half = 0.005 * 2**30
        inside += kv.low - half <= reported <= kv.high + half
        widths.append((kv.high - kv.low) / reported)
    n = len(widths)
    return Interval(n, inside / n if n else 0.0, sum(widths) / n if n else 0.0, median(widths) if n else 0.0)


def _outliers(found: list[Predicted]) -> list[Outlier]:
    """Records that are off by more than `NAMED_ABOVE` or have a reason to be, and starts that were not foreseen."""
    rows = []
    for one in found:
        missed = _missed(one)
        if missed is not None:
            rows.append(missed)
        pair = _kv_of(one, "narrows")
        if pair is None:
            continue
        error, reason = pair[0] / pair[1] - 1, reason_of(one.case)
        if reason is not None or abs(error) > NAMED_ABOVE:
            record = one.case.record
            rows.append(Outlier(record.id, record.source, "KV tokens", pair[0], pair[1], error, reason))
    return sorted(rows, key=lambda row: -abs(row.error))


def _missed(one: Predicted) -> Outlier | None:
    """A start that was foreseen wrongly, where the log states no KV size to compare: 0 failed, 1 started."""
    record = one.case.record
    if not record.has_device or record.outcome not in ("started", "oom_load", "oom_kv"):
        return None
    foreseen, really = one.start.stage == "started", record.outcome == "started"
    if foreseen == really or _kv_of(one, "narrows") is not None:
        return None
    reason = reason_of(one.case)
    return Outlier(record.id, record.source, "started", float(foreseen), float(really), 0.0, reason)


def _without_model(record: MemoryRecord, reason: Text) -> Text:
    """One reason for all models that are not in the catalogue or not read."""
    if record.engine == "vllm" and record.structure and "model" not in reason.params and "not read" not in str(reason):
        return Text("the model is not in the catalogue: its family is not read yet, or its config is not public")
    return reason

"""The scoreboard of the memory ledger: every source predicted by coefficients that were refitted without it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import median

import msgspec

from narrows.accuracy.board import (
    MIN_CLAIM,
    NAMED_ABOVE,
    Interval,
    LeftOut,
    MemoryScores,
    Outlier,
    Protocol,
    Score,
)
from narrows.accuracy.fitting import Missed, actual_reserve, error_of, fit, with_error
from narrows.accuracy.records import Case, MemoryRecord, memory_cases
from narrows.accuracy.starts import GROUPS, Foreseen, by_group, counted, outcomes
from narrows.calibration import Coefficients
from narrows.memory.available import Start, start
from narrows.memory.capacity import stated_tokens
from narrows.memory.ledger import error_name
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
    found, memo = [], Memo()
    for origin, held in _by_origin(given).items():
        others = [case for case in given if case.record.origin != origin]
        known = calibrated(others, memo)
        overhead = _constant_overhead(others)
        found += [_predict(case, known, overhead) for case in held]
    return found


def shipped_on_test_split(cases: Sequence[Case] | None = None) -> list[Predicted]:
    """The `test` records predicted by what the `fit` records teach: the coefficients that narrows ships."""
    given = memory_cases()[0] if cases is None else cases
    taught = [case for case in given if case.record.split == "fit"]
    known, overhead = calibrated(taught), _constant_overhead(taught)
    return [_predict(case, known, overhead) for case in given if case.record.split == "test"]


class Memo(msgspec.Struct, frozen=True):
    """What parts of the same records taught, by the ids of those that teach: fits, and fits with their intervals."""

    fits: dict[tuple[str, ...], Coefficients] = {}
    calibrated: dict[tuple[str, ...], Coefficients] = {}


def calibrated(cases: Sequence[Case], memo: Memo | None = None) -> Coefficients:
    """Coefficients fitted on these cases, with an interval from errors on sources left out among them."""
    memo = Memo() if memo is None else memo
    taught = [case for case in cases if case.teaches_runtime]
    key = tuple(case.record.id for case in taught)
    if key not in memo.calibrated:
        errors = [
            Missed(error_name(case.deployment), origin, error)
            for origin, held in _by_origin(taught).items()
            for case in held
            if case.teaches and (error := error_of(case, _fitted(taught, origin, memo))) is not None
        ]
        memo.calibrated[key] = with_error(_fitted(taught, "", memo), errors)
    return memo.calibrated[key]


def _fitted(taught: Iterable[Case], without: str, memo: Memo) -> Coefficients:
    """What the records teach without those of one source."""
    rest = [case for case in taught if case.record.origin != without]
    key = tuple(case.record.id for case in rest)
    if key not in memo.fits:
        memo.fits[key] = fit(rest)
    return memo.fits[key]


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
            if _kv_of(one, "narrows") is not None and one.case.reason is None:
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
            outcomes(_foreseen(found, method), group, method)
            for group in GROUPS
            for method in METHODS
            if method == "narrows" or group != "nothing else on the device"
        ),
        starts=by_group(_foreseen(found, "narrows"), _GROUPINGS),
        interval=_interval("all", found),
        intervals=tuple(
            _interval(f"version: {part}", [one for one in found if _version(one.case) == part])
            for part in sorted({_version(one.case) for one in found if _in_interval(one) is not None})
        ),
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
        if actual is not None and case.reason is None:
            per_source[case.record.origin].append(actual)
    return median(median(values) for values in per_source.values()) if per_source else 0.0


def _predict(case: Case, known: Coefficients, overhead: float) -> Predicted:
    found = start(case.deployment, known)
    budget, weights = case.deployment.budget - case.deployment.others_inside, found.shard.weights
    return Predicted(case, found, budget - 1.1 * weights, budget - weights - overhead)


def _pool(one: Predicted, method: str) -> float:
    return {"narrows": one.start.kv.value, METHODS[1]: one.plus_tenth, METHODS[2]: one.constant}[method]


def _tokens_comparable(case: Case) -> bool:
    """Whether tokens can be had from bytes whatever the version's rules for windows and state."""
    kinds = case.deployment.model
    return not any(row.window for _, row in kinds.cache_rows()) and not any(True for _ in kinds.state_rows())


def _kv_of(one: Predicted, method: str) -> tuple[float, float] | None:
    """(predicted, reported) KV tokens where both are known, else bytes: the error is relative, so none of nothing."""
    record, deployment, reported = one.case.record, one.case.deployment, one.case.pool_bytes
    if not record.has_device or max(reported or 0, record.kv_tokens or 0) <= 0:
        return None
    pool = _pool(one, method)
    if record.kv_tokens and _tokens_comparable(one.case):
        return float(stated_tokens(deployment, one.start.pages, int(pool))), float(record.kv_tokens)
    return (pool, float(reported)) if reported else None


def _weights_of(one: Predicted, method: str) -> tuple[float, float] | None:
    reported = one.case.record.weights_bytes
    if reported is None or method == METHODS[2]:
        return None
    return (one.start.weights if method == "narrows" else 1.1 * one.start.shard.weights), float(reported)


def _activations_of(one: Predicted, method: str) -> tuple[float, float] | None:
    record = one.case.record
    if record.activation_bytes is None or method == METHODS[1] or one.case.one_rank_samples:
        return None
    if method == "narrows":
        return float(one.start.reserve.activations), float(record.activation_bytes)
    overhead = one.case.deployment.budget - one.case.deployment.others_inside - one.start.shard.weights - one.constant
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
        plain = _pairs([one for one in found if one.case.reason is None], value, method)
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


def _foreseen(found: Iterable[Predicted], method: str) -> list[Foreseen]:
    rows = []
    for one in found:
        needed = one.start.pages.request_bytes(one.case.deployment.max_length)
        stage = one.start.stage if method == "narrows" else "started" if _pool(one, method) >= needed else "kv"
        rows.append(Foreseen(one.case, stage))
    return rows


def _in_interval(one: Predicted) -> tuple[bool, float] | None:
    """(whether the reported bytes are inside, width relative to them), without a named reason to differ."""
    reported, kv = one.case.pool_bytes, one.start.kv
    if not reported or reported < 0 or not one.case.record.has_device or one.case.reason is not None:
        return None
    assert kv.low is not None
    assert kv.high is not None
    half = 0.005 * 2**30  # the log has two digits after the point
    return kv.low - half <= reported <= kv.high + half, (kv.high - kv.low) / reported


def _interval(group: str, found: Iterable[Predicted]) -> Interval:
    rows = [row for one in found if (row := _in_interval(one)) is not None]
    n, widths = len(rows), [width for _, width in rows]
    inside = sum(held for held, _ in rows)
    return Interval(group, n, inside / n if n else 0.0, sum(widths) / n if n else 0.0, median(widths) if n else 0.0)


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
        error, reason = pair[0] / pair[1] - 1, one.case.reason
        if reason is not None or abs(error) > NAMED_ABOVE:
            reason = reason or _little(one) or _guessed(one.case.record)
            record = one.case.record
            rows.append(Outlier(record.id, record.source, "KV tokens", pair[0], pair[1], error, reason))
    return sorted(rows, key=lambda row: -abs(row.error))


_LITTLE, _CLOSE = 1 / 20, 1 / 40


def _little(one: Predicted) -> Text | None:
    """Why a large share of a cache may be wrong: next to nothing is left for it, and the bytes are close."""
    reported, deployment = one.case.pool_bytes, one.case.deployment
    if reported is None:
        tokens = one.case.record.kv_tokens or 0
        reported = int(one.start.pages.request_bytes(deployment.max_length) * tokens / deployment.max_length)
    off = abs(one.start.kv.value - reported) / deployment.usable
    if reported > _LITTLE * deployment.usable or off > _CLOSE:
        return None
    return Text(
        "little is left for the cache: it differs by {share} % of the device's memory", share=f"{100 * off:.1f}"
    )


def _guessed(record: MemoryRecord) -> Text | None:
    """Why a record proves little: what decides its cache was taken from the engine's defaults of its time."""
    if record.version_inferred and record.gpu_memory_utilization is None:
        return Text("neither its version nor its share of memory is stated: the defaults of its time are taken")
    return None


def _missed(one: Predicted) -> Outlier | None:
    """A start that was foreseen wrongly, where the log states no KV size to compare: 0 failed, 1 started."""
    record = one.case.record
    if not counted(one.case):
        return None
    foreseen, really = one.start.stage == "started", record.outcome == "started"
    if foreseen == really or _kv_of(one, "narrows") is not None:
        return None
    reason = one.case.reason or _guessed(record)
    return Outlier(record.id, record.source, "started", float(foreseen), float(really), 0.0, reason)


def _without_model(record: MemoryRecord, reason: Text) -> Text:
    """One reason for all models that are not in the catalogue or not read."""
    if record.engine == "vllm" and record.structure and "model" not in reason.params and "not read" not in str(reason):
        return Text("the model is not in the catalogue: its family is not read yet, or its config is not public")
    return reason

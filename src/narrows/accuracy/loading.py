"""The scoreboard of loading: every source predicted by rates that were fitted without it, beside bytes ÷ bandwidth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from statistics import median

import msgspec

from narrows.accuracy.board import NAMED_ABOVE, Interval, LeftOut, Outlier, Score
from narrows.accuracy.loading_fit import Observed, fit, ratio_of_errors
from narrows.accuracy.loading_records import LoadingCase, LoadingRecord, loading_cases
from narrows.accuracy.loading_starts import start_scores, with_engine_error
from narrows.accuracy.scored import interval_of, score_of
from narrows.calibration import Coefficients
from narrows.loading.path import concurrent, transfer
from narrows.loading.rates import Rates
from narrows.text import Text

METHODS = ("narrows", "bytes ÷ bandwidth of the storage", "bytes ÷ bandwidth of storage and machine")


class LoadingScores(msgspec.Struct, frozen=True):
    """The scoreboard. scores: all records; groups: by storage and by loader.

    starts: profile, compile and capture together, as engines log their start, and their intervals.
    per_source: medians over the medians of sources, so that a source with many records counts once.
    """

    protocol: str
    scores: tuple[Score, ...]
    per_source: tuple[Score, ...]
    groups: tuple[Score, ...]
    interval: Interval
    starts: tuple[Score, ...]
    starts_interval: Interval
    concurrency: tuple[Outlier, ...]
    outliers: tuple[Outlier, ...]


class Predicted(msgspec.Struct, frozen=True):
    """A case, the seconds predicted for it with 80 % interval, and what the two baselines say. Seconds."""

    case: LoadingCase
    seconds: float
    low: float
    high: float
    nominal: float
    machine: float

    def by(self, method: str) -> float:
        """The seconds of one of `METHODS`."""
        return {METHODS[0]: self.seconds, METHODS[1]: self.nominal, METHODS[2]: self.machine}[method]


def predicted_seconds(case: LoadingCase, rates: Rates) -> float:
    """Seconds of the record's stage: the download alone, or from storage to device."""
    found = transfer(case.scenario, rates)
    if case.record.stage == "download":
        return next(one.seconds for one in found.moved if one.name == "download")
    return found.time


def leave_one_source_out(cases: Sequence[LoadingCase] | None = None) -> list[Predicted]:
    """Every source predicted by what the others' records of split `fit` teach; intervals from errors among those."""
    given = loading_cases()[0] if cases is None else cases
    found = []
    for source, held in _by_source(given).items():
        others = [case for case in given if case.record.origin != source and case.record.split == "fit"]
        rates = calibrated(others)
        found += [_predict(case, rates) for case in held]
    return found


def calibrated(cases: Sequence[LoadingCase], starts: Iterable[LoadingRecord] = ()) -> Coefficients:
    """Rates fitted on these cases, with an interval of the whole way from sources left out among them."""
    errors: list[Observed] = []
    for source, held in _by_source(cases).items():
        rates = fit([case for case in cases if case.record.origin != source])
        errors += [(source, case.seconds / predicted_seconds(case, rates)) for case in held]
    given = list(starts)
    found = fit(cases, given)
    found["path"] = ratio_of_errors("path", errors)
    return with_engine_error(found, given)


def loading_scores() -> LoadingScores:
    """The scoreboard, leaving one source out at a time."""
    found = leave_one_source_out()
    groups: list[Score] = []
    for name, key in _GROUPINGS.items():
        parts: dict[str, list[Predicted]] = defaultdict(list)
        for one in found:
            parts[key(one.case)].append(one)
        groups += [
            score_of(f"{name}: {part}", method, _errors(parts[part], method))
            for part in sorted(parts)
            for method in METHODS[:2]
        ]
    starts, starts_interval = start_scores()
    return LoadingScores(
        protocol="leave one source out",
        scores=tuple(score_of("all", method, _errors(found, method)) for method in METHODS),
        per_source=tuple(_per_source(found, method) for method in METHODS),
        groups=tuple(groups),
        interval=interval_of("all", [(one.low, one.high, one.case.seconds) for one in found]),
        starts=starts,
        starts_interval=starts_interval,
        concurrency=tuple(concurrency_check()),
        outliers=tuple(_outliers(found)),
    )


def left_out() -> tuple[LeftOut, ...]:
    """Records of moved bytes on which nothing is predicted, by why."""
    reasons: dict[Text, list[str]] = defaultdict(list)
    for record, reason in loading_cases()[1]:
        reasons[reason].append(record.id)
    return tuple(LeftOut(reason, tuple(ids)) for reason, ids in sorted(reasons.items(), key=lambda pair: -len(pair[1])))


def concurrency_check(source: str = "run-ai/runai-model-streamer/blob") -> list[Outlier]:
    """A published table of one loader at several concurrencies, from its smallest alone: `min(readers × stream, top)`.

    top: the fastest that the table shows for that storage. The smallest and the fastest are given, the others
    predicted.
    """
    tables: dict[str, list[LoadingCase]] = defaultdict(list)
    for case in loading_cases()[0]:
        if source in case.record.source and case.scenario.loader.id == "runai" and case.record.streams:
            tables[case.storage.id].append(case)
    found = []
    for cases in tables.values():
        ordered = sorted(cases, key=lambda case: case.record.streams or 0)
        first, top = ordered[0], max(case.scenario.bytes / case.seconds for case in ordered)
        stream = first.scenario.bytes / first.seconds / (first.record.streams or 1)
        for case in ordered[1:]:
            seconds = case.scenario.bytes / concurrent(case.record.streams or 1, stream, top)
            found.append(_outlier(case, seconds))
    return found


_GROUPINGS: dict[str, Callable[[LoadingCase], str]] = {
    "storage": lambda case: case.storage.id,
    "loader": lambda case: "download" if case.record.stage == "download" else case.scenario.loader.id,
}


def _by_source(cases: Iterable[LoadingCase]) -> dict[str, list[LoadingCase]]:
    found: dict[str, list[LoadingCase]] = defaultdict(list)
    for case in cases:
        found[case.record.origin].append(case)
    return found


def _predict(case: LoadingCase, rates: Rates) -> Predicted:
    seconds, error, scenario = predicted_seconds(case, rates), rates["path"], case.scenario
    top = scenario.bandwidth or scenario.storage.bandwidth
    limit = scenario.instance.limit(scenario.storage.kind) if scenario.instance else None
    return Predicted(
        case,
        seconds,
        seconds * error.low,
        seconds * error.high,
        scenario.bytes / top,
        scenario.bytes / min(top, limit or top),
    )


def _errors(found: Iterable[Predicted], method: str) -> list[tuple[str, float]]:
    return [(one.case.record.origin, one.by(method) / one.case.seconds - 1) for one in found]


def _per_source(found: Iterable[Predicted], method: str) -> Score:
    """Every source by the median of its errors' sizes; the bias is the median of its signed ones."""
    by: dict[str, list[float]] = defaultdict(list)
    for source, error in _errors(found, method):
        by[source].append(error)
    sizes = [(source, median(abs(error) for error in errors)) for source, errors in by.items()]
    bias = median(median(errors) for errors in by.values())
    return msgspec.structs.replace(score_of("a source each", method, sizes), bias=bias)


def _outlier(case: LoadingCase, seconds: float, reason: Text | None = None) -> Outlier:
    record = case.record
    name = f"{record.id} {record.storage} {record.loader}" + (f" ×{record.streams}" if record.streams else "")
    return Outlier(name, record.source, "seconds", seconds, case.seconds, seconds / case.seconds - 1, reason)


def _outliers(found: Iterable[Predicted]) -> list[Outlier]:
    rows = [
        _outlier(one.case, one.seconds, _REASONS.get(one.case.scenario.loader.id))
        for one in found
        if abs(one.seconds / one.case.seconds - 1) > NAMED_ABOVE
    ]
    return sorted(rows, key=lambda row: -abs(row.error))


_REASONS = {
    "instanttensor": Text("without its own source nothing is known of this loader"),
    "runai-distributed": Text("devices wait for each other while they exchange what each has read"),
    "prefetch": Text("reads ahead only as long as the copy to the device does not overtake it"),
}

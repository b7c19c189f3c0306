"""Scores of what an engine does after loading: profile, compile and capture together, as vLLM logs its start."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from narrows.accuracy.board import Interval, Score
from narrows.accuracy.loading_fit import Observed, fit, ratio_of_errors
from narrows.accuracy.loading_records import LoadingRecord, loading_records
from narrows.accuracy.scored import interval_of, score_of
from narrows.calibration import Coefficient, Coefficients
from narrows.loading.rates import Rates
from narrows.loading.start import Fixed, fixed_stages

METHODS = ("narrows", "median start of the other sources")


def engine_start(record: LoadingRecord, rates: Rates) -> tuple[Fixed, ...]:
    """The stages that the engine's own line counts: it says nothing of the process, nor of the first request."""
    found = fixed_stages(
        rates, "vllm", record.version, record.layers or 0, ranks=1, graphs=not record.eager, cached=record.warm
    )
    return tuple(one for one in found if one.name in ("compile", "graph_capture"))


def with_engine_error(found: dict[str, Coefficient], records: Sequence[LoadingRecord]) -> Coefficients:
    """The coefficients with `engine`: how far starts of sources left out lie from what the others teach."""
    starts = [record for record in records if record.stage == "engine start"]
    errors: list[Observed] = []
    for origin in dict.fromkeys(record.origin for record in starts):
        rates = fit([], [record for record in records if record.origin != origin])
        if not {"profile", "compile.cold", "compile.warm", "capture"} <= set(rates):
            continue
        for record in (one for one in starts if one.origin == origin):
            value = sum(one.seconds for one in engine_start(record, rates))
            errors.append((origin, (record.seconds or 0.0) / value))
    return found | {"engine": ratio_of_errors("engine", errors)} if errors else found


def start_scores(records: Sequence[LoadingRecord] | None = None) -> tuple[tuple[Score, ...], Interval]:
    """Every source predicted by the others, beside the median of the others; and how many the intervals hold."""
    given = loading_records() if records is None else records
    starts = [record for record in given if record.stage == "engine start"]
    errors: dict[str, list[tuple[str, float]]] = {method: [] for method in METHODS}
    bounds: list[tuple[float, float, float]] = []
    for origin in dict.fromkeys(record.origin for record in starts):
        others = [record for record in given if record.origin != origin and record.split == "fit"]
        rates = with_engine_error(fit([], others), others)
        middle = median(record.seconds or 0.0 for record in others if record.stage == "engine start")
        for record in (one for one in starts if one.origin == origin):
            stages, seconds = engine_start(record, rates), record.seconds or 0.0
            value = sum(one.seconds for one in stages)
            low, high = sum(one.low for one in stages), sum(one.high for one in stages)
            errors[METHODS[0]].append((origin, value / seconds - 1))
            errors[METHODS[1]].append((origin, middle / seconds - 1))
            bounds.append((low, high, seconds))
    scores = tuple(score_of("engine start", method, errors[method]) for method in METHODS)
    return scores, interval_of("engine start", bounds)

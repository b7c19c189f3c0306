"""Parts of the answer of `measure load`: limits, each loader beside its prediction, stages."""

from __future__ import annotations

from collections.abc import Sequence

from narrows.answers.measure_load_types import LoaderMeasured, LoadLimit, MeasuredStage
from narrows.measure.load_judge import HIDDEN, Evidence, Seen, judge
from narrows.measure.load_predict import Expected, expected
from narrows.measure.load_run import Pair, Ran, Taken
from narrows.measure.load_ways import Way
from narrows.measure.timing import median, quantile
from narrows.quantity import Kind, Quantity

CLOSE = 0.30
HOST = ("host_allocation", "host_copy", "mapping", "page_cache")
WARM = ("host_allocation", "host_copy", "mapping")
"""Those that a warm run has too."""


def varied_by(tops: Sequence[float]) -> float:
    """The factor between the 90th and the 10th percentile of what the storage gave."""
    ordered = sorted(tops)
    return quantile(ordered, 0.9) / max(quantile(ordered, 0.1), 1.0) if ordered else 1.0


def of(values: Sequence[float], unit: str, kind: Kind = "measured") -> Quantity:
    """The median, with the interval of 80 %."""
    ordered = sorted(values)
    return Quantity(median(ordered), unit, kind, quantile(ordered, 0.1), quantile(ordered, 0.9))


def limits_of(found: Ran) -> tuple[LoadLimit, ...]:
    """All limits, over the whole run where they were measured over and over."""
    rows = [
        LoadLimit("storage", depth, Quantity(value, "B/s", "measured")) for depth, value in sorted(found.depths.items())
    ]
    best = max(found.depths, key=lambda depth: found.depths[depth])
    if found.tops:
        rows = [
            LoadLimit("storage", best, of([*found.tops, found.depths[best]], "B/s")) if one.depth == best else one
            for one in rows
        ]
    beside = [one.beside for one in found.pairs]
    for name, values in {
        "one_reader": [one.window for one in beside],
        "cached": [one.host.cached for one in beside],
        "mapping": [one.host.mapping for one in beside],
        "memcpy": [one.host.memcpy for one in beside],
        "first_touch": [one.host.first_touch for one in beside],
        "pinned": [one.pinned or 0.0 for one in beside],
        "pageable": [one.pageable or 0.0 for one in beside],
    }.items():
        if any(values):
            rows.append(LoadLimit(name, None, of(values, "B/s")))
    return tuple(rows)


def measured_loader(way: Way, pairs: Sequence[Pair], ranks: int, cores: int, unsteady: bool) -> LoaderMeasured:
    """One loader beside its prediction."""
    colds = [one.cold for one in pairs]
    warms = [one.warm for one in pairs if one.warm is not None]
    laws = [expected(way, one.cold.bytes, one.beside, ranks, cores) for one in pairs]
    size = colds[0].bytes
    times = [one.seconds for one in colds]
    error = median([abs(taken / law.seconds - 1) for taken, law in zip(times, laws, strict=True)])
    cold = way.http or all(one.state.cold for one in colds)
    typical = sorted(laws, key=lambda law: law.seconds)[len(laws) // 2]
    seen = judge(evidence(pairs, ranks, way), typical)
    stored = [one.stored for one in colds if one.stored is not None]
    return LoaderMeasured(
        loader=way.id,
        name=way.name,
        pairs=len(pairs),
        cold=cold,
        reason=next((one.state.reason for one in colds if one.state.reason is not None), None),
        bytes=size,
        time=of(times, "s"),
        bandwidth=of([one.bytes / one.seconds for one in colds], "B/s"),
        warm=of([one.seconds for one in warms], "s") if warms else None,
        predicted=of([law.seconds for law in laws], "s", "predicted"),
        error=error,
        verdict="warm" if not cold else "agrees" if error <= CLOSE else "inconclusive" if unsteady else "differs",
        stages=_stages(laws, colds, warms, seen),
        host_time=of([one.seconds for one in warms], "s") if warms else None,
        host_predicted=of([law.host for law in laws], "s", "predicted"),
        narrow_stage=seen.stage,
        narrow_limit=seen.limit,
        narrow_reason=seen.text,
        predicted_narrow=typical.narrow.name,
        narrow_agrees=_group(typical.narrow.name) == _group(seen.stage),
        cpu_per_gb=median([one.cpu / (one.bytes * ranks) * 1e9 for one in colds]),
        peak_rss_bytes=int(median([one.rss for one in colds])),
        rss_before_bytes=int(median([one.rss_before for one in colds])),
        major_faults=int(median([one.major for one in colds])),
        minor_faults=int(median([one.minor for one in colds])),
        stored_share=median(stored) / size if stored else None,
        is_limit=way.limit,
    )


def _group(stage: str) -> str:
    """The counters tell host memory from storage and link, not the steps in host memory from each other."""
    return "host" if stage in HOST else stage


def evidence(pairs: Sequence[Pair], ranks: int, way: Way) -> Evidence:
    """What the pairs of one loader showed."""
    colds = [one.cold for one in pairs]
    warms = [one.warm.seconds for one in pairs if one.warm is not None]
    stored = [one.stored for one in colds if one.stored is not None]
    starved = [one.starved for one in colds if one.starved is not None]
    sinking = [one.sinking for one in colds if one.sinking is not None]
    return Evidence(
        cold=median([one.seconds for one in colds]),
        warm=median(warms) if warms else None,
        bytes=colds[0].bytes,
        major=median([one.major for one in colds]),
        stored=median(stored) if stored else None,
        starved=median(starved) if starved else None,
        sinking=median(sinking) if sinking else None,
        linking=median([one.linking for one in colds]),
        top=median([one.beside.top for one in pairs]),
        one=median([one.beside.one for one in pairs]),
        through=median(
            [one.beside.window if way.cached and way.facts.streams == 1 else one.beside.top for one in pairs]
        ),
        ranks=ranks,
        http=way.http,
    )


def _stages(
    laws: Sequence[Expected], colds: Sequence[Taken], warms: Sequence[Taken], seen: Seen
) -> tuple[MeasuredStage, ...]:
    typical = laws[0].stages
    cold = median([one.seconds for one in colds])
    warm = median([one.seconds for one in warms]) if warms else None
    names = [one.name for one in typical]
    found = []
    for stage in typical:
        predicted = of([one.seconds for law in laws for one in law.stages if one.name == stage.name], "s", "predicted")
        time: Quantity | None = None
        if stage.name == "read" and (warm is None or cold > HIDDEN * warm):
            # what storage does while the host works is hidden, so that the longer of the two is what is seen
            time = of([one.starved if one.starved is not None else one.seconds for one in colds], "s")
        elif stage.name == "host_to_device":
            times = [one.linking or one.sinking or 0.0 for one in colds]
            time = of(times, "s") if any(times) else None
        elif stage.name in WARM and warms and sum(name in WARM for name in names) == 1:
            time = of([one.seconds for one in warms], "s")
        shown = time or predicted
        rates = [stage.bytes / max(value, 1e-9) for value in (shown.value, shown.low or 0.0, shown.high or 0.0)]
        found.append(
            MeasuredStage(
                name=stage.name,
                time=time,
                predicted=predicted,
                bytes=stage.bytes,
                bandwidth=Quantity(rates[0], "B/s", shown.kind, rates[2], rates[1]),
                limit=stage.limit,
                narrow=stage.name == seen.stage,
            )
        )
    return tuple(found)

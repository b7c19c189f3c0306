"""Fits what first principles do not give of loading: readers, loaders, links, and the fixed stages of a start.

Every coefficient is the median of its sources' medians. A record teaches what limited it: readers where less than
`FULL` of what storage and machine give was reached, how much of a limit on paper is reached where more was, and a
loader's own rate where the bytes were in memory already.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import exp, log
from statistics import median

from narrows.accuracy.loading_records import LoadingCase, LoadingRecord, copies, loading_facts
from narrows.calibration import Coefficient
from narrows.hardware.storage import storages
from narrows.loading.loaders import loader
from narrows.loading.path import stored_rate
from narrows.loading.start import capture_of

FULL = 0.6
"""A reader-bound record is below this share of the limit; between it and the limit nothing tells both apart."""
FEW = 4
"""Readers per rank up to which a record tells what one of them gets: with more, some limit nobody stated decides."""
SPREAD = 1.25
"""An interval is at least this factor to either side: fewer than three sources do not show how they differ."""

STEADY = 1.15
"""The same for copies over a link, which vary little from run to run."""

Observed = tuple[str, float]
"""(source, value)"""


def fit(cases: Sequence[LoadingCase], starts: Iterable[LoadingRecord] = ()) -> dict[str, Coefficient]:
    """Coefficients from records; `starts`: those of the stages that move no bytes."""
    found: dict[str, Coefficient] = {row.name: row for row in loading_facts()}
    for name in ("link.pinned", *dict.fromkeys(row.name for row in copies())):
        same = [row for row in copies() if row.name.startswith(name)]
        unit = "B/s" if name == "link.pageable" else "1"
        found[name] = _coefficient(name, [(row.source, row.reached / row.paper) for row in same], unit)
    for one in storages():
        if one.stream is not None:
            found[f"stream.{one.id}"] = _given(
                f"stream.{one.id}", one.stream, 0.6 * one.stream, 1.6 * one.stream, "B/s", "documented", one.source
            )
    seen: dict[str, list[Observed]] = defaultdict(list)
    for case in cases:
        if case.storage.kind == "memory":
            _teach_loader(case, seen)
    rates = _fitted({name: list(values) for name, values in seen.items()})
    for case in cases:
        if case.storage.kind != "memory":
            _teach_storage(case, seen, rates)
    found |= _network_law(seen)
    found |= _fitted(seen)
    found.setdefault("stream.network", _given("stream.network", 0.3e9, 0.1e9, 1e9, "B/s", "assumed", "not fitted"))
    found.setdefault("power", _given("power", 0.0, 0.0, 1.0, "1", "assumed", "not fitted"))
    found.setdefault("reach", _given("reach", 1.0, 0.7, 1.1, "1", "assumed", "see basis; not fitted"))
    found.setdefault("rate.any", _given("rate.any", 5e9, 2e9, 10e9, "B/s", "assumed", "see basis; not fitted"))
    return found | _start_times(starts)


def _teach_loader(case: LoadingCase, seen: dict[str, list[Observed]]) -> None:
    """From memory to devices nothing but the loader's own handling is in the way."""
    scenario = case.scenario
    each = scenario.bytes * scenario.loader.share(scenario.ranks) / case.seconds
    seen[f"rate.{scenario.loader.id}"].append((case.record.origin, each))
    seen["rate.any"].append((case.record.origin, each))


def _teach_storage(case: LoadingCase, seen: dict[str, list[Observed]], rates: dict[str, Coefficient]) -> None:
    scenario, source = case.scenario, case.record.origin
    each, name = scenario.bytes * scenario.loader.share(scenario.ranks) / case.seconds, f"rate.{scenario.loader.id}"
    if case.record.stage == "weights" and name in rates and each > rates[name].value:
        seen[name].append((source, each))  # whatever else was in the way, the loader itself does that much
    by = loader("hub") if case.record.stage == "download" else scenario.loader
    if case.record.stage == "download" and scenario.storage.kind != "hub":
        return  # which tool downloaded, and with how many connections, is not known
    reading = case.seconds
    if not by.pipelined and f"rate.{by.id}" in rates:
        share = scenario.bytes * by.share(scenario.ranks)
        reading -= min(0.5 * reading, share / rates[f"rate.{by.id}"].value)
    reached = scenario.bytes / reading
    readers = by.streams if case.record.stage == "download" else scenario.readers
    top = stored_rate(scenario)[0]
    remote = scenario.storage.kind in ("object", "hub")
    held = by.cpu + (by.http_cpu if remote else 0.0)
    if held and by.id != "hub" and reached >= FULL * 1e9 / held:
        return
    if reached >= FULL * top:
        seen["reach"].append((source, reached / top))
        return
    if case.record.stage != "download" and readers > FEW * scenario.ranks:
        return
    seen[f"stream.{scenario.storage.id}"].append((source, reached / readers))
    if remote:
        seen[f"stream.{scenario.storage.kind}"].append((source, reached / readers))
    else:
        paper = scenario.bandwidth or scenario.storage.bandwidth
        seen["network"].append((f"{source} {scenario.storage.id} {paper}", reached / readers))


def _network_law(seen: dict[str, list[Observed]]) -> dict[str, Coefficient]:
    """What one reader of a storage over a network gets: `stream.network` × (bandwidth on paper ÷ 1 GB/s) ^ `power`.

    Least squares of the logarithms, a point per source and storage: storage with more bandwidth answers sooner.
    """
    by: dict[str, list[float]] = defaultdict(list)
    for key, value in seen.pop("network", []):
        by[key].append(value)
    points = [(log(float(key.split(" ")[2]) / 1e9), log(median(values))) for key, values in by.items()]
    if len(points) < 3:
        return {}
    x0, y0 = sum(x for x, _ in points) / len(points), sum(y for _, y in points) / len(points)
    spread = sum((x - x0) ** 2 for x, _ in points)
    power = sum((x - x0) * (y - y0) for x, y in points) / spread if spread else 0.0
    base = y0 - power * x0
    left = sorted(exp(y - base - power * x) for x, y in points)
    source = "; ".join(sorted({key.split(" ")[0].removeprefix("https://github.com/") for key in by}))
    basis = "least squares over storages of the logarithms of what one reader got and of the bandwidth on paper"
    value = exp(base)
    interval = (_short(value * min(0.8, _quantile(left, 0.1))), _short(value * max(1.25, _quantile(left, 0.9))))
    return {
        "stream.network": Coefficient(
            "loading", "stream.network", _short(value), "B/s", *interval, len(points), basis, source
        ),
        "power": Coefficient("loading", "power", _short(power), "1", 0.0, 1.0, len(points), basis, source),
    }


def _fitted(seen: dict[str, list[Observed]]) -> dict[str, Coefficient]:
    units = {"reach": "1"}
    return {name: _coefficient(name, values, units.get(name, "B/s")) for name, values in seen.items()}


def _start_times(starts: Iterable[LoadingRecord]) -> dict[str, Coefficient]:
    per_layer: dict[str, Callable[[LoadingRecord], float | None]] = {
        "compile cold": lambda one: one.seconds / one.layers if one.seconds and one.layers else None,
        "compile warm": lambda one: one.seconds / one.layers if one.seconds and one.layers else None,
        "capture": lambda one: one.seconds / one.layers if one.seconds and one.layers else None,
        "initialise": lambda one: one.seconds,
        "profile": lambda one: one.seconds,
    }
    seen: dict[str, list[Observed]] = defaultdict(list)
    for record in starts:
        if record.stage == "shards" and record.seconds and record.bytes:
            # its drives give more than ten times that: what is slow is the copy of mapped files
            seen[f"rate.{record.loader}.{record.device}"].append((record.origin, record.bytes / record.seconds))
        if record.stage == "wake" and record.seconds and record.bytes:
            seen["wake"].append((record.origin, record.seconds - record.bytes / (_WOKEN_LINK * _woken_share())))
        if record.stage in per_layer:
            value = per_layer[record.stage](record)
            if value is None or (record.stage == "capture" and not record.version):
                continue  # a capture whose version nobody knows tells neither law anything
            name = capture_of(record.version) if record.stage == "capture" else record.stage.replace(" ", ".")
            seen[name].append((record.origin, value))
    return {name: _coefficient(name, values, _unit(name)) for name, values in seen.items() if values}


def _unit(name: str) -> str:
    if name.startswith("rate."):
        return "B/s"
    return "s" if name in ("initialise", "profile", "wake") else "s per layer"


_WOKEN_LINK = 31.5e9
"""PCIe 4.0 x16 on paper: the records of waking are from an A100."""


def _woken_share() -> float:
    return next(row.reached / row.paper for row in copies() if row.name == "link.pinned.4")


def _coefficient(name: str, values: list[Observed], unit: str) -> Coefficient:
    """Median of the sources' medians; the interval holds 80 % of all observations and is never narrower than SPREAD."""
    by: dict[str, list[float]] = defaultdict(list)
    for source, value in values:
        by[source].append(value)
    middle = median(median(found) for found in by.values())
    ordered = sorted(value for _, value in values)
    low, high = _quantile(ordered, 0.1), _quantile(ordered, 0.9)
    spread = (
        1.0 if name == "reach" else STEADY if name.startswith("link.pinned") else SPREAD if len(by) > 2 else SPREAD**2
    )
    return Coefficient(
        engine="loading",
        name=name,
        value=_short(middle),
        unit=unit,
        low=_short(min(low, middle / spread)),
        high=_short(max(high, middle * spread)),
        n=len(values),
        basis="median of its sources' medians, from public records of loading",
        source="; ".join(sorted(source.removeprefix("https://github.com/") for source in by)),
    )


def _given(name: str, value: float, low: float, high: float, unit: str, basis: str, source: str) -> Coefficient:
    return Coefficient("loading", name, value, unit, low, high, 0, basis, source)


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def _quantile(ordered: list[float], share: float) -> float:
    """Linear between the values in order."""
    at = share * (len(ordered) - 1)
    below = int(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def ratio_of_errors(name: str, errors: list[Observed]) -> Coefficient:
    """`name`: 80 % of sources left out measured between low and high of the predicted time.

    Every source counts the same, however many records it has.
    """
    by: dict[str, list[float]] = defaultdict(list)
    for source, ratio in errors:
        by[source].append(ratio)
    weighted = sorted((value, 1.0 / len(values)) for values in by.values() for value in values)
    total, done = sum(weight for _, weight in weighted), 0.0
    low = high = 1.0
    for value, weight in weighted:
        if done < 0.1 * total <= done + weight:
            low = value
        if done < 0.9 * total <= done + weight:
            high = value
        done += weight
    return Coefficient(
        "loading",
        name,
        1.0,
        "ratio",
        _short(min(low, 0.8)),
        _short(max(high, 1.25)),
        len(errors),
        "measured ÷ predicted of sources left out, each source counted once",
        "; ".join(sorted(by)),
    )

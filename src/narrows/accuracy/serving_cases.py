"""The measurements that are scored, in parts, and those that are not, with why; laws of steps as they are shipped."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any, NamedTuple
from zlib import crc32

from narrows.accuracy.board import LeftOut
from narrows.accuracy.serving_fit import (
    CHANGED,
    LEVELS,
    Fitted,
    Parts,
    fitted,
    fitted_parts,
    group_of,
    is_server,
    left_out,
    predicted,
)
from narrows.accuracy.serving_records import ServingRecord, device_of, serving_records
from narrows.accuracy.serving_rules import alone, excluded
from narrows.accuracy.serving_work import Work, works
from narrows.calibration.laws import Law
from narrows.roofline.devices import device_keys
from narrows.roofline.engine_overhead import NAMES
from narrows.text import BadInput, Text

FOLDS = 5
KINDS_OF_MODELS = ("dense", "experts")
UNLICENSED = Text(
    "rows of llama.cpp scoreboards that state no licence: cited by their sources, not carried (Apple M1–M4, GeForce, "
    "Radeon and others)"
)
UNLICENSED_ROWS = 428
LEAST, LEAST_OF_ENGINE = 8, 4
"""A law rests on at least so many rows; that of an engine for one user on fewer: no law of servers is close to it."""


class Cases(NamedTuple):
    """servers: steps of servers with a split. prompts: one prompt alone. one_user: decode of a few sequences by engines
    for one user; beside: the same engines' prompts, and servers under light loads without a split. left: what is not
    scored."""

    servers: tuple[Work, ...]
    prompts: tuple[Work, ...]
    one_user: tuple[Work, ...]
    beside: tuple[Work, ...]
    left: tuple[LeftOut, ...]


@cache
def serving_cases() -> Cases:
    """All of them. Raises BadInput where numpy is not installed."""
    try:
        import numpy  # noqa: F401
    except ImportError:
        raise BadInput("this scoreboard computes with arrays; install numpy: pip install 'narrows[sweep]'") from None
    reasons: dict[str, tuple[Text, list[str]]] = {}

    def leave(record: ServingRecord, reason: Text) -> None:
        reasons.setdefault(str(reason), (reason, []))[1].append(record.id)

    able = []
    for record in serving_records():
        reason = alone(record)
        if reason is None:
            able.append(record)
        else:
            leave(record, reason)
    found, unworkable = works(able)
    for record, why in unworkable:
        leave(record, why)
    outside = excluded(found)
    scored = []
    for one in found:
        if one.record.id in outside:
            leave(one.record, outside[one.record.id])
        else:
            scored.append(one)
    left = [LeftOut(reason, tuple(ids)) for reason, ids in reasons.values()]
    left.append(LeftOut(UNLICENSED, tuple(f"decode-llamacpp-batch1-{n}" for n in range(UNLICENSED_ROWS))))
    return Cases(
        tuple(one for one in scored if one.record.table == "silicon"),
        tuple(one for one in scored if one.record.table == "trtllm-static"),
        tuple(one for one in scored if one.record.table in ("batch-1", "llama.cpp") and one.record.tpot is not None),
        tuple(one for one in scored if one.record.table in ("vllm-bench", "llama.cpp") and one.record.tpot is None),
        tuple(sorted(left, key=lambda one: -len(one.records))),
    )


def parts_of(cases: Cases, fit_only: bool = True) -> Parts:
    """What laws are fitted on: the `fit` rows of servers, or all; prompts; engines for one user."""
    servers = [one for one in cases.servers if not fit_only or one.record.split == "fit"]
    return Parts(servers, cases.prompts, cases.one_user)


def configuration(one: Work) -> Hashable:
    """One of five folds: rows of one configuration of a server stay together."""
    record = one.record
    split = record.tensor_parallel, record.attention_data_parallel, record.expert_parallel
    return crc32(repr((group_of(one), record.disaggregated, *split, record.version)).encode()) % FOLDS


def device(one: Work) -> Hashable:
    """The device."""
    return one.record.device


def shape(one: Work) -> Hashable:
    """The model, whatever its weights are stored in."""
    return one.shape


def source(one: Work) -> Hashable:
    """Where a row is from."""
    return one.record.source


class Spread(NamedTuple):
    """80 % of measured times lie between these multiples of the predicted ones."""

    low: float
    high: float


FEW_DEVICES = 5
"""An interval of devices left out that rests on fewer holds all of their rows."""


def spread_of(rows: Sequence[Work], times: Any, outside: float = 0.1) -> Spread:
    """The 10th and 90th percentile of measured ÷ predicted, or others."""
    import numpy as np

    ratios = np.array([one.measured for one in rows]) / times
    return Spread(float(np.quantile(ratios, outside)), float(np.quantile(ratios, 1 - outside)))


@cache
def spreads() -> dict[tuple[str, str], Spread]:
    """(kind, level) → interval, from `fit` rows that were left out: configurations for models seen, models for others.

    Of engines for one user: devices left out. `kin`: of steps on devices whose operators alone were measured: devices
    left out, wider. `elsewhere`: on any other, by the law of servers: rows of engines for one user, which taught it
    nothing.
    """
    cases = serving_cases()
    parts = parts_of(cases)
    found: dict[tuple[str, str], Spread] = {}
    for kind in KINDS_OF_MODELS:
        for level, key_of in (("model", configuration), ("kind", shape)):
            times, _ = left_out(parts.servers, parts, key_of)
            members = [i for i, one in enumerate(parts.servers) if one.kind == kind]
            found[kind, level] = spread_of([parts.servers[i] for i in members], times[members])
        found[kind, "version"] = found[kind, "model"]
        found[kind, "any"] = found[kind, "kind"]
        times, _ = left_out(parts.servers, parts, device)
        members = [i for i, one in enumerate(parts.servers) if one.kind == kind]
        near = spread_of([parts.servers[i] for i in members], times[members])
        found[kind, "kin"] = Spread(near.low / UNSERVED, near.high * UNSERVED)
        rows = [one for one in parts.alone if one.kind == kind]
        times, _ = left_out(rows, parts, device)
        outside = 0.1 if len({one.record.device for one in rows}) >= FEW_DEVICES else 0.0
        found[kind, "engine"] = found[kind, "generation"] = spread_of(rows, times, outside)
        found[kind, "elsewhere"] = spread_of(rows, predicted(fitted(parts.servers, set()), rows)[0])
    return found


OF_ENGINES = ("engine", "generation")
SERVED = "nvidia HBM"
"""Class of the devices that servers were measured on."""
KIN = "nvidia GDDR"
"""Class of devices whose operators were measured and whose servers were not."""
UNSERVED = 1.25
"""By how much their interval is wider than that of a device left out: assumed. Of the ten prompts on one L40S alone all
lie inside."""


def interval_of(one: Work, level: str) -> Spread:
    """The interval of a prediction that this level made.

    An engine for one user that taught the laws nothing is as far from them as other devices are.
    """
    if level in ("any", "kind"):
        keys = device_keys(device_of(one.record.device))
        known = level if SERVED in keys else "kin" if KIN in keys else "elsewhere"
        level = known if is_server(one) else "elsewhere"
    return spreads()[one.kind, level]


_BASIS: dict[str, Callable[[Any], str]] = {
    "kind": lambda key: "fitted on servers of every model; interval: models left out",
    "kin": lambda key: "fitted on servers of every model; interval: devices left out, widened by a quarter",
    "elsewhere": lambda key: "fitted on servers of every model; interval: engines for one user on other devices",
    "engine": lambda key: "fitted on this engine; interval: devices left out",
    "generation": lambda key: (
        f"fitted on {'this engine as it was built then' if key[2] else 'builds of today'}; interval: devices left out"
    ),
    "model": lambda key: "fitted on this model; interval: configurations left out",
    "version": lambda key: "fitted on this model and version; interval: configurations left out",
}


def step_laws(known: Fitted, parts: Parts) -> tuple[Law, ...]:
    """The values as laws of steps; those that rest on few rows are left to the level above."""
    intervals = spreads()
    sources: dict[tuple[str, Any], set[str]] = {}
    for rows, servers in ((parts.servers, True), (parts.prompts, True), (parts.alone, False)):
        for one in rows:
            for level, key_of in LEVELS:
                if servers or level in OF_ENGINES:
                    sources.setdefault((level, key_of(one)), set()).add(one.record.source)
    found = []
    for (level, key), value in known.values.items():
        least = {"kind": 0, "engine": LEAST_OF_ENGINE, "generation": LEAST_OF_ENGINE}.get(level, LEAST)
        if level == "any" or known.rows[level, key] < least:
            continue
        if level == "engine" and isinstance(key, tuple) and key[1] in CHANGED:
            continue  # each generation has a law of its own
        for where in ("kind", "kin", "elsewhere") if level == "kind" else (level,):
            place = _place(where, key)
            if place is None:
                continue
            interval = intervals[place.kind, where]
            found.append(
                Law(
                    operator=place.kind,
                    values={name: float(f"{number:.4g}") for name, number in zip(NAMES, value, strict=True)},
                    low=round(interval.low, 3),
                    high=round(interval.high, 3),
                    n=known.rows[level, key],
                    basis=_BASIS[where](key),
                    source="; ".join(sorted(sources.get((level, key), set()))),
                    device=place.device,
                    engine=place.engine,
                    model=place.model,
                    precision=place.precision,
                    version=place.version,
                )
            )
    return tuple(found)


class Place(NamedTuple):
    """Where a law holds."""

    kind: str
    device: str = "any"
    engine: str = ""
    model: str = ""
    precision: str = ""
    version: str = ""


def _place(level: str, key: Any) -> Place | None:
    """Where the values of a level's key hold; None where they would hold for what nobody can name (no version)."""
    classes = {"kind": SERVED, "kin": KIN, "elsewhere": "any"}
    if level in classes:
        return Place(key, classes[level])
    if level in OF_ENGINES:
        return Place(key[0], engine=key[1], version=key[2])
    return None if level == "version" and not key[5] else Place(*key)


def shipped() -> tuple[Law, ...]:
    """The laws of steps that narrows ships, fitted anew on the rows that are not scored."""
    parts = parts_of(serving_cases())
    return step_laws(fitted_parts(parts), parts)

"""Laws of whole steps from measured ones: physics first, then what a class of devices says of a model.

A law's values multiply the terms of `serving_work` and add up to a step. They are fitted on relative errors, never
negative, and drawn to what is believed without data (`BELIEVED`, by `SPREAD`): factors of 1. So a factor that rows say
little about stays near its belief. Level by level, each drawn to the one above: any step; steps of dense models, of
mixtures of experts; an engine for one user; one model in one precision on one engine and class of devices; one version
of the engine there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

from narrows.accuracy.serving_records import OLD
from narrows.accuracy.serving_work import Work, launched_eagerly
from narrows.calibration.laws import laws
from narrows.roofline.engine_overhead import NAMES, SERVERS

BELIEVED: dict[str, float] = {
    **dict.fromkeys(("gemm", "experts", "attention", "scan", "elementwise", "all_reduce", "exchange"), 1.0),
    "gap": 1e-6,
    "talk_gap": 5e-6,
    "per_layer": 3e-6,
    "per_step": 0.3e-3,
    "per_sequence": 1e-6,
    "eager": 50e-6,
    "large": 1.0,
    "prompt": 1.0,
    "prompt_network": 1.0,
    "prompt_per_layer": 10e-6,
}
"""Values without any row: laws of operators hold as they are; kernels of a captured graph follow in a microsecond."""
SPREAD: dict[str, float] = {
    **dict.fromkeys(("gemm", "experts", "attention", "scan"), 0.3),
    "elementwise": 1.0,
    "all_reduce": 0.5,
    "exchange": 0.5,
    "gap": 1e-6,
    "talk_gap": 10e-6,
    "per_layer": 5e-6,
    "per_step": 0.3e-3,
    "per_sequence": 2e-6,
    "eager": 50e-6,
    "large": 0.2,
    "prompt": 0.3,
    "prompt_network": 0.5,
    "prompt_per_layer": 20e-6,
}
"""How far from that they may well be."""
STRENGTH = {"any": 1.0, "kind": 0.3, "engine": 0.1, "generation": 0.1, "model": 0.2, "version": 0.3}
"""How strongly each level is drawn to the one above, in squared relative errors; chosen by leaving out configurations
of the rows that are fitted on."""
TOGETHER = 0.1
"""Correlation of errors within one group of runs: n rows of a group count as n ÷ (1 + 0.1 (n − 1)) in upper levels."""


class Fitted(NamedTuple):
    """Values by level and key, and how many rows each rests on; seconds of a launch by engine, where that decides."""

    values: dict[tuple[str, Hashable], Any]
    rows: dict[tuple[str, Hashable], int]
    launches: Mapping[Hashable, float] = MappingProxyType({})


def group_of(one: Work) -> Hashable:
    """Rows whose errors go together."""
    record = one.record
    return one.shape, record.device, record.engine, one.stored


def model_key(one: Work) -> Hashable:
    """One model in one precision on one engine and class of devices."""
    return one.kind, one.device_class, one.record.engine, one.shape, one.stored


def version_key(one: Work) -> Hashable:
    """One version of the engine there; rows without a version stand together."""
    record = one.record
    return *(one.kind, one.device_class, record.engine, one.shape, one.stored), record.version


CHANGED = ("llama.cpp",)
"""Engines for one user whose kernels of `OLD` are not today's: CUDA graphs and better vector kernels came in 2024."""


def is_server(one: Work) -> bool:
    """Whether a row is of an engine that servers were measured with, and not of an old version for one user."""
    return one.record.engine in SERVERS and one.record.table != "batch-1"


def engine_key(one: Work) -> Hashable:
    """An engine, for dense models or mixtures of experts."""
    engine = one.record.engine
    return one.kind, engine, one.record.version if engine in SERVERS else ""


def generation_key(one: Work) -> Hashable:
    """The same, told apart by when it was built where that matters; None where it does not."""
    if one.record.engine not in CHANGED:
        return None
    return one.kind, one.record.engine, one.record.version if one.record.version == OLD else ""


LEVELS: tuple[tuple[str, Callable[[Work], Hashable]], ...] = (
    ("kind", lambda one: one.kind),
    ("engine", engine_key),
    ("generation", generation_key),
    ("model", model_key),
    ("version", version_key),
)


def matrix(rows: Sequence[Work]) -> tuple[Any, Any]:
    """(terms, measured seconds) as arrays."""
    import numpy as np

    return np.array([one.terms for one in rows]).reshape(-1, len(NAMES)), np.array([one.measured for one in rows])


def solve(terms: Any, measured: Any, belief: Any, spread: Any, strength: float, weights: Any = None) -> Any:
    """Values ≥ 0 that minimise Σ w (predicted ÷ measured − 1)² + strength × Σ ((value − belief) ÷ spread)².

    Robust: errors beyond 1.5 times the median count linearly (Huber), by weights found again eight times. Coordinate
    descent on the normal equations, scaled by `spread`.
    """
    import numpy as np

    relative = terms / measured[:, None] * spread
    start = belief / spread
    given = np.ones(len(measured)) if weights is None else weights
    counted, value = given, start.copy()
    for _ in range(8):
        weighted = relative * counted[:, None]
        square = weighted.T @ relative
        aim = weighted.sum(axis=0) + strength * start
        square[np.diag_indices_from(square)] += strength
        value = _descend(square.tolist(), aim.tolist(), value.tolist())
        errors = np.abs(relative @ value - 1)
        bound = max(0.03, 1.5 * float(np.median(errors)))
        counted = given * np.minimum(1.0, bound / np.maximum(errors, 1e-9))
    return value * spread


def _descend(square: list[list[float]], aim: list[float], value: list[float]) -> Any:
    """min x'Sx/2 − a'x over x ≥ 0, coordinate by coordinate; plain lists are faster than arrays at this size."""
    import numpy as np

    size = range(len(aim))
    for _ in range(60):
        moved = 0.0
        for j in size:
            row = square[j]
            step = (aim[j] - sum(row[i] * value[i] for i in size)) / row[j]
            new = max(0.0, value[j] + step)
            moved = max(moved, abs(new - value[j]))
            value[j] = new
        if moved < 1e-4:
            break
    return np.array(value)


def fitted(rows: Sequence[Work], wanted: set[Hashable] | None = None) -> Fitted:
    """Values of every level. wanted: keys of the levels `model` and `version` to fit (None: all)."""
    import numpy as np

    terms, measured = matrix(rows)
    belief = np.array([BELIEVED[name] for name in NAMES])
    spread = np.array([SPREAD[name] for name in NAMES])
    sizes = Counter(group_of(one) for one in rows)
    weights = np.array([1 / (1 + TOGETHER * (sizes[group_of(one)] - 1)) for one in rows])
    values: dict[tuple[str, Hashable], Any] = {}
    counts: dict[tuple[str, Hashable], int] = {("any", ""): len(rows)}
    values["any", ""] = solve(terms, measured, belief, spread, STRENGTH["any"], weights)
    above: list[Any] = [values["any", ""]] * len(rows)
    for level, key_of in LEVELS:
        if level in ("engine", "generation"):
            continue  # servers have no level of their own between all steps and one model: `with_engines`
        groups: dict[Hashable, list[int]] = defaultdict(list)
        for i, one in enumerate(rows):
            groups[key_of(one)].append(i)
        for key, members in groups.items():
            if wanted is not None and level != "kind" and key not in wanted:
                continue
            start = above[members[0]]
            shared = weights[members] if level == "kind" else None
            own = np.maximum(spread, 0.3 * start) if level != "kind" else spread
            value = solve(terms[members], measured[members], start, own, STRENGTH[level], shared)
            values[level, key] = value
            counts[level, key] = len(members)
            for i in members:
                above[i] = value
    return Fitted(values, counts)


def with_eager(known: Fitted, prompts: Sequence[Work]) -> Fitted:
    """The same values, and what an uncaptured step of prompts adds per layer: fitted on prompts alone."""
    import numpy as np

    at = NAMES.index("eager")
    spread = np.full(len(NAMES), 1e-12)
    spread[at] = SPREAD["eager"]
    terms, measured = matrix(prompts)
    kept = known.values["any", ""]
    eager = solve(terms, measured, kept, spread, 1.0)[at]
    values = {key: np.concatenate([value[:at], [eager], value[at + 1 :]]) for key, value in known.values.items()}
    return Fitted(values, known.rows)


def with_engines(known: Fitted, rows: Sequence[Work]) -> Fitted:
    """The same values, and those of engines for one user, each drawn to those of all steps of its kind.

    Of an engine that launches kernels one by one, the time of a launch: the device waits for it.
    """
    import numpy as np

    spread = np.array([SPREAD[name] for name in NAMES])
    values, counts = dict(known.values), dict(known.rows)
    waiting = [one for one in rows if launched_eagerly(one.record)]
    launches = {
        key: median(one.measured / one.launches for one in waiting if engine_key(one) == key)
        for key in map(engine_key, waiting)
    }
    above: dict[Hashable, Any] = {}
    for level, key_of in (("engine", engine_key), ("generation", generation_key)):
        groups: dict[Hashable, list[Work]] = defaultdict(list)
        for one in rows:
            if (key := key_of(one)) is not None and not launched_eagerly(one.record):
                groups[key].append(one)
        for key, own in groups.items():
            start = above.get(engine_key(own[0]), known.values["kind", own[0].kind])
            terms, measured = matrix(own)
            value = solve(terms, measured, start, np.maximum(spread, 0.3 * start), STRENGTH[level])
            values[level, key] = value
            counts[level, key] = len(own)
            if level == "engine":
                above[key] = value
    return Fitted(values, counts, launches)


def predicted(known: Fitted, rows: Sequence[Work]) -> tuple[Any, list[str]]:
    """(seconds, the deepest level that knew the row) of each."""
    import numpy as np

    times, levels = np.zeros(len(rows)), []
    for i, one in enumerate(rows):
        value, level = known.values["any", ""], "any"
        for name, key_of in LEVELS:
            found = known.values.get((name, key_of(one)))
            if found is not None:
                value, level = found, name
        # as in `Costs`, where no operator is faster than the device
        times[i] = max(float(np.dot(np.array(one.terms), value)), one.limit)
        if launched_eagerly(one.record):
            each, level = known.launches.get(engine_key(one)), "engine"
            times[i] = max(times[i], one.launches * (each or laws("launches")[0].values["each"]))
        levels.append(level)
    return times, levels


class Parts(NamedTuple):
    """What is fitted on: steps of servers, prompts alone, steps of engines for one user."""

    servers: Sequence[Work]
    prompts: Sequence[Work] = ()
    alone: Sequence[Work] = ()

    def without(self, key_of: Callable[[Work], Hashable], key: Hashable) -> Parts:
        """The same without the rows that have this key."""
        return Parts(*([one for one in part if key_of(one) != key] for part in self))


def fitted_parts(parts: Parts, wanted: set[Hashable] | None = None) -> Fitted:
    """All values that the parts give."""
    known = fitted(parts.servers, wanted)
    if parts.prompts:
        known = with_eager(known, parts.prompts)
    return with_engines(known, parts.alone) if parts.alone else known


def left_out(rows: Sequence[Work], parts: Parts, key_of: Callable[[Work], Hashable]) -> tuple[Any, list[str]]:
    """(seconds, level) of each row, by a fit on the parts without all rows that share its key."""
    import numpy as np

    times, levels = np.zeros(len(rows)), [""] * len(rows)
    for key in dict.fromkeys(key_of(one) for one in rows):
        held = [i for i, one in enumerate(rows) if key_of(one) == key]
        of = [rows[i] for i in held]
        wanted = {each(one) for one in of for each in (model_key, version_key)}
        found, named = predicted(fitted_parts(parts.without(key_of, key), wanted), of)
        times[held] = found
        for i, level in zip(held, named, strict=True):
            levels[i] = level
    return times, levels

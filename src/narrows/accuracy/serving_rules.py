"""Which measurements are not scored, by rules that are stated: each is a sentence and a condition on what was measured.

No rule looks at a prediction. Rules of single records come first; then those that compare runs (what was measured on
one day with one version of an engine, one device, model and precision).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from narrows.accuracy.serving_records import OLD, ServingRecord
from narrows.accuracy.serving_work import Work
from narrows.text import Text

SERVERS = Text("not stated among how many servers the requests were shared out")
NOTHING = Text("no time or no number of requests is stated")
GUESSES = Text("the server guesses tokens ahead (speculative decoding): stated")
FASTER = Text("faster than the device can read weights and cache, or multiply (speculation, or another batch)")
AHEAD = Text(
    "speculates, by its speed: at the same settings at least five times, its tokens take less than 0.7 of another "
    "run's, in the median; with it the runs of that day, engine and model"
)
UNSTEADY = Text("unsteady run: more requests shorten its steps by a fifth, twice or more")
EQUAL = Text(
    "its sequences are equal, so that they share experts: batches of a mixture of experts in llama-batched-bench"
)
COUNTED = Text("devices of prompts and of decoding are counted together: more than eight in one aggregate server")
BY_ROWS = Text(
    "llama.cpp of 2023 on several devices: each took rows of every product (since January 2024 layers in turn), which "
    "narrows cannot deploy"
)

FASTER_BY = 0.7
SHARED = 5
FASTEST_GROWTH, SHORTER = 1.2, 0.8
MOST_TOGETHER = 8

Run = tuple[str, str, str, str, bool, str, str]


def run_of(record: ServingRecord) -> Run:
    """What was measured together."""
    return (
        record.structure,
        record.device,
        record.engine,
        record.precision,
        record.disaggregated,
        record.run,
        record.version,
    )


def alone(record: ServingRecord) -> Text | None:
    """Why a record is left out whatever others say; None where it is not."""
    if record.servers is None:
        return SERVERS
    if (record.tpot is None and record.ttft is None) or record.concurrency is None:
        return NOTHING
    if record.speculates:
        return GUESSES
    if record.engine == "llama.cpp" and record.version == OLD and record.devices > 1:
        return BY_ROWS
    if record.table == "silicon" and not record.disaggregated and record.devices > MOST_TOGETHER:
        return COUNTED
    return None


def _settings(record: ServingRecord) -> tuple[int, int, int, float]:
    return record.prompt, record.output, record.devices, record.sequences


def _faster(run: Sequence[ServingRecord], other: Sequence[ServingRecord]) -> bool:
    at: dict[tuple[int, int, int, float], list[float]] = defaultdict(list)
    for one in other:
        at[_settings(one)].append(one.tpot or 0.0)
    ratios = [(one.tpot or 0.0) / time for one in run for time in at[_settings(one)]]
    return len(ratios) >= SHARED and median(ratios) < FASTER_BY


def _runs(records: Iterable[ServingRecord]) -> dict[Run, list[ServingRecord]]:
    found: dict[Run, list[ServingRecord]] = defaultdict(list)
    for one in records:
        if one.table == "silicon" and one.tpot is not None:
            found[run_of(one)].append(one)
    return found


def speculating(records: Iterable[ServingRecord]) -> set[Run]:
    """Runs that the rule `AHEAD` names."""
    runs = _runs(records)
    found = {
        run
        for run, own in runs.items()
        if any(other[:5] == run[:5] and other != run and _faster(own, theirs) for other, theirs in runs.items())
    }
    # the same day, engine, model and version on other devices or precisions
    days = {(run[0], run[2], run[5], run[6]) for run in found if run[5]}
    return found | {run for run in runs if (run[0], run[2], run[5], run[6]) in days}


def unsteady(records: Iterable[ServingRecord]) -> set[Run]:
    """Runs that the rule `UNSTEADY` names."""
    drops: Counter[Run] = Counter()
    for run, own in _runs(records).items():
        series: dict[tuple[int, int, int, int, int], list[tuple[float, float]]] = defaultdict(list)
        for one in own:
            where = one.prompt, one.output, one.tensor_parallel, one.attention_data_parallel, one.expert_parallel
            series[where].append((one.sequences, one.tpot or 0.0))
        for points in series.values():
            points.sort()
            for (few, before), (many, after) in pairwise(points):
                drops[run] += many > few * FASTEST_GROWTH and after < before * SHORTER
    return {run for run, count in drops.items() if count >= 2}


def excluded(found: Sequence[Work]) -> dict[str, Text]:
    """Record id → why it is not scored, of those that could be."""
    records = [one.record for one in found]
    ahead, unquiet = speculating(records), unsteady(records)
    reasons: dict[str, Text] = {}
    for one in found:
        run = run_of(one.record)
        if one.record.table == "llama.cpp" and one.kind == "experts" and one.record.sequences > 1:
            reasons[one.record.id] = EQUAL
        elif one.limit > one.measured:
            reasons[one.record.id] = FASTER
        elif one.record.table == "silicon" and run in ahead:
            reasons[one.record.id] = AHEAD
        elif one.record.table == "silicon" and run in unquiet:
            reasons[one.record.id] = UNSTEADY
    return reasons

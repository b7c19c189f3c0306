"""Started or not: how many starts and failures were foreseen, by stage and by group."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import msgspec

from narrows.accuracy.board import Outcomes, Starts
from narrows.accuracy.records import Case, beside

_STAGES = {
    "started": "started",
    "oom_share": "share",
    "oom_load": "load",
    "oom_kv": "kv",
    "oom_graphs": "graphs",
    "oom_warmup": "graphs",
    "oom": "not told",
}
"""A record's outcome → the stage a prediction would name; `oom_run` is no failure of the start.

Sampling before serving comes after the graphs and meets the same memory: what the engine's share leaves.
"""


class Foreseen(msgspec.Struct, frozen=True):
    """A case and the stage that was foreseen for it."""

    case: Case
    stage: str

    @property
    def really(self) -> str:
        """The stage on record."""
        return _STAGES[self.case.record.outcome or ""]


def counted(case: Case) -> bool:
    """Whether the record says how a start ended, on a device whose memory is known."""
    return case.record.has_device and case.record.outcome in _STAGES


GROUPS: dict[str, Callable[[Case], bool]] = {
    "all": lambda case: True,
    "nothing else on the device": lambda case: beside(case) is None,
    "without a named reason": lambda case: case.reason is None,
}


def outcomes(found: Iterable[Foreseen], group: str, method: str) -> Outcomes:
    """Counts of one of `GROUPS` by one method."""
    kept = [one for one in found if counted(one.case) and GROUPS[group](one.case)]
    counts, stages = _counts(kept), defaultdict[str, Counter[str]](Counter)
    for one in kept:
        if one.really != "started":
            outcome = (one.case.record.outcome or "").removeprefix("oom_")
            stages[outcome].update(all=1, foreseen=int(one.stage != "started"), there=int(one.stage == one.really))
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
        by_stage={stage: (row["foreseen"], row["there"], row["all"]) for stage, row in sorted(stages.items())},
    )


def by_group(found: Iterable[Foreseen], groupings: dict[str, Callable[[Case], str]]) -> tuple[Starts, ...]:
    """Counts of each part of each grouping, of all that are counted."""
    kept = [one for one in found if counted(one.case)]
    rows = []
    for name, key in groupings.items():
        parts: dict[str, list[Foreseen]] = defaultdict(list)
        for one in kept:
            parts[key(one.case)].append(one)
        for part in sorted(parts):
            counts = _counts(parts[part])
            rows.append(
                Starts(
                    f"{name}: {part}",
                    counts["started"],
                    counts["started right"],
                    counts["failed"],
                    counts["failed right"],
                )
            )
    return tuple(rows)


def _counts(found: Iterable[Foreseen]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for one in found:
        really = "started" if one.really == "started" else "failed"
        counts[really] += 1
        counts[f"{really} right"] += (one.stage == "started") == (really == "started")
    return counts

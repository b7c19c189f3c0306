"""The time ledger of a start: its steps, which lie inside others, the total, and the narrow stage."""

from __future__ import annotations

import msgspec

from narrows.observe import Observation, Stage


class TimeLedger(msgspec.Struct, frozen=True):
    """Seconds from the first line to ready. Nested steps lie inside another one and are not added.

    total: by the log's timestamps where it has them, else the sum of the outer steps; None without either.
    elsewhere: what the timestamps have beside the outer steps. narrow_stage: the longest step that holds no other
    one, or the longest of all.
    """

    stages: tuple[Stage, ...] = ()
    total: float | None = None
    elsewhere: float | None = None
    narrow_stage: str | None = None


_PARTS = {
    "load model": ("download weights", "build model", "read shards", "read weights"),
    "init engine": (
        *("trace model", "compile graph", "load compiled graph", "torch.compile", "first run", "profile memory"),
        "capture graphs",
    ),
    "torch.compile": ("trace model", "compile graph", "load compiled graph"),
    "read weights": ("read shards",),
}
"""Step → the steps inside it."""


def time_ledger(seen: Observation) -> TimeLedger:
    """The ledger of one start."""
    steps = seen.timeline
    if not steps:
        return TimeLedger(total=seen.seconds_to_ready)
    outer = sum(step.seconds for step in steps if not step.nested)
    total = seen.seconds_to_ready if seen.seconds_to_ready is not None else outer or None
    names = {step.name for step in steps}

    def alone(step: Stage) -> float:
        """A step's time without that of the steps inside it that are known."""
        inner = set(_PARTS.get(step.name, ())) & names
        deepest = {part for part in inner if not any(part in _PARTS.get(other, ()) for other in inner)}
        return step.seconds - sum(max(s.seconds for s in steps if s.name == part) for part in deepest)

    longest = max(steps, key=alone)
    return TimeLedger(
        stages=steps,
        total=total,
        elsewhere=max(0.0, round(total - outer, 3))
        if total is not None and seen.seconds_to_ready is not None
        else None,
        narrow_stage=longest.name if alone(longest) >= max(1.0, 0.05 * (total or 0.0)) else None,
    )

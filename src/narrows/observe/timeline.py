"""The timed steps of one start, over all ranks: for each step the slowest rank's time."""

from __future__ import annotations

from typing import Final

from narrows.observe.facts import Fact
from narrows.observe.observation import Stage

MOST: Final = 60
_DAY: Final = 86400


class Timeline:
    """Steps by name and by how often the same rank has said them (a draft model is read after its target)."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, int], Stage] = {}
        self._times: dict[tuple[str, str], int] = {}
        self._begin: tuple[str, int] | None = None
        self.elapsed: float | None = None

    def add(self, fact: Fact, rank: str, seconds: float, size: int | None) -> None:
        """One rank's time for a step; a fact in mode `max` is one step however often it is printed."""
        name = fact.step or fact.name
        turn = 0
        if fact.mode != "max" or name == "load model":
            turn = self._times.get((rank, name), -1) + 1
            self._times[rank, name] = turn
        known = self._steps.get((name, turn))
        if known is None and len(self._steps) >= MOST:
            return
        if known is None or seconds > known.seconds:
            self._steps[name, turn] = Stage(name, seconds, fact.nested, size)

    def stamp(self, stamp: tuple[str, str] | None) -> None:
        """A line's timestamp: the first and the latest bound the start."""
        if stamp is None:
            return
        hours, minutes, seconds = (int(part) for part in stamp[1].split(":"))
        now = hours * 3600 + minutes * 60 + seconds
        if self._begin is None:
            self._begin = (stamp[0], now)
            return
        day, begin = self._begin
        difference = now - begin
        if stamp[0] != day and difference < 0:
            difference += _DAY
        if difference >= 0:
            self.elapsed = float(difference)

    def steps(self) -> tuple[Stage, ...]:
        """In the order in which they were first printed."""
        return tuple(self._steps.values())

"""Was the machine quiet while it was measured? Read from /proc before and after; elsewhere only the load is known."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from narrows.text import Text

OTHERS, STOLEN, WAITING, UNSTEADY = 0.05, 0.02, 0.15, 0.25
"""From these shares on a run counts as contended: processor time of others, time the hypervisor gave to others, time
in which something waited for a processor, and the spread (80 %) of the repeats. Repeated runs of a quiet machine stay
within a tenth of each other below them."""


class Counters(msgspec.Struct, frozen=True):
    """Totals so far, in seconds; None where the system does not count it.

    busy, stolen: of all processors. own: processor time of this process. waiting, thrashing, io: time in which
    something waited for a processor, in which all waited for memory, in which something waited for a disk (PSI).
    """

    clock: float
    own: float
    busy: float | None = None
    stolen: float | None = None
    waiting: float | None = None
    thrashing: float | None = None
    io: float | None = None
    load: float | None = None


class Conditions(msgspec.Struct, frozen=True):
    """What else happened while it was measured, as shares of the time; None where the system does not tell.

    others: processor time that other processes took, of all processors'. stolen: that the hypervisor took. waiting,
    thrashing, io: see `Counters`. load: one-minute load average at the start. spread: median over the points of the
    width of their repeats' 80 % interval, as a share of the median. contended: reasons why the run is not to be
    trusted.
    """

    seconds: float
    processors: int
    others: float | None
    stolen: float | None
    waiting: float | None
    thrashing: float | None
    io: float | None
    load: float | None
    spread: float = 0.0
    contended: tuple[Text, ...] = ()


def counters(proc: str = "/proc") -> Counters:
    """Read the totals."""
    ticks = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    times = os.times()
    busy = stolen = None
    words = _text(f"{proc}/stat").partition("\n")[0].split()
    if len(words) >= 9 and words[0] == "cpu":
        user, nice, system, _idle, _wait, interrupts, soft, steal = (int(word) / ticks for word in words[1:9])
        busy, stolen = user + nice + system + interrupts + soft, steal
    try:
        load: float | None = os.getloadavg()[0]
    except (OSError, AttributeError):
        load = None
    return Counters(
        clock=time.monotonic(),
        own=sum(times[:4]),
        busy=busy,
        stolen=stolen,
        waiting=_pressure(f"{proc}/pressure/cpu", "some"),
        thrashing=_pressure(f"{proc}/pressure/memory", "full"),
        io=_pressure(f"{proc}/pressure/io", "some"),
        load=load,
    )


def _pressure(path: str, kind: str) -> float | None:
    for line in _text(path).splitlines():
        if line.startswith(kind):
            return int(line.rpartition("total=")[2]) / 1e6
    return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text("ascii", "replace")
    except OSError:
        return ""


class Watch:
    """Counts while probes run: start, then `stop` for what happened in between."""

    def __init__(self, read: Callable[[], Counters] = counters, processors: int | None = None) -> None:
        self.read = read
        self.processors = processors or os.cpu_count() or 1
        self.before = read()

    def stop(self, spread: float = 0.0) -> Conditions:
        """The conditions since the start; `spread` of what was measured meanwhile."""
        a, b = self.before, self.read()
        seconds = max(b.clock - a.clock, 1e-9)
        room = seconds * self.processors

        def share(name: str, of: float) -> float | None:
            first, last = getattr(a, name), getattr(b, name)
            return None if first is None or last is None else min(1.0, max(0.0, (last - first) / of))

        own = (b.own - a.own) / room
        busy = share("busy", room)
        found = Conditions(
            seconds=seconds,
            processors=self.processors,
            others=None if busy is None else max(0.0, busy - own),
            stolen=share("stolen", room),
            waiting=share("waiting", seconds),
            thrashing=share("thrashing", seconds),
            io=share("io", seconds),
            load=a.load,
            spread=spread,
        )
        return msgspec.structs.replace(found, contended=tuple(_reasons(found)))


def _reasons(found: Conditions) -> list[Text]:
    reasons = []
    if (found.others or 0) > OTHERS:
        reasons.append(
            Text("other processes took {percent} % of the processors' time", percent=f"{100 * (found.others or 0):.0f}")
        )
    if (found.stolen or 0) > STOLEN:
        reasons.append(
            Text(
                "the hypervisor gave {percent} % of the processors' time to others",
                percent=f"{100 * (found.stolen or 0):.0f}",
            )
        )
    if (found.waiting or 0) > WAITING:
        reasons.append(
            Text(
                "in {percent} % of the time something waited for a processor",
                percent=f"{100 * (found.waiting or 0):.0f}",
            )
        )
    if (found.thrashing or 0) > STOLEN:
        reasons.append(
            Text("in {percent} % of the time all waited for memory", percent=f"{100 * (found.thrashing or 0):.0f}")
        )
    if found.spread > UNSTEADY:
        reasons.append(
            Text("repeats of one measurement differ by {percent} %", percent=f"{100 * found.spread:.0f}"),
        )
    return reasons

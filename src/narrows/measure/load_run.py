"""Run loaders on one checkpoint, in turn and in rounds, each between two looks at what the storage gives just then."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from narrows.measure import limits
from narrows.measure.contention import Conditions, Counters, Watch, counters
from narrows.measure.devices import transfers
from narrows.measure.load_cold import State, device_bytes, drop, held, kept, state
from narrows.measure.load_http import reading
from narrows.measure.load_limits import DEPTHS, HOST_BYTES, Storage, host
from narrows.measure.load_predict import Beside
from narrows.measure.load_process import Crew, Failed
from narrows.measure.load_ring import ALIGNED, from_files, opened
from narrows.measure.load_source import Source
from narrows.measure.load_ways import Way
from narrows.measure.timing import Clock, Pace
from narrows.text import BadInput, Text
from narrows.units import MIB, binary

Told = Callable[[float, Text], None]
SHARE_OF_MEMORY = 0.8
WARM = 0.1
"""Share of its bytes that a run may have from storage and still be warm."""
SHORTEST_LOOK, LONGEST_LOOK, PART = 0.3, 1.5, 0.5
"""Seconds of a look at the storage, and which part of the checkpoint it reads."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one loader. Seconds, bytes; processor seconds, faults and bytes from storage of all its processes.

    bytes: of one process. rss: the most that a process held, and before it began. starved, sinking: of our reader.
    """

    seconds: float
    bytes: int
    cpu: float
    major: float
    minor: float
    rss: float
    rss_before: float
    stored: float | None
    state: State
    starved: float | None = None
    sinking: float | None = None
    linking: float = 0.0


class Pair(msgspec.Struct, frozen=True):
    """One loader in one round, with the limits on either side of it; warm: run again with its bytes in memory."""

    way: str
    beside: Beside
    cold: Taken
    warm: Taken | None


class Ran(msgspec.Struct, frozen=True):
    """All that was found. depths: reads under way → bytes/s at the start. tops: what the storage gave, probe by probe.

    failed: loader → why it has no figures.
    """

    depths: dict[int, float]
    tops: tuple[float, ...]
    pairs: tuple[Pair, ...]
    failed: dict[str, Text]
    conditions: Conditions
    seconds: float
    rounds: int
    notes: tuple[Text, ...] = ()


def run(
    source: Source,
    wanted: Sequence[Way],
    *,
    rounds: int = 5,
    ranks: int = 1,
    device: str | None = None,
    seconds: float = 600.0,
    told: Told = lambda share, stage: None,
    clock: Clock = time.perf_counter,
    read: Callable[[], Counters] = counters,
) -> Ran:
    """Rounds of all loaders, in another order each time, until there are `rounds` or the time is over.

    Raises BadInput where the files cannot be read (any more).
    """
    try:
        with limits.enough_memory():
            return _run(source, wanted, rounds, ranks, device, seconds, told, clock, read)
    except OSError as error:
        raise BadInput(
            "'{path}' could not be read to its end: {reason}",
            path=source.paths[0][-100:],
            reason=error.strerror or str(error),
        ) from None


def _run(
    source: Source,
    wanted: Sequence[Way],
    rounds: int,
    ranks: int,
    device: str | None,
    seconds: float,
    told: Told,
    clock: Clock,
    read: Callable[[], Counters],
) -> Ran:
    begun, pace = clock(), Pace(clock, seconds)
    watch = Watch(read)
    notes: list[Text] = []
    used, failed = _fitting(source, wanted, ranks)
    with _probing(source, clock, notes) as probes:
        told(0.0, Text("the storage"))
        depths = {depth: probes.many.at(depth) for depth in DEPTHS}
        best = max(depths, key=lambda depth: depths[depth])
        # the probes hold five times as much at once, and are not what a small machine should fail on
        room = max(MIB, min(HOST_BYTES, limits.memory()[1] // 16)) // ALIGNED * ALIGNED
        fresh = min(source.size, limits.memory()[1] // 8)
        lasts = min(LONGEST_LOOK, max(SHORTEST_LOOK, PART * source.size / depths[best]))
        bus = _bus(device, pace)
        pairs: list[Pair] = []
        tops: list[float] = []
        done = 0
        for number in range(rounds):
            if number and not pace.left:
                break
            at = host(source.handles[0] if source.handles else None, source.sizes[0], clock, room, fresh)
            drop(source.handles)
            one, latency = probes.many.at(1), probes.many.latency()
            order = [*used[number % len(used or [1]) :], *used[: number % len(used or [1])]]
            before = probes.look(best, lasts)
            for index, way in enumerate(order):
                told(
                    (number + index / len(order)) / rounds, Text("round {number}: {way}", number=number + 1, way=way.id)
                )
                if way.id in failed:
                    continue
                try:
                    cold, warm = _taken(source, way, ranks, device)
                except Failed as why:
                    failed[way.id] = why.text
                    continue
                after = probes.look(best, lasts)
                tops += [before[0]]
                top, window, cpu = ((a + b) / 2 for a, b in zip(before, after, strict=True))
                before = after
                fill = max(0.0, cpu - 1 / at.cached) if at.cached else 0.0
                pairs.append(Pair(way.id, Beside(top, one, window, latency, at, *bus, fill), cold, warm))
            tops.append(before[0])
            done = number + 1
    told(1.0, Text("done"))
    for id in failed:
        pairs = [one for one in pairs if one.way != id]
    return Ran(depths, tuple(tops), tuple(pairs), failed, watch.stop(), clock() - begun, done, tuple(notes))


class _Probes(msgspec.Struct, frozen=True):
    """Of the storage: with as many reads under way as asked, and by one reader through the page cache."""

    many: Storage
    through: Storage

    def look(self, depth: int, seconds: float) -> tuple[float, float, float]:
        """Bytes/s of many reads and of one reader through the page cache, just now, and its processor seconds per byte.

        Storage that lets bursts through is seen as it is only when a good part of what a loader reads is read.
        """
        many = self.many.at(depth, seconds=seconds)
        return many, self.through.at(1, seconds=seconds), self.through.cpu


@contextmanager
def _probing(source: Source, clock: Clock, notes: list[Text]) -> Iterator[_Probes]:
    if source.http:
        with reading(source.paths, max(DEPTHS)) as read:
            served = Storage(read, source.sizes, clock)
            yield _Probes(served, served)
        return
    handles, past = opened(source.paths)
    through = Storage(from_files(source.handles), source.sizes, clock, lambda: drop(source.handles))
    try:
        if not past:
            notes.append(Text("this file system does not read past the page cache: limits are measured through it"))
        yield _Probes(Storage(from_files(handles), source.sizes, clock) if past else through, through)
    finally:
        for handle in handles:
            os.close(handle)


def _bus(device: str | None, pace: Pace) -> tuple[float | None, float | None]:
    """Host to device, pinned and pageable, in pieces of 4 MiB."""
    if device is None:
        return None, None
    from narrows.measure.torch_library import Torch

    found = [one for one in transfers(Torch(device), pace, sizes=(4 * MIB,)) if one.direction == "host to device"]
    rates = {one.pinned: one.bandwidth.value for one in found}
    return rates.get(True), rates.get(False)


def _fitting(source: Source, wanted: Sequence[Way], ranks: int) -> tuple[list[Way], dict[str, Text]]:
    """Loaders whose memory there is; the others with the reason."""
    _total, available = limits.memory()
    used, failed = [], {}
    for way in wanted:
        need = int(way.kept * source.size * ranks)
        if need > SHARE_OF_MEMORY * available:
            failed[way.id] = Text(
                "it would hold {need} of memory, and {free} are free", need=binary(need), free=binary(available)
            )
        else:
            used.append(way)
    return used, failed


def _taken(source: Source, way: Way, ranks: int, device: str | None) -> tuple[Taken, Taken | None]:
    job = {
        "loader": "http" if way.http else way.id,
        "paths": source.paths,
        "sizes": source.sizes,
        "threads": way.threads,
        "device": device if way.device else None,
    }
    with Crew(job, ranks, source.keep) as crew:
        cold = _once(source, crew, make_cold=True)
        # a second time at once: all that it needs is in the page cache now, if that can hold it
        again = way.cached and not way.window and _held_again(source)
        warm = _once(source, crew, make_cold=False) if again else None
    # memory that cannot hold the files makes the second run as cold as the first
    return cold, warm if warm is None or (warm.stored or 0.0) < WARM * warm.bytes else None


def _held_again(source: Source) -> bool:
    """Whether the page cache holds what a second run opens. Where it does not, a second run is no warm one."""
    found = kept(source.paths, source.handles) if source.handles else None
    return found is None or found >= (1 - WARM) * source.size


def _once(source: Source, crew: Crew, make_cold: bool) -> Taken:
    resident: int | None = None
    if make_cold and source.handles:
        drop(source.handles)
        resident = held(source.paths, source.handles)
    device = device_bytes(source.handles[0]) if source.handles else None
    seconds, said = crew.go()
    after = device_bytes(source.handles[0]) if source.handles else None
    stored = sum(one["stored"] for one in said) if all("stored" in one for one in said) else None
    if device is None and not stored:
        stored = None  # a file system without a block device behind it may count nothing
    size = int(said[0]["bytes"])
    moved = None if device is None or after is None else after - device
    if source.http:
        seen = State(False, None, None, None, Text("whether a cache on the way holds it cannot be told"))
    elif make_cold:
        seen = state(resident, None if stored is None else int(stored), moved, size)
    else:
        seen = State(False, None, None if stored is None else int(stored), moved)
    return Taken(
        seconds=seconds,
        bytes=size,
        cpu=sum(one["cpu"] for one in said),
        major=sum(one["major"] for one in said) / len(said),
        minor=sum(one["minor"] for one in said) / len(said),
        rss=max(one["rss"] for one in said),
        rss_before=max(one["rss_before"] for one in said),
        stored=stored,
        state=seen,
        starved=said[0].get("starved"),
        sinking=said[0].get("sinking"),
        linking=said[0].get("linking", 0.0),
    )

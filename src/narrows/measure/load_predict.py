"""What a loader should take by the laws of loading, from limits that were measured beside it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from narrows.calibration import Coefficient
from narrows.hardware.storage import Storage
from narrows.loading.path import CHUNK, Limit, Moved, Scenario, transfer
from narrows.loading.rates import READAHEAD
from narrows.measure.load_limits import Host
from narrows.measure.load_ways import Way

HERE = "here"
NEAR = 0.7


class Beside(msgspec.Struct, frozen=True):
    """Limits measured beside one run of a loader, bytes/s.

    top: of the storage with many reads under way; one: with a single one of 4 MiB; window: with two windows of what the
    kernel reads ahead. latency: seconds of one page alone. host: of this machine's memory. link: to the device, pinned
    and pageable; None without one.
    """

    top: float
    one: float
    window: float
    latency: float
    host: Host
    pinned: float | None = None
    pageable: float | None = None
    fill: float = 0.0
    """Processor seconds per byte that filling the page cache takes beside copying out of it."""


class Stage(msgspec.Struct, frozen=True):
    """One stage alone: seconds, bytes, and what limits it."""

    name: str
    seconds: float
    bytes: int
    limit: Limit


class Expected(msgspec.Struct, frozen=True):
    """Seconds of a loader in all, and its stages; narrow: which decides."""

    seconds: float
    stages: tuple[Stage, ...]

    @property
    def narrow(self) -> Stage:
        """The longest stage of the side that takes longest: storage, or what the host does step after step."""
        read = [one for one in self.stages if one.name == "read"]
        host = [one for one in self.stages if one.name != "read"]
        slower = host if sum(one.seconds for one in host) > sum(one.seconds for one in read) else read
        return max(slower, key=lambda one: one.seconds)

    @property
    def host(self) -> float:
        """Seconds of the stages after storage that a warm run has too."""
        return sum(one.seconds for one in self.stages if one.name not in ("read", "page_cache"))


def expected(way: Way, size: int, beside: Beside, ranks: int = 1, cores: int = 1) -> Expected:
    """A loader of `size` bytes by `ranks` processes at once, each of which handles everything.

    Storage works while the host's memory does (kernels read ahead, readers have several reads under way); what is done
    to one byte in host memory follows each other. Processes share the cores that there are.
    """
    past = way.facts.access == "direct"
    top = beside.top if past else max(beside.top, beside.window)
    scenario = Scenario(
        storage=Storage(
            id=HERE, name=HERE, kind="local", bandwidth=top, low=0.0, high=0.0,
            basis="measured", source="measured beside it", as_of="",
        ),
        loader=way.facts,
        bytes=size,
        resident=size,
        ranks=ranks,
        readahead=way.window or READAHEAD,
    )  # fmt: skip
    moved = transfer(scenario, _rates(way, beside)).moved
    crowd = max(1.0, ranks / cores)
    stages = []
    for one in moved:
        if one.name == "host_to_device":
            linked = beside.pinned if way.facts.pinned else beside.pageable
            if linked:
                stages.append(Stage(one.name, size * ranks / linked, size * ranks, "link"))
            continue
        times = crowd if one.name != "read" else 1.0
        limit = one.limit
        if limit == "readers" and one.rate.value > NEAR * beside.top:
            limit = "storage"  # readers that reach nearly all there is are not what bounds it
        stages.append(Stage(_name(one, way), one.seconds * times, one.bytes, limit))
    if not past and way.window is None and beside.fill:
        # the thread that asks for pages makes them, which no reading ahead hides; more threads share it
        threads = max(1, min(way.facts.streams, cores))
        stages.insert(1, Stage("page_cache", size * beside.fill / threads, size, "memory"))
    read = next((one.seconds for one in stages if one.name == "read"), 0.0)
    host = sum(one.seconds for one in stages if one.name != "read")
    first = min(CHUNK, size) / size * min(read, host) if size else 0.0
    return Expected(max(read, host) + first, tuple(stages))


def _name(one: Moved, way: Way) -> str:
    # what the laws call a copy is here the kernel's work of mapping pages, where nothing is copied
    return "mapping" if one.name == "host_copy" and way.by == ("mapping",) else one.name


def _rates(way: Way, beside: Beside) -> Mapping[str, Coefficient]:
    host = beside.host
    passes = [one for one in (getattr(host, name) for name in way.by) if one]
    copying = 1 / sum(1 / one for one in passes) if passes else host.memcpy
    one = beside.window if way.cached else beside.one
    known = {
        f"stream.{HERE}": one,
        "first_touch": host.first_touch,
        "memcpy": copying,
        "rate.any": host.memcpy,
        "fault": beside.latency,
        "reach": 1.0,
    }
    return {
        name: Coefficient("loading", name, value, "B/s", value, value, 1, "measured", "measured beside it")
        for name, value in known.items()
    }

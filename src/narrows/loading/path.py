"""The way of the weights from storage to the device: which stage takes how long, one after the other or overlapped.

Laws. Readers that wait for every answer add up until something is full: `min(readers × stream, storage, machine)`.
A mapped file is read fault by fault: one fault brings a window of `readahead` bytes and costs the storage's latency, so
that a window of one page turns a fast volume into a slow one. Ranks that map the same files share the page cache; ranks
that read past it all read from the storage. Stages follow each other, or overlap chunk by chunk: then the slowest
stage decides and the others add one chunk each.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from narrows.hardware.storage import Instance, Storage
from narrows.loading.loaders import Loader, loader
from narrows.loading.rates import READAHEAD, Rate, Rates, known_rate

CHUNK = 8 * 2**20
"""Bytes that move as one where stages overlap: what loaders and object stores use (2 to 16 MiB)."""
PAGE = 4096

Limit = Literal["readers", "storage", "machine", "processor", "link", "loader", "memory"]


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What decides how long loading takes. Sizes in bytes, rates in bytes/s.

    bytes: of the checkpoint that this node reads. resident: what one rank keeps. ranks: processes on the node.
    bandwidth: of the storage where it is not the catalogue's. streams: reads under way per rank; None: the loader's.
    cached: share of the files that is in the page cache. link: host to device on paper, one way, of this generation of
    PCIe; None where device and host share the memory or nothing is known. readahead: bytes that one fault of a mapped
    file brings. target: where a download is put. device: the accelerator's id.
    """

    storage: Storage
    loader: Loader
    bytes: int
    resident: int
    ranks: int = 1
    bandwidth: float | None = None
    instance: Instance | None = None
    streams: int | None = None
    cached: float = 0.0
    link: float | None = None
    generation: int | None = None
    readahead: int = READAHEAD
    target: Storage | None = None
    device: str = ""

    @property
    def readers(self) -> int:
        """Reads under way on the node."""
        return (self.streams or self.loader.streams) * self.ranks

    @property
    def downloads(self) -> bool:
        """Whether the files are put on a disk first."""
        return self.storage.remote and not (self.loader.object and self.storage.kind == "object")


class Moved(msgspec.Struct, frozen=True):
    """One stage that moves bytes: how many on the node, at which rate (bytes/s; with its interval), what limits it."""

    name: str
    bytes: int
    rate: Rate
    limit: Limit

    @property
    def seconds(self) -> float:
        """How long it takes alone."""
        return self.bytes / self.rate.value


class Transfer(msgspec.Struct, frozen=True):
    """The stages of one way from storage to device, and its time in three readings, in seconds.

    sequential: one after the other. pipelined: all overlapped, chunk by chunk. time: as the loader does it.
    """

    moved: tuple[Moved, ...]
    sequential: float
    pipelined: float
    time: float


def transfer(scenario: Scenario, rates: Rates) -> Transfer:
    """The stages of a scenario, with what the rates say."""
    moved = tuple(one for one in _stages(scenario, rates) if one.bytes)
    sequential = sum(one.seconds for one in moved)
    first = [one for one in moved if one.name == "download"]
    rest = [one for one in moved if one.name != "download"]
    time = sum(one.seconds for one in first) + (overlapped(rest) if scenario.loader.pipelined else _sum(rest))
    return Transfer(moved, sequential, min(overlapped(moved), sequential), min(time, sequential))


def _sum(moved: list[Moved]) -> float:
    return sum(one.seconds for one in moved)


def overlapped(moved: tuple[Moved, ...] | list[Moved], chunk: float = CHUNK) -> float:
    """Seconds where all stages work at once: the longest, and one chunk of each of the others to fill the way."""
    if not moved:
        return 0.0
    longest = max(moved, key=lambda one: one.seconds)
    return longest.seconds + sum(min(chunk, one.bytes) / one.rate.value for one in moved if one is not longest)


def _stages(scenario: Scenario, rates: Rates) -> list[Moved]:
    found = []
    here = scenario
    if scenario.downloads:
        found.append(_download(scenario, rates))
        # what was just written is still in the page cache
        here = msgspec.structs.replace(
            scenario, storage=scenario.target or scenario.storage, bandwidth=None, cached=1.0
        )
    found.append(_read(here, rates))
    fresh = int(scenario.loader.fresh * _handled(scenario))
    found.append(Moved("host_allocation", fresh, known_rate(rates, "first_touch"), "memory"))
    copied = scenario.loader.copies * _handled(scenario)
    found.append(Moved("host_copy", copied, known_rate(rates, "memcpy"), "memory"))
    found.append(_to_device(scenario, rates))
    return found


def _handled(scenario: Scenario) -> int:
    """Bytes that one rank has in its hands."""
    return int(scenario.bytes * scenario.loader.share(scenario.ranks))


def stored_rate(scenario: Scenario) -> tuple[float, Limit]:
    """The most that the storage gives this machine, bytes/s, and which of both decides."""
    top = scenario.bandwidth or scenario.storage.bandwidth
    limit = scenario.instance.limit(scenario.storage.kind) if scenario.instance else None
    limit = None if limit is None else limit * scenario.storage.reach
    return (limit, "machine") if limit is not None and limit < top else (top, "storage")


def stream_rate(scenario: Scenario, rates: Rates) -> Rate:
    """One reader that waits for every answer. Mapped files with another window than the kernel's own: by latency."""
    one = _reader(scenario, rates)
    if scenario.loader.access != "mmap" or scenario.readahead == READAHEAD or scenario.loader.streams > 1:
        return one
    top = stored_rate(scenario)[0]
    changed = windowed(one.value, top, scenario.readahead, rates["fault"].value)
    return one.times(changed / one.value)


def _reader(scenario: Scenario, rates: Rates) -> Rate:
    """One reader with the kernel's own window: as measured on this storage, else by the law of its kind."""
    storage = scenario.storage
    own = f"stream.{storage.id}"
    if own in rates or f"stream.{storage.kind}" in rates:
        return known_rate(rates, own, f"stream.{storage.kind}")
    paper = scenario.bandwidth or storage.bandwidth
    return known_rate(rates, "stream.network").times((paper / 1e9) ** rates["power"].value)


def windowed(stream: float, top: float, window: float, fault: float) -> float:
    """Bytes/s of faults that bring `window` bytes each, from what one reader has with the kernel's own window.

    latency = READAHEAD ÷ stream − READAHEAD ÷ top, and with single pages at least `fault` seconds;
    rate = window ÷ (latency + window ÷ top).
    """
    latency = max(0.0, READAHEAD / stream - READAHEAD / top)
    if window <= PAGE:
        latency = max(latency, fault)
    return window / (latency + window / top)


def concurrent(readers: int, stream: float, top: float) -> float:
    """The concurrency law: readers that wait for every answer add up until the storage is full. Bytes/s."""
    return min(readers * stream, top)


def _read(scenario: Scenario, rates: Rates) -> Moved:
    """From storage into the host's memory. From the page cache a mapped file is read by the copy to the device, and a
    loader that reads past it gains nothing from it."""
    size = int(scenario.bytes * (1.0 - (0.0 if scenario.loader.access == "direct" else scenario.cached)))
    if scenario.storage.kind == "memory":
        size = 0
    unshared = scenario.loader.access == "direct" or scenario.storage.kind == "object"
    if scenario.loader.part == "all" and unshared:
        size *= scenario.ranks  # no page cache that one rank could fill for the others
    top, limit = stored_rate(scenario)
    one = stream_rate(scenario, rates)
    held = scenario.loader.cpu + (scenario.loader.http_cpu if scenario.storage.kind in ("object", "hub") else 0.0)
    choices: list[tuple[Rate, Limit]] = [
        (one.times(scenario.readers), "readers"),
        (Rate.within(top, rates), limit),
    ]
    if held:
        ranks = 1 if scenario.loader.part == "all" else scenario.ranks
        choices.append((Rate.within(ranks * 1e9 / held, rates), "processor"))
    rate, why = min(choices, key=lambda choice: choice[0].value)
    return Moved("read", size, rate, why)


def downloader(storage: Storage) -> Loader:
    """What puts the files of a remote storage on a disk."""
    return loader("hub" if storage.kind == "hub" else "object-download")


def _download(scenario: Scenario, rates: Rates) -> Moved:
    """From the store to a disk: connections, network, the store, the disk's writing, the downloader's processor."""
    by = downloader(scenario.storage)
    one = _reader(scenario, rates)
    top, limit = stored_rate(scenario)
    choices: list[tuple[Rate, Limit]] = [
        (one.times(by.streams), "readers"),
        (Rate.within(top, rates), limit),
    ]
    target = scenario.target
    if target is not None and target.write:
        choices.append((Rate.within(target.write, rates), "storage"))
    rate, why = min(choices, key=lambda choice: choice[0].value)
    return Moved("download", scenario.bytes, rate, why)


def _to_device(scenario: Scenario, rates: Rates) -> Moved:
    """From the host's memory to the devices: what a process of this loader was seen to reach, and the link."""
    name = f"rate.{scenario.loader.id}"
    each = known_rate(rates, f"{name}.{scenario.device}", name, "rate.any")
    why: Limit = "loader"
    if scenario.link is not None:
        linked = link_rate(scenario.link, scenario.loader.pinned, rates, scenario.generation)
        if linked.value < each.value:
            each, why = linked, "link"
    if scenario.loader.part == "all":
        return Moved("host_to_device", scenario.bytes, each, why)
    return Moved("host_to_device", scenario.resident * scenario.ranks, each.times(scenario.ranks), why)


def link_rate(paper: float, pinned: bool, rates: Rates, generation: int | None = None) -> Rate:
    """Bytes/s from host to device over a link with `paper` bytes/s one way: pinned, or at most the pageable rate."""
    reached = known_rate(rates, f"link.pinned.{generation}", "link.pinned").times(paper)
    pageable = known_rate(rates, "link.pageable")
    return reached if pinned or reached.value < pageable.value else pageable

"""What would make a start faster: each remedy is the start predicted anew with one thing changed."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from narrows.hardware.storage import find_storage, instances
from narrows.loading.loaders import loaders
from narrows.loading.path import stored_rate
from narrows.loading.plan import Settings, Start, predict
from narrows.loading.rates import READAHEAD, Rates
from narrows.text import Text
from narrows.units import bandwidth as per_second

LEAST = 0.01
"""A remedy that saves a smaller share of the start than this is none."""
LEAST_STEP, MOST_STEPS = 0.05, 3
"""Steps are shown as long as each saves this share of the start, and so many at most."""
MOST_READERS = 64
DEEP_READAHEAD = 16 * 2**20


_FOR_RANKS = ("sharded-state", "runai-distributed")
"""Loaders that do nothing for one rank alone."""


class Remedy(msgspec.Struct, frozen=True):
    """One change: how it is done, in words, the start's seconds with it, and how many it saves."""

    change: str
    text: Text
    total: float
    saves: float


def remedies(settings: Settings, rates: Rates, before: Start, smaller: float | None = None) -> tuple[Remedy, ...]:
    """All remedies that help, the most seconds saved first. smaller: share of the bytes that an FP8 checkpoint has."""
    found = []
    for change, text, changed in _changes(settings, smaller):
        total = predict(changed, rates).total
        if before.total - total > LEAST * before.total:
            found.append(Remedy(change, text, total, before.total - total))
    # what saves the same stands in the order of the tables: the simplest change first
    return tuple(sorted(found, key=lambda one: -round(one.saves, 1)))


def step_by_step(settings: Settings, rates: Rates, before: Start) -> tuple[Remedy, ...]:
    """The best change, then the best one after it, and so on: each step's total has those before it too.

    Changes that cost something else later (memory, decode, answers, a conversion) are left to whoever decides that.
    """
    steps: list[Remedy] = []
    now, total = settings, before.total
    while len(steps) < MOST_STEPS:
        tried = [
            (predict(changed, rates).total, change, text, changed)
            for change, text, changed in _changes(now, None)
            if not _costs(change, changed)
        ]
        best = min(tried, key=lambda one: round(one[0], 1), default=None)
        if best is None or total - best[0] <= LEAST_STEP * before.total:
            break
        steps.append(Remedy(best[1], best[2], best[0], total - best[0]))
        total, now = best[0], best[3]
    return tuple(steps)


def _costs(change: str, changed: Settings) -> bool:
    return change in ("--enforce-eager", "--from tmpfs") or changed.scenario.loader.own_format


def _changes(settings: Settings, smaller: float | None) -> Iterator[tuple[str, Text, Settings]]:
    yield from _concurrency(settings)
    yield from _loaders(settings)
    yield from _storage(settings)
    yield from _engine(settings)
    if smaller is not None:
        scenario = settings.scenario
        sizes = {"bytes": int(scenario.bytes * smaller), "resident": int(scenario.resident * smaller)}
        yield (
            "FP8 checkpoint",
            Text("a checkpoint quantized to FP8 beforehand has fewer bytes to move; its answers differ a little"),
            replace(settings, scenario=replace(scenario, **sizes)),
        )


def _engine(settings: Settings) -> Iterator[tuple[str, Text, Settings]]:
    if settings.engine == "vllm" and settings.graphs and not settings.compiled:
        yield (
            "VLLM_CACHE_ROOT",
            Text("keep compiled code between starts: put VLLM_CACHE_ROOT on a volume that outlives the container"),
            replace(settings, compiled=True),
        )
    if settings.graphs and settings.engine == "vllm":
        yield (
            "--enforce-eager",
            Text("neither compile nor capture graphs; every later token pays for it with slower decode"),
            replace(settings, graphs=False),
        )


def _loaders(settings: Settings) -> Iterator[tuple[str, Text, Settings]]:
    scenario = settings.scenario
    for one in loaders():
        if settings.engine not in one.engines or one == scenario.loader:
            continue
        if scenario.ranks == 1 and one.id in _FOR_RANKS:
            continue
        changed = replace(settings, scenario=replace(scenario, loader=one, streams=None, readahead=READAHEAD))
        if one.own_format:
            text = Text("load with {loader}, after converting the checkpoint once", loader=Text(one.name))
        elif scenario.storage.kind == "object" and one.object:
            text = Text("load with {loader}, which needs no download first", loader=Text(one.name))
        else:
            text = Text("load with {loader}", loader=Text(one.name))
        yield one.flag or one.id, text, changed


def _concurrency(settings: Settings) -> Iterator[tuple[str, Text, Settings]]:
    scenario = settings.scenario
    if scenario.loader.tune:
        now = scenario.streams or scenario.loader.streams
        for more in (16, 32, MOST_READERS):
            if more > now:
                yield (
                    scenario.loader.tune.format(streams=more),
                    Text("{more} reads at once and rank in place of {now}", more=more, now=now),
                    replace(settings, scenario=replace(scenario, streams=more)),
                )
    if scenario.loader.access == "mmap" and scenario.loader.streams == 1 and scenario.readahead < DEEP_READAHEAD:
        yield (
            "read_ahead_kb=16384",
            Text("let one fault bring 16 MiB: write 16384 to read_ahead_kb of the device or mount"),
            replace(settings, scenario=replace(scenario, readahead=DEEP_READAHEAD)),
        )


def _storage(settings: Settings) -> Iterator[tuple[str, Text, Settings]]:
    scenario = settings.scenario
    top, limit = stored_rate(scenario)
    more = scenario.storage.high
    if scenario.storage.kind == "block" and scenario.storage.basis == "cited" and limit == "storage" and top < more:
        yield (
            f"--bandwidth {more / 2**20:.0f}MiB",
            Text("provision the volume to {rate}", rate=per_second(more)),
            replace(settings, scenario=replace(scenario, bandwidth=more)),
        )
    if limit == "machine" and scenario.instance is not None:
        family = scenario.instance.id.partition(".")[0]
        larger = [one for one in instances() if one.id.startswith(family + ".")]
        for one in larger:
            if (one.limit(scenario.storage.kind) or 0) > (scenario.instance.limit(scenario.storage.kind) or 0):
                yield (
                    f"--instance {one.id}",
                    Text("a machine that lets more through: {name}", name=one.id),
                    replace(settings, scenario=replace(scenario, instance=one)),
                )
    for id, text in (
        ("nvme", Text("keep the files on a local NVMe drive of the machine")),
        (
            "tmpfs",
            Text("keep the files in as much host memory: in tmpfs, or the page cache of an earlier start"),
        ),
    ):
        tier = find_storage(id)
        if tier.bandwidth > scenario.storage.bandwidth or scenario.storage.remote:
            moved = replace(scenario, storage=tier, bandwidth=None, target=None, cached=0.0)
            yield f"--from {id}", text, replace(settings, scenario=moved)

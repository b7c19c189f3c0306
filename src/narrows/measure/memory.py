"""Memory: bandwidth by working set, so that the caches show, first touch, copying, and the smallest operation."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence

import msgspec

from narrows.measure.library import Library
from narrows.measure.timing import Pace, median, sample
from narrows.measure.timing import of as sample_of
from narrows.quantity import Quantity
from narrows.units import GIB, KIB, MIB

SMALLEST = 16 * KIB


class Bandwidth(msgspec.Struct, frozen=True):
    """Bytes per second of a kernel over a working set.

    operation: `read`; `copy` and `add` count what is read and what is written. kernel: which one; the fastest of all
    libraries present is kept. threads: cores at work; 0: a device's own.
    """

    operation: str
    kernel: str
    library: str
    working_set: int
    threads: int
    bandwidth: Quantity


def working_sets(memory: int, cache: int, smallest: int = SMALLEST, largest: int = 256 * MIB) -> list[int]:
    """Sizes in bytes from `smallest` on, each four times the last, up to `largest` or four last-level caches.

    An eighth of memory is the limit. There is always a last one beyond the cache, where memory allows.
    """
    most = max(smallest, min(max(largest, 4 * cache), 4 * GIB, memory // 8))
    sizes = [smallest]
    while sizes[-1] * 4 <= most:
        sizes.append(sizes[-1] * 4)
    if sizes[-1] * 2 <= most:
        sizes.append(sizes[-1] * 2)
    return sizes


def bandwidths(
    libraries: Sequence[Library],
    sizes: Sequence[int],
    threads: int,
    pace: Pace,
    told: Callable[[float], None] = lambda share: None,
) -> list[Bandwidth]:
    """Reading over all sizes, copying and adding over those from 1 MiB on; the fastest kernel each."""
    found: list[Bandwidth] = []
    # the largest first: memory itself must be known, even when time runs out
    for index, size in enumerate(sorted(sizes, reverse=True)):
        # and it takes longest
        stage = pace.part(pace.left * (0.4 if index == 0 else 1 / (len(sizes) - index)))
        candidates = []
        for library in libraries:
            kernels = [("read", name, run, size * library.passes(size)) for name, run in library.reading(size).items()]
            if size >= MIB:
                kernels.append(("copy", "copy", library.copying(size), size))
                kernels.append(("add", "add", library.adding(size), size))
            for operation, kernel, run, moved in kernels:
                if index and not stage.left:
                    continue
                taken = sample(run, settle=library.settle, clock=pace.clock, budget=0.15, least=7)
                at = threads if library.device == "cpu" else 0
                candidates.append(Bandwidth(operation, kernel, library.name, size, at, taken.rate(moved, "B/s")))
        for operation in ("read", "copy", "add"):
            of = [one for one in candidates if one.operation == operation]
            if of:
                found.append(max(of, key=lambda one: one.bandwidth.value))
        told((index + 1) / len(sizes))
    return sorted(found, key=lambda one: (one.operation, one.working_set))


def single_copy(library: Library, size: int, pace: Pace) -> Bandwidth:
    """Copying by one thread, as loaders do; read and written bytes."""
    taken = sample(library.copying(size, 1), settle=library.settle, clock=pace.clock, budget=0.2, least=7)
    return Bandwidth("copy", "copy", library.name, size, 1, taken.rate(size, "B/s"))


def first_touch(library: Library, size: int, pace: Pace, times: int = 5) -> Quantity:
    """Bytes per second at which memory fresh from the system is touched for the first time, by one thread."""
    found = []
    for _ in range(times):
        # never closed by hand: that fails while an array still looks into it, as after an interruption
        buffer = mmap.mmap(-1, size)
        run = library.touching(buffer)
        begun = pace.clock()
        run()
        found.append(pace.clock() - begun)
        del run, buffer
    return sample_of(found).rate(size, "B/s")


def smallest_operation(library: Library, pace: Pace) -> tuple[Quantity, Quantity]:
    """Seconds of an operation on one number: issued one after another, and each waited for.

    On a processor both are the cost of the call; on a device the first is what the host needs to launch a kernel, the
    second what launching one and waiting for it takes.
    """
    run = library.dispatch()
    issued = sample(run, settle=library.settle, clock=pace.clock, budget=0.2)

    def waited() -> None:
        run()
        library.settle()

    return issued.seconds, sample(waited, clock=pace.clock, budget=0.2).seconds


def width(quantities: Sequence[Quantity]) -> float:
    """The median of the intervals' widths, as a share of their values."""
    shares = [
        (one.high - one.low) / one.value
        for one in quantities
        if one.low is not None and one.high is not None and one.value
    ]
    return median(shares) if shares else 0.0

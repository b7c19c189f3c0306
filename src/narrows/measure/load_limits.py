"""The limits of this machine on the way of the weights, measured beside the loaders and in the same minutes."""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from narrows.measure.load_ring import ALIGNED, BLOCK, EndsEarly, Piece, Read, pieces, touch
from narrows.measure.timing import Clock
from narrows.units import MIB

DEPTHS = (1, 4, 8, 32)
HOST_BYTES = 128 * MIB
"""What the probes of host memory move: more than caches hold of it, less than a small machine misses."""


class Host(msgspec.Struct, frozen=True):
    """Host memory, bytes/s by one thread. cached: from the page cache to a reused buffer; mapping: page faults of what
    is in the page cache; both 0 where there is no file. memcpy: between touched buffers. first_touch: memory new from
    the system."""

    cached: float
    mapping: float
    memcpy: float
    first_touch: float


def rate(
    read: Read,
    wanted: Sequence[Piece],
    depth: int,
    block: int,
    clock: Clock,
    seconds: float,
    begin: int = 0,
) -> float:
    """Bytes/s of `depth` readers that take pieces in turn, from piece `begin` on and around, for `seconds`.

    Each piece at most once. Raises what a read raised.
    """
    turn = [0]
    lock = threading.Lock()
    errors: list[BaseException] = []
    moved = [0] * depth
    rooms = [mmap.mmap(-1, block) for _ in range(depth)]
    for room in rooms:
        room.write(bytes(block))
    gate = threading.Barrier(depth + 1)
    until = [0.0]

    def reader(index: int) -> None:
        view = memoryview(rooms[index])
        gate.wait()
        try:
            while clock() < until[0]:
                with lock:
                    at = turn[0]
                    turn[0] += 1
                if at >= len(wanted):
                    return
                number, offset, length = wanted[(begin + at) % len(wanted)]
                got = read(number, view[:block], offset)
                moved[index] += min(got, length)
        except BaseException as error:
            errors.append(error)
        finally:
            view.release()

    crew = [threading.Thread(target=reader, args=(index,), daemon=True) for index in range(depth)]
    for one in crew:
        one.start()
    begun = clock()
    until[0] = begun + seconds
    gate.wait()
    for one in crew:
        one.join()
    took = max(clock() - begun, 1e-9)
    if errors:
        raise errors[0]  # which still holds a buffer
    for room in rooms:
        room.close()
    return sum(moved) / took


class Storage:
    """Probes of what files (or addresses) give, past the page cache or after their pages were dropped.

    drop: takes their pages out of the page cache; called before each probe where reads go through it.
    """

    def __init__(
        self,
        read: Read,
        sizes: Sequence[int],
        clock: Clock,
        drop: Callable[[], object] | None = None,
    ) -> None:
        self.read, self.sizes, self.clock, self.drop = read, sizes, clock, drop
        self.begin = 0
        self.cpu = 0.0
        """Processor seconds per byte of the last probe."""

    def at(self, depth: int, block: int = BLOCK, seconds: float = 0.4) -> float:
        """Bytes/s at a depth; each probe begins where the last one ended, so that no part is measured over and over."""
        if self.drop is not None:
            self.drop()
        wanted = pieces(self.sizes, block)
        begin = self.begin % len(wanted)
        begun, spent = self.clock(), time.process_time()
        found = rate(self.read, wanted, min(depth, len(wanted)), block, self.clock, seconds, begin)
        self.cpu = (time.process_time() - spent) / max(found * (self.clock() - begun), 1.0)
        self.begin += max(1, int(found * seconds / block))
        if found <= 0:
            raise EndsEarly("nothing is left of the file")
        return found

    def latency(self, seconds: float = 0.3) -> float:
        """Seconds of one page read alone, from places far apart."""
        wanted = pieces(self.sizes, 4 * MIB)
        far = wanted[:: max(1, len(wanted) // 512)]
        single = [(number, offset, min(ALIGNED, length)) for number, offset, length in far]
        if self.drop is not None:
            self.drop()
        found = rate(self.read, single, 1, ALIGNED, self.clock, seconds, self.begin % len(single))
        return ALIGNED / max(found, 1.0)


def host(handle: int | None, size: int, clock: Clock, most: int = HOST_BYTES, fresh: int = 0) -> Host:
    """Probes of host memory; `handle`: a file whose first part is brought into the page cache for it.

    Each is done over a few times, and the median counts. `fresh`: bytes of new memory to touch, once: as much as a
    loader takes, since the first of it was often used just before and comes faster than the rest; 0: as `most`.
    """
    if handle is not None:
        size = min(size, os.fstat(handle).st_size)  # a mapping beyond a file's end would end this process
    part = min(size, most) // BLOCK * BLOCK or min(size, most)
    cached = mapping = 0.0
    if handle is not None and part:
        with mmap.mmap(-1, BLOCK) as room, memoryview(room) as buffer:

            def through() -> None:
                for offset in range(0, part, BLOCK):
                    os.preadv(handle, [buffer[: min(BLOCK, part - offset)]], offset)

            through()
            cached = _rate(through, part, clock)

        def map_anew() -> None:
            assert handle is not None
            with mmap.mmap(handle, part, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
                touch(view)

        mapping = _rate(map_anew, part, clock)
    source, target = bytearray(most), bytearray(most)
    for one in (source, target):
        one[::ALIGNED] = bytes(len(range(0, most, ALIGNED)))
    views = memoryview(source), memoryview(target)

    def copy() -> None:
        # in pieces, as loaders copy: libc copies what is larger than it takes the caches to be in another way
        for at in range(0, most, BLOCK):
            views[1][at : at + BLOCK] = views[0][at : at + BLOCK]

    memcpy = _rate(copy, most, clock)
    new = max(fresh, most) // ALIGNED * ALIGNED
    ones = b"\1" * (new // ALIGNED)
    private = getattr(mmap, "MAP_PRIVATE", 2) | getattr(mmap, "MAP_ANONYMOUS", 32)
    with mmap.mmap(-1, new, flags=private) as room, memoryview(room) as view:
        begun = clock()
        view[::ALIGNED] = ones
        first_touch = new / max(clock() - begun, 1e-9)
    return Host(cached, mapping, memcpy, first_touch)


def _rate(run: Callable[[], object], size: int, clock: Clock, times: int = 3) -> float:
    found = []
    for _ in range(times):
        begun = clock()
        run()
        found.append(clock() - begun)
    return size / max(sorted(found)[times // 2], 1e-9)

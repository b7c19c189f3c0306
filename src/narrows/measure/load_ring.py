"""Our own reader: a fixed ring of reused, aligned buffers that threads fill past the page cache and one hand empties.

Only the standard library: it runs in processes whose memory and time are measured.
"""

from __future__ import annotations

import mmap
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

BLOCK = 4 * 2**20
THREADS = 8
ALIGNED = 4096

Piece = tuple[int, int, int]
"""(which source, offset, bytes) of one read."""
Read = Callable[[int, memoryview, int], int]
"""Fills a buffer from a source (by its number) at an offset; returns the bytes that came."""
Sink = Callable[[memoryview], object]


class EndsEarly(OSError):
    """A source has fewer bytes than it had when it was looked at."""


@dataclass
class Flow:
    """What happened on the way. Seconds: in all, that the sink waited for bytes, that it worked, and that readers (all
    together) waited for an empty buffer."""

    bytes: int = 0
    seconds: float = 0.0
    starved: float = 0.0
    sinking: float = 0.0
    blocked: float = 0.0
    errors: list[BaseException] = field(default_factory=list)


def pieces(sizes: Sequence[int], block: int = BLOCK, most: int | None = None) -> list[Piece]:
    """All sources in order, block by block; `most`: stop after so many bytes."""
    found: list[Piece] = []
    left = sum(sizes) if most is None else most
    for number, size in enumerate(sizes):
        for offset in range(0, size, block):
            if left <= 0:
                return found
            length = min(block, size - offset)
            found.append((number, offset, length))
            left -= length
    return found


def stream(wanted: Iterable[Piece], read: Read, sink: Sink, threads: int = THREADS, block: int = BLOCK) -> Flow:
    """Read all pieces with `threads` reads under way and hand each to `sink`, in the order in which they arrive.

    There are two buffers more than threads: while one is emptied, its reader has another. Memory: that times block.
    Raises what a read or the sink raised, after all threads have ended.
    """
    work: queue.SimpleQueue[Piece | None] = queue.SimpleQueue()
    count = 0
    for one in wanted:
        work.put(one)
        count += 1
    for _ in range(threads):
        work.put(None)
    empty: queue.SimpleQueue[memoryview | None] = queue.SimpleQueue()
    full: queue.SimpleQueue[tuple[memoryview, int] | BaseException] = queue.SimpleQueue()
    # mapped memory begins at a page, as reading past the page cache wants it
    ring = [mmap.mmap(-1, block) for _ in range(threads + 2)]
    views = [memoryview(one) for one in ring]
    for view in views:
        view[::ALIGNED] = bytes(len(view[::ALIGNED]))  # new memory is paid for before the clock starts
        empty.put(view)
    flow, lock = Flow(), threading.Lock()

    def reader() -> None:
        blocked = 0.0
        try:
            while (piece := work.get()) is not None:
                begun = time.perf_counter()
                buffer = empty.get()
                blocked += time.perf_counter() - begun
                if buffer is None:
                    return
                number, offset, length = piece
                # whole blocks are asked for: the last read of a file comes back short by itself
                got = read(number, buffer, offset)
                if got < length:
                    raise EndsEarly("the file ends early")
                full.put((buffer, length))
        except BaseException as error:
            full.put(error)
        finally:
            with lock:
                flow.blocked += blocked

    crew = [threading.Thread(target=reader, daemon=True) for _ in range(threads)]
    begun = time.perf_counter()
    for one_of in crew:
        one_of.start()
    try:
        for _ in range(count):
            waited = time.perf_counter()
            found = full.get()
            now = time.perf_counter()
            flow.starved += now - waited
            if isinstance(found, BaseException):
                raise found
            buffer, length = found
            sink(buffer[:length])
            flow.sinking += time.perf_counter() - now
            flow.bytes += length
            empty.put(buffer)
        flow.seconds = time.perf_counter() - begun
    finally:
        while not work.empty():
            work.get()
        for _ in crew:
            work.put(None)
            empty.put(None)
        for one_of in crew:
            one_of.join(10)
        for view in views:
            with suppress(BufferError):  # an error on its way still holds a part
                view.release()
    return flow


def opened(paths: Sequence[str]) -> tuple[list[int], bool]:
    """Descriptors that read past the page cache where every file can, else through it; and which of the two."""
    flag = getattr(os, "O_DIRECT", 0)
    for direct in (True, False) if flag else (False,):
        handles: list[int] = []
        try:
            for path in paths:
                handles.append(os.open(path, os.O_RDONLY | (flag if direct else 0)))
            if direct:
                with mmap.mmap(-1, ALIGNED) as trial:
                    os.preadv(handles[0], [trial], 0)  # some file systems refuse only here
            return handles, direct
        except OSError:
            for handle in handles:
                os.close(handle)
            if not direct:
                raise
    raise AssertionError("unreachable")


def from_files(handles: Sequence[int]) -> Read:
    """Reads of open files."""

    def read(number: int, buffer: memoryview, offset: int) -> int:
        done = os.preadv(handles[number], [buffer], offset)
        while 0 < done < len(buffer) and done % ALIGNED == 0:
            more = os.preadv(handles[number], [buffer[done:]], offset + done)
            if not more:
                break
            done += more
        return done

    return read


def touch(view: memoryview) -> int:
    """Look at one byte of every page, as whoever uses the bytes does."""
    return len(bytes(view[::ALIGNED]))

"""The disk under a folder: O_DIRECT over queue depths, through the page cache, and by mmap, on a file of our own."""

from __future__ import annotations

import errno
import mmap
import os
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from narrows.measure.scratch import BLOCK, LEAST, append, room, scratch, told_full
from narrows.measure.timing import Pace, of
from narrows.quantity import Quantity
from narrows.text import BadInput, Text
from narrows.units import KIB, binary

DEPTHS = (1, 2, 4, 8, 16, 32)
SMALL = 4 * KIB


class DiskRate(msgspec.Struct, frozen=True):
    """Bytes per second of one way to read (or write) the scratch file.

    way: `write` (buffered, then fsync), `direct` (O_DIRECT: past the page cache), `buffered` (read through the page
    cache), `mmap` (page faults). block: bytes of one request; depth: requests in flight. cold: the file's pages were
    out of the page cache, checked by asking for pages without waiting; None: not to be told here.
    """

    way: str
    block: int
    depth: int
    cold: bool | None
    bandwidth: Quantity


class Disk(msgspec.Struct, frozen=True):
    """What was measured in `folder` with a file of `size` bytes; notes: what could not be.

    filesystem: its kind, as the system names it; empty where it does not.
    """

    folder: str
    size: int
    filesystem: str = ""
    rates: tuple[DiskRate, ...] = ()
    notes: tuple[Text, ...] = ()


def disk(folder: str, most: int, pace: Pace, told: Callable[[float], None] = lambda share: None) -> Disk:
    """Measure with a scratch file of `most` bytes or fewer, which nothing else can see and which never stays.

    Raises BadInput for a folder that cannot be written. A disk that is too full is told in the notes.
    """
    size = room(folder, most)
    kind = filesystem(folder)
    if size < LEAST:
        note = Text("'{folder}' is too full for a scratch file: a tenth of what is free is {size}", folder=folder,
                    size=binary(size))  # fmt: skip
        return Disk(folder, 0, kind, notes=(note,))
    rates: list[DiskRate] = []
    notes: list[Text] = []
    if kind in ("tmpfs", "ramfs"):
        notes.append(
            Text("'{folder}' is in memory ({kind}), not on a disk; choose --scratch", folder=folder, kind=kind)
        )
    with scratch(folder) as handle:
        try:
            written, size = _written(handle, folder, size, pace.part(pace.left / 3), lambda share: told(share / 3))
        except BadInput as full:
            return Disk(folder, 0, kind, notes=(full.text,))
        rates.append(written)
        steps: Sequence[Callable[[Pace], Sequence[DiskRate]]] = (
            lambda part: _direct(handle, size, part, notes),
            lambda part: [_cached(handle, size, part, cold=True)],
            lambda part: [_mapped(handle, size, part)],
            lambda part: [_cached(handle, size, part, cold=False)],
        )
        weights = (4, 1, 1, 1)
        for index, step in enumerate(steps):
            part = pace.part(pace.left * weights[index] / sum(weights[index:]))
            try:
                rates += step(part)
            except OSError as error:
                notes.append(Text("the scratch file could not be read: {reason}", reason=error.strerror or str(error)))
            told((index + 2) / 5)
    return Disk(folder, size, kind, tuple(rates), tuple(notes))


def filesystem(folder: str, mounts: str = "/proc/self/mounts") -> str:
    """The kind of the file system that holds a folder: `ext4`, `tmpfs`, `nfs4`, …; empty where it is not told."""
    place = os.path.realpath(folder)
    best = ("", "")
    try:
        with open(mounts, encoding="utf-8", errors="replace") as file:
            for line in file:
                _device, point, kind, *_rest = line.split(" ")
                point = point.replace("\\040", " ")
                within = place == point or place.startswith(point.rstrip("/") + "/")
                if within and len(point) >= len(best[0]):
                    best = (point, kind)
    except (OSError, ValueError):
        pass
    return best[1]


def _written(handle: int, folder: str, size: int, pace: Pace, told: Callable[[float], None]) -> tuple[DiskRate, int]:
    """Write the file; as much of it as the pace allows, and at least the smallest useful."""
    begun = pace.clock()
    done = 0
    while done < size and (pace.left or done < LEAST):
        # in pieces that are synchronised, so that a slow disk is noticed before the page cache is full of it
        piece = min(LEAST, size - done)
        wrote = append(handle, done, piece)
        done += wrote
        os.fsync(handle)
        told(done / size)
        if wrote < piece:
            break
    if done < LEAST:
        raise told_full(folder, done, size)
    seconds = max(pace.clock() - begun, 1e-9)
    return DiskRate("write", BLOCK, 1, None, Quantity(done / seconds, "B/s", "measured")), done


def _direct(handle: int, size: int, pace: Pace, notes: list[Text]) -> list[DiskRate]:
    """Reads past the page cache, whole blocks and small ones, at growing queue depth (a thread per request)."""
    try:
        again = _reopened(handle)
    except OSError as error:
        notes.append(
            Text("this file system does not read past the page cache ({reason})", reason=error.strerror or str(error))
        )
        return []
    wanted = [(BLOCK, depth) for depth in DEPTHS] + [(SMALL, depth) for depth in (1, 32)]
    found = []
    try:
        for index, (block, depth) in enumerate(wanted):
            part = pace.part(pace.left / (len(wanted) - index))
            found.append(DiskRate("direct", block, depth, True, _reads(again, size, block, depth, part)))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        notes.append(Text("this file system does not read past the page cache ({reason})", reason=error.strerror))
    finally:
        os.close(again)
    return found


def _reopened(handle: int) -> int:
    """The same file, read past the page cache: O_DIRECT on Linux, F_NOCACHE on macOS."""
    if hasattr(os, "O_DIRECT"):
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECT)
    import fcntl

    if not hasattr(fcntl, "F_NOCACHE"):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    again = os.dup(handle)
    fcntl.fcntl(again, fcntl.F_NOCACHE, 1)
    return again


def _reads(handle: int, size: int, block: int, depth: int, pace: Pace) -> Quantity:
    """Bytes per second of `depth` threads that read blocks in a random order without repeats, until time is up.

    The time is cut into eight slices, whose spread is that of the rate.
    """
    places = list(range(0, size - block + 1, block))
    random.Random(block * depth).shuffle(places)
    del places[max(1, 200_000) :]
    slices = 8
    times: list[float] = []
    share = max(depth, len(places) // slices)
    with ThreadPoolExecutor(depth) as pool:
        buffers = [mmap.mmap(-1, block) for _ in range(depth)]  # aligned to pages, as O_DIRECT wants

        def worker(index: int, mine: list[int], until: float) -> int:
            done = 0
            for place in mine:
                done += os.preadv(handle, [buffers[index]], place)
                if pace.clock() >= until:
                    break
            return done

        rates: list[float] = []
        while (len(rates) < slices and pace.left) or not rates:
            begun = pace.clock()
            until = begun + max(pace.left / (slices - len(rates)), 1e-3)
            batch, places = places[:share], [*places[share:], *places[:share]]
            parts = [batch[index::depth] for index in range(depth)]
            moved = sum(pool.map(worker, range(depth), parts, [until] * depth))
            times.append(pace.clock() - begun)
            rates.append(moved / max(times[-1], 1e-9))
        for buffer in buffers:
            buffer.close()
    taken = of([1 / rate for rate in rates if rate] or [1.0])
    return taken.rate(1, "B/s")


def cold(handle: int, size: int) -> bool | None:
    """Whether none of 64 pages spread over the file is in the page cache; None where the system does not tell."""
    if not hasattr(os, "RWF_NOWAIT"):
        return None
    buffer = bytearray(SMALL)
    for index in range(64):
        place = (size - SMALL) * index // 63 // SMALL * SMALL
        try:
            os.preadv(handle, [buffer], place, os.RWF_NOWAIT)
            return False
        except BlockingIOError:
            continue
        except OSError:
            return None  # a file system that knows no such reads
    return True


def _dropped(handle: int, size: int) -> bool | None:
    """Ask for this one file's pages to leave the page cache; whether they did."""
    os.fsync(handle)
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    return cold(handle, size)


def _cached(handle: int, size: int, pace: Pace, cold: bool) -> DiskRate:
    """The file read in order through the page cache, in or out of it."""
    was = _dropped(handle, size) if cold else False
    buffer = bytearray(BLOCK)
    times: list[float] = []
    for place in range(0, size, BLOCK):
        begun = pace.clock()
        os.preadv(handle, [buffer], place)
        times.append(pace.clock() - begun)
        if not pace.left:
            break
    return DiskRate("buffered", BLOCK, 1, was, _over(times, BLOCK))


def _mapped(handle: int, size: int, pace: Pace) -> DiskRate:
    """The file copied out of a mapping in order: every page a fault, as loaders of mapped files do."""
    was = _dropped(handle, size)
    buffer = bytearray(BLOCK)
    times: list[float] = []
    with mmap.mmap(handle, size, prot=mmap.PROT_READ) as mapped, memoryview(mapped) as view:
        for place in range(0, size, BLOCK):
            begun = pace.clock()
            buffer[:] = view[place : place + BLOCK]
            times.append(pace.clock() - begun)
            if not pace.left:
                break
    return DiskRate("mmap", BLOCK, 1, was, _over(times, BLOCK))


def _over(times: list[float], block: int) -> Quantity:
    """The rate over all blocks, and the spread of eighths: a single block hits or misses what was read ahead."""
    whole = len(times) * block / max(sum(times), 1e-9)
    step = max(1, len(times) // 8)
    parts = sorted(sum(times[i : i + step]) / len(times[i : i + step]) for i in range(0, len(times), step))
    taken = of(parts).rate(block, "B/s")
    return Quantity(whole, "B/s", "measured", min(whole, taken.low or whole), max(whole, taken.high or whole))

"""Cold, and proven so: one file's pages asked to leave the page cache, counted, and the bytes that devices gave.

Nothing but the checkpoint's own pages is dropped, and system-wide caches are never touched.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import msgspec

from narrows.loading.place import resident
from narrows.measure.disk import cold as sampled
from narrows.text import Text

ENOUGH = 0.9
"""Share of the bytes that a device must have given for a run to count as cold."""
LINUX = sys.platform.startswith("linux")
LEFT = 0.001
"""Share of the pages that may be in the page cache."""


class State(msgspec.Struct, frozen=True):
    """Whether a run was cold, and why not. resident: bytes in the page cache before it, None where not to be told.

    stored: bytes that the loading process had from storage; device: that the block device gave to all. None: not
    counted.
    """

    cold: bool
    resident: int | None
    stored: int | None
    device: int | None
    reason: Text | None = None


def drop(handles: Sequence[int]) -> None:
    """Ask the pages of these files to leave the page cache; those of nothing else."""
    for handle in handles:
        with suppress(OSError):  # on a file system that is read only none are left to write
            getattr(os, "fdatasync", os.fsync)(handle)  # pages that are not written yet cannot leave
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)


def held(paths: Sequence[str], handles: Sequence[int]) -> int | None:
    """Bytes of these files in the page cache: counted where they are one's own, else by a sample; None: not to be told.

    Of others' files Linux calls every page resident (mincore); a read that must not wait tells the truth.
    """
    found = 0
    for path, handle in zip(paths, handles, strict=True):
        status = os.fstat(handle)
        try:
            if LINUX and (status.st_uid == os.geteuid() or os.access(path, os.W_OK)):
                found += sum(resident(path))
                continue
        except OSError:
            pass
        seen = sampled(handle, status.st_size)
        if seen is None:
            return None
        found += 0 if seen else status.st_size
    return found


def kept(paths: Sequence[str], handles: Sequence[int]) -> int | None:
    """Bytes of these files in the page cache once they are opened again, as a loader opens them; None: not to be told.

    Some mounts (FUSE, without `keep_cache`) give a file's pages up whenever it is opened: nothing is ever warm there.
    """
    for path in paths:
        with suppress(OSError):
            os.close(os.open(path, os.O_RDONLY))
    return held(paths, handles)


def device_bytes(handle: int, root: str = "/sys/dev/block") -> int | None:
    """Bytes read so far from the block device that holds a file; None where there is none behind it."""
    at = os.fstat(handle).st_dev
    try:
        with open(f"{root}/{os.major(at)}:{os.minor(at)}/stat", encoding="ascii") as file:
            return int(file.read().split()[2]) * 512
    except (OSError, ValueError, IndexError):
        return None


def state(resident: int | None, stored: int | None, device: int | None, size: int) -> State:
    """Cold only where no pages were held and the bytes came from storage, as far as the system counts them.

    stored: None also where the file system is known to count nothing.
    """
    reason: Text | None = None
    counts = [one for one in (stored, device) if one is not None]
    if resident is not None and resident > LEFT * size:
        reason = Text("{share} % of it stayed in the page cache", share=max(1, round(100 * resident / size)))
    elif resident is None and not counts:
        reason = Text("neither the page cache nor the device says where the bytes came from")
    elif counts and max(counts) < ENOUGH * size:
        reason = Text("the device gave only {share} % of its bytes", share=round(100 * max(counts) / size))
    return State(reason is None, resident, stored, device, reason)

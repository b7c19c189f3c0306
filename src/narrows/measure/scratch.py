"""A scratch file that has no name: whatever happens to this process, nothing of it stays."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from narrows.text import BadInput
from narrows.units import MIB, binary

BLOCK = 4 * MIB
LEAST = 64 * MIB
"""A smaller file says more about caches than about the disk."""


def room(folder: str, most: int) -> int:
    """Bytes that a scratch file in `folder` may take: `most`, or a tenth of what is free there, whole blocks."""
    try:
        status = os.statvfs(folder)
    except OSError as error:
        raise unusable(folder, error) from None
    free = status.f_bavail * status.f_frsize
    return min(most, free // 10) // BLOCK * BLOCK


def unusable(folder: str, error: OSError) -> BadInput:
    """The sentence for a folder that scratch cannot be written in."""
    reason = error.strerror or str(error)
    return BadInput("scratch cannot be written in '{folder}': {reason}; choose --scratch", folder=folder, reason=reason)


@contextmanager
def scratch(folder: str) -> Iterator[int]:
    """A new, empty file without a name in `folder`, as a descriptor; gone when closed, even by force."""
    handle = _nameless(folder)
    try:
        yield handle
    finally:
        os.close(handle)


def _nameless(folder: str) -> int:
    flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0)
    if hasattr(os, "O_TMPFILE"):
        try:
            return os.open(folder, flags | os.O_TMPFILE, 0o600)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT):
                raise unusable(folder, error) from None
    try:
        handle, name = tempfile.mkstemp(prefix=".narrows-scratch-", dir=folder)
    except OSError as error:
        raise unusable(folder, error) from None
    os.unlink(name)
    return handle


def append(handle: int, start: int, size: int) -> int:
    """Write `size` bytes that do not compress from `start` on; returns how many there was room for (whole blocks)."""
    block = os.urandom(BLOCK)
    done = 0
    while done < size:
        try:
            wrote = os.pwrite(handle, block, start + done)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                return done
            raise
        if wrote < BLOCK:
            return done
        done += BLOCK
    return done


def told_full(folder: str, done: int, size: int) -> BadInput:
    """The sentence for a disk that fills up."""
    return BadInput(
        "'{folder}' is full: {done} of {size} could be written; choose --scratch",
        folder=folder,
        done=binary(done),
        size=binary(size),
    )

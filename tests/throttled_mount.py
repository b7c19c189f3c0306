"""A real mount that serves one file slowly, through FUSE: `python tests/throttled_mount.py FILE FOLDER RATE LATENCY`.

RATE: bytes/s to all readers together; LATENCY: seconds that each request waits, however many wait; 0: no limit. Runs
until it is unmounted.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from typing import Any

import mfusepy


class Throttled(mfusepy.Operations):  # type: ignore[misc]
    """One file, `model.safetensors`, read only."""

    use_ns = True

    def __init__(self, path: str, rate: float, latency: float) -> None:
        self.handle = os.open(path, os.O_RDONLY)
        self.size = os.fstat(self.handle).st_size
        self.rate, self.latency = rate, latency
        self.gate, self.free = threading.Lock(), 0.0

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        if path == "/":
            return {"st_mode": stat.S_IFDIR | 0o755, "st_nlink": 2}
        if path != "/model.safetensors":
            raise mfusepy.FuseOSError(2)
        return {"st_mode": stat.S_IFREG | 0o644, "st_nlink": 1, "st_size": self.size, "st_uid": os.getuid()}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", "model.safetensors"]

    def open(self, path: str, flags: int) -> int:
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        if self.latency:
            time.sleep(self.latency)
        if self.rate:
            with self.gate:
                self.free = max(self.free, time.perf_counter()) + size / self.rate
                until = self.free
            time.sleep(max(0.0, until - time.perf_counter()))
        return os.pread(self.handle, size, offset)


if __name__ == "__main__":
    file, folder, rate, latency = sys.argv[1:]
    mfusepy.FUSE(Throttled(file, float(rate), float(latency)), folder, foreground=True, nothreads=False, ro=True)

"""Matrix products and memory kernels of numpy: BLAS on all cores, elementwise kernels on a thread per core."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from narrows.measure.timing import Action
from narrows.units import MIB

PIECE = 8 * MIB
"""Bytes that one call copies at most, as loaders copy tensors and blocks. From a size on that libc takes from the
caches that the processor claims to have (192 MiB where a hypervisor passes on 256 MiB of them), one call copies past
the caches: half as fast or almost twice as fast, as source and target happen to be aligned to each other.
"""


class Numpy:
    """numpy on the host's processor: fp32 products, and reading, copying and adding arrays with every core."""

    device = "cpu"
    precisions: tuple[str, ...] = ("fp32",)

    def __init__(self, threads: int) -> None:
        import numpy

        self.np: Any = numpy
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads)
        self.name = f"numpy {numpy.__version__}"

    def close(self) -> None:
        """End the threads."""
        self.pool.shutdown(wait=True, cancel_futures=True)

    def settle(self) -> None:
        """Nothing runs on after a call."""

    def linear(self, m: int, k: int, n: int, precision: str, copies: int = 1) -> Action:
        """[m, k] × [n, k]ᵀ as layers multiply; the next of `copies` weights each time, so that none stays cached."""
        np = self.np
        x = self._random(m, k)
        first = self._random(n, k)
        weights = [first, *(first.copy() for _ in range(copies - 1))]
        out = np.empty((m, n), np.float32)
        turn = [0]

        def run() -> None:
            turn[0] = (turn[0] + 1) % copies
            np.matmul(x, weights[turn[0]].T, out=out)

        return run

    def _random(self, rows: int, columns: int) -> Any:
        """Values around 0; the same row of 4,096 over and over, since drawing them takes longer than multiplying."""
        np = self.np
        row = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
        return np.resize(row, (rows, columns))

    def reading(self, size: int) -> dict[str, Action]:
        """Kernels that read `size` bytes, over and over where that is little: name → action; `passes` tells how often.

        The whole is read by every core where it fits a cache, else each core reads its part.
        """
        np = self.np
        x = np.ones(size // 4, np.float32)
        passes = self.passes(size)
        if passes == 1:
            parts = np.array_split(x, self.threads)
        else:
            parts = [np.broadcast_to(x, (passes // self.threads, x.size))] * self.threads
        return {"max": self._each(lambda i: parts[i].max())}

    def passes(self, size: int) -> int:
        """How often one action of `reading` reads its `size` bytes, all cores together."""
        least = 32 * 2**20
        return 1 if size >= least else self.threads * max(1, least // size)

    def copying(self, size: int, threads: int | None = None) -> Action:
        """Copies `size` ÷ 2 bytes to as many; `threads`: all cores, or fewer. Each in pieces of `PIECE`."""
        np = self.np
        count = threads or self.threads
        x, y = np.ones(size // 8, np.float32), np.zeros(size // 8, np.float32)
        sources, targets = np.array_split(x, count), np.array_split(y, count)

        def part(index: int) -> None:
            source, target = sources[index], targets[index]
            for start in range(0, source.size, PIECE // 4):
                np.copyto(target[start : start + PIECE // 4], source[start : start + PIECE // 4])

        return self._each(part, count)

    def adding(self, size: int) -> Action:
        """a = b + c over three arrays of `size` ÷ 3 bytes: the traffic of STREAM's add and triad."""
        np = self.np
        arrays = [np.ones(size // 12, np.float32) for _ in range(3)]
        parts = [np.array_split(one, self.threads) for one in arrays]
        return self._each(lambda i: np.add(parts[1][i], parts[2][i], out=parts[0][i]))

    def dispatch(self) -> Action:
        """The smallest operation."""
        np = self.np
        x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
        return lambda: np.add(x, x, out=y)

    def touching(self, buffer: Any) -> Action:
        """Writes one byte of each 4-KiB page of a buffer."""
        view = self.np.frombuffer(buffer, self.np.uint8)

        def run() -> None:
            view[::4096] = 1

        return run

    def _each(self, work: Callable[[int], object], count: int | None = None) -> Action:
        if (count or self.threads) == 1:
            return lambda: work(0)

        def run() -> None:
            for _ in self.pool.map(work, range(count or self.threads)):
                pass

        return run

"""StepTime: the roofline of one deployment compiled to plain numbers, for simulators and sweeps.

What depends on a number of rows alone (linear layers, experts, norms, collectives) becomes a table by rows, filled for
a whole range at once and grown when a larger number is asked for. Attention and scans go through their law each time,
with all that the deployment decides bound beforehand. `decode` of arrays does the same with arrays. `line` is decode
of one batch size as straight pieces in context, so that a run of steps is summed without visiting each.

numpy is imported when the first table is filled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

from narrows.deployment import Deployment
from narrows.roofline.arithmetic import larger
from narrows.roofline.cost import Costs
from narrows.step import Batch, Chunk, plan_of
from narrows.step.kernels import AttentionKernel, Kernel
from narrows.step.load import Load, Rows

TABLE = 2**15
"""Rows up to which times are tabulated; steps of more tokens go through the laws one by one."""
FIRST = 2**10
TOLERANCE = 2e-3
"""How far a straight piece of `line` may be from the step's time."""
BLOCK = 2**15
"""Points of a sweep that are computed together."""
MOST_CHUNKS = 4096
"""Of a chunked window, how many times over `line` follows it."""
BY_ROWS: tuple[Rows, ...] = ("tokens", "sampled", "prefill", "decode", "encoder", "started")
"""Kinds of rows that have a table; those that count keys grow without limit."""


class _Rows(Load):
    """A load that has `values` rows of every kind."""

    def __init__(self, values: Any) -> None:
        super().__init__(Batch(()))
        self.values = values

    def rows(self, which: Rows, fixed: int = 0) -> Any:
        return self.values


class _Asked(Load):
    """A load that notes what a kernel asks of it, and whether that is more than rows of one kind."""

    def __init__(self) -> None:
        super().__init__(Batch((Chunk(1, 16, 16),)))
        self.kinds: set[tuple[Rows, int]] = set()
        self.more = False

    def rows(self, which: Rows, fixed: int = 0) -> Any:
        self.kinds.add((which, fixed))
        return 16

    def __getattribute__(self, name: str) -> Any:
        if name in ("chunks", "seen"):
            object.__setattr__(self, "more", True)
        return object.__getattribute__(self, name)


def rows_of(kernel: Kernel) -> tuple[Rows, int] | None:
    """The kind of rows on which alone a kernel depends; None where it needs to know keys or sequences too."""
    asked = _Asked()
    asked.more = False
    kernel.operator(asked, 1)
    if asked.more or len(asked.kinds) != 1:
        return None
    found = next(iter(asked.kinds))
    return found if found[0] in BY_ROWS else None


class Table:
    """Seconds of some kernels by the rows that they share."""

    def __init__(self, kernels: Sequence[tuple[Kernel, int]], costs: Costs) -> None:
        self.kernels = kernels
        self.count = sum(count for _, count in kernels)
        self.costs = costs
        self.seconds: list[float] = [0.0]
        self.array: Any = None
        self.rare: dict[int, float] = {}

    def _sum(self, rows: Any) -> Any:
        total: Any = 0.0
        for kernel, count in self.kernels:
            operator = kernel.operator(_Rows(rows), count)
            if operator is not None:
                total = total + count * self.costs(operator).time
        return total

    def grow(self, most: int) -> None:
        """Fill up to `most` rows, or the next power of two."""
        import numpy as np

        first = len(self.seconds)
        last = max(FIRST, 1 << most.bit_length())
        more = self._sum(np.arange(first, last)) + np.zeros(last - first)
        self.array = np.concatenate([np.array(self.seconds), more])
        self.seconds = self.array.tolist()

    def __getitem__(self, rows: int) -> float:
        if rows < len(self.seconds):
            return self.seconds[rows]
        if rows < TABLE:
            self.grow(rows)
            return self.seconds[rows]
        if rows not in self.rare:
            self.rare[rows] = float(self._sum(rows))
        return self.rare[rows]

    def many(self, rows: Any) -> Any:
        """Seconds of an array of rows."""
        most = int(rows.max(initial=0))
        if most >= TABLE:
            return self._sum(rows)
        if self.array is None or most >= len(self.seconds):
            self.grow(most)
        return self.array[rows]


class Breakpoints(NamedTuple):
    """Contexts of one sequence at which the time of a decode step has corners.

    windows: there a layer stops to see more. chunks: at each multiple of one a layer forgets all and begins anew.
    """

    windows: tuple[int, ...]
    chunks: tuple[int, ...]


class Line(NamedTuple):
    """Seconds of a decode step of one batch size by the context of each sequence: straight between `contexts`.

    sums: the integral of it up to each of `contexts`.
    """

    contexts: list[float]
    seconds: list[float]
    sums: list[float]

    def at(self, context: float) -> float:
        """Seconds at a context; beyond the last one the last piece goes on."""
        i = min(max(bisect_right(self.contexts, context), 1), len(self.contexts) - 1)
        x, y = self.contexts, self.seconds
        return y[i - 1] + (context - x[i - 1]) * (y[i] - y[i - 1]) / (x[i] - x[i - 1])

    def _integral(self, context: float) -> float:
        i = min(max(bisect_right(self.contexts, context), 1), len(self.contexts) - 1)
        return self.sums[i - 1] + (context - self.contexts[i - 1]) * (self.seconds[i - 1] + self.at(context)) / 2

    def run(self, context: float, steps: int) -> float:
        """Seconds of `steps` steps, the first at `context`, each with one token more: exact on a straight piece."""
        return self._integral(context + steps - 0.5) - self._integral(context - 0.5)


class StepTime:
    """Seconds of an engine's step by what is in its batch. Make it with `StepTime.of(deployment)`.

    Agrees with `estimate(deployment, batch).time` to rounding; `line` to TOLERANCE.
    """

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.costs = Costs(deployment)
        grouped: dict[tuple[Rows, int], list[tuple[Kernel, int]]] = {}
        self._direct: list[tuple[Kernel, int]] = []
        for kernel, count in plan_of(deployment).kernels:
            which = rows_of(kernel)
            if which is None:
                self._direct.append((kernel, count))
            else:
                grouped.setdefault(which, []).append((kernel, count))
        self._tables = tuple((which, fixed, Table(found, self.costs)) for (which, fixed), found in grouped.items())
        self._lines: dict[int, Line] = {}

    @classmethod
    def of(cls, deployment: Deployment) -> StepTime:
        """Compile a deployment. Raises BadInput as `estimate` does."""
        return cls(deployment)

    @property
    def breakpoints(self) -> Breakpoints:
        """Corners of the time of a decode step in the context of a sequence."""
        sights = {kernel.sight for kernel, _ in self._direct if isinstance(kernel, AttentionKernel)}
        limits = {limit for sight in sights if not sight.chunked for limit in (sight.window, sight.top * sight.every)}
        chunks = {sight.window for sight in sights if sight.chunked}
        return Breakpoints(tuple(sorted(limits - {0})), tuple(sorted(chunks)))

    def step(self, batch: Batch) -> float:
        """Seconds of one step of any mix of chunks."""
        load = Load(batch)
        total: float = self.costs.adds(batch)
        launched = 0
        for which, fixed, table in self._tables:
            rows = load.rows(which, fixed)
            total += table[rows]
            launched += table.count if rows else 0
        for kernel, count in self._direct:
            operator = kernel.operator(load, count)
            if operator is not None:
                total += count * self.costs(operator).time
                launched += count
        launches = self.costs.launches
        return max(total, launches.seconds(launched)) if launches and launches.apart(batch) else total

    def mixed(self, decodes: int, context: int, prefills: Sequence[Chunk] = ()) -> float:
        """Seconds of a step of `decodes` sequences with `context` cached tokens in all, beside pieces of prompts.

        Layers with a window take the sequences as equally long; give `step` a chunk for each where they differ much.
        """
        chunks = list(prefills)
        if decodes:
            each, longer = divmod(context, decodes)
            if longer:
                chunks.append(Chunk(longer, 1, each + 1))
            chunks.append(Chunk(decodes - longer, 1, each))
        return self.step(Batch(tuple(chunks)))

    def decode(self, batch: Any, context: Any) -> Any:
        """Seconds of a decode step of `batch` sequences with `context` cached tokens each; numbers, or arrays."""
        if not hasattr(batch, "__len__") and not hasattr(context, "__len__"):
            return self.step(Batch((Chunk(batch, 1, context),)))
        import numpy as np

        count, past = np.broadcast_arrays(np.asarray(batch, dtype=np.int64), np.asarray(context, dtype=np.int64))
        shape, count, past = count.shape, count.ravel(), past.ravel()
        times = np.empty(count.shape)
        begin = past == 0
        if begin.any() and not begin.all():
            # what an encoder reads is read where a sequence begins, and only there
            times[begin], times[~begin] = (
                self.decode(count[begin], past[begin]),
                self.decode(count[~begin], past[~begin]),
            )
            return times.reshape(shape)
        # in blocks that stay in the processor's caches
        for first in range(0, len(count), BLOCK):
            block = slice(first, first + BLOCK)
            times[block] = self._many(count[block], past[block])
        return times.reshape(shape)

    def _many(self, count: Any, past: Any) -> Any:
        """Seconds of decode steps, arrays of whole numbers in."""
        batch = Batch((Chunk(count, 1, past),))
        load = Load(batch)
        total = 0.0 * count + self.costs.adds(batch)
        launched = 0
        for which, fixed, table in self._tables:
            rows = load.rows(which, fixed)
            total += table.many(rows) if hasattr(rows, "__len__") else table[rows]
            launched += table.count if hasattr(rows, "__len__") or rows else 0
        for kernel, times in self._direct:
            operator = kernel.operator(load, times)
            if operator is not None:
                total += times * self.costs(operator).time
                launched += times
        launches = self.costs.launches
        return larger(total, launches.seconds(launched) * launches.apart(batch)) if launches else total

    def line(self, batch: int) -> Line:
        """Decode of `batch` sequences as straight pieces in context, up to the longest the deployment serves."""
        if batch not in self._lines:
            self._lines[batch] = self._line(batch)
        return self._lines[batch]

    def _line(self, batch: int) -> Line:
        import numpy as np

        longest = max(self.deployment.max_length, 2)
        grid = np.unique(np.geomspace(1, longest, 600).round().astype(np.int64) - 1)
        corners = list(self.breakpoints.windows)
        for chunk in self.breakpoints.chunks:
            corners += range(chunk, min(longest, MOST_CHUNKS * chunk), chunk)
        near = [corner + beside for corner in corners for beside in (-1, 0) if corner + beside < longest]
        grid = np.unique(np.concatenate([grid, np.array([0, longest, *near], dtype=np.int64)]))
        times = self.decode(np.full(grid.shape, batch), grid)
        kept, first = [0], 0
        while first < len(grid) - 1:
            # the farthest point to which one piece holds; found by doubling and halving
            low, step = first + 1, 1
            while low + step < len(grid) and _straight(grid, times, first, low + step):
                low, step = low + step, 2 * step
            while step > 1:
                step //= 2
                if low + step < len(grid) and _straight(grid, times, first, low + step):
                    low += step
            kept.append(low)
            first = low
        x, y = grid[kept].astype(float), times[kept]
        sums = np.concatenate([[0.0], np.cumsum((x[1:] - x[:-1]) * (y[1:] + y[:-1]) / 2)])
        return Line(x.tolist(), y.tolist(), sums.tolist())


def _straight(x: Any, y: Any, first: int, last: int) -> bool:
    """Whether the straight line between two points is within TOLERANCE of all between them."""
    slope = (y[last] - y[first]) / (x[last] - x[first])
    inner = slice(first, last + 1)
    return bool((abs(y[first] + slope * (x[inner] - x[first]) - y[inner]) <= TOLERANCE * y[inner]).all())

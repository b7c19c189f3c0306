"""Measured matrix products and elementwise operators, as columns; numpy is loaded here and only here."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, NamedTuple

from narrows.hardware import Accelerator, accelerators
from narrows.step import Elementwise, Gemm, Operator

WEIGHT_BITS = {"bf16": 16.0, "fp8": 8.0, "fp4": 4.5}
"""As stored: the scales of fp4 are a byte per 16 weights; those of fp8 are one per column."""


class Table(NamedTuple):
    """Rows of one device, engine and precision: numpy columns m, n, k and seconds.

    excluded: how many rows were left out, since no device can have had them: faster than the peak, or than memory can
    bring what L2 cannot hold.
    """

    device: Accelerator
    engine: str
    precision: str
    test: bool
    m: Any
    n: Any
    k: Any
    seconds: Any
    excluded: int = 0
    kind: str = "gemm"

    def operator(self) -> Operator:
        """All rows as one operator whose shape holds columns."""
        if self.kind != "gemm":
            size = self.m * self.n * 2.0
            shape = Elementwise(self.m, self.n)
            reads = {"activation": 2 * size, "residual": 2 * size}.get(self.kind, size)
            return Operator(self.kind, shape, 1, self.precision, 0, reads=reads, writes=size)
        bits = WEIGHT_BITS[self.precision]
        shape_ = Gemm(self.m, self.k, self.n, 1, bits, 16 if bits == 16 else int(bits))
        return Operator("gemm", shape_, 1, self.precision, 0)

    def thinned(self, rows: int) -> Table:
        """At most about `rows` rows, evenly spaced."""
        step = max(1, -(-len(self.seconds) // rows))
        return self.picked(slice(step // 2, None, step))

    def picked(self, which: Any) -> Table:
        """The rows that an index or mask picks."""
        return self._replace(m=self.m[which], n=self.n[which], k=self.k[which], seconds=self.seconds[which])


def device_of(name: str) -> Accelerator:
    """The accelerator with this id."""
    return next(device for device in accelerators() if device.id == name)


def load(name: str) -> Any:
    """A bundled table of columns. Raises BadInput where numpy is not installed."""
    try:
        import numpy as np
    except ImportError:
        from narrows.text import BadInput

        raise BadInput("scoring operators needs numpy; install it with: pip install 'narrows[sweep]'") from None
    with np.load(os.path.join(os.path.dirname(__file__), "data", name)) as file:
        return {key: file[key] for key in file}


@cache
def gemm_tables() -> tuple[Table, ...]:
    """Matrix products of one library call each (aiconfigurator), by device, engine and precision."""
    data = load("operators-gemm.npz")
    found = []
    group = (data["device"] * 8 + data["engine"]) * 8 + data["precision"]
    for one in sorted(set(group.tolist())):
        rows = group == one
        first = rows.argmax()
        found.append(
            _physical(
                Table(
                    device_of(str(data["device_names"][data["device"][first]])),
                    str(data["engine_names"][data["engine"][first]]),
                    str(data["precision_names"][data["precision"][first]]),
                    str(data["split_names"][data["split"][first]]) == "test",
                    data["m"][rows].astype(float),
                    data["n"][rows].astype(float),
                    data["k"][rows].astype(float),
                    data["seconds"][rows].astype(float),
                )
            )
        )
    return tuple(found)


@cache
def layer_tables() -> tuple[Table, ...]:
    """Operators of whole layers (Vidur), by device and kind."""
    data = load("operators-layers.npz")
    found = []
    for number, device in enumerate(data["device_names"].tolist()):
        for which, kind in enumerate(data["kind_names"].tolist()):
            rows = (data["device"] == number) & (data["kind"] == which)
            m, n, k, seconds = (data[name][rows].astype(float) for name in ("m", "n", "k", "seconds"))
            table = Table(device_of(device), "vidur", "bf16", False, m, n, k, seconds, kind=kind)
            found.append(_physical(table) if kind == "gemm" else table)
    return tuple(found)


def _physical(table: Table) -> Table:
    """Without the rows that no device can have had."""
    bits = WEIGHT_BITS[table.precision]
    computing = 2 * table.m * table.n * table.k / table.device.peak(table.precision)
    moved = table.n * table.k * bits / 8 + table.m * table.n * 2 + table.m * table.k * bits / 8
    moving = (moved - (table.device.l2_bytes or 0)) / table.device.memory_bandwidth
    possible = (table.seconds >= computing) & (table.seconds >= moving)
    return table.picked(possible)._replace(excluded=int((~possible).sum()))

"""How long a matrix product takes: launch, tiles over the multiprocessors, and traffic to memory.

    t = t0 + quantizing + (tc^p + tm^p)^(1/p)

tc: the product is cut into tiles, one a multiprocessor at a time; a tile's time per unit of k is the larger of its
arithmetic at the share of peak reached and of what it must fetch through L2. Tiles that do not fill the device cost a
wave all the same, unless the sum over k is split. The library's choice is the fastest tile, or one set by the rows.
tm: bytes ÷ the share of bandwidth reached. Small transfers never reach it: t0 is their latency, which is Little's law
(bytes in flight = latency × bandwidth). Quantizing activations is a kernel of its own, one thread block a row, and is
part of the product's time, unless the kernel before writes them quantized (`Gemm.ready`). Latencies are cycles, so laws
state them at one clock.

Weights of fewer bits than the arithmetic (int4 with bf16) are read as stored and multiplied at full speed: assumed,
for no rows say otherwise; `spread` widens the interval.

Plain arithmetic, so that numpy arrays may stand in the shape's fields; numpy itself is not imported.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from narrows.calibration.laws import Law
from narrows.hardware import Accelerator
from narrows.roofline.arithmetic import ceiling, joined
from narrows.roofline.timed import Parts
from narrows.step import Gemm, Operator

NEVER = float("inf")


class Tile(NamedTuple):
    """Rows of the activations and columns of the weights that one multiprocessor computes at a time.

    above: rows of the whole product from beyond which libraries with a fixed choice take it; NEVER: they do not.
    """

    rows: int
    columns: int
    above: float


TILES = (Tile(16, 64, 0), Tile(64, 64, 16), Tile(64, 128, 64), Tile(128, 128, 256), Tile(128, 256, NEVER))
REFERENCE_CLOCK = 2e9
"""Hz that the latencies of a law are stated for."""
OUTPUT_BYTES = 2
"""Products are written in 16 bits, whatever they are computed in."""
QUANTIZING_BYTES = 3
"""Of an activation that is quantized: read in 16 bits, written in 8."""
VECTOR_ROWS = 8
"""Rows up to which engines for one user multiply a matrix by vectors: llama.cpp's `MMVQ_MAX_BATCH_SIZE` (mmvq.cuh)."""
UNPACKED_SPREAD = 1.25
"""How much wider the interval is taken where weights are unpacked on the way (assumed)."""


def gemm_time(operator: Operator, device: Accelerator, law: Law, cold: bool = True, by_vectors: bool = False) -> Parts:
    """Seconds of one matrix product `[m, k] × [k, n]` (`operator.shape`, a Gemm) on a device.

    law: of `gemm`, found with `device_keys`. cold: the weights come from device memory, as in a step, where every
    layer has its own; benchmarks multiply by the same weights again and again, and find them in L2 where they fit
    (cold=False). by_vectors: the engine has kernels for up to VECTOR_ROWS rows that fill no tiles; the law may have
    what its own kernels reach with more (see `narrows.roofline.ggml`). Fields of the shape may be numpy arrays of one
    shape; so are then the parts.
    Raises BadInput where the device states no peak for the precision; TypeError where the shape is not a Gemm.
    """
    shape = operator.shape
    if not isinstance(shape, Gemm):
        raise TypeError(f"{operator.name} is no matrix product")
    value = law.values
    slower = REFERENCE_CLOCK / (clock(device) or REFERENCE_CLOCK)
    compute = _arithmetic(shape, device, device.peak(operator.precision), slower, value)
    if by_vectors:
        # whatever the tiles: each weight is multiplied as often as there are rows
        alone = operator.flops / (value["peak"] * device.peak(operator.precision))
        if "unpacked" in value:
            # of many rows, each tile of weights is unpacked first, which takes as long as `unpacked` rows more
            filled = 2.0 * (shape.m + value["unpacked"]) * shape.k * shape.n * shape.copies
            compute = filled / (value["share"] * device.peak(operator.precision))
        compute = compute + (shape.m <= VECTOR_ROWS) * (alone - compute)
    memory = _traffic(shape, device, value, cold)
    overhead = value["t0"] * slower
    time = overhead + joined(value["sharpness"], compute, memory)
    if shape.activation_bits < 16 and not shape.ready:
        blocks, moved = _quantizing(shape, device, slower, value)
        waiting = (blocks**2 + moved**2) ** 0.5 - moved
        time, memory, overhead = time + waiting + moved, memory + moved, overhead + waiting
    return Parts(time, compute, memory, overhead)


def spread(operator: Operator, law: Law) -> tuple[float, float]:
    """Multiples of the time between which 80 % of such products lie: the law's, wider where it is stretched."""
    shape = operator.shape
    if isinstance(shape, Gemm) and shape.weight_bits < shape.activation_bits:
        return law.low / UNPACKED_SPREAD, law.high * UNPACKED_SPREAD
    return law.low, law.high


def clock(device: Accelerator) -> float | None:
    """Hz that an NVIDIA device's fp32 peak is stated for: 2 FLOPs a lane, 64 or 128 lanes a multiprocessor.

    None for others, and where no such peak is known. Latencies are cycles, so they are shorter where it is high.
    """
    if device.vendor != "nvidia" or device.is_cpu or not device.fp32 or not device.sm_count:
        return None
    lanes = 64 if device.compute_capability in ("7.0", "7.5", "8.0") else 128
    return device.fp32 / (2 * lanes * device.sm_count)


def _arithmetic(shape: Gemm, device: Accelerator, peak: float, slower: float, value: dict[str, float]) -> Any:
    """Seconds of the arithmetic alone. A board that is short of power reaches so many FLOPs per joule at most."""
    peak = value["peak"] * peak
    if device.tdp_watts and value.get("flops_per_joule"):
        peak = min(peak, value["flops_per_joule"] * device.tdp_watts)
    if device.sm_count is None or device.is_cpu:
        return 2.0 * shape.m * shape.k * shape.n * shape.copies / peak
    units = device.sm_count
    by_rows = bool(value.get("tiles_by_rows"))
    tiles = [tile for tile in TILES if not by_rows or tile.above < NEVER]
    if by_rows and isinstance(shape.m, int):
        tiles = [tile for tile in tiles if shape.m > tile.above][-1:]
    best = _tiled(shape, tiles[0], peak / units, units, slower, value)
    for tile in tiles[1:]:
        time = _tiled(shape, tile, peak / units, units, slower, value)
        best = best + (shape.m > tile.above) * (time - best) if by_rows else least(best, time)
    return best


def _tiled(shape: Gemm, tile: Tile, peak: float, units: int, slower: float, value: dict[str, float]) -> Any:
    """Seconds of the arithmetic with this tile. peak: FLOP/s that one of `units` multiprocessors reaches."""
    fetch = value["sm_bandwidth"] / slower
    wave = value["wave"] * slower
    used = least(shape.m, tile.rows)
    fetched = (used * shape.activation_bits + tile.columns * shape.weight_bits) / 8 / fetch
    step = most(2.0 * tile.rows * tile.columns / peak + value["step"] * slower, fetched)
    fill = shape.copies * ceiling(shape.m / tile.rows) * ceiling(shape.n / tile.columns) / units
    whole = value["whole_waves"]
    waves = whole * ceiling(fill) + (1 - whole) * most(fill, 1.0)
    time = waves * (shape.k * step + wave)
    if value.get("splits", 1.0) <= 1:
        return time
    pieces = least(most(1 / fill, 1.0), value["splits"])
    summed = value["split"] * slower + shape.copies * shape.m * shape.n * 4.0 * pieces / (fetch * units)
    split = shape.k / pieces * step + wave + summed
    return least(time, split + (fill > 1) * time)


def _traffic(shape: Gemm, device: Accelerator, value: dict[str, float], cold: bool) -> Any:
    """Seconds of the traffic to memory: weights, activations in and out."""
    weights = shape.copies * shape.k * shape.n * shape.weight_bits / 8
    rest = shape.copies * shape.m * (shape.k * shape.activation_bits / 8 + shape.n * OUTPUT_BYTES)
    if not cold:
        weights = weights * _share_moved(weights, "resident_weights", device, value)
    rest = rest * _share_moved(rest, "resident", device, value)
    return (weights + rest) / (value["bandwidth"] * device.memory_bandwidth)


def _quantizing(shape: Gemm, device: Accelerator, slower: float, value: dict[str, float]) -> tuple[Any, Any]:
    """Seconds of quantizing the activations: its thread blocks, one a row, and its traffic; the slower decides."""
    row = value.get("row", 0.0) + shape.k * value.get("element", 0.0)
    # of a device whose multiprocessors nobody counted, many rows are taken to keep up with memory
    blocks = shape.copies * shape.m * row * slower / device.sm_count if device.sm_count else 0.0 * shape.m
    size = QUANTIZING_BYTES * shape.copies * shape.m * shape.k
    moved = size * _share_moved(size, "resident", device, value)
    return blocks, moved / (value["bandwidth"] * device.memory_bandwidth)


def _share_moved(size: Any, name: str, device: Accelerator, value: dict[str, float]) -> Any:
    """Share of a transfer's time that is left where L2 holds it: all of it, or 1 ÷ how much faster L2 is."""
    held = value.get(name, 0.0) * (device.l2_bytes or 0)
    return 1 - (size < held) * (1 - 1 / value.get("resident_speed", 1.0))


def most(a: Any, b: Any) -> Any:
    """The larger, element by element where arrays are given."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a if a > b else b
    import numpy as np  # whoever gives arrays has it

    return np.maximum(a, b)


def least(a: Any, b: Any) -> Any:
    """The smaller, element by element where arrays are given."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a if a < b else b
    import numpy as np

    return np.minimum(a, b)

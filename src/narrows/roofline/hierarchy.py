"""One operator through the memory hierarchy: device memory, L2, on-chip memory, arithmetic.

The traffic of a matrix product in tiles is that of the classical blocked product: at a level whose tile of the output
is a × b, every row of the left and every column of the right factor is read once per tile that needs it,
m·k·⌈n/b⌉ + k·n·⌈m/a⌉ elements; the output is written once. What goes to or from device memory passes the levels
within, so that these never move less. (Williams, Waterman, Patterson 2009 draw one roof; Ilic, Pratas, Sousa 2014 one
per level, which is what is computed here.)
"""

from __future__ import annotations

from typing import Literal

import msgspec

from narrows.hardware import Accelerator
from narrows.quantity import Kind
from narrows.step import AttentionShape, Experts, Gemm, Operator
from narrows.text import Text

BLOCK = (128, 256)
"""Assumed tile of the output that a multiprocessor keeps: its fp32 sums fill 128 KiB, half of the 256 KiB of
registers that NVIDIA's multiprocessors have since Kepler (CUDA programming guide, table of compute capabilities)."""
WARP = (64, 64)
"""Assumed tile of the output that a warp keeps; on-chip memory is read once per such tile."""
QUERIES = 128
"""Queries of a tile of fused attention (FlashAttention-2 and -3 take 64 to 128)."""
_BANKS = 128
"""Bytes per clock of a multiprocessor's shared memory: 32 banks × 4 B (CUDA programming guide, all since 5.0)."""
_L2 = 32
"""Assumed bytes per clock and multiprocessor of L2: between V100's 2,048 B ÷ 80 and A100's 5,120 B ÷ 108 (A100
whitepaper)."""
_LANES = {"7": 64, "8.0": 64}
"""fp32 lanes of a multiprocessor by compute capability; 128 in all others since 8.6 (CUDA programming guide)."""


class Level(msgspec.Struct, frozen=True):
    """Traffic of one operator at one level: bytes that cross it, bandwidth (bytes/s) and least time (s).

    arithmetic: bytes 0, its time that of the FLOPs. intensity: FLOPs per byte of this level. needed: bandwidth from
    which the level takes no longer than the slowest of device memory and arithmetic. None: no figure of the device is
    known, or the question does not arise. kind: how the bandwidth is known. text: how the bytes were counted.
    """

    name: Literal["device memory", "L2", "on-chip", "arithmetic"]
    bytes: int
    bandwidth: float | None
    time: float | None
    intensity: float | None
    needed: float | None
    kind: Kind
    text: Text


def clock(device: Accelerator) -> float | None:
    """Clock (Hz) at which the stated fp32 peak holds: peak ÷ (2 × lanes × multiprocessors); None if unknown."""
    if device.vendor != "nvidia" or device.fp32 is None or device.sm_count is None:
        return None
    capability = device.compute_capability or ""
    lanes = _LANES.get(capability, _LANES.get(capability.split(".")[0], 128))
    return device.fp32 / (2 * lanes * device.sm_count)


def levels(operator: Operator, device: Accelerator) -> tuple[Level, ...]:
    """The levels from device memory to arithmetic; those between only for matrix products and attention."""
    compute = operator.flops / device.peak(operator.precision) if operator.flops else 0.0
    memory = operator.bytes / device.memory_bandwidth
    outer = Level(
        "device memory",
        operator.bytes,
        device.memory_bandwidth,
        memory,
        operator.intensity,
        None,
        "cited",
        Text("inputs and outputs once each"),
    )
    slowest = max(compute, memory)
    inner: list[Level] = []
    found = _traffic(operator)
    if found is not None:
        ticks = clock(device)
        for name, (read, text), wide in zip(("L2", "on-chip"), found, (_L2, _BANKS), strict=True):
            size = max(read + operator.writes, operator.bytes)
            bandwidth = ticks * wide * (device.sm_count or 0) if ticks is not None else None
            inner.append(
                Level(
                    name,  # type: ignore[arg-type]
                    size,
                    bandwidth,
                    size / bandwidth if bandwidth else None,
                    operator.flops / size if size else None,
                    size / slowest if slowest else None,
                    "assumed",
                    text,
                )
            )
    if not operator.flops:
        return (outer, *inner)
    reached = Level(
        "arithmetic",
        0,
        None,
        compute,
        None,
        None,
        "cited",
        Text("{precision} peak of the device", precision=operator.precision),
    )
    return (outer, *inner, reached)


def _traffic(operator: Operator) -> tuple[tuple[int, Text], tuple[int, Text]] | None:
    """Bytes read through L2 and on-chip memory, and how they were counted; None where there is no reuse to show."""
    shape = operator.shape
    if isinstance(shape, Gemm):
        sizes = [(shape.m, shape.k, shape.n, shape.copies)]
    elif isinstance(shape, Experts):
        rows = -(-shape.tokens * shape.top_k * shape.experts // (shape.all_experts * max(1, round(shape.touched))))
        wide = (shape.matrices - 1) * shape.intermediate
        used = max(1, round(shape.touched))
        sizes = [(rows, shape.hidden, wide, used), (rows, shape.intermediate, shape.hidden, used)]
    elif isinstance(shape, AttentionShape):
        return _attention(shape)
    else:
        return None
    found = []
    for (high, wide), name in ((BLOCK, Text("multiprocessor")), (WARP, Text("warp"))):
        bits = sum(
            copies * _blocked(m, k, n, high, wide, shape.activation_bits, shape.weight_bits)
            for m, k, n, copies in sizes
        )
        text = Text(
            "m·k·⌈n/{wide}⌉ + k·n·⌈m/{high}⌉, and outputs once: a {unit} keeps {high} × {wide} of these",
            wide=wide,
            high=high,
            unit=name,
        )
        found.append((int(bits / 8), text))
    return found[0], found[1]


def _blocked(m: int, k: int, n: int, high: int, wide: int, left_bits: float, right_bits: float) -> float:
    """Bits read for the tiles of one product; a dimension shorter than its tile is read once."""
    return m * k * -(-n // wide) * left_bits + k * n * -(-m // high) * right_bits


def _attention(shape: AttentionShape) -> tuple[tuple[int, Text], tuple[int, Text]]:
    """Fused attention: every tile of queries passes over the keys and values in its sight; scores stay in registers.

    Queries of the heads that share a KV head stand in one tile (GQA packing).
    """
    group = max(1, shape.heads // shape.kv_heads)
    tile = max(1, QUERIES // group)
    per_sequence = max(1, shape.queries // max(1, shape.sequences))
    height = min(tile, per_sequence)
    widths = (shape.key_dim if shape.latent else shape.key_dim + shape.value_dim) * shape.kv_bits
    passes = shape.pairs / height
    once = int(passes * shape.kv_heads * widths / 8)
    through = Text("keys and values once per tile of {queries} queries", queries=height * group)
    return (once, through), (once, Text("the same tiles; scores stay in registers"))

"""How long attention takes, with its scores kept on chip: FlashAttention, FlashInfer and what is like them.

Decode reads each cached key and value once:

    t = launch + (ts^p + tm^p)^(1/p) + drain

tm: bytes ÷ the share of bandwidth reached. ts: a thread block goes through the keys of one KV head of one sequence, or
of a piece of it where the kernel splits long contexts; `units · slots` blocks run at a time. So a few long sequences
take as long as one block needs, whatever the bandwidth. Query heads that share a KV head are computed together in
tiles of `tile`. drain: what filling and emptying a busy device costs, and putting the pieces together.

Prefill computes each pair of query and key:

    t = launch + (tc^p + tm^p)^(1/p)

tc: FLOPs ÷ the share of peak reached; tiles on the diagonal are computed whole, a wave that does not fill the device
takes as long as a full one.

Absorbed MLA (`latent`) was not measured: it goes by the law of many heads on one KV head, its wider heads in
proportion; so do heads of other widths than 128. Plain arithmetic, so that numpy arrays may stand in the shape's
fields; numpy itself is not imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from narrows.calibration.laws import Law, law
from narrows.hardware import Accelerator
from narrows.roofline.arithmetic import ceiling, joined, larger, resident_share
from narrows.roofline.timed import Parts
from narrows.step import AttentionShape, Operator

QUERY_TILE = 128
"""Queries that a thread block of a prefill kernel takes at a time."""
MEASURED_WIDTH = 256
"""Elements of a key and a value together in what the laws were fitted on: heads of 128."""
ACTIVATION_BYTES = 2
"""Queries and outputs are 16 bits wide, whatever the cache is."""
LARGE_CACHE, LONG_PROMPT = 64e6, 1024
"""Bytes of cache that a decode reads, new tokens of a prompt: below, launches decide more than attention does."""
SMALL = "small"
"""Before `.low` and `.high` of what is below, among the values of a law."""
LATENT_SPREAD = (0.5, 2.0)
"""Multiples of the predicted time: what is said of a kernel by the law of another one."""


def attention_law(operator: Operator, devices: Sequence[str], engine: str = "") -> Law:
    """The law of an attention operator, by its phase, sharing of KV heads and precision of the cache.

    devices: `device_keys` of the device. engine: its name; the open kernels' law where it has none of its own. That of
    absorbed MLA is assumed (n = 0), with an interval no narrower than `LATENT_SPREAD`.
    Raises TypeError where the shape is not attention's.
    """
    shape = _shape(operator)
    cache = "fp8" if shape.kv_bits <= 8 else "bf16"
    found = law("attention", kind_of(shape, operator.precision), devices, cache, engine)
    if not shape.latent:
        return found
    low, high = LATENT_SPREAD
    basis = f"assumed: many heads on one KV head stand for absorbed MLA; {found.basis}"
    return msgspec.structs.replace(found, low=min(low, found.low), high=max(high, found.high), n=0, basis=basis)


def spread(operator: Operator, law: Law) -> tuple[float, float]:
    """Multiples of the time between which 80 % lie: of small attention those that the law has for it.

    Of arrays of shapes, those of large ones.
    """
    shape = _shape(operator)
    if f"{SMALL}.low" not in law.values or hasattr(shape.keys, "__len__"):
        return law.low, law.high
    few = shape.queries / shape.sequences < LONG_PROMPT if shape.phase == "prefill" else _read(shape) < LARGE_CACHE
    if not few:
        return law.low, law.high
    low, high = law.values[f"{SMALL}.low"], law.values[f"{SMALL}.high"]
    return (min(low, law.low), max(high, law.high)) if shape.latent else (low, high)


def _read(shape: AttentionShape) -> Any:
    return shape.keys * shape.kv_heads * (shape.key_dim + shape.value_dim) * shape.kv_bits / 8


def kind_of(shape: AttentionShape, precision: str) -> str:
    """Which law: `prefill`, `prefill.fp8` (multiplied in fp8), `decode.shared` (several query heads on one KV head),
    `decode.own` (one each).
    """
    if shape.phase == "prefill":
        return "prefill.fp8" if precision == "fp8" else "prefill"
    return "decode.own" if shape.heads == shape.kv_heads and not shape.latent else "decode.shared"


def attention_time(operator: Operator, device: Accelerator, law: Law, cold: bool = True) -> Parts:
    """Seconds of the attention of one layer (`operator.shape`, an AttentionShape) on a device.

    law: of `attention_law`. cold: a decode's cache comes from device memory, as in a step, where every layer has its
    own; benchmarks read the same cache again and again, and find it in L2 where it fits (cold=False). Fields of the
    shape that count tokens or sequences may be numpy arrays; so are then the parts.
    Raises BadInput where the device states no peak for the precision; TypeError where the shape is not attention's.
    """
    shape, peak = _shape(operator), device.peak(operator.precision)
    if shape.phase == "prefill":
        return _prefill(shape, device, peak, law.values)
    return _decode(shape, device, peak, law.values, cold)


def _shape(operator: Operator) -> AttentionShape:
    if not isinstance(operator.shape, AttentionShape):
        raise TypeError(f"{operator.name} is no attention")
    return operator.shape


def _cache_bytes(shape: AttentionShape) -> Any:
    """Keys and values that are read; one latent is both."""
    width = shape.key_dim if shape.latent else shape.key_dim + shape.value_dim
    return shape.keys * shape.kv_heads * width * (shape.kv_bits / 8)


def _query_bytes(shape: AttentionShape) -> Any:
    """Queries read and outputs written."""
    return shape.queries * shape.heads * (shape.key_dim + shape.value_dim) * ACTIVATION_BYTES


def _traffic(size: Any, device: Accelerator, value: dict[str, float], cold: bool) -> Any:
    """Seconds of so many bytes, from device memory or, where L2 still holds them, from there."""
    seconds = size / (value["bandwidth"] * device.memory_bandwidth)
    if cold or not device.l2_bytes or not device.sm_count:
        return seconds
    held = resident_share(size, value["resident"] * device.l2_bytes, value["resident_sharpness"])
    return seconds * (1 - held) + held * size / (value["resident_rate"] * device.sm_count)


def _decode(shape: AttentionShape, device: Accelerator, peak: float, value: dict[str, float], cold: bool) -> Parts:
    size = _cache_bytes(shape) + _query_bytes(shape) * value["query_traffic"]
    memory = _traffic(size, device, value, cold)
    width = (shape.key_dim + shape.value_dim) / MEASURED_WIDTH
    arithmetic = 2.0 * shape.pairs * shape.heads * (shape.key_dim + shape.value_dim) / (peak * value["peak"])
    steps, alone = arithmetic, 0.0
    if device.sm_count and not device.is_cpu:
        group = shape.heads / shape.kv_heads
        tiles = ceiling(group * (shape.queries / shape.sequences) / value["tile"])
        tiles = tiles + (group > value["widest_group"]) * (group * value["unshared"] - tiles)
        keys = shape.keys / shape.sequences
        one = (value["step"] * keys * width + value["start"]) * (1 + value["next_tile"] * (tiles - 1))
        waves = shape.sequences * shape.kv_heads / (device.sm_count * value["slots"])
        piece = 1 / (1 + keys / value["piece"])
        steps = larger(arithmetic, one * waves)
        alone = one * (waves**4 + piece**4) ** 0.25
    busy = joined(value["sharpness"], larger(steps, alone), memory)
    traffic = size / device.memory_bandwidth
    drain = value["drain"] * traffic / (traffic + value["drain_from"])
    time = value["launch"] + busy + drain
    return Parts(time, steps, memory, time - joined(value["sharpness"], steps, memory))


def _prefill(shape: AttentionShape, device: Accelerator, peak: float, value: dict[str, float]) -> Parts:
    new = shape.queries / shape.sequences
    pairs = shape.pairs + shape.queries * value["diagonal"] / 2 + shape.sequences * value["least"] ** 2
    compute = 2.0 * pairs * shape.heads * (shape.key_dim + shape.value_dim) / (peak * value["peak"])
    if device.sm_count and not device.is_cpu:
        blocks = shape.sequences * shape.heads * ceiling(new / QUERY_TILE)
        compute = compute * (1 + value["wave"] * device.sm_count / blocks)
    size = _cache_bytes(shape) + _query_bytes(shape)
    memory = size / (value["bandwidth"] * device.memory_bandwidth)
    return Parts(value["launch"] + joined(value["sharpness"], compute, memory), compute, memory, value["launch"])

"""Matrix products: the peak over square shapes, and the whole curve over rows that decode follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from narrows.measure.library import Library
from narrows.measure.timing import Pace, Sample, sample
from narrows.quantity import Quantity

SQUARES = (256, 512, 1024, 2048, 4096, 8192)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
WEIGHTS = ((1024, 1024), (4096, 4096), (256, 256))
"""(k, n) of the weights that the curve over rows is measured on: of a small model, of one of 7 B parameters, and of the
keys of few heads; the most important first."""

BYTES = {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}


class Product(msgspec.Struct, frozen=True):
    """[m, k] × [k, n] of one library at one precision: seconds; FLOP/s; bytes/s of its weights."""

    library: str
    precision: str
    m: int
    k: int
    n: int
    time: Quantity
    flops: Quantity
    weight_bandwidth: Quantity


def product(library: Library, precision: str, m: int, k: int, n: int, taken: Sample) -> Product:
    """A measured product."""
    weights = k * n * BYTES[precision]
    return Product(
        library.name,
        precision,
        m,
        k,
        n,
        taken.seconds,
        taken.rate(2 * m * k * n, "FLOP/s"),
        taken.rate(weights, "B/s"),
    )


Told = Callable[[Product], None]


def squares(
    libraries: Sequence[Library], pace: Pace, memory: int, told: Callable[[float], None] = lambda share: None
) -> list[Product]:
    """Square products of growing size, until they take too long (each size 8 times the last) or too much memory."""
    wanted = [(library, precision) for library in libraries for precision in library.precisions]
    found: list[Product] = []
    for index, (library, precision) in enumerate(wanted):
        stage = pace.part(pace.left / (len(wanted) - index))
        last = 0.0
        for size in SQUARES:
            if 3 * size * size * 4 > memory or 8 * last * 4 > stage.left:
                break
            taken = _taken(library, size, size, size, precision, stage, budget=0.25)
            if taken is None:
                break
            found.append(product(library, precision, size, size, size, taken))
            last = taken.median
        told((index + 1) / len(wanted))
    return found


def rows(
    library: Library,
    precisions: Sequence[str],
    pace: Pace,
    memory: int,
    cache: int,
    told: Callable[[float], None] = lambda share: None,
) -> list[Product]:
    """Products of few to many rows with weights that are not in a cache: `memory`, `cache` in bytes.

    The weights are taken in turn, so many that together they are twice the size of the last cache.
    """
    wanted = [(precision, shape) for shape in WEIGHTS for precision in precisions]
    found: list[Product] = []
    for index, (precision, (k, n)) in enumerate(wanted):
        stage = pace.part(pace.left / (len(wanted) - index))
        size = k * n * BYTES[precision]
        copies = copies_of(size, cache, memory)
        last = (0, 0.0)
        for m in ROWS:
            # a product with twice the rows takes twice as long at most, once the weights are not all of it
            expected = last[1] * m / last[0] if last[0] >= 16 else last[1]
            if size * (copies + 1) > memory or 4 * expected > stage.left:
                break
            taken = _taken(library, m, k, n, precision, stage, budget=0.12, copies=copies)
            if taken is None:
                break
            found.append(product(library, precision, m, k, n, taken))
            last = (m, taken.median)
        told((index + 1) / len(wanted))
    return found


def copies_of(size: int, cache: int, memory: int) -> int:
    """How many weights of `size` bytes are taken in turn, so that together they are twice what the last cache holds."""
    return max(1, min(-(-2 * cache // size), memory // size - 1, 512))


def _taken(
    library: Library, m: int, k: int, n: int, precision: str, pace: Pace, budget: float, copies: int = 1
) -> Sample | None:
    """The time of one product; None where the library cannot do it."""
    try:
        run = library.linear(m, k, n, precision, copies)
        return sample(run, settle=library.settle, clock=pace.clock, budget=budget)
    except (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError):
        return None  # torch raises any of these for a format that a device, a shape or a build of it does not know


def peaks(products: Sequence[Product]) -> dict[str, Product]:
    """The fastest product of each precision."""
    best: dict[str, Product] = {}
    for one in products:
        if one.precision not in best or one.flops.value > best[one.precision].flops.value:
            best[one.precision] = one
    return best

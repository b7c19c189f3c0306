"""Turning points: where along batch, context or prompt the verdict changes, found on the estimate itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from narrows.text import Text

Turn = Literal["decode_compute", "decode_kv_batch", "decode_kv_context", "prefill_compute"]


class TurningPoint(msgspec.Struct, frozen=True):
    """The first value of `parameter` from which something else decides; None: it never does, up to the last looked at.

    decode_compute: batch from which the linear layers of decode are compute-bound. decode_kv_batch,
    decode_kv_context: from where KV traffic exceeds weight traffic. prefill_compute: prompt from which prefill is
    compute-bound. by_peaks: the same by peak and bandwidth alone, without efficiencies. fits: whether memory holds
    that much; None where the question does not arise.
    """

    name: Turn
    parameter: Literal["batch", "context", "prompt"]
    value: int | None
    text: Text
    by_peaks: int | None = None
    fits: bool | None = None


def first(holds: Callable[[int], bool], most: int) -> int | None:
    """The smallest whole number from 1 to `most` from which `holds`, which is taken to stay true; None if none does.

    By doubling, then halving: 2·log2 of the answer trials.
    """
    high = 1
    while not holds(high):
        if high >= most:
            return None
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high

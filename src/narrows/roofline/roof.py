"""The roofline: what bounds an operator on a device, and what to do about it.

Williams, Waterman, Patterson (2009): attainable FLOP/s = min(peak, bandwidth × intensity); they meet at the ridge.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from narrows.hardware import Accelerator
from narrows.step.textbook import Work
from narrows.text import Text

Bound = Literal["compute", "memory bandwidth"]


class Roof(msgspec.Struct, frozen=True):
    """The roof of one device at one precision: dense peak FLOP/s and memory bandwidth in bytes/s."""

    peak: float
    bandwidth: float

    @property
    def ridge(self) -> float:
        """Intensity (FLOP/B) from which the peak can be reached."""
        return self.peak / self.bandwidth

    def attainable(self, intensity: float) -> float:
        """FLOP/s at most, for work of this intensity (FLOP/B)."""
        return min(self.peak, self.bandwidth * intensity)

    def bound(self, intensity: float) -> Bound:
        """What limits work of this intensity."""
        return "compute" if intensity >= self.ridge else "memory bandwidth"

    def time(self, operator: Work) -> float:
        """Seconds at least: the slower of computing and moving."""
        return max(operator.flops / self.peak, operator.bytes / self.bandwidth)


def roof(accelerator: Accelerator, precision: str = "bf16") -> Roof:
    """The roof of an accelerator. Raises BadInput where it has no such peak."""
    return Roof(accelerator.peak(precision), accelerator.memory_bandwidth)


def turning_batch(hidden: int, ridge: float) -> int | None:
    """Smallest B from which [B, h] × [h, h] is compute-bound; None if no batch is.

    Bh/(2B + h) ≥ ridge, hence B ≥ ridge·h/(h − 2·ridge). The intensity of that product never exceeds h/2.
    """
    if hidden <= 2 * ridge:
        return None
    return -int(-ridge * hidden // (hidden - 2 * ridge))


PRESCRIPTIONS: dict[str, tuple[Text, ...]] = {
    "compute": (
        Text("do fewer FLOPs: reuse prefixes (prefix caching), prompt less, prune, route to fewer experts"),
        Text("do cheaper FLOPs: FP8 or FP4 matmuls where the device has a higher peak for them"),
        Text("use more compute units: tensor parallelism, or a device with a higher peak"),
    ),
    "memory bandwidth": (
        Text("move fewer bytes: quantize weights, quantize the KV cache, use GQA, MLA or windows"),
        Text("use each byte more often: batch more sequences, speculate several tokens per pass"),
        Text("use more bandwidth: tensor parallelism, or a device with faster memory"),
    ),
    "capacity": (
        Text("keep fewer bytes: quantize weights or KV, shorten max_model_len, lower max_num_seqs"),
        Text("spread the bytes: tensor or pipeline parallelism, or a device with more memory"),
    ),
}
"""Verdict → what to do: compute-bound work wants fewer or cheaper FLOPs, memory-bound work fewer bytes."""

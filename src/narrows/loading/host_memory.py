"""What it would cost to keep the weights in host memory: to move them for every request, or only when woken."""

from __future__ import annotations

import msgspec

from narrows.loading.path import link_rate
from narrows.loading.rates import Rate, Rates, known_rate


class HostMemory(msgspec.Struct, frozen=True):
    """Seconds to move one rank's weights over its link: for a pass, per layer; beside a pass from device memory.

    A pass reads all weights once: a prompt, or every token of an answer at batch 1. wake: seconds until a server that
    sleeps with its weights in host memory serves again.
    """

    rate: Rate
    bytes: int
    seconds: float
    per_layer: float
    device_pass: float
    wake: Rate

    @property
    def slowdown(self) -> float:
        """How many times longer a pass takes."""
        return self.seconds / self.device_pass


def from_host_memory(
    resident: int, layers: int, link: float, device_bandwidth: float, rates: Rates, generation: int | None = None
) -> HostMemory:
    """A pass over `resident` bytes that cross a link with `link` bytes/s on paper, from pinned memory."""
    rate = link_rate(link, True, rates, generation)
    seconds = resident / rate.value
    woken = known_rate(rates, "wake")
    wake = Rate(
        woken.value + seconds,
        woken.low + resident / rate.high,
        woken.high + resident / rate.low,
        woken.n,
        woken.source,
    )
    return HostMemory(rate, resident, seconds, seconds / layers, resident / device_bandwidth, wake)

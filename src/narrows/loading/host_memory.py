"""What it would cost to keep the weights in host memory: to move them for every request, or only when woken."""

from __future__ import annotations

import msgspec

from narrows.loading.path import link_rate
from narrows.loading.rates import Rate, Rates


class HostMemory(msgspec.Struct, frozen=True):
    """Seconds to move one rank's weights over its link: for a pass, per layer; beside a pass from device memory.

    A pass reads all weights once: a prompt, or every token of an answer at batch 1.
    """

    rate: Rate
    bytes: int
    seconds: float
    per_layer: float
    device_pass: float

    @property
    def slowdown(self) -> float:
        """How many times longer a pass takes."""
        return self.seconds / self.device_pass


def from_host_memory(resident: int, layers: int, link: float, device_bandwidth: float, rates: Rates) -> HostMemory:
    """A pass over `resident` bytes that cross a link with `link` bytes/s on paper, from pinned memory."""
    rate = link_rate(link, True, rates)
    seconds = resident / rate.value
    return HostMemory(rate, resident, seconds, seconds / layers, resident / device_bandwidth)

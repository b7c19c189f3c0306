"""What an engine needs beside weights and cache, as a value."""

from __future__ import annotations

import msgspec

from narrows.text import Text


class Reserve(msgspec.Struct, frozen=True):
    """Bytes per device that an engine needs beside weights and cache, and on what basis they are stated.

    tables: what the engine loads beside the checkpoint's tensors, and counts as weights.
    graphs_inside: graphs come out of the engine's share; else they come on top, out of what it leaves unclaimed.
    low, high: 80 % interval of what comes out of its share. activations_inside: so do activations.
    graphs_low, graphs_high: 80 % interval of the graphs, from the newest drivers to the oldest where it is not known.
    """

    activations: int
    graphs: int
    runtime: int
    tables: int
    graphs_inside: bool
    low: int
    high: int
    basis: tuple[Text, ...]
    activations_inside: bool = True
    graphs_low: int = 0
    graphs_high: int = 0

    @property
    def total(self) -> int:
        """All four."""
        return self.activations + self.graphs + self.runtime + self.tables

    @property
    def claimed(self) -> int:
        """What of it comes out of the engine's share of the memory."""
        outside = (0 if self.graphs_inside else self.graphs) + (0 if self.activations_inside else self.activations)
        return self.total - outside

"""A storage rule that says of every tensor how it is stored: what a file's own header says, or a mix by layer."""

from __future__ import annotations

from narrows.precision.schemes import Part, Scheme

OUTSIDE = -1
"""In place of a layer's number, for what stands before, after and beside the layers."""


class PerTensor(Scheme, frozen=True):
    """Stored parts by role and layer; of one copy where there are several (experts).

    kind: how it is called (`Q4_K_M`). names: role → the name of its tensor, `{}` for the layer.
    """

    kind: str
    names: dict[str, str]
    parts: dict[tuple[str, int], tuple[Part, ...]]

    def of(self, role: str, index: int = OUTSIDE) -> tuple[Part, ...]:
        """What is stored of the tensor with this role in layer `index`; nothing if the file lacks it."""
        return self.parts.get((role, index), ())

    @property
    def label(self) -> str:
        """For tables."""
        return self.kind

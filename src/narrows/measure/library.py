"""What a library of kernels does for the probes, whichever it is."""

from __future__ import annotations

from typing import Any, Protocol

from narrows.measure.timing import Action


class Library(Protocol):
    """Kernels on one device, each as an action to be timed. See `numpy_library` and `torch_library`."""

    name: str
    device: str
    precisions: tuple[str, ...]

    def close(self) -> None:
        """Give back what it holds."""

    def settle(self) -> None:
        """Wait for what was started."""

    def linear(self, m: int, k: int, n: int, precision: str, copies: int = 1) -> Action:
        """[m, k] × [n, k]ᵀ with one of `copies` weights in turn."""

    def reading(self, size: int) -> dict[str, Action]:
        """Kernels that read `size` bytes `passes(size)` times."""

    def passes(self, size: int) -> int:
        """See `reading`."""

    def copying(self, size: int, threads: int | None = None) -> Action:
        """Copies `size` ÷ 2 bytes."""

    def adding(self, size: int) -> Action:
        """Reads two thirds of `size` bytes and writes one."""

    def dispatch(self) -> Action:
        """The smallest operation."""

    def touching(self, buffer: Any) -> Action:
        """Writes one byte of each 4-KiB page."""

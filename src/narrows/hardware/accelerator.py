"""The accelerator: what one device can hold, move and compute, each figure with where it comes from."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from narrows.quantity import Kind
from narrows.text import BadInput, Text

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4", "int4")
"""Precisions that peaks are stated for."""

_BY_FORMAT = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "int8": "int8",
    "float4_e2m1": "fp4",
    "int4": "int4",
}


def precision_name(text: str) -> str:
    """The name in `PRECISIONS` for a precision or number format (`bf16`, `torch.bfloat16`). Raises BadInput."""
    name = text.strip().lower()
    if name in PRECISIONS:
        return name
    from narrows.precision import format_of

    try:
        return _BY_FORMAT[format_of(name).name]
    except (BadInput, KeyError):
        raise BadInput(
            "'{name}' is not a precision that devices state a peak for; use one of: {known}",
            name="".join(c if c.isprintable() else "?" for c in text[:40]),
            known=", ".join(PRECISIONS),
        ) from None


class Usable(NamedTuple):
    """Memory that a process can get on one device: bytes, how the figure is known, and in words why."""

    bytes: int
    kind: Kind
    basis: Text


class Links(msgspec.Struct, frozen=True):
    """What leaves the device: bytes/s per direction on paper, None where there is no such link.

    nvlink: all NVLinks of the device. c2c: NVLink-C2C to its host processor. infinity_fabric: all links of the
    device to others (two devices alone see one of seven on MI300X). pcie: the slot, with generation and lanes.
    other: a fabric of another kind, in words.
    """

    nvlink: float | None = None
    c2c: float | None = None
    infinity_fabric: float | None = None
    pcie: float | None = None
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    other: str = ""


class Accelerator(msgspec.Struct, frozen=True, kw_only=True):
    """One device as its runtime counts them. None means that no figure is known.

    memory_bytes: all of its memory, as memory_basis says. memory_kind: `device` (its own), `unified` (shared with
        the host's processor; up to one of memory_options in GiB), `host` (a processor with the DRAM put into it).
    usable_bytes: what the runtime (CUDA, HIP) reports to a process; None where nobody measured it: see `usable`.
        usable_most_bytes: the most, where systems differ, of which usable_bytes is the least.
    memory_bandwidth: bytes/s. fp32 … int4: dense peak FLOP/s (a multiply-add is 2), `peak(precision)` by name;
        on GeForce cards with accumulation in fp32.
    sram_bytes: shared memory and L1 of all multiprocessors (for NVIDIA from the size per SM), or the vendor's
        on-chip memory. tdp_watts: W. source: where the figures were read. confidence: high, medium or low.
    """

    id: str
    name: str
    vendor: str
    architecture: str
    form_factor: str
    launch_year: int
    memory_label: str
    memory_bytes: int
    memory_kind: Literal["device", "unified", "host"]
    memory_basis: str
    memory_type: str
    memory_bandwidth: float
    source: str
    confidence: Literal["high", "medium", "low"]
    as_of: str
    aliases: tuple[str, ...] = ()
    compute_capability: str | None = None
    memory_options: tuple[int, ...] = ()
    usable_bytes: int | None = None
    usable_most_bytes: int | None = None
    usable_kind: Kind = "measured"
    usable_source: str = ""
    fp32: float | None = None
    tf32: float | None = None
    fp16: float | None = None
    bf16: float | None = None
    fp8: float | None = None
    int8: float | None = None
    fp4: float | None = None
    int4: float | None = None
    sm_count: int | None = None
    l2_bytes: int | None = None
    sram_bytes: int | None = None
    links: Links = Links()
    tdp_watts: float | None = None
    notes: str = ""

    @property
    def unified(self) -> bool:
        """Whether processor and accelerator share one memory."""
        return self.memory_kind == "unified"

    @property
    def is_cpu(self) -> bool:
        """Whether this is a host processor, whose memory is what was put into the machine."""
        return self.memory_kind == "host"

    @property
    def capability(self) -> tuple[int, int] | None:
        """(major, minor) of the compute capability; None where it is not stated, or is no number (AMD: gfx942)."""
        major, _, minor = (self.compute_capability or "").partition(".")
        return (int(major), int(minor) if minor.isdecimal() else 0) if major.isdecimal() else None

    @property
    def precisions(self) -> tuple[str, ...]:
        """The precisions it has a peak for, in the order of `PRECISIONS`."""
        return tuple(name for name in PRECISIONS if getattr(self, name) is not None)

    def peak(self, precision: str) -> float:
        """Dense peak FLOP/s at a precision or number format. Raises BadInput where none is stated."""
        value: float | None = getattr(self, precision_name(precision))
        if value is None:
            raise BadInput(
                "no {precision} peak is known for {device}; known are: {known}",
                precision=precision_name(precision),
                device=self.name,
                known=", ".join(self.precisions),
            )
        return value

    def ridge(self, precision: str) -> float:
        """The ridge point in FLOP/B: `peak(precision)` ÷ memory_bandwidth. Work below it waits for memory."""
        return self.peak(precision) / self.memory_bandwidth

    @property
    def usable(self) -> Usable:
        """Memory a process can get: measured, or assumed by a rule that its basis states.

        Raises BadInput for a host processor, whose user says how much of it may be used.
        """
        from narrows.hardware.usable import usable_memory  # the rule needs the whole catalogue, which needs this type

        return usable_memory(self)

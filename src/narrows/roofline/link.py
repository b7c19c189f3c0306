"""What joins accelerators: the class of the link between the ranks of one collective, and its speed on paper."""

from __future__ import annotations

from typing import NamedTuple

from narrows.calibration.laws import laws
from narrows.hardware import Accelerator
from narrows.hardware.machines import MACHINE, joined
from narrows.text import BadInput


class Link(NamedTuple):
    """`kind` names the law of the link; bandwidth: bytes/s per direction on paper that one rank can use.

    kinds: `NVLink switch` (every pair at full speed), `NVLink bridge` (two cards), `NVLink pairs` (such pairs joined by
    PCIe), `mesh` (a link of its own to each of the others), `PCIe`, `fabric` (of another kind), `between nodes` (one
    network card per accelerator). assumed: the speed is not that of a data sheet.
    """

    kind: str
    bandwidth: float
    assumed: bool = False


def link_of(accelerator: Accelerator, ranks: int) -> Link:
    """The link that `ranks` accelerators of a kind share. Raises BadInput where nothing is known to join them.

    Cards with NVLink are taken to be bridged in pairs. Beyond a machine one network card per accelerator is assumed,
    whose speed is that of the slot it sits in times what such clusters reach of it.
    """
    links = accelerator.links
    other = next((row for row in laws("collectives") if (row.operator, row.device) == ("link", accelerator.id)), None)
    if accelerator.is_cpu or not (links.nvlink or links.infinity_fabric or links.pcie or other):
        raise BadInput(
            "nothing is known of a link that joins several {device}; use one, or give another device",
            device=accelerator.name,
        )
    if ranks > joined(accelerator):
        if other is not None:
            return Link("fabric", other.values["bandwidth"], assumed=True)
        return Link("between nodes", links.pcie or 63e9, assumed=True)
    if links.nvlink:
        if "PCIe" not in accelerator.form_factor:
            return Link("NVLink switch", links.nvlink)
        if ranks <= 2 or not links.pcie:
            return Link("NVLink bridge", links.nvlink)
        return Link("NVLink pairs", links.pcie)
    if links.infinity_fabric:
        # every two of the eight on a board have a link of their own, so that few ranks see few links
        return Link("mesh", links.infinity_fabric * min(ranks - 1, MACHINE - 1) / (MACHINE - 1))
    if other is not None:
        return Link("fabric", other.values["bandwidth"], assumed=True)
    return Link("PCIe", links.pcie or 0.0)


def link_across(accelerator: Accelerator, ranks: int, span: int) -> Link:
    """The link of `ranks` accelerators that stand in a group of `span`. Raises BadInput as `link_of` does."""
    return link_of(accelerator, max(ranks, span))


def twins(accelerator: Accelerator, others: tuple[Accelerator, ...]) -> tuple[Accelerator, ...]:
    """Which of `others` are built into machines alike: same vendor, links and form; the same device first."""

    def form(device: Accelerator) -> str:
        return device.form_factor.replace("/", " ").replace(",", " ").split()[0]

    def alike(other: Accelerator) -> bool:
        return (
            other.vendor == accelerator.vendor and other.links == accelerator.links and form(other) == form(accelerator)
        )

    return tuple(sorted((o for o in others if alike(o)), key=lambda o: o.id != accelerator.id))

"""How many accelerators one machine joins, and which of a pipeline's stages stand in the same one."""

from __future__ import annotations

from narrows.hardware.accelerator import Accelerator

RACK = 72
"""Accelerators that one NVLink domain of GB200 NVL72 and GB300 NVL72 joins."""
MACHINE = 8
"""Accelerators that one machine joins at most: HGX, OAM and PCIe servers."""


def joined(accelerator: Accelerator) -> int:
    """Accelerators of this kind that a machine or a rack joins at most."""
    return RACK if "NVL72" in accelerator.form_factor else MACHINE


def span_of(accelerator: Accelerator, ranks: int, stage: int) -> int:
    """Accelerators in the smallest group that holds a rank of stage `stage` (from 0) and its next in the stage after.

    ranks: of a stage. Whole stages are put into a machine as long as there is room, as engines ask for (tensor
    parallelism within the node, pipeline parallelism across). 2 in one machine, but as many as it joins where cards
    are bridged in pairs and these two stand in different pairs; more than a machine joins where they stand in two.
    """
    most = joined(accelerator)
    together = most // ranks
    if not together or (stage + 1) % together == 0:
        return most + 1
    bridged = accelerator.links.nvlink is not None and "PCIe" in accelerator.form_factor
    return most if bridged and (ranks > 1 or stage % 2) else 2

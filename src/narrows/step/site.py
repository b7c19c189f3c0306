"""Where a step's kernels run, and what follows from that for all of them."""

from __future__ import annotations

from typing import NamedTuple

from narrows.deployment import Deployment
from narrows.step.arithmetic import Arithmetic, of_attention, plain


class Site(NamedTuple):
    """Where kernels run: the deployment, and what follows from it. element: bytes of an activation."""

    deployment: Deployment
    tp: int
    element: int
    base: Arithmetic
    attention: Arithmetic
    naive: bool


def site_of(deployment: Deployment, naive: bool) -> Site:
    """naive: attention whose scores go through device memory."""
    device, dtype = deployment.accelerator, deployment.dtype
    return Site(
        deployment,
        deployment.tensor_parallel,
        dtype.bits // 8,
        plain(device, dtype),
        of_attention(device, dtype, deployment.kv),
        naive,
    )


def own_heads(heads: int, site: Site) -> int:
    """Heads of one rank, one at least."""
    return max(1, -(-heads // site.tp))

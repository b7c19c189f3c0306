"""What the kernels of one layer read and write for every token: the vectors that a step keeps beside weights and cache.

All figures are elements per token on one rank, of a step of prompts. How weights are stored does not matter here:
unpacked weights and quantized copies of an input last no longer than their product.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from narrows.deployment import Deployment
from narrows.models.spec import Layer
from narrows.step.cores import ABSORBED
from narrows.step.kernels import AttentionKernel, ChosenMatMul, ExpertsKernel, Kernel, MatMul
from narrows.step.layers import layer_kernels
from narrows.step.site import Site, site_of
from narrows.step.tensors import LAST, Piece


class Flow(NamedTuple):
    """One kernel: elements per token that it reads and that it writes.

    kind: a `product`; `last`: one whose output goes back to the residual, so that nothing else of its part of the
    layer is needed after it; `absorbed`: one that engines run with attention; `attention`; `experts`: routed ones as
    one fused operator. workspace: elements of the buffers inside it.
    """

    name: str
    kind: Literal["product", "last", "absorbed", "attention", "experts"]
    reads: int
    writes: int
    workspace: int = 0


def _flow(kernel: Kernel) -> Flow | None:
    """None: of what runs for decode alone; of what works in place or between two products, as wide as those are."""
    if isinstance(kernel, AttentionKernel) and kernel.phase == "prefill":
        return Flow(kernel.name, "attention", kernel.heads * kernel.key_dim, kernel.heads * kernel.value_dim)
    if isinstance(kernel, ExpertsKernel):
        # A row per token and chosen expert, though other ranks have some of these; with tokens of replicas, what comes
        # to this rank's experts. Each: gate and up (later, in the same buffer, the output), and their product.
        # Source: vLLM's fused_moe (Apache-2.0), its two workspaces.
        coming = -(-kernel.replicas * kernel.top_k * kernel.experts // kernel.all_experts)
        wide = max((kernel.matrices - 1) * kernel.intermediate, kernel.hidden) + kernel.intermediate
        return Flow(kernel.name, "experts", kernel.hidden, kernel.hidden, max(kernel.top_k, coming) * wide)
    if isinstance(kernel, ChosenMatMul):
        times = kernel.active
    elif isinstance(kernel, MatMul) and kernel.rows != "decode":
        times = kernel.copies
    else:
        return None
    kind: Literal["product", "last", "absorbed"] = (
        "last" if kernel.name in LAST else "absorbed" if kernel.name in ABSORBED else "product"
    )
    return Flow(kernel.name, kind, times * kernel.k, times * kernel.n)


def flows(layer: Layer, deployment: Deployment) -> tuple[Flow, ...]:
    """The kernels of one layer in about the order in which they run, as the vectors that they read and write."""
    key = (layer, deployment.tensor_parallel, deployment.expert_parallel, deployment.attention_data_parallel)
    if key not in _KNOWN:
        _KNOWN[key] = _flows(layer, site_of(deployment, False))
    return _KNOWN[key]


_KNOWN: dict[tuple[Layer, int, int, int], tuple[Flow, ...]] = {}


def _flows(layer: Layer, site: Site) -> tuple[Flow, ...]:
    stored = tuple(Piece(tensor, 0, site.base, False, False) for tensor in layer.applied())
    found = (_flow(kernel) for kernel in layer_kernels(layer, stored, site))
    return tuple(flow for flow in found if flow is not None)

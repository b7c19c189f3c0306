"""LoRA adapters: an engine allocates room for as many as it serves at once, of the largest rank, when it loads."""

from __future__ import annotations

from narrows.deployment import Deployment
from narrows.deployment.share import pieces

_ROWS = (".o", ".down")
"""Ends of the roles of matrices that tensor parallelism cuts by their inputs; others are cut by their outputs."""


def adapter_bytes(deployment: Deployment) -> int:
    """Bytes of all slots on one rank of the fullest stage: of every matrix rank × in and out × rank.

    What tensor parallelism cuts of a matrix it cuts of one of the two; the other is whole on every rank. Experts and
    the vocabulary's tables are left out. Source: vLLM's lora/layers (Apache-2.0): lora_a_stacked, lora_b_stacked.
    """
    if deployment.adapters is None:
        return 0
    slots, rank = deployment.adapters
    elements = 0
    for layer, indices in deployment.model.kinds:
        for tensor in layer.tensors():
            if tensor.use != "linear" or len(tensor.shape) != 2 or tensor.role.startswith("experts."):
                continue
            out, into = tensor.shape
            down, up = rank * into, rank * out
            if tensor.role.endswith(_ROWS):
                down = pieces(down, tensor.shards, deployment.tensor_parallel)
            else:
                up = pieces(up, tensor.shards, deployment.tensor_parallel)
            elements += len(indices) * tensor.copies * (down + up)
    return slots * elements * deployment.dtype.bits // 8 // deployment.pipeline_parallel

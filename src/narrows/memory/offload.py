"""Weights that stay in host memory (vLLM's --cpu-offload-gb): which, and what a device keeps of the others.

A rank walks the layers of its stage in order and leaves each parameter with the host until the size is reached, so the
last one goes beyond it. What stands outside the layers stays on the device. Source: vLLM's UVAOffloader and
`maybe_offload_to_cpu` (Apache-2.0). With 12 GiB Llama-3.1-8B takes 2.91 GiB of the device in place of 14.99, and
Qwen2.5-7B 2.17 (starts of 0.17.1, TheBuccaneer/vllm-offload-profiles).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

from narrows.deployment import Deployment, stages
from narrows.deployment.share import resident_of
from narrows.models.spec import Layer
from narrows.text import Text
from narrows.units import binary

_FUSED = re.compile(r"^(attention)\.[qkv]|^(mlp|shared|experts)\.(?:gate|up)|^(mla)\.(?:q|kv)_down")
"""Tensors that engines keep in one parameter: of queries, keys and values; of gate and up; of the latents."""


def _parameter(role: str) -> str:
    """The parameter that a tensor is a part of."""
    match = _FUSED.match(role)
    if match is None or "norm" in role:
        return role
    return f"{next(filter(None, match.groups()))}.fused{'.bias' if role.endswith('.bias') else ''}"


def _sizes(deployment: Deployment, layer: Layer, index: int) -> Iterator[int]:
    """Bytes of the parameters of one layer on one rank, in the order of its modules."""
    rows = deployment.model.layer_rows(layer, (index,))
    for _, parts in groupby(rows, key=lambda row: _parameter(row.tensor.role)):
        yield sum(row.count * resident_of(row, deployment) for row in parts)


def offloaded_bytes(deployment: Deployment, layers: range) -> int:
    """Bytes of one rank that stay in host memory. layers: of its stage, without holes."""
    if not deployment.offload:
        return 0
    total = 0
    by_index = {index: layer for layer, indices in deployment.model.kinds for index in indices}
    for index in layers:
        for size in _sizes(deployment, by_index[index], index):
            if total >= deployment.offload:
                return total
            total += size
    return total


def held_by_host(deployment: Deployment) -> int:
    """Bytes of one rank that stay in host memory, of the stage that leaves the most there."""
    cuts = stages(deployment.model.layers, deployment.pipeline_parallel)
    return max(offloaded_bytes(deployment, layers) for layers in cuts)


def copied_bytes(deployment: Deployment) -> int:
    """Bytes of the largest layer that is copied to the device before it runs, in versions that do so; assumed whole."""
    if not deployment.offload or deployment.engine.offload != "copied":
        return 0
    each = (sum(_sizes(deployment, layer, indices[0])) for layer, indices in deployment.model.kinds)
    return min(max(each), held_by_host(deployment))


def offload_notes(deployment: Deployment) -> list[Text]:
    """What is said of weights in host memory."""
    if not deployment.offload:
        return []
    size = held_by_host(deployment)
    found = [
        Text(
            "weights: {size} per device stay in host memory, {total} in all; the layers' parameters in order, to the "
            "end of the one with which --cpu-offload-gb is reached (0.17.1 keeps as much on the device as this says)",
            size=binary(size),
            total=binary(size * deployment.count),
        )
    ]
    if copied_bytes(deployment):
        found.append(
            Text(
                "activations: {engine} copies a layer's weights to the device before it runs, {size} for the largest, "
                "assumed to lie on top of the peak",
                engine=deployment.engine.label,
                size=binary(copied_bytes(deployment)),
            )
        )
    elif not deployment.accelerator.is_cpu:
        found.append(
            Text(
                "a host can need about twice as much memory as it is given of the weights, since they are pinned in a "
                "copy (vllm-project/vllm#56410)"
            )
        )
    return found

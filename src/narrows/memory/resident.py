"""What an engine loads beside the checkpoint's tensors: tables it computes, padding of packed weights, copies.

Engines count them as weights ("Model loading took …"). Bytes of one rank.
"""

from __future__ import annotations

from collections.abc import Sequence

from narrows.deployment import Deployment
from narrows.deployment.core import latent_parts
from narrows.memory.activations import deepstack_levels
from narrows.memory.adapters import adapter_bytes
from narrows.models.mixers import Attention, Chain, CompressedAttention, LatentAttention, Looped
from narrows.models.spec import Layer
from narrows.precision import UNQUANTIZED

_MXFP4_COLUMNS = 256
_MARLIN_ROWS = 128
_TRITON_MXFP4 = ("9.0", "10.0", "10.3")
"""Compute capabilities on which vLLM runs MXFP4 experts by Triton's kernels where those are installed."""
_TWO_TABLES = 2
"""DeepSeek-V4 has one table for windows and one for compressed entries, in float32: vLLM 0.32's model of V4 Flash keeps
buffers of 536,870,912 bytes, 2 × 1,048,576 positions × 64 × 4 B."""


def rope_bytes(deployment: Deployment) -> int:
    """The table of cosines and sines: one row per position the model knows, as wide as the rotated part of a head.

    Source: vLLM's RotaryEmbedding (Apache-2.0), whole on every rank. Llama-3.1-8B: 131072 × 128 × 2 B = 32 MiB, and
    a server reports 14.9888 GiB where the tensors have 14.9575; Llama-3-8B with 8192 positions: 14.9596. A rotated
    part smaller than the head (some models) is taken as the whole head. Qwen3-VL, whose positions count time too, has
    rows for four times as many (vLLM's MRotaryEmbedding).
    """
    model = deployment.model
    if model.positions or any(tensor.role == "position_embedding" for _, tensor in model.frame):
        return 0
    if any(tensor.role == "attention.relative" for layer, _ in model.kinds for tensor in layer.tensors()):
        return 0
    widths = []
    for layer, _ in model.kinds:
        mixer = layer.mixer
        for part in mixer.parts if isinstance(mixer, Chain) else (mixer,):
            if isinstance(part, Attention):
                widths.append(part.head_dim)
            elif isinstance(part, LatentAttention):
                widths.append(part.rope)
            elif isinstance(part, Looped):
                widths.append(part.attention.head_dim)
            elif isinstance(part, CompressedAttention):
                return _TWO_TABLES * model.max_length * part.rope * 4
    rows = model.max_length * (_TIMES if model.family in _TIMED else 1)
    return rows * max(widths, default=0) * deployment.dtype.bits // 8


_TIMED, _TIMES = ("qwen3_vl", "qwen3_vl_moe"), 4


def deepstack_bytes(deployment: Deployment) -> int:
    """Buffers for what a vision tower hands to several of the decoder's layers: a step of hidden vectors for each.

    Source: vLLM's Qwen3-VL (Apache-2.0). With the rotary table, servers report 58.23 GiB for Qwen3-VL-30B-A3B where the
    tensors have 57.87.
    """
    levels = sum(deepstack_levels(tower) for tower in deployment.model.towers if tower.served)
    width = deployment.model.hidden * deployment.dtype.bits // 8
    return levels * deployment.max_num_batched_tokens * width


def padding_bytes(deployment: Deployment) -> int:
    """MXFP4 experts are kept padded: their inner dimension to 256, or, by the Marlin kernels, that and the outer one.

    Hopper and Blackwell run gpt-oss-20b by Triton: 2880 → 3072 columns add a fifteenth of 9.455 GiB; with the rotary
    table 13.466 GiB, and a server reports 13.47. Other devices run Marlin, which also pads the experts' width to 128.
    """
    model, total = deployment.model, 0
    if model.precision.scheme is UNQUANTIZED:
        return 0
    from narrows.precision.floats import Mxfp4

    if not isinstance(model.precision.scheme, Mxfp4):
        return 0
    device = deployment.accelerator
    marlin = device.vendor == "nvidia" and device.compute_capability not in _TRITON_MXFP4
    for layer, indices in model.kinds:
        for row in model.layer_rows(layer, indices):
            if row.tensor.role.startswith("experts.") and row.tensor.use == "linear":
                rows, columns = row.tensor.shape
                wide = _up(columns, _MXFP4_COLUMNS) / columns * (_up(rows, _MARLIN_ROWS) / rows if marlin else 1.0)
                total += int(row.stored_bytes * (wide - 1.0))
    return total // deployment.count


def _up(size: int, step: int) -> int:
    return -(-size // step) * step


def absorbed_bytes(deployment: Deployment) -> int:
    """Latent attention on quantized weights: the up-projection of keys and values is kept once more, dequantized.

    Source: vLLM's MLA attention (Apache-2.0), W_UK and W_UV, cut by heads. DeepSeek-R1 in FP8 on 8 ranks: 0.24 GiB.
    """
    model, total = deployment.model, 0
    if model.precision.scheme is UNQUANTIZED:
        return 0
    for layer, indices in model.kinds:
        mixer = layer.mixer
        if isinstance(mixer, LatentAttention):
            heads = max(1, mixer.heads // deployment.tensor_parallel)
            total += len(indices) * heads * (mixer.nope + mixer.value) * mixer.kv_rank
    return total * deployment.dtype.bits // 8 // deployment.pipeline_parallel


def materialized_bytes(deployment: Deployment) -> int:
    """Latent attention before 0.8: for decode, the up-projections are multiplied into the query's and the output's.

    Source: vLLM's MLA attention (Apache-2.0): W_Q_UK and W_UV_O, in FP8 where the weights are and in 16 bits
    otherwise, and the rotary part of the query's projection in 16 bits. DeepSeek-R1 on 8 ranks: 61 layers × (1536 × 16
    × 512 + 16 × 512 × 7168) B = 4.05 GiB, with 0.18 GiB for the rotary part.
    """
    if not deployment.engine.materializes_latent:
        return 0
    total, width = 0, deployment.dtype.bits // 8
    for layer, indices in deployment.model.kinds:
        for mixer in latent_parts(layer):
            heads = max(1, mixer.heads // deployment.tensor_parallel)
            into = mixer.hidden if mixer.q_rank is None else mixer.q_rank
            products = heads * mixer.kv_rank * (into + mixer.hidden)
            kept = products if _in_fp8(deployment, layer, indices) else products * width
            total += len(indices) * (kept + into * heads * mixer.rope * width)
    return total // deployment.pipeline_parallel


def _in_fp8(deployment: Deployment, layer: Layer, indices: Sequence[int]) -> bool:
    """Whether the layer's output projection is stored in FP8."""
    for row in deployment.model.layer_rows(layer, indices):
        if row.tensor.role == "mla.o":
            return any(part.format.name.startswith("float8") for part in row.parts)
    return False


def loaded_beside(deployment: Deployment) -> int:
    """All of these, on one rank."""
    parts = (rope_bytes, deepstack_bytes, padding_bytes, absorbed_bytes, materialized_bytes, adapter_bytes)
    return sum(each(deployment) for each in parts)

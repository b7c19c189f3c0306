"""What an engine loads beside the checkpoint's tensors: tables it computes, and padding of packed weights.

Engines count both as weights ("Model loading took …"). Bytes of one rank.
"""

from __future__ import annotations

from narrows.deployment import Deployment
from narrows.models.mixers import Attention, Chain, CompressedAttention, LatentAttention, Looped
from narrows.precision import Mxfp4

_MXFP4_COLUMNS = 256
_TWO_TABLES = 2
"""DeepSeek-V4 has one table for windows and one for compressed entries, in float32: vLLM 0.32's model of V4 Flash keeps
buffers of 536,870,912 bytes, 2 × 1,048,576 positions × 64 × 4 B."""


def rope_bytes(deployment: Deployment) -> int:
    """The table of cosines and sines: one row per position the model knows, as wide as the rotated part of a head.

    Source: vLLM's RotaryEmbedding (Apache-2.0), whole on every rank. Llama-3.1-8B: 131072 × 128 × 2 B = 32 MiB, and
    a server reports 14.9888 GiB where the tensors have 14.9575; Llama-3-8B with 8192 positions: 14.9596. A rotated
    part smaller than the head (some models) is taken as the whole head.
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
    return model.max_length * max(widths, default=0) * deployment.dtype.bits // 8


def padding_bytes(deployment: Deployment) -> int:
    """MXFP4 experts are kept with one dimension padded to 256 columns.

    gpt-oss-20b: 2880 → 3072 columns add a fifteenth of 9.455 GiB; with the rotary table 13.466 GiB, and a server
    reports 13.47.
    """
    model, total = deployment.model, 0
    if not isinstance(model.precision.scheme, Mxfp4):
        return 0
    for layer, indices in model.kinds:
        for row in model.layer_rows(layer, indices):
            if row.tensor.role.startswith("experts.") and row.tensor.use == "linear":
                columns = row.tensor.shape[1]
                padded = -(-columns // _MXFP4_COLUMNS) * _MXFP4_COLUMNS
                total += row.stored_bytes * (padded - columns) // columns
    return total // deployment.count


def loaded_beside(deployment: Deployment) -> int:
    """Both, on one rank."""
    return rope_bytes(deployment) + padding_bytes(deployment)

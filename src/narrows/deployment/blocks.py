"""Whether ranks cut experts only between the blocks that share a scale."""

from __future__ import annotations

from narrows.deployment.split import check_split
from narrows.deployment.types import Deployment
from narrows.models import ModelSpec
from narrows.models.experts import expert_tensors
from narrows.precision.floats import Fp8Block
from narrows.text import BadInput


def whole_blocks(deployment: Deployment) -> Deployment:
    """The deployment as it is. Raises BadInput where its engine refuses to cut FP8 experts through their blocks.

    Not part of `deploy`: public records name splits of experts that ran otherwise. Source: vLLM
    `validate_fp8_block_shape_moe`, SGLang `Fp8MoEMethod.create_weights` (Apache-2.0): "The output_size of gate's and
    up's weight = 192 is not divisible by weight quantization block_n = 128".
    """
    model, scheme, tp = deployment.model, deployment.model.precision.scheme, deployment.tensor_parallel
    cut = deployment.expert_width_parallel
    if cut == 1 or not isinstance(scheme, Fp8Block):
        return deployment
    widths = {tensor.shards for tensor in expert_tensors(model) if tensor.shards > 1}
    narrow = next((width for width in widths if width // cut % scheme.rows), None)
    if narrow is None:
        return deployment
    works = [
        n for n in range(1, cut) if not any(one % n or one // n % scheme.rows for one in widths) and _cuts(model, n)
    ]
    raise BadInput(
        "--tp {tp} cuts experts of width {width} into {part}, and their FP8 weights have a scale per block of {rows}, "
        "which {engine} does not cut; use --ep {ranks}, or --tp {works}",
        tp=tp,
        width=narrow,
        part=narrow // cut,
        rows=scheme.rows,
        engine=deployment.engine.name,
        ranks=deployment.ranks_per_stage,
        works=works[-1] if works else 1,
    )


def _cuts(model: ModelSpec, tp: int) -> bool:
    try:
        check_split(model, tp, 1)
    except BadInput:
        return False
    return True

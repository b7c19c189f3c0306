"""FP8 with scales per block, tensor or row, and gpt-oss's MXFP4: what transformers and the labs themselves write."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.module_schemes import HEAD_AGAIN
from narrows.models.quantizers.rule import Rule, block, unread
from narrows.precision import FORMATS, Scheme
from narrows.precision.floats import Fp8Block, Fp8Scaled, Microscaled, Mxfp4

_BF16_SCALES = ("qwen3", "qwen3_moe")
"""Model types whose FP8 files keep block scales in bfloat16; DeepSeek's keep them in float32."""


def read_fp8(q: Fields, model_type: str) -> Rule:
    """Blocks, or one scale per tensor; experts in FP4 where the file says so (DeepSeek V4).

    `ue8m0` alone does not change the storage: DeepSeek-V3.1 and V3.2 keep powers of two in float32. With FP4 experts
    (transformers' FineGrainedFP8Config) scales are single bytes.
    """
    rules: list[tuple[str, Scheme]] = []
    experts = q.raw("expert_dtype")
    if experts not in (None, "fp8", "fp4"):
        raise unread(q, "expert_dtype", "fp8, fp4")
    if experts == "fp4":
        rules.append(("*.experts.*", Microscaled()))
    static = q.raw("activation_scheme") == "static"
    if q.raw("weight_block_size") is None:
        return Rule(Fp8Scaled(static_input=static), rules=tuple(rules), reach=("tower",))
    narrow = experts == "fp4" and q.raw("scale_fmt") == "ue8m0"
    scale = "uint8" if narrow else "bfloat16" if model_type in _BF16_SCALES else "float32"
    blocks = Fp8Block(*block(q, "weight_block_size"), FORMATS[scale])
    # published counts: twice in Qwen3-0.6B to 4B and Qwen3-VL-2B and -4B
    return Rule(blocks, rules=tuple(rules), reach=("tower",), habits=(HEAD_AGAIN,))


def read_fbgemm(q: Fields, model_type: str) -> Rule:
    """One fp32 scale per output row, and an upper bound for activations. Source: transformers' FbgemmFp8Linear."""
    return Rule(Fp8Scaled(per_channel=True, static_input=True))


def read_mxfp4(q: Fields, model_type: str) -> Rule:
    """gpt-oss: the experts alone."""
    return Rule(Mxfp4(), roles=("experts.",))

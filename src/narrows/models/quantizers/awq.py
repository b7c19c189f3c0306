"""AWQ as AutoAWQ writes it."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.module_schemes import HEAD_AGAIN
from narrows.models.quantizers.rule import Rule, bits, group, unread, word
from narrows.precision.integers import Awq, Marlin


def read_awq(q: Fields, model_type: str) -> Rule:
    """`gemm` and its like."""
    version = word(q, "version", "gemm")
    if version == "marlin":
        return Rule(Marlin(group(q, "group_size", "q_group_size")))
    if version not in ("gemm", "gemv", "exllama", "exllamav2", "exllama_v1", "exllama_v2", "ipex"):
        raise unread(q, "version", "gemm, gemv, exllama, marlin")
    scheme = Awq(bits(q, "bits", "w_bit"), group(q, "group_size", "q_group_size"))
    # published counts: twice in Qwen2.5-0.5B to 3B, Llama-3.2 and Gemma 2B, once in Qwen3-4B and Gemma 2 9B
    return Rule(scheme, reach=("head",) if q.flag("lm_head", False) else (), habits=(HEAD_AGAIN,))

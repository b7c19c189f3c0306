"""The format of the KV cache: which an engine takes, and how its flag spells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.models import ModelSpec
from narrows.precision import Format, format_of
from narrows.text import BadInput

if TYPE_CHECKING:
    from narrows.deployment.types import Deployment

_SPELLED = {"float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2"}
"""Formats as the flags of vLLM and SGLang spell them, where that is not their name here."""


def cache_format(model: ModelSpec, given: str, dtype: Format) -> Format:
    """The format of keys and values: the checkpoint's, else that of the weights, or the given one."""
    if given == "auto":
        return model.precision.kv_cache or dtype
    wanted = format_of(given)
    if wanted.name not in ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        raise BadInput(
            "--kv-cache-dtype is {value}; engines keep the KV cache as auto, bf16, fp16, fp8 or fp8_e5m2",
            value=given[:40],
        )
    if wanted.name == "float32" and dtype.name != "float32":
        raise BadInput(
            "--kv-cache-dtype is {value}; engines keep 32 bits only beside weights in 32 bits (--dtype float32)",
            value=given[:40],
        )
    return wanted


def cache_flag(deployment: Deployment, given: str) -> str | None:
    """The value of --kv-cache-dtype; None where the engine takes that format by itself.

    A name that the flag has too (`fp8`) is given back as it is.
    """
    kept = deployment.kv
    if given == "auto" or kept == cache_format(deployment.model, "auto", deployment.dtype):
        return None
    return given if given == "fp8" and deployment.engine.name != "sglang" else _SPELLED.get(kept.name, kept.name)

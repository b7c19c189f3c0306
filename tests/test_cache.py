"""The KV cache's format as engines take it, and flags that bound its size."""

from __future__ import annotations

import pytest

from narrows.answers.fit import fit
from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.memory import capacity
from narrows.models.catalogue import catalogue_entry
from narrows.models.config import catalogued
from narrows.text import BadInput


@pytest.mark.parametrize(
    ("engine", "given", "flag"),
    [
        ("vllm", "bf16", None),
        ("vllm", "auto", None),
        ("vllm", "fp16", "float16"),
        ("vllm", "fp8", "fp8"),
        ("vllm", "float8_e4m3fn", "fp8_e4m3"),
        ("vllm", "float8_e5m2", "fp8_e5m2"),
        ("sglang", "fp8", "fp8_e4m3"),
        ("sglang", "fp8_e5m2", "fp8_e5m2"),
        ("sglang", "bfloat16", None),
    ],
)
def test_the_command_spells_the_format_as_the_engine_does(engine: str, given: str, flag: str | None) -> None:
    (one,) = fit("qwen3-8b", "h100-sxm", engine=engine, kv_cache_dtype=given, max_len=4096).candidates
    words = one.serve_command.split()
    assert (words[words.index("--kv-cache-dtype") + 1] if "--kv-cache-dtype" in words else None) == flag


def test_32_bits_are_kept_only_beside_weights_in_32_bits() -> None:
    with pytest.raises(BadInput, match="engines keep 32 bits only beside weights in 32 bits"):
        fit("qwen3-8b", "h100-sxm", kv_cache_dtype="fp32")
    (one,) = fit("qwen3-8b", "h100-sxm", kv_cache_dtype="fp32", dtype="float32", max_len=4096).candidates
    assert "--kv-cache-dtype" not in one.serve_command


def test_a_cache_of_given_size_is_that_size_or_does_not_fit() -> None:
    model, gpu = catalogued(catalogue_entry("qwen3-8b")), find_accelerator("l40s")
    for size in (1, 12, 20):
        assert capacity(deploy(model, gpu, kv_cache_memory_bytes=size * 2**30)).pool == size * 2**30
    assert capacity(deploy(model, gpu, kv_cache_memory_bytes=40 * 2**30)).pool < 0


@pytest.mark.parametrize(
    ("options", "flag", "value"),
    [
        ({"engine": "sglang", "max_total_tokens": 1000}, "--max-total-tokens", 4 * 8192),
        ({"kv_cache_memory_bytes": 2**30}, "--kv-cache-memory-bytes", (4 * 512 + 1) * 16 * 147456),
    ],
)
def test_a_flag_that_bounds_the_cache_is_named_and_mended(options: dict[str, object], flag: str, value: int) -> None:
    (one,) = fit("qwen3-8b", "l40s", batch=4, max_len=8192, **options).candidates  # type: ignore[arg-type]
    assert not one.fits and str(one.reason).startswith(f"{flag} bounds the KV cache: 4 × 8,192 tokens need more")
    assert one.mend is not None
    name, given = one.mend.change.split()
    assert name == flag and value <= int(given) <= value + 2**20 and f"{flag} {given}" in one.serve_command
    # more than the memory holds: as many as it holds
    (most,) = fit("qwen3-8b", "l40s", batch=40, max_len=8192, **options).candidates  # type: ignore[arg-type]
    assert most.mend is not None and most.mend.change.startswith(flag) and most.mend.max_batch < 40
    assert most.mend.change.endswith(f" --batch {most.mend.max_batch}")

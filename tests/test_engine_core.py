"""Versions of vLLM with two engine cores take the older one where their own list says so, with its defaults."""

from __future__ import annotations

import io
from typing import Any

import pytest

from narrows.answers.fit import fit
from narrows.answers.roofline import roofline
from narrows.deployment import Deployment, deploy
from narrows.diagnosis.deployed import deployed
from narrows.hardware import find_accelerator
from narrows.memory import start
from narrows.memory.paging import paging
from narrows.memory.resident import absorbed_bytes, materialized_bytes
from narrows.models import load_model
from narrows.observe import observe
from narrows.units import GIB


def on(gpu: str, version: str, model: str = "Qwen3-4B", **options: Any) -> Deployment:
    return deploy(load_model(model), find_accelerator(gpu), engine=f"vllm=={version}", **options)


@pytest.mark.parametrize(
    ("gpu", "version", "core", "tokens", "sequences"),
    [
        ("t4", "0.7.3", "V0", 10000, 256),
        ("t4", "0.8.0", "V0", 10000, 256),
        ("t4", "0.10.1", "V0", 10000, 256),
        ("t4", "0.10.2", "", 2048, 256),
        ("v100-sxm2-32gb", "0.8.5", "V0", 10000, 256),
        ("l4", "0.8.0", "V1", 2048, 1024),
        ("l4", "0.8.5", "V1", 2048, 256),
        ("mi300x", "0.8.5", "V0", 10000, 256),
        ("mi300x", "0.9.1", "V1", 8192, 1024),
    ],
)
def test_old_devices_run_on_the_older_core_until_0_10_2(
    gpu: str, version: str, core: str, tokens: int, sequences: int
) -> None:
    found = on(gpu, version, max_length=10000)
    assert (found.engine.core, found.max_num_batched_tokens, found.max_num_seqs) == (core, tokens, sequences)


@pytest.mark.parametrize(
    ("gpu", "version", "options", "core"),
    [
        ("l4", "0.8.5", {"kv_cache_dtype": "fp8"}, "V0"),
        ("h100-sxm", "0.8.1", {"kv_cache_dtype": "fp8"}, "V0"),
        ("h100-sxm", "0.8.5", {"kv_cache_dtype": "fp8"}, "V1"),
        ("l4", "0.8.5", {"dtype": "float32"}, "V0"),
        ("l4", "0.8.5", {"quantization": "Q8_0"}, "V0"),
        ("l4", "0.9.1", {"quantization": "Q8_0"}, "V1"),
        ("l4", "0.8.5", {"pipeline_parallel": 2}, "V0"),
        ("l4", "0.9.0", {"pipeline_parallel": 2}, "V1"),
        ("l4", "0.8.5", {"engine_core": "V0"}, "V0"),
        ("l4", "0.11", {"kv_cache_dtype": "fp8"}, ""),
    ],
)
def test_what_v1_lacked_runs_on_the_older_core(gpu: str, version: str, options: dict[str, Any], core: str) -> None:
    found = on(gpu, version, max_length=4096, **options)
    assert found.engine.core == core
    assert any(str(text).startswith(f"vllm=={found.engine.version} runs") for text in found.assumptions) == bool(core)


@pytest.mark.parametrize(
    ("switch", "version", "told"),
    [
        ("0", "0.32", "VLLM_USE_V1=0 changes nothing: vllm==0.32 has no engine core V0 any more"),
        ("0", "0.11", "VLLM_USE_V1=0 changes nothing: vllm==0.11 has no engine core V0 any more"),
        ("0", "0.10.2", "the figures are of its own, V1"),
        ("0", "0.8.5", None),
        ("0", "0.6.1", None),
        ("1", "0.6.1", "VLLM_USE_V1=1 asks for an engine core of which vllm==0.6.1 is not known here"),
        ("1", "0.8.5", None),
        ("1", "0.32", None),
    ],
)
def test_a_core_that_the_version_has_not_is_not_taken_without_a_word(
    switch: str, version: str, told: str | None
) -> None:
    command = f"VLLM_USE_V1={switch} vllm serve Qwen/Qwen3-4B --max-model-len 4096"
    warnings = [str(one) for one in fit(command, "l40s", engine=f"vllm=={version}").warnings]
    assert [one for one in warnings if "VLLM_USE_V1" in one and told is not None and told in one] or not told
    assert bool(warnings) == bool(told)
    cautions = [str(one) for one in roofline(command, "l40s", engine=f"vllm=={version}").cautions]
    assert [one for one in cautions if "VLLM_USE_V1" in one] == warnings


def test_the_older_core_profiles_whole_prompts_on_a_turing_device() -> None:
    """A server of 0.8.5 on an RTX 2060 (12 GiB, 10,000 tokens, one sequence): 0.74 GiB of activations, 3.06 of KV."""
    found = start(
        on("t4", "0.8.5", max_length=10000, max_num_seqs=1, dtype="float16", utilization=0.95, device_memory=12 * GIB)
    )
    assert found.reserve.activations / GIB == pytest.approx(0.74, rel=0.08)
    assert found.kv.value / GIB == pytest.approx(3.06, abs=0.1)


@pytest.mark.parametrize(
    ("model", "length", "tokens"),
    [
        ("Qwen3-4B", 40000, 2048),  # above 32,768 tokens prompts are cut
        ("DeepSeek-R1", 128000, 128000),  # but not with latent attention
        ("gemma-3-27b-it", 40000, 40000),  # nor with images
        ("gemma-3-27b-it", 4096, 5120),  # which have a larger least step
        ("Mistral-7B-v0.1", 32768, 32768),  # nor with windows
    ],
)
def test_some_prompts_are_never_cut_by_the_older_core(model: str, length: int, tokens: int) -> None:
    assert on("h200-sxm", "0.7.3", model, max_length=length, tensor_parallel=8).max_num_batched_tokens == tokens


@pytest.mark.parametrize(
    ("version", "elements"), [("0.7.1", 576), ("0.7.2", 640), ("0.7.3", 640), ("0.8.0", 576), ("0.8.5", 576)]
)
def test_rows_of_latents_begin_at_multiples_of_256_bytes_in_0_7(version: str, elements: int) -> None:
    """vllm-project/vllm#12676 and #14842; with 640 elements 18,418 blocks take the 21.43 GiB of a 0.7.3 log."""
    found = paging(on("h200-sxm", version, "DeepSeek-R1", tensor_parallel=8, max_length=8192)).block_bytes
    assert found == 16 * elements * 2 * 61
    assert (round(18418 * found / GIB, 2) == 21.43) == (elements == 640)


def test_absorbed_products_are_kept_beside_the_weights_before_0_8() -> None:
    """DeepSeek-R1 in FP8 on 8 ranks: 61 layers of 1536 × 8192 and 8192 × 7168, and 1536 × 1024 in 16 bits."""
    before, after = (on("h200-sxm", v, "DeepSeek-R1", tensor_parallel=8, max_length=8192) for v in ("0.7.3", "0.8.0"))
    assert materialized_bytes(before) == 61 * (1536 * 8192 + 8192 * 7168 + 2 * 1536 * 1024)
    assert materialized_bytes(after) == 0
    assert absorbed_bytes(before) == absorbed_bytes(after) > 0
    assert start(before).weights / GIB == pytest.approx(83.88, rel=0.002)


def test_absorbed_products_of_unquantized_weights_are_kept_in_16_bits() -> None:
    """DeepSeek-V2-Lite: 27 layers, 16 heads, no compression of queries."""
    one = on("h200-sxm", "0.7.3", "DeepSeek-V2-Lite", max_length=8192)
    assert materialized_bytes(one) == 2 * 27 * (2048 * 8192 + 8192 * 2048 + 2048 * 1024)


@pytest.mark.parametrize(("core", "tokens"), [("V0 ", 8192), ("V1 ", 2048)])
def test_a_log_says_which_core_ran(core: str, tokens: int) -> None:
    log = (
        f"INFO 04-23 14:42:34 [llm_engine.py:243] Initializing a {core}LLM engine (v0.8.5) with config: "
        "model='Qwen/Qwen3-8B', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1, \n"
    )
    seen = observe(io.BytesIO(log.encode()))[-1]
    made = deployed(seen, gpu="l40s")
    assert made.deployment is not None
    assert (seen.settings.engine_core, seen.version) == (core.strip(), "0.8.5")
    assert made.deployment.max_num_batched_tokens == tokens
    assert made.engine is not None
    assert made.engine.whole_prompts == (core == "V0 ")

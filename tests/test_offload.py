"""Weights that stay in host memory: which, what the device keeps, and what is said of the time."""

from __future__ import annotations

from typing import Any

import pytest

from narrows import fit
from narrows.answers.fit_types import Candidate
from narrows.answers.roofline import roofline
from narrows.deployment import Deployment, deploy
from narrows.hardware import find_accelerator
from narrows.memory import shards
from narrows.memory.offload import held_by_host, offloaded_bytes
from narrows.models import load_model
from narrows.text import BadInput

GIB = 2**30
SOURCE = "TheBuccaneer/vllm-offload-profiles, gpu_memory_configuration/fixd_*_gmem086_offload12.log (0.17.1, RTX 3090)"


def _served(model: str, more: str = "--cpu-offload-gb 12", version: str = "0.17.1") -> Candidate:
    command = (
        f"docker run vllm/vllm-openai:v{version} --model {model} --max-model-len 8192 "
        f"--gpu-memory-utilization 0.86 {more}"
    )
    return fit(command, "rtx-3090").candidates[0]


@pytest.mark.parametrize(
    ("model", "loaded", "tokens"),
    [("meta-llama/Llama-3.1-8B-Instruct", 2.91, 137_552), ("Qwen/Qwen2.5-7B-Instruct", 2.17, 327_360)],
)
def test_two_servers_keep_as_much_on_the_device_as_they_report(model: str, loaded: float, tokens: int) -> None:
    one = _served(model)
    assert one.terms.weights / GIB == pytest.approx(loaded, abs=0.011), SOURCE
    assert one.kv_tokens == pytest.approx(tokens, rel=0.01), SOURCE


def _with(model: str, gib: float, **ranks: int) -> Deployment:
    options: dict[str, Any] = {"max_length": 8192, "cpu_offload_gb": gib, **ranks}
    return deploy(load_model(model), find_accelerator("l40s"), **options)


def test_parameters_are_left_with_the_host_in_order_and_the_last_one_whole() -> None:
    """Llama-3.1-8B: 48 MiB of queries, keys and values, 32 of the output, 224 of gate and up, 112 of down."""
    for gib, mib in ((0.001, 48), (0.05, 80), (0.1, 304), (0.3, 416), (0.407, 416 + 48)):
        assert held_by_host(_with("llama-3.1-8b", gib)) / 2**20 == pytest.approx(mib, abs=0.1)


def test_what_stands_outside_the_layers_never_leaves_the_device() -> None:
    whole, rest = shards(_with("llama-3.1-8b", 0))[0].weights, shards(_with("llama-3.1-8b", 64))[0].weights
    assert rest == pytest.approx(2 * 2 * 128256 * 4096, rel=1e-4)
    assert whole - rest == held_by_host(_with("llama-3.1-8b", 64))


def test_every_rank_leaves_as_much_of_its_own() -> None:
    two = _with("llama-3.1-8b", 2, pipeline_parallel=2)
    assert offloaded_bytes(two, range(16)) == offloaded_bytes(two, range(16, 32)) == held_by_host(two)
    assert held_by_host(_with("llama-3.1-8b", 2, tensor_parallel=2)) == pytest.approx(2 * GIB, rel=0.06)


def test_older_versions_copy_a_layer_back_before_it_runs() -> None:
    copied, viewed = _served("llama-3.1-8b", version="0.6.3"), _served("llama-3.1-8b", version="0.9.0")
    without = _served("llama-3.1-8b", "", version="0.6.3")
    assert copied.terms.activations - without.terms.activations == pytest.approx(416 * 2**20, rel=1e-3)
    assert any("copies a layer's weights" in str(text) for text in copied.reserve_basis)
    assert not any("copies a layer's weights" in str(text) for text in viewed.reserve_basis)


def test_the_terms_add_up_with_weights_elsewhere() -> None:
    terms = _served("llama-3.1-8b").terms
    parts = (terms.weights, terms.kv_cache, terms.state, terms.activations, terms.graphs, terms.runtime)
    assert sum(parts) + terms.unclaimed + terms.free == terms.usable


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cpu_offload_gb": -1.0}, "it must be a size in GiB"),
        ({"cpu_offload_gb": 4.0, "engine": "vllm==0.4"}, "is no option of vllm==0.4"),
        ({"cpu_offload_gb": 4.0, "engine": "sglang"}, "is no option of sglang"),
        ({"cpu_offload_gb": 4.0, "engine": "llama.cpp", "quantization": "Q8_0"}, r"is no option of llama\.cpp"),
    ],
)
def test_an_engine_without_the_option_refuses_it(options: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        fit("llama-3.1-8b", "l40s", max_len=8192, **options)  # type: ignore[arg-type]


def test_the_command_says_so_again() -> None:
    one = fit("llama-3.1-8b", "l40s", max_len=8192, cpu_offload_gb=4.5).candidates[0]
    assert "--cpu-offload-gb 4.5" in one.serve_command
    assert fit(one.serve_command, "l40s").candidates[0].terms == one.terms


def test_roofline_says_what_reading_them_takes_and_that_no_time_counts_it() -> None:
    """12.08 GiB over a PCIe 4.0 slot of 31.5 GB/s."""
    answer = roofline("llama-3.1-8b", "rtx-3090", cpu_offload_gb=12, max_len=8192)
    assert "412 ms or more" in str(answer.cautions[-1])
    assert "and do not hold" in str(roofline("qwen3-30b-a3b", "rtx-3090", cpu_offload_gb=48).cautions[-1])
    pasted = roofline("vllm serve llama-3.1-8b --max-model-len 8192 --cpu-offload-gb 12", "rtx-3090")
    assert pasted.cautions == answer.cautions

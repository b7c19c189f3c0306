"""Turning points are where the estimate itself turns; the hierarchy counts what each level moves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.answers.roofline import roofline
from narrows.deployment import Deployment, deploy
from narrows.hardware import find_accelerator
from narrows.models import load_model, read_config
from narrows.roofline import turning_batch
from narrows.roofline.hierarchy import clock, levels
from narrows.roofline.phases import Load, Served
from narrows.roofline.turning import (
    TurningPoint,
    decode_by_peaks,
    first,
    kv_bytes,
    state_bytes,
    turning_points,
    weight_bytes,
)
from narrows.step import AttentionShape, Batch, Elementwise, Gemm, Operator

from .test_estimate import LLAMA_1B, on_two_cores


def served(model: str, gpu: str, **options: int) -> Deployment:
    return deploy(load_model(model), find_accelerator(gpu), **options)  # type: ignore[arg-type]


def points(deployment: Deployment, load: Load) -> dict[str, TurningPoint]:
    return {one.name: one for one in turning_points(Served(deployment), load)}


@given(answer=st.integers(1, 5000), most=st.integers(1, 5000), near=st.integers(0, 9000))
def test_the_first_number_that_holds_is_found(answer: int, most: int, near: int) -> None:
    assert first(lambda n: n >= answer, most, near) == (answer if answer <= most else None)


def test_on_two_cores_the_turn_is_near_batch_13() -> None:
    """435 GFLOP/s ÷ 32.9 GB/s = 13.2 FLOP/B, and B sequences give a large product nearly B FLOP/B."""
    deployment = on_two_cores()
    found = points(deployment, Load(512, 1, 64))
    assert found["decode_compute"].by_peaks is not None
    assert 13 <= found["decode_compute"].by_peaks <= 15
    assert found["decode_compute"].value is not None
    assert 13 <= found["decode_compute"].value <= 15
    steps = Served(deployment)
    assert steps.estimate(Batch.prefill(512)).bound == "compute"
    assert steps.estimate(Batch.decode(1, 64)).bound == "memory bandwidth"


def test_a_square_product_turns_where_the_chapter_says() -> None:
    """[B, 4096] × [4096, 4096] on L40S turns at 527; Llama-2-7b's products are wider, so that it turns earlier."""
    whole = decode_by_peaks(Served(served("llama-2-7b", "l40s")), 1)
    square = turning_batch(4096, find_accelerator("l40s").ridge("fp16"))
    assert whole is not None
    assert square == 527
    assert 0.85 * square < whole < square


@pytest.mark.parametrize("gpu", ["t4", "l40s", "h100-sxm", "mi300x"])
def test_kv_passes_weights_exactly_there(gpu: str) -> None:
    deployment = served("llama-2-7b", gpu)
    found = points(deployment, Load(1024, 16, 4096))
    plan = Served(deployment).plan
    context, batch = found["decode_kv_context"].value, found["decode_kv_batch"].value
    assert context is not None
    assert batch is not None
    for steps, beyond in ((Batch.decode(16, context - 1), False), (Batch.decode(16, context), True)):
        operators = plan.operators(steps)
        assert (kv_bytes(operators) >= weight_bytes(operators)) == beyond
    assert kv_bytes(plan.operators(Batch.decode(batch, 4096))) >= weight_bytes(
        plan.operators(Batch.decode(batch, 4096))
    )


def test_prefill_turns_where_its_estimate_does() -> None:
    deployment = served("llama-3.1-8b", "a100-sxm-80gb")
    found = points(deployment, Load(1024, 1, 1024))["prefill_compute"]
    steps = Served(deployment)
    assert found.value is not None
    assert steps.estimate(Batch.prefill(found.value)).bound == "compute"
    assert steps.estimate(Batch.prefill(found.value - 1)).bound != "compute"


def test_a_turn_before_the_first_number_is_told_as_none() -> None:
    """One sequence of 30,000 tokens holds 15.7 GB of KV cache, more than the 13.2 GB of weights that a step reads."""
    found = points(served("llama-2-7b", "h100-sxm", max_length=30000), Load(4096, 30000, 30000))
    assert (found["decode_kv_batch"].value, found["decode_kv_context"].value) == (1, 1)
    assert str(found["decode_kv_batch"].text) == "at 30,000 tokens KV traffic exceeds weight traffic at every batch"
    assert str(found["decode_kv_context"].text) == "at batch 30,000 KV traffic exceeds weight traffic at every context"


def test_windows_keep_kv_below_weights_for_ever() -> None:
    """One sequence in windows of 1,024 tokens reads 32 layers × 1,024 × 4 KiB: less than the weights, at any length."""
    config = {
        "model_type": "mistral",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 32000,
        "max_position_embeddings": 131072,
        "sliding_window": 1024,
        "torch_dtype": "bfloat16",
    }
    deployment = deploy(read_config(config, name="windows"), find_accelerator("l40s"))
    found = points(deployment, Load(1024, 1, 4096))["decode_kv_context"]
    assert found.value is None
    assert "never passes" in str(found.text)


def test_a_step_too_short_to_be_compute_bound_says_so() -> None:
    deployment = served("llama-3.1-8b", "h100-sxm", max_num_batched_tokens=64, max_num_seqs=64)
    found = points(deployment, Load(1024, 1, 1024))["prefill_compute"]
    assert found.value is None
    assert "max_num_batched_tokens" in str(found.text)


def test_a_model_of_one_billion_holds_on_a_card_what_seven_billion_do_not() -> None:
    small = deploy(read_config(LLAMA_1B, name="llama-1b"), find_accelerator("l40s"))
    assert points(small, Load(512, 16, 1024))["decode_compute"].fits is True
    large = served("llama-2-7b", "l40s")
    assert points(large, Load(512, 16, 4096))["decode_compute"].fits is False


def product(m: int, k: int, n: int) -> Operator:
    return Operator("mlp.up", Gemm(m, k, n), 1, "fp16", 2 * m * k * n, 2 * k * n, 2 * m * k, 2 * m * n)


@given(m=st.integers(1, 9000), k=st.integers(64, 9000), n=st.integers(64, 9000))
def test_traffic_grows_towards_the_arithmetic(m: int, k: int, n: int) -> None:
    device = find_accelerator("l40s")
    outer, second, inner, arithmetic = levels(product(m, k, n), device)
    assert second.bytes <= inner.bytes
    # L2 serves every input once at least
    assert second.bytes >= outer.bytes - 2 * m * n
    assert arithmetic.time == pytest.approx(2 * m * k * n / device.peak("fp16"))


def test_a_product_of_one_tile_is_read_once_at_every_level() -> None:
    outer, second, *_ = levels(product(128, 512, 256), find_accelerator("l40s"))
    assert second.bytes == outer.bytes


def test_a_large_product_is_read_as_often_as_tiles_need_it() -> None:
    """4096³ in tiles of 128 × 256: the left 16 times, the right 32 times."""
    _, second, inner, _ = levels(product(4096, 4096, 4096), find_accelerator("l40s"))
    assert second.bytes == 2 * 4096**2 * (16 + 32 + 1)
    assert inner.bytes == 2 * 4096**2 * (64 + 64 + 1)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("qwen3-next-80b-a3b", {"tp": 2, "precision": "fp4"}),
        ("deepseek-v3", {"tp": 8}),
        ("gpt-oss-120b", {}),
        ("gemma-3-27b", {"precision": "fp8"}),
    ],
)
def test_no_level_within_moves_less_than_device_memory(model: str, options: dict[str, Any]) -> None:
    answer = roofline(model, "b200-sxm", **options)
    for name in dict.fromkeys(row.name for row in answer.operators if row.flops):
        for one in roofline(model, "b200-sxm", operator=name, **options).hierarchy:
            sizes = [level.bytes for level in one.levels if level.name != "arithmetic"]
            assert sizes == sorted(sizes), (name, sizes)


def test_the_clock_follows_from_the_fp32_peak() -> None:
    """NVIDIA states 2,520 MHz boost for the L40S, 1,980 for the H100 SXM5, 1,410 for the A100."""
    for gpu, hertz in (("l40s", 2520e6), ("h100-sxm", 1980e6), ("a100-sxm-80gb", 1410e6)):
        assert clock(find_accelerator(gpu)) == pytest.approx(hertz, rel=0.02)
    assert clock(find_accelerator("mi300x")) is None


def test_levels_without_a_figure_say_what_would_be_enough() -> None:
    _, second, *_ = levels(product(4096, 4096, 4096), find_accelerator("mi300x"))
    assert (second.bandwidth, second.time) == (None, None)
    assert second.needed is not None
    assert second.needed > find_accelerator("mi300x").memory_bandwidth


def test_what_has_no_reuse_has_device_memory_alone() -> None:
    norm = Operator("norm", Elementwise(16, 4096), 1, "fp32", 0, 0, 131072, 131072)
    assert [level.name for level in levels(norm, find_accelerator("l40s"))] == ["device memory"]


def test_decode_attention_reads_its_cache_once_at_every_level() -> None:
    shape = AttentionShape("decode", 4, 4, 4000, 4000, 32, 8, 128, 128)
    one = Operator("attention.core", shape, 1, "fp16", 4 * 4000 * 32 * 128, kv_reads=2 * 2 * 4000 * 8 * 128)
    outer, second, *_ = levels(one, find_accelerator("l40s"))
    assert second.bytes == outer.bytes


def test_state_is_no_kv_cache() -> None:
    """Two of Qwen3-Next's state per sequence (read and written) against weights; only its attention keeps a cache."""
    model = load_model("Qwen/Qwen3-Next-80B-A3B-Instruct")
    steps = Served(deploy(model, find_accelerator("h200-sxm"), max_length=8192))
    step = steps.plan.operators(Batch.decode(4, 8191))
    assert kv_bytes(step) == 4 * (model.kv_bytes_per_sequence(8192) + model.kv_bytes_per_token(8191))
    assert state_bytes(step) == 4 * 2 * model.state_bytes_per_sequence()
    found = points(steps.deployment, Load(8192, 4, 8191))
    turn = found["decode_state_batch"].value
    assert turn is not None
    for batch, beyond in ((turn - 1, False), (turn, True)):
        step = steps.plan.operators(Batch.decode(batch, 8191))
        assert (batch * 2 * model.state_bytes_per_sequence() >= weight_bytes(step)) == beyond


def test_a_model_without_a_cache_is_said_to_have_none() -> None:
    config = {
        "architectures": ["Mamba2ForCausalLM"],
        "model_type": "mamba2",
        "hidden_size": 2560,
        "num_hidden_layers": 64,
        "num_heads": 80,
        "head_dim": 64,
        "state_size": 128,
        "n_groups": 1,
        "vocab_size": 50288,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    }
    steps = Served(deploy(read_config(config, name="mamba2"), find_accelerator("h100-sxm"), max_length=8192))
    found = points(steps.deployment, Load(8192, 16, 8191))
    for name in ("decode_kv_batch", "decode_kv_context"):
        assert found[name].value is None
        assert "no KV cache" in str(found[name].text)
    assert found["decode_state_batch"].value is not None

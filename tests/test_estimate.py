from __future__ import annotations

import math

import pytest

from narrows.calibration.laws import law
from narrows.deployment import Deployment, deploy
from narrows.hardware import Accelerator, find_accelerator
from narrows.models import load_model, read_config
from narrows.roofline.cost import Costs
from narrows.roofline.estimate import Estimator, combined, estimate, split, summed, timed
from narrows.roofline.roof import turning_batch
from narrows.step import Batch, Chunk, Collective, Experts, Gemm, Operator, plan_of
from narrows.text import BadInput

GIB = 2**30
LLAMA_1B = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
# two cores of a Zen 4, peaks as measured on it
TWO_CORES = Accelerator(
    id="two-cores",
    name="two cores",
    vendor="amd",
    architecture="Zen 4",
    form_factor="virtual machine",
    launch_year=2022,
    memory_label="24 GiB",
    memory_bytes=24 * GIB,
    memory_kind="host",
    memory_basis="measured",
    memory_type="DDR5",
    memory_bandwidth=32.9e9,
    source="measured",
    confidence="high",
    as_of="2026-11-29",
    fp32=181e9,
    bf16=435e9,
)


def on_two_cores() -> Deployment:
    return deploy(read_config(LLAMA_1B, name="llama-1b"), TWO_CORES, device_memory=23 * GIB)


def product(m: int, k: int, n: int, count: int = 1) -> Operator:
    return Operator("mlp.up", Gemm(m, k, n), count, "bf16", 2 * m * k * n, 2 * k * n, 2 * m * k, 2 * m * n)


def h100(tensor_parallel: int = 1) -> Deployment:
    return deploy(load_model("llama-3.1-70b"), find_accelerator("h100-sxm"), tensor_parallel=tensor_parallel)


@pytest.mark.parametrize(
    "batch", [Batch.decode(16, 2000), Batch.prefill(4096), Batch((Chunk(9, 1, 50), Chunk(2, 300)))]
)
@pytest.mark.parametrize("tensor_parallel", [1, 4])
def test_shares_of_the_causes_add_up_to_the_time(batch: Batch, tensor_parallel: int) -> None:
    found = estimate(h100(tensor_parallel), batch)
    assert math.isclose(sum(found.shares.values()), found.time, rel_tol=1e-9)
    alone = sum(one.time * one.operator.count for one in found.operators) + found.overhead
    assert math.isclose(alone, found.time, rel_tol=1e-9)
    assert found.low < found.time < found.high
    assert found.bound == max(found.shares, key=lambda cause: found.shares[cause])
    assert (found.shares["interconnect"] > 0) == (tensor_parallel > 1)


@pytest.mark.parametrize(
    ("model", "gpu", "batch"),
    [
        ("qwen3-coder-480b", "h100-sxm", 16),
        ("mixtral-8x22b-instruct", "b200-sxm", 64),
        ("qwen3-235b-a22b-instruct-2507", "h200-sxm", 16),
        ("llama-3.1-70b", "h100-sxm", 1),
    ],
)
def test_no_step_and_no_end_of_its_interval_is_faster_than_the_device(model: str, gpu: str, batch: int) -> None:
    """Weights and cache that a step reads need their bytes ÷ bandwidth, whatever the engine's kernels."""
    device = find_accelerator(gpu)
    found = estimate(deploy(load_model(model), device), Batch.decode(batch, 1024))
    moved = sum(one.operator.count * one.operator.kept for one in found.operators)
    assert moved / device.memory_bandwidth * (1 - 1e-9) <= found.low <= found.time


def test_an_operator_is_bound_by_the_largest_of_its_parts() -> None:
    costs = Costs(h100(4))
    assert timed(product(8192, 8192, 8192), costs).bound == "compute"
    assert timed(product(1, 8192, 28672), costs).bound == "memory bandwidth"
    assert timed(product(1, 64, 64), costs).bound == "overhead"
    assert (
        timed(Operator("o.all_reduce", Collective("all_reduce", 4, 2**28), 1, "bf16", 0), costs).bound == "interconnect"
    )
    assert timed(Operator("o.all_reduce", Collective("all_reduce", 4, 2**10), 1, "bf16", 0), costs).bound == "overhead"


def test_idle_multiprocessors_are_overhead_and_no_want_of_arithmetic() -> None:
    found = Costs(deploy(load_model("llama-3.1-8b"), find_accelerator("h200-sxm")))
    # the router of a large mixture of experts: its few columns keep two of 132 multiprocessors busy
    router = timed(product(1, 7168, 256), found)
    assert router.bound == "overhead" and router.compute < router.memory
    for batch in (1, 8, 64):
        whole = estimate(
            deploy(load_model("deepseek-v3"), find_accelerator("h200-sxm"), tensor_parallel=8),
            Batch.decode(batch, 1000),
        )
        assert whole.shares["compute"] < 0.01 * whole.time


def test_latency_goes_to_overhead_and_the_rest_to_the_largest_part() -> None:
    one = timed(product(1, 8192, 8192), Costs(h100()))
    shares = split(one)
    assert math.isclose(sum(shares.values()), one.time)
    assert shares["overhead"] == one.overhead and shares["memory bandwidth"] == one.time - one.overhead


def test_intervals_of_correlated_errors_do_not_cancel() -> None:
    costs = Costs(h100())
    one = timed(product(64, 8192, 8192), costs)
    many = tuple([one] * 50)
    time, low, high = combined(many)
    assert math.isclose(time, 50 * one.time)
    assert math.isclose(low / time, one.low / one.time) and math.isclose(high / time, one.high / one.time)
    # what the engine adds is taken as it is
    assert summed((one,), one.time).low / (2 * one.time) > one.low / one.time


def test_a_step_is_slower_with_more_tokens_context_and_fewer_ranks() -> None:
    base = estimate(h100(4), Batch.decode(16, 2000)).time
    assert estimate(h100(4), Batch.decode(128, 2000)).time > base
    assert estimate(h100(4), Batch.decode(16, 60000)).time > base
    assert estimate(h100(1), Batch.decode(16, 2000)).time > 2 * base


def test_ranks_that_nothing_joins_are_refused() -> None:
    found = deploy(
        load_model("llama-2-7b"), find_accelerator("apple-m4-max-40"), tensor_parallel=2, device_memory=40 * GIB
    )
    with pytest.raises(BadInput, match="nothing is known of a link"):
        estimate(found, Batch.decode(1, 100))


def test_on_a_processor_prefill_is_bound_by_compute_and_decode_by_memory_with_the_turn_near_13() -> None:
    deployment = on_two_cores()
    assert deployment.model.unique_parameters() == pytest.approx(1.04e9, rel=0.01)
    assert estimate(deployment, Batch.prefill(128)).bound == "compute"
    assert estimate(deployment, Batch.prefill(512)).bound == "compute"
    for batch in (1, 2, 4, 8, 12):
        assert estimate(deployment, Batch.decode(batch, 64)).bound == "memory bandwidth"
    for batch in (15, 16, 32):
        assert estimate(deployment, Batch.decode(batch, 64)).bound == "compute"
    assert TWO_CORES.ridge("bf16") == pytest.approx(13.2, abs=0.05)
    assert turning_batch(2048, TWO_CORES.ridge("bf16")) == 14


@pytest.mark.parametrize(
    ("batch", "seconds"),
    [
        # vLLM 0.32 for CPUs on these two cores, wall time
        (Batch.prefill(128), 0.6758),
        (Batch.prefill(512), 2.6155),
        (Batch.decode(1, 64), 0.1119),
        (Batch.decode(2, 64), 0.1094),
        (Batch.decode(4, 64), 0.0948),
        (Batch.decode(8, 64), 0.1123),
        (Batch.decode(16, 64), 0.1105),
    ],
)
def test_steps_on_a_processor_take_what_they_took(batch: Batch, seconds: float) -> None:
    assert estimate(on_two_cores(), batch).time == pytest.approx(seconds, rel=0.2)


def test_products_with_few_rows_move_weights_slower_than_a_copy_does() -> None:
    share = law("cpu", "cpu", ("two-cores", "cpu", "any")).values["bandwidth"]
    assert 17e9 < share * TWO_CORES.memory_bandwidth < 19.5e9


def test_a_prompt_over_cards_on_pcie_may_take_what_either_host_takes() -> None:
    # LLaMA-70B in FP8 on 4 × L40S, 2048 tokens: 673.3 ms on the host of TensorRT-LLM's overview (v0.9.0); the
    # all-reduce that aiconfigurator measured on another host alone takes 1.6 s
    model = load_model("meta-llama/Llama-2-70b-hf")
    four = estimate(
        deploy(model, find_accelerator("l40s"), tensor_parallel=4, quantization="fp8", max_num_batched_tokens=2048),
        Batch.prefill(2048),
    )
    assert 0.4 < four.shares["interconnect"] < 0.8
    assert four.low < 0.673 < four.high
    assert four.high > 1.6
    two = estimate(deploy(model, find_accelerator("l40s"), tensor_parallel=2, quantization="fp8"), Batch.prefill(2048))
    assert four.high / four.low > 2 * two.high / two.low


@pytest.mark.parametrize(
    ("model", "gpu", "batch"),
    [
        # weights of 8 bits unpacked by experts' kernels that were measured on B200 alone
        ("Qwen/Qwen3-30B-A3B-FP8", "a100-sxm-80gb", Batch.decode(16, 1024)),
        ("Qwen/Qwen3-30B-A3B-FP8", "a100-sxm-80gb", Batch.prefill(2048)),
        # nobody measured operators on AMD's devices
        ("llama-3.1-8b", "mi300x", Batch.prefill(2048)),
        ("deepseek-ai/DeepSeek-V2-Lite", "mi300x", Batch.decode(16, 1024)),
    ],
)
def test_a_step_is_no_surer_than_the_operators_that_nobody_measured_there(model: str, gpu: str, batch: Batch) -> None:
    steps = Estimator(deploy(load_model(model), find_accelerator(gpu)))
    found = steps.estimate(batch)
    unknown = [one for one in found.operators if steps.costs.borrowed(one.operator)]
    slower = sum(one.operator.count * (one.high - one.time) for one in unknown)
    faster = sum(one.operator.count * (one.time - one.low) for one in unknown)
    least = sum(one.operator.count * steps.costs.least(one.operator) for one in found.operators)
    assert sum(one.operator.count * one.time for one in unknown) > found.time / 2
    assert found.high >= found.time + slower
    assert found.low <= max(found.time - faster, least) * (1 + 1e-9)


def test_what_was_measured_has_the_interval_of_measured_steps() -> None:
    steps = Estimator(h100())
    found = steps.estimate(Batch.decode(16, 1024))
    assert steps.costs.steps is not None
    assert not any(steps.costs.borrowed(one.operator) for one in found.operators)
    assert math.isclose(found.high, steps.costs.steps.high * found.time)


# --- versions of kernels


def experts_at(engine: str, batch: int, tensor_parallel: int = 2, gpu: str = "h200-sxm") -> float:
    deployment = deploy(
        load_model("Qwen/Qwen3-235B-A22B-FP8"),
        find_accelerator(gpu),
        engine=engine,
        tensor_parallel=tensor_parallel,
        max_length=8192,
    )
    costs = Costs(deployment, bare=True)
    operators = plan_of(deployment).operators(Batch.decode(batch, 1000))
    return float(sum(o.count * costs(o).time for o in operators if isinstance(o.shape, Experts)))


def test_experts_that_are_filled_up_with_empty_rows_take_as_long_for_few_tokens_as_for_many() -> None:
    """vLLM 0.11 and 0.12 computed blocks of 128 rows of every expert: two H200 took 52 ms whatever the batch."""
    few, many = experts_at("vllm==0.12", 4), experts_at("vllm==0.12", 20)
    assert many < 1.02 * few
    assert 0.045 < few < 0.060
    assert experts_at("vllm==0.14", 4) < few / 4
    assert experts_at("vllm==0.14", 20) > 2 * experts_at("vllm==0.14", 4)


def test_experts_that_triton_runs_are_not_filled_up() -> None:
    assert experts_at("vllm==0.12", 4, tensor_parallel=8) == experts_at("vllm==0.14", 4, tensor_parallel=8)
    assert experts_at("vllm==0.11", 4, tensor_parallel=8) == experts_at(
        "vllm==0.14", 4, tensor_parallel=8
    )  # too narrow
    assert experts_at("vllm==0.12", 4, 4, gpu="l40s") == experts_at("vllm==0.14", 4, 4, gpu="l40s")

"""Laws of the memory ledger that the gathered records brought, each on the log it comes from."""

from __future__ import annotations

import pytest

from narrows.accuracy.records import memory_cases, unsettled
from narrows.calibration import coefficients
from narrows.deployment import Deployment, deploy
from narrows.hardware import find_accelerator
from narrows.memory import reserve, start
from narrows.memory.activations import encoded_tokens, gathered_bytes, peak, sampler_of, vision_bytes
from narrows.memory.ledger import error_name, graph_name, peer_name, runtime_name
from narrows.memory.resident import absorbed_bytes, deepstack_bytes, padding_bytes, rope_bytes
from narrows.models import load_model
from narrows.units import GIB


def on(gpu: str, model: str = "llama-3.1-8b", **options: object) -> Deployment:
    return deploy(load_model(model), find_accelerator(gpu), **options)  # type: ignore[arg-type]


def test_a_version_that_cuts_long_prompts_samples_for_its_profile_all_the_same() -> None:
    """vllm-project/vllm#13061: 0.7.2 on two RTX 4090 holds 81,536 tokens of 131,072, 1.2 GiB less than the 8.69 GiB of
    the rank that does not sample and that its log lists with 0.19 GiB of activations.
    """
    one = on(
        "rtx-4090", "DeepSeek-R1-Distill-Qwen-14B", engine="vllm==0.7.2", tensor_parallel=2, utilization=0.98,
        device_memory=int(23.55 * GIB),
    )  # fmt: skip
    assert one.max_num_batched_tokens == 2048
    per_token = 48 * 8 // 2 * 128 * 2 * 2
    of_others = 0.25 * GIB + 13.9476 * GIB
    kept = one.budget - of_others - 81_536 * per_token
    assert reserve(one).activations / GIB == pytest.approx(kept / GIB, rel=0.12)


def test_volta_cuts_no_prompts() -> None:
    """vllm-project/vllm#11251: two V100 profile 40,000 tokens, 2.53 GiB."""
    volta, later = (on(gpu, engine="vllm==0.6.4", max_length=40_000) for gpu in ("v100-sxm2-16gb", "a100-sxm-80gb"))
    assert (volta.max_num_batched_tokens, later.max_num_batched_tokens) == (40_000, 512)
    two = on("v100-sxm2-16gb", engine="vllm==0.6.4.post1", max_length=40_000, tensor_parallel=2)
    assert reserve(two).activations / GIB == pytest.approx(2.53, rel=0.06)


def test_ranks_gather_the_logits_of_all() -> None:
    rows, vocab = 256, 128_256
    one, two = (on("a100-sxm-80gb", engine="vllm==0.12", tensor_parallel=tp) for tp in (1, 2))
    assert (gathered_bytes(one, rows), gathered_bytes(two, rows)) == (0, 2 * rows * vocab * 2)
    assert gathered_bytes(on("a100-sxm-80gb", engine="vllm==0.31", tensor_parallel=2), rows) == 0


def test_the_second_runner_does_without_a_fused_sampler_on_older_devices() -> None:
    assert sampler_of(on("t4", engine="vllm==0.30")) == "plain"
    found = start(on("t4", "qwen2.5-1.5b-instruct", engine="vllm==0.30", utilization=0.85, max_length=4096))
    assert found.kv.value / GIB == pytest.approx(8.67, rel=0.03), "a server's log of 0.30.0"


def test_mxfp4_experts_are_padded_more_where_marlin_runs_them() -> None:
    """vllm-project/vllm#23278 states 65.97 GiB for gpt-oss-120b by Marlin, and servers 64.38 by Triton."""
    triton, marlin = (start(on(gpu, "gpt-oss-120b")).weights / GIB for gpu in ("h100-sxm", "a100-sxm-80gb"))
    assert triton == pytest.approx(64.38, rel=0.005)
    assert marlin == pytest.approx(65.97, rel=0.002)
    assert padding_bytes(on("a100-sxm-80gb")) == 0


def test_qwen3_vl_keeps_buffers_for_its_deepstack_and_rotary_rows_for_time() -> None:
    """Servers of 0.16 to 0.20.2 state 58.23 GiB for a step of 8192 tokens."""
    one = on("h200-sxm", "qwen3-vl-30b-a3b-instruct", engine="vllm==0.18")
    assert deepstack_bytes(one) == 3 * 8192 * 2048 * 2
    assert rope_bytes(one) == 4 * 262_144 * 128 * 2
    assert start(one).weights / GIB == pytest.approx(58.23, abs=0.02)
    assert deepstack_bytes(on("h200-sxm", "qwen3.5-35b-a3b")) == 0


def test_a_vision_tower_has_a_peak_of_its_own() -> None:
    """An image of the largest size is profiled, 16,384 tokens of four patches, whatever the step holds."""
    one = on("h200-sxm", "qwen3-vl-30b-a3b-instruct", engine="vllm==0.18")
    known = coefficients("vllm")
    plain = 16_384 * 4 * (2 * 4304 + 3 * 1152) * 2
    assert peak(one, known).vision == int(plain * known["vision_copies"].value)
    assert vision_bytes(one, one.model.towers[0]) == plain
    assert peak(one, known).largest == peak(one, known).vision
    wide = on("h200-sxm", "qwen3-vl-30b-a3b-instruct", engine="vllm==0.18", max_num_batched_tokens=32_768)
    assert encoded_tokens(wide, wide.model.towers[0]) == 32_768
    assert peak(on("h200-sxm"), known).vision == 0


def test_what_the_tower_hands_over_is_there_while_the_decoder_is_profiled() -> None:
    known, options = coefficients("vllm"), {"engine": "vllm==0.12", "max_num_seqs": 1024}
    seen = peak(on("h200-sxm", "qwen3-vl-30b-a3b-instruct", **options), known)
    text = peak(on("h200-sxm", "qwen3-30b-a3b", **options), known)
    assert seen.sampling - text.sampling == 16_384 * 4 * 2048 * 2


def test_towers_without_rotation_are_taken_as_they_are() -> None:
    """vllm-project/vllm#21489: 9.96 GiB for gemma-3-4b-it are sampling's, so 16,384 tokens of images take no more."""
    one = on("b200-sxm", "gemma-3-4b-it", engine="vllm==0.10", max_num_batched_tokens=16_384, max_num_seqs=1024)
    found = peak(one, coefficients("vllm"))
    assert found.vision == 16_384 * 16 * (2 * 4304 + 3 * 1152) * 2 < found.sampling


def test_a_server_that_takes_no_images_loads_no_vision_tower() -> None:
    """A log of Qwen3.6-35B-A3B with no images allowed: 64.69 GiB."""
    case = next(case for case in memory_cases()[0] if case.record.id == "tm-144")
    assert "text" in case.record.flags
    assert case.weights / GIB == pytest.approx(64.69, abs=0.01)


def test_latent_attention_keeps_its_up_projection_twice_on_quantized_weights() -> None:
    eight = on("h200-sxm", "deepseek-r1", tensor_parallel=8)
    assert absorbed_bytes(eight) == 61 * 16 * (128 + 128) * 512 * 2
    assert start(eight).weights / GIB == pytest.approx(79.74, rel=0.005), "servers of 0.11.2 to 0.20.0"
    assert absorbed_bytes(on("h200-sxm", "deepseek-v2-lite")) == 0


@pytest.mark.parametrize(
    ("gpu", "version", "name"),
    [
        ("h200-sxm", "0.10", "nccl_bytes_per_peer"),
        ("h200-sxm", "0.16", None),
        ("h200-sxm", "0.18", "nvlink_bytes_per_peer"),
        ("rtx-3090", "0.18", None),
    ],
)
def test_buffers_for_nvlink_come_out_of_the_share_from_0_18_on_hopper(gpu: str, version: str, name: str | None) -> None:
    assert peer_name(on(gpu, engine=f"vllm=={version}", tensor_parallel=4)) == name


@pytest.mark.parametrize(
    ("gpu", "model", "version", "tp", "error", "runtime"),
    [
        ("h100-sxm", "llama-3.1-8b", "0.12", 1, "reserve_error", "runtime_bytes"),
        ("h100-sxm", "llama-3.1-8b", "0.6.4", 1, "reserve_error_whole_prompts", "runtime_bytes_whole_prompts"),
        ("h100-sxm", "llama-3.1-8b", "0.12", 2, "reserve_error_beyond_sorted", "runtime_bytes_parallel"),
        ("h100-sxm", "llama-3.1-8b", "0.20", 2, "reserve_error_beyond", "runtime_bytes_parallel"),
        ("h100-sxm", "qwen3-vl-30b-a3b-instruct", "0.20", 1, "reserve_error_beyond", "runtime_bytes"),
        ("gb10-dgx-spark", "llama-3.1-8b", "0.20", 1, "reserve_error_beyond", "runtime_bytes"),
        ("mi300x", "llama-3.1-8b", "0.13", 1, "reserve_error_beyond_sorted", "runtime_bytes_rocm"),
    ],
)
def test_each_kind_of_server_has_its_own_interval_and_runtime(
    gpu: str, model: str, version: str, tp: int, error: str, runtime: str
) -> None:
    one = on(gpu, model, engine=f"vllm=={version}", tensor_parallel=tp)
    assert (error_name(one), runtime_name(one)) == (error, runtime)


def test_what_one_device_is_known_for_is_narrower_than_what_lies_beyond() -> None:
    known = coefficients("vllm")
    plain = known["reserve_error"]
    for name in ("reserve_error_beyond", "reserve_error_beyond_sorted"):
        assert known[name].high - known[name].low > 3 * (plain.high - plain.low)


def test_the_same_settings_with_another_outcome_settle_nothing() -> None:
    twice = {case.record.id for case in memory_cases()[0] if unsettled(case)}
    assert {"pub-009", "pub-010"} <= twice
    assert "tm-119" not in twice


def test_sampling_is_warmed_up_beside_the_graphs() -> None:
    """vllm-project/vllm#15105: 0.95 of a 24 GB device fails with 1024 sequences to sample."""
    options = {"engine": "vllm==0.8.0", "tensor_parallel": 2, "max_length": 30_000}
    high, low = (on("rtx-4090", "qwen3-32b-awq", utilization=share, **options) for share in (0.95, 0.9))
    assert (start(high).stage, start(low).stage) == ("graphs", "started")
    assert reserve(high).graphs < reserve(high).activations, "the profiled batch alone would have left enough"
    old = on("rtx-4090", "qwen2.5-7b-instruct", engine="vllm==0.6.4", utilization=0.96, max_length=4096)
    assert start(old).stage == "started"


def test_the_same_server_starts_with_0_8_5_and_fails_with_0_11() -> None:
    """vllm-project/vllm#27782: four 24 GB devices, experts cut over them; the newer version captures more graphs."""
    stages = [
        start(on("rtx-4090", "qwen3-30b-a3b", engine=f"vllm=={version}", tensor_parallel=4)).stage
        for version in ("0.8.5", "0.11.0")
    ]
    assert stages == ["started", "graphs"]


def test_graphs_take_more_by_layer_and_where_experts_are_cut() -> None:
    names = {
        (model, tp): graph_name(on("h100-sxm", model, tensor_parallel=tp))
        for model in ("qwen3-32b", "qwen3-30b-a3b")
        for tp in (1, 2)
    }
    assert [name.endswith("cut_experts") for name in names.values()] == [False, False, False, True]
    small, large = (reserve(on("h200-sxm", name, engine="vllm==0.22")).graphs for name in ("qwen3-0.6b", "qwen3-32b"))
    assert large / small == pytest.approx(64 / 28, rel=0.001)


@pytest.mark.parametrize(
    ("gpu", "version", "tp", "more"),
    [
        ("h200-sxm", "0.10.2", 2, 1.1),
        ("h100-sxm", "0.10.2", 4, 1.1),
        ("h100-sxm", "0.18", 4, 1.1),
        ("rtx-pro-6000-blackwell-server", "0.18", 4, 3.6),
        ("h100-sxm", "0.20", 4, 0.0),
    ],
)
def test_kernels_of_gated_delta_layers_take_memory_outside_the_allocator(
    gpu: str, version: str, tp: int, more: float
) -> None:
    """Qwen3-Next on 0.10.2: 1.38 GiB on two H200, 1.84 on four H100 (vllm-project/vllm#24881)."""
    model = "Qwen3-Next-80B-A3B-Instruct"
    one = on(gpu, model, engine=f"vllm=={version}", tensor_parallel=tp, max_length=8192)
    found = reserve(one)
    other = reserve(on(gpu, "Qwen3-30B-A3B", engine=f"vllm=={version}", tensor_parallel=tp, max_length=8192))
    assert (found.runtime - other.runtime) / GIB == pytest.approx(more, abs=0.02)
    assert any("gated-delta" in str(text) for text in found.basis)
    if version == "0.10.2":
        assert found.runtime / GIB == pytest.approx({2: 1.38, 4: 1.84}[tp], rel=0.2)
    assert found.high - found.low > other.high - other.low

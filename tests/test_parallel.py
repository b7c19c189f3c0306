"""Experts given out whole, and replicas of attention: what a device keeps of them, and what the commands mean."""

from __future__ import annotations

import pytest

from narrows import fit
from narrows.answers.fit_types import Candidate
from narrows.answers.roofline import roofline
from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.memory import shards
from narrows.models import load_model
from narrows.text import BadInput

GIB = 2**30


def _of(model: str, gpu: str = "h200-sxm", **options: object) -> Candidate:
    return fit(model, gpu, max_len=8192, **options).candidates[0]  # type: ignore[arg-type]


def test_whole_experts_weigh_what_cut_ones_do_where_they_come_out_even() -> None:
    cut, whole = _of("deepseek-v3", tp=8), _of("deepseek-v3", tp=8, ep=8)
    assert whole.terms.weights == pytest.approx(cut.terms.weights, rel=1e-3)
    assert (whole.expert_parallel, cut.expert_parallel) == (8, 1)


def test_uneven_experts_are_counted_on_the_rank_that_has_one_more() -> None:
    """vLLM gives 128 experts to 3 ranks as 43, 43 and 42."""
    model, device = load_model("qwen3-30b-a3b"), find_accelerator("h200-sxm")
    options = {"max_length": 8192, "attention_data_parallel": 3}
    one = 3 * 2048 * 768 * 2 * 48  # bytes of one expert of every layer

    def weights(parallel: int) -> int:
        return shards(deploy(model, device, expert_parallel=parallel, **options))[0].weights  # type: ignore[arg-type]

    assert weights(3) - weights(1) == pytest.approx((43 - 128 / 3) * one, rel=1e-6)
    with pytest.raises(BadInput, match="cannot be shared out over 3"):
        deploy(model, device, engine="sglang", utilization=0.8, expert_parallel=3, **options)  # type: ignore[arg-type]


def test_replicas_of_attention_keep_all_but_the_experts() -> None:
    model = load_model("deepseek-v3")
    rows = [row for layer, at in model.kinds for row in model.layer_rows(layer, at)]
    experts = sum(row.stored_bytes for row in rows if row.tensor.role.startswith("experts."))
    alone = shards(deploy(model, find_accelerator("h200-sxm"), max_length=8192))[0].weights
    replica = deploy(model, find_accelerator("h200-sxm"), max_length=8192, expert_parallel=8, attention_data_parallel=8)
    assert replica.count == 8
    assert shards(replica)[0].weights == pytest.approx(alone - experts * 7 / 8, rel=1e-4)


def test_replicas_keep_more_of_the_weights_and_a_latent_of_their_own() -> None:
    """MLA keeps the whole latent on every tensor-parallel rank: replicas hold eight times the sequences in all."""
    ranks, replicas = _of("deepseek-v3", tp=8), _of("deepseek-v3", dp=8, ep=8)
    assert replicas.count == ranks.count == 8
    assert replicas.terms.weights > ranks.terms.weights + 10 * GIB
    assert 8 * replicas.max_batch > 4 * ranks.max_batch


def test_the_switch_of_vllm_means_all_ranks_of_all_replicas() -> None:
    command = "vllm serve deepseek-ai/DeepSeek-V3 -dp 4 -tp 2 --enable-expert-parallel --max-model-len 8192"
    one = fit(command, "h200-sxm").candidates[0]
    assert (one.tensor_parallel, one.attention_data_parallel, one.expert_parallel, one.count) == (2, 4, 8, 8)
    assert one.terms == _of("deepseek-ai/DeepSeek-V3", tp=2, dp=4, ep=8).terms
    cut = fit(command.replace(" --enable-expert-parallel", ""), "h200-sxm").candidates[0]
    assert (cut.attention_data_parallel, cut.expert_parallel) == (4, 1)


def test_without_experts_replicas_are_servers_alike_and_the_switch_changes_nothing() -> None:
    answer = fit("vllm serve llama-3.1-8b -dp 4 --enable-expert-parallel --max-model-len 8192", "l40s")
    told = [str(text) for text in answer.assumptions]
    assert answer.candidates[0].terms == fit("llama-3.1-8b", "l40s", max_len=8192).candidates[0].terms
    assert any("every replica is alike" in text for text in told)
    assert any("expert parallelism changes nothing" in text for text in told)
    assert not answer.warnings


def test_sglang_counts_the_ranks_of_all_replicas_and_shares_its_dense_parts() -> None:
    command = (
        "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 8 --dp 8 --enable-dp-attention "
        "--ep-size 8 --context-length 8192"
    )
    by_itself = fit(command, "h200-sxm")
    # SGLang's own rule in MiB: 512, 1.5 a token of a step, 128 a device, 2 a graph, 4.5 a graph and replica
    aside = (512 + 1.5 * 8192 + 128 * 8 + 2 * 512 + 4.5 * 512 * 8) * 2**20
    assert by_itself.candidates[0].terms.unclaimed == pytest.approx(aside, rel=0.06)
    assert any("is assumed of later ones" in str(text) for text in by_itself.assumptions)
    one = fit(command + " --mem-fraction-static 0.85", "h200-sxm").candidates[0]
    assert (one.tensor_parallel, one.attention_data_parallel, one.expert_parallel, one.count) == (1, 8, 8, 8)
    assert one.max_num_batched_tokens == 1024  # a prefill step is shared out
    dense = 3 * 3 * 7168 * 18432 + 58 * 3 * 7168 * 2048  # FP8, a byte each
    head = 2 * 129280 * 7168
    vllm = _of("deepseek-v3", dp=8, ep=8)
    model = load_model("deepseek-v3")
    alone = deploy(model, find_accelerator("h200-sxm"), max_length=8192, expert_parallel=8, attention_data_parallel=8)
    assert vllm.terms.weights > one.terms.weights
    weights = fit(command + " --mem-fraction-static 0.85", "h200-sxm").candidates[0].terms.weights
    assert shards(alone)[0].weights - weights == pytest.approx((dense + head) * 7 / 8, rel=0.15)


def test_more_ranks_as_a_mend_give_out_the_experts_over_all_of_them() -> None:
    one = _of("qwen3-30b-a3b", "l40s", dp=2, ep=2, batch=40)
    assert one.mend is not None
    shown = [mend.change for mend in (one.mend, *one.other_mends)]
    assert any(change.startswith("--tp 2 --ep 4") for change in shown)


def test_the_command_of_a_deployment_says_how_its_experts_are_shared() -> None:
    one = _of("qwen3-30b-a3b", tp=2, dp=2, ep=4)
    assert "--data-parallel-size 2 --enable-expert-parallel" in one.serve_command
    again = fit(one.serve_command, "h200-sxm").candidates[0]
    assert again.terms == one.terms
    sglang = _of("qwen3-30b-a3b", engine="sglang", tp=2, dp=2, ep=4, gpu_memory_utilization=0.8)
    assert "--tp 4 --dp 2 --enable-dp-attention --ep-size 4" in sglang.serve_command
    assert fit(sglang.serve_command, "h200-sxm").candidates[0].terms == sglang.terms


def test_llama_cpp_has_no_replicas() -> None:
    with pytest.raises(BadInput, match="has no replicas"):
        _of("qwen3-30b-a3b", engine="llama.cpp", quantization="Q4_K_M", dp=2)


def test_roofline_reads_the_same_flags() -> None:
    command = "vllm serve deepseek-ai/DeepSeek-V3 -dp 8 --enable-expert-parallel --max-model-len 8192"
    pasted = roofline(command, "h200-sxm", batch=16)
    asked = roofline("deepseek-ai/DeepSeek-V3", "h200-sxm", batch=16, dp=8, ep=8, max_len=8192)
    assert pasted.phases.decode.time.value == asked.phases.decode.time.value


def test_more_stages_of_replicas_are_so_many_times_the_devices() -> None:
    answer = roofline("qwen3-30b-a3b", "l40s", batch=16, context=30_000, dp=2, ep=2)
    (change,) = [one for one in answer.prescriptions if one.change == "--pp 2"]
    assert change.text.params["n"] == 4


def test_a_mend_of_sglang_without_replicas_takes_them_out_of_the_command() -> None:
    """--tp counts the ranks of all replicas: four of four are 16 ranks, and eight without replicas are eight."""
    one = fit("qwen3-235b-a22b", "a10g", engine="sglang", tp=4, dp=4, max_len=4096).candidates[0]
    assert one.mend is not None
    assert "--tp 8 --dp 1" in one.mend.change
    assert "--tp 8" in one.serve_command
    assert "dp" not in one.serve_command
    gpu = one.mend.change.split()[1]
    again = fit(one.serve_command, gpu, engine="sglang").candidates[0]
    assert (again.max_batch, again.length) == (one.mend.max_batch, one.mend.length)


def test_experts_that_vllm_cannot_give_out_so_are_said_to_be() -> None:
    def notes(**options: object) -> str:
        return str(fit("qwen3-30b-a3b", "h200-sxm", max_len=8192, **options).assumptions)  # type: ignore[arg-type]

    assert "over all 8 ranks" in notes(tp=8, ep=4)
    assert "no flag of it" not in notes(tp=8, ep=8) + notes(tp=8) + notes(tp=8, ep=4, engine="sglang")


def test_buffers_of_nccl_are_not_stretched_beyond_the_devices_that_were_measured() -> None:
    eight, many = (_of("deepseek-v3", tp=8, pp=pp) for pp in (1, 8))
    assert many.terms.runtime == eight.terms.runtime
    told = str(fit("deepseek-v3", "h200-sxm", tp=8, pp=8, max_len=8192).candidates[0].reserve_basis)
    assert "64 are assumed to take no more" in told

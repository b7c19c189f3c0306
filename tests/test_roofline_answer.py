"""`roofline` says what bounds both phases, where that turns, and what helps - and what it says comes true."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import narrows as package
from narrows import api
from narrows.answers.roofline import Roofline, roofline
from narrows.answers.roofline.sweep import parse_sweep
from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.models import load_model, read_config
from narrows.roofline.phases import chunks
from narrows.roofline.prescriptions import LEAST_GAIN, Prescription
from narrows.text import BadInput

from .conftest import LLAMA, Cli
from .test_cli import HEAVY, loaded


def chapter() -> Roofline:
    return roofline("llama-2-7b", "l40s", prompt=4096, batch=16, context=4096)


def test_prefill_of_the_chapter_is_compute_bound_and_decode_memory_bound() -> None:
    answer = chapter()
    assert (answer.phases.prefill.bound, answer.phases.decode.bound) == ("compute", "memory bandwidth")
    assert answer.phases.prefill.intensity > answer.phases.prefill.ridge > 50 * answer.phases.decode.intensity
    assert round(answer.phases.prefill.ridge) == 419


def test_a_decode_step_reads_the_weights_once_and_the_cache_of_every_sequence() -> None:
    """Llama-2-7b: 6,738,415,616 parameters less the embedding's 131,072,000 are read; KV is 524,288 B per token."""
    rows = [row for row in chapter().operators if row.phase == "decode"]
    assert sum(row.weights for row in rows) == pytest.approx(2 * (6_738_415_616 - 131_072_000), rel=1e-4)
    assert sum(row.kv_cache for row in rows) == pytest.approx(16 * 4097 * 524_288, rel=1e-3)


@pytest.mark.parametrize(
    "model", ["llama-2-7b", "gpt-oss-20b", "deepseek-v2-lite", "gemma-3-27b", "qwen3-0.6b", "jamba-v0.1"]
)
def test_times_add_up(model: str) -> None:
    answer = roofline(model, "h100-sxm", prompt=3000, batch=4, context=2000)
    for phase in (answer.phases.prefill, answer.phases.decode):
        rows = [row for row in answer.operators if row.phase == phase.name]
        assert sum(phase.shares.values()) == pytest.approx(phase.time.value)
        assert sum(phase.spending.values()) == pytest.approx(phase.time.value)
        assert sum(row.time.value for row in rows) <= phase.time.value * (1 + 1e-9)
        assert sum(row.flops for row in rows) == phase.flops
        assert sum(row.bytes for row in rows) == phase.bytes == sum(phase.traffic.values())
        assert sum(row.weights for row in rows) == phase.traffic["weights"]
        assert sum(row.kv_cache for row in rows) == phase.traffic["kv_cache"]
        assert sum(row.state for row in rows) == phase.traffic["state"]
        assert sum(row.share for row in rows) <= 1 + 1e-9
        assert phase.time.low is not None
        assert phase.time.high is not None
        assert phase.time.low < phase.time.value < phase.time.high
        assert phase.bound == max(phase.shares, key=lambda cause: phase.shares[cause])


def test_one_token_is_no_tokens() -> None:
    assert str(roofline("llama-3.1-8b", "l40s", prompt=1, batch=1)).startswith(
        "meta-llama/Llama-3.1-8B: prefill of one token, decode of 1 × 4,096 tokens"
    )


def test_a_window_is_told_from_full_attention_by_what_each_query_sees() -> None:
    """Window 128 over 4,096 tokens: (1 + … + 127 + 3,969 × 128) ÷ 4,096 = 126 keys for each query."""
    rows = [row for row in roofline("gpt-oss-20b", "h100-sxm").operators if row.name == "attention.core"]
    prefill = {row.shape for row in rows if row.phase == "prefill"}
    assert prefill == {"q 4096 · k 4096 · 64/8 × 64", "q 4096 · k 4096 (126/q) · 64/8 × 64"}


def test_what_time_goes_to_is_ordered_by_the_verdict() -> None:
    """Expert weights and activations together bound this prefill, though neither is as much as overhead alone."""
    answer = roofline("deepseek-v3", "h200-sxm", tp=8, batch=64)
    phase = answer.phases.prefill
    assert phase.bound == "memory bandwidth"
    assert max(phase.spending, key=lambda name: phase.spending[name]) == "overhead"
    sentence = " ".join(str(answer).split()).split("prefill is ")[1]
    assert sentence.index("moving activations") < sentence.index("moving weights") < sentence.index("overhead")


def test_a_load_that_memory_does_not_hold_is_capacity_bound_and_answered_all_the_same() -> None:
    answer = chapter()
    assert (answer.fits, answer.max_batch) == (False, 13)
    decode = [one for one in answer.prescriptions if one.phase == "decode"]
    # what makes it fit comes before all that does not
    assert [one.fits for one in decode] == sorted((one.fits for one in decode), reverse=True)
    assert any(one.change == "--batch 13" for one in decode)
    assert roofline("llama-2-7b", "l40s", prompt=4096, batch=8, context=4096).fits


FLAGS = {
    "--batch": "batch",
    "--context": "context",
    "--tp": "tp",
    "--pp": "pp",
    "--precision": "precision",
    "--gpu": "gpu",
    "--max-num-seqs": "max_num_seqs",
    "--max-num-batched-tokens": "max_num_batched_tokens",
}


@pytest.mark.parametrize(
    ("model", "gpu", "options"),
    [
        ("llama-2-7b", "l40s", {"batch": 8}),
        ("llama-3.1-70b", "h100-sxm", {"tp": 4, "batch": 32, "context": 8192, "prompt": 8192}),
        ("mixtral-8x7b", "a100-sxm-80gb", {"tp": 2, "batch": 4, "context": 1000}),
        ("gpt-oss-120b", "h100-sxm", {"batch": 16}),
        ("llama-3.1-405b", "h100-sxm", {"tp": 8}),
    ],
)
def test_every_prescription_comes_true(model: str, gpu: str, options: dict[str, Any]) -> None:
    answer = roofline(model, gpu, **options)
    assert answer.prescriptions
    checked = 0
    for change in answer.prescriptions:
        words = change.change.split()
        changed: dict[str, Any] = {"gpu": gpu, **options}
        if words[0] not in (*FLAGS, "--kv-cache-dtype"):
            continue
        changed[FLAGS.get(words[0], "kv_cache_dtype")] = int(words[1]) if words[1].isdecimal() else words[1]
        again = roofline(model, **changed)
        phase = getattr(again.phases, change.phase)
        assert phase.time.value == pytest.approx(change.after)
        assert change.before == pytest.approx(getattr(answer.phases, change.phase).time.value)
        if change.phase == "decode":
            assert (again.fits, again.max_batch) == (change.fits, change.max_batch)
        checked += 1
    assert checked >= 5


def test_what_memory_does_not_hold_is_made_to_fit_by_what_the_engine_sets_aside_or_by_more_machines() -> None:
    answer = roofline("gpt-oss-120b", "h100-sxm", batch=16)
    assert not answer.fits
    fewer = next(one for one in answer.prescriptions if one.change == "--max-num-seqs 16")
    assert fewer.fits
    large = roofline("llama-3.1-405b", "h100-sxm", tp=8)
    found = {one.change: one for one in large.prescriptions if one.phase == "decode" and one.fits}
    assert found["--tp 16"].assumed is not None  # another machine, whose network nobody stated
    assert found["--pp 2"].devices == 16
    # a step that passes through all layers takes as long on twice the devices
    assert found["--pp 2"].speedup == pytest.approx(1, abs=0.02)
    fits = roofline("gpt-oss-120b", "h200-sxm", batch=16)
    assert fits.fits
    assert not [one.change for one in fits.prescriptions if one.name in ("fewer_sequences", "smaller_steps", "pp2")]


def test_what_does_not_help_is_not_prescribed() -> None:
    for gpu in ("t4", "l40s", "h100-sxm"):
        for change in roofline("llama-3.1-8b", gpu, batch=1, context=1024).prescriptions:
            assert change.speedup >= LEAST_GAIN or (change.fits and change.phase == "decode")


def test_replicas_are_prescribed_only_where_each_has_a_sequence_and_room() -> None:
    """8 × H100 run one sequence on one rank faster than on 8, but one sequence does not become eight."""
    alone = roofline("llama-3.1-8b", "h100-sxm", tp=8, batch=1, context=1024)
    assert not [one.change for one in alone.prescriptions if " × --tp" in one.change and one.phase == "decode"]
    assert [one.change for one in alone.prescriptions if " × --tp" in one.change and one.phase == "prefill"]
    # 810 GB of weights hold on no smaller part of 640 GB
    large = roofline("llama-3.1-405b", "h100-sxm", tp=8)
    assert not [one.change for one in large.prescriptions if " × --tp" in one.change]


def test_what_leaves_less_room_mends_no_lack_of_it() -> None:
    for model, gpu, tp in (("gemma-3-27b", "l40s", 2), ("gpt-oss-120b", "h100-sxm", 1)):
        answer = roofline(model, gpu, tp=tp)
        assert not answer.fits
        rooms = {one.change: one.max_batch for one in answer.prescriptions if one.phase == "decode" and not one.fits}
        assert all(room >= answer.max_batch for room in rooms.values()), rooms


def test_a_cheaper_accelerator_is_cheaper_per_token() -> None:
    answers = [roofline(model, "h100-sxm") for model in ("gpt-oss-120b", "llama-3.1-8b")]
    answers.append(roofline("llama-3.1-8b", "l40s", batch=1))
    found = [one for answer in answers for one in answer.prescriptions if one.name == "cheaper_device"]
    assert found
    for one in found:
        before, after = one.usd_per_million_tokens_before, one.usd_per_million_tokens_after
        assert before is not None
        assert after is not None
        assert after < before


def test_memory_that_is_given_is_not_that_of_other_accelerators() -> None:
    plain = roofline("llama-3.1-8b", "l40s", batch=8, generations=True)
    given = roofline("llama-3.1-8b", "l40s", batch=8, memory=24 * 2**30, generations=True)
    assert given.max_batch < plain.max_batch
    for one in given.prescriptions:
        if one.name in ("faster_device", "cheaper_device"):
            assert one in plain.prescriptions
    assert [one for one in given.prescriptions if one.name == "faster_device"]
    assert [one.gpu for one in given.generations if one.fits] == [one.gpu for one in plain.generations if one.fits]
    small = roofline("llama-3.1-8b", "l40s", batch=8, memory=16 * 2**30, generations=True)
    assert [one.fits for one in small.generations if one.gpu == "l40s"] == [False]


def test_the_memory_wall_of_experts_shared_out_is_that_of_one_device() -> None:
    shared = roofline("mixtral-8x7b", "h100-sxm", tp=8, ep=8, generations=True)
    assert shared.generations == roofline("mixtral-8x7b", "h100-sxm", generations=True).generations


def test_by_itself_no_more_is_asked_than_the_engine_is_told_to_run() -> None:
    assert roofline("llama-2-7b", "l40s", max_num_seqs=4).batch == 4
    assert roofline("vllm serve meta-llama/Llama-3.1-8B --max-num-seqs 8", "l40s").batch == 8


def named(answer: Roofline, phase: str) -> dict[str, Prescription]:
    return {one.name: one for one in answer.prescriptions if one.phase == phase}


def test_prescriptions_follow_the_verdict() -> None:
    answer = roofline("llama-3.1-8b", "h100-sxm", prompt=8192, batch=8, context=2048)
    decode, prefill = named(answer, "decode"), named(answer, "prefill")
    # decode moves weights: fewer bits of them and more sequences for each read help; 4 bits help no arithmetic
    assert {"fp8_weights", "int4_weights", "batch", "speculative_decoding"} <= set(decode)
    assert "fp8_weights" in prefill
    assert "prefix_caching" in prefill
    assert "int4_weights" not in prefill
    assert decode["int4_weights"].speedup > decode["fp8_weights"].speedup > 1
    # no fp8 units: no cheaper arithmetic
    assert "fp8_weights" not in named(roofline("llama-3.1-8b", "a100-sxm-80gb", prompt=8192), "prefill")


def test_what_times_rest_on_is_told() -> None:
    measured = {law.kind: law for law in roofline("llama-3.1-8b", "a100-sxm-80gb").laws}
    assert (measured["gemm"].device, measured["gemm"].precision) == ("a100-sxm-80gb", "bf16")
    assert measured["gemm"].n > 1000
    # nobody measured a matrix product on it: the law is that of a class, and its interval is wider
    other = {law.kind: law for law in roofline("llama-3.1-8b", "gaudi3").laws}
    assert other["gemm"].device != "gaudi3"
    assert other["gemm"].high / other["gemm"].low > measured["gemm"].high / measured["gemm"].low
    assert "attention (decode) bf16: assumed, no measurement of a device like this one" in str(
        roofline("llama-3.1-8b", "gaudi3")
    )
    # Hopper was measured, its kernel of absorbed MLA was not
    latent = str(roofline("deepseek-v3", "h200-sxm", tp=8))
    assert "attention (decode) bf16: assumed, by the law of another kernel of Hopper HBM" in latent


def test_a_link_that_no_data_sheet_states_is_said_to_be_assumed() -> None:
    def links(model: str, gpu: str, **options: Any) -> list[str]:
        found = [str(text) for text in roofline(model, gpu, **options).assumptions]
        return [text for text in found if "network card" in text or "joined at" in text]

    assert links("llama-3.1-70b", "h100-sxm", tp=16) == [
        "16 × NVIDIA H100 SXM5 80GB stand in several machines: one network card of 63 GB/s for each is assumed"
    ]
    assert len(links("llama-3.1-8b", "gaudi3", tp=2)) == 1
    assert links("llama-3.1-70b", "h100-sxm", tp=8) == []
    assert links("llama-3.1-8b", "l40s") == []


def test_a_device_whose_multiprocessors_nobody_counted_is_not_taken_to_have_one() -> None:
    """TPU v6e: norms of a prompt take about their bytes ÷ bandwidth, not the seconds of a single multiprocessor."""
    answer = roofline("llama-3.1-8b", "tpu-v6e", batch=4)
    assert answer.phases.prefill.bound == "compute"
    norm = next(row for row in answer.operators if (row.phase, row.name) == ("prefill", "norm"))
    assert norm.time.value < 2 * norm.bytes / find_accelerator("tpu-v6e").memory_bandwidth


def test_assumed_rates_are_said() -> None:
    answer = roofline("llama-3.1-8b", "h100-sxm")
    assumed = {one.name: str(one.assumed) for one in answer.prescriptions if one.assumed is not None}
    assert "0.7" in assumed["speculative_decoding"]
    assert "50 %" in assumed["prefix_caching"]


def test_weights_that_are_quantized_are_not_quantized_again() -> None:
    answer = roofline("deepseek-r1", "h200-sxm", tp=8, batch=8)
    assert not {"fp8_weights", "int4_weights"} & {one.name for one in answer.prescriptions}
    with pytest.raises(BadInput, match="quantized already"):
        roofline("deepseek-r1", "h200-sxm", tp=8, precision="fp8")


def test_a_device_without_bfloat16_runs_float16_and_that_is_said() -> None:
    answer = roofline("llama-3.1-8b", "v100-sxm2-32gb")
    assert answer.precision == "fp16"
    assert any("no bf16 peak is known" in str(text) for text in answer.assumptions)
    assert roofline("llama-3.1-8b", "a100-sxm-80gb").precision == "bf16"


def test_several_accelerators_and_precisions_are_compared() -> None:
    answer = roofline("llama-3.1-8b", ["h100-sxm", "l40s"], precision=["bf16", "fp8"])
    found = [(one.gpu, one.quantization) for one in answer.candidates]
    assert found == [("h100-sxm", ""), ("h100-sxm", "fp8 per tensor"), ("l40s", ""), ("l40s", "fp8 per tensor")]
    times = [one.phases.decode.time.value for one in answer.candidates]
    assert times[1] < times[0] < times[2]
    assert len(answer.others) == 3


def test_what_is_named_twice_is_compared_once() -> None:
    answer = roofline("llama-3.1-8b", ["l40s", "NVIDIA L40S"], precision=["fp8", "fp8", "bf16"])
    assert [(one.gpu, one.quantization) for one in answer.candidates] == [("l40s", "fp8 per tensor"), ("l40s", "")]


def test_a_device_may_be_entered_by_its_measured_figures() -> None:
    answer = roofline("llama-2-7b", "l40s", peak="fp16=181TFLOP/s", bandwidth="432GB/s")
    assert [(one.precision, one.peak, one.bandwidth) for one in answer.ridges] == [("fp16", 181e12, 432e9)]
    assert answer.phases.decode.time.value > 1.8 * chapter().phases.decode.time.value


@pytest.mark.parametrize("figure", ["bf16", "bf16=", "bf16=fast", "bf16=-1T", "bf16=0", "fp7=1T", "bf16=1e99T"])
def test_a_peak_that_is_none_is_refused(figure: str) -> None:
    with pytest.raises(BadInput):
        roofline("llama-2-7b", "l40s", peak=figure)


def test_a_prompt_is_cut_into_the_engines_steps() -> None:
    deployment = deploy(load_model("llama-3.1-8b"), find_accelerator("l40s"), max_num_batched_tokens=2048)
    for prompt, cached in ((1, 0), (2048, 0), (2049, 0), (100_000, 0), (100_000, 50_000)):
        found = [*chunks(deployment, prompt, cached)]
        assert sum(times * chunk.new for times, chunk in found) == prompt - cached
        assert [chunk.sampled for _, chunk in found] == [False] * (len(found) - 1) + [True]
        assert found[-1][1].past + found[-1][1].new == prompt


def test_steps_that_are_taken_together_do_the_same_work() -> None:
    """49 steps in 8 groups: pairs of causal attention are n(n+1)/2 all the same."""
    prompt = 100_000
    answer = roofline("llama-3.1-8b", "l40s", prompt=prompt, max_num_batched_tokens=2048, batch=1, context=1)
    assert answer.phases.prefill.steps == 49
    attention = sum(row.flops for row in answer.operators if row.phase == "prefill" and row.name == "attention.core")
    assert attention == pytest.approx(32 * 4 * 32 * 128 * prompt * (prompt + 1) / 2, rel=1e-6)


def test_a_pasted_command_is_the_question() -> None:
    pasted = roofline("vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2 --kv-cache-dtype fp8", "l40s")
    asked = roofline("meta-llama/Llama-3.1-8B", "l40s", tp=2, kv_cache_dtype="fp8")
    assert pasted.phases == asked.phases


def test_the_memory_wall_runs_from_old_to_new() -> None:
    answer = roofline("llama-3.1-8b", "rtx-4090", generations=True)
    years = [one.year for one in answer.generations]
    assert years == sorted(years)
    assert years[0] <= 2018 < 2025 <= years[-1]
    assert "rtx-4090" in [one.gpu for one in answer.generations]
    assert all(one.decode_bound == "memory bandwidth" for one in answer.generations if one.gpu != "t4")
    v100 = next(one for one in answer.generations if one.gpu.startswith("v100"))
    assert (v100.precision, round(v100.ridge)) == ("fp16", 139)


def test_naive_attention_writes_and_reads_its_scores() -> None:
    """32 heads × 32 layers × 4096·4097/2 pairs × 2 B, scores and probabilities each written and read."""
    found = roofline("llama-2-7b", "l40s", prompt=4096, naive_attention=True).naive_attention
    assert found is not None
    assert found.naive_bytes - found.fused_bytes == pytest.approx(32 * 32 * 4096 * 4097 / 2 * 2 * 4, rel=0.01)
    assert found.naive_time > 2 * found.fused_time


def test_a_sweep_moves_one_parameter() -> None:
    sweep = roofline("llama-2-7b", "l40s", sweep="batch=1..64x2").sweep
    assert sweep is not None
    assert [point.value for point in sweep.points] == [1, 2, 4, 8, 16, 32, 64]
    assert [point.fits for point in sweep.points] == [True] * 4 + [False] * 3
    assert sweep.points[4].time == pytest.approx(chapter().phases.decode.time.value)
    rates = [point.tokens_per_second for point in sweep.points]
    assert rates == sorted(rates)
    contexts = roofline("llama-2-7b", "l40s", batch=8, sweep="context=1024..8192+1024").sweep
    assert contexts is not None
    assert [point.fits for point in contexts.points] == [True] * 6 + [False] * 2
    prompts = roofline("llama-2-7b", "l40s", sweep="prompt=16,4096").sweep
    assert prompts is not None
    assert prompts.phase == "prefill"
    assert [point.bound for point in prompts.points] == ["memory bandwidth", "compute"]


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("batch=1..5", [1, 2, 3, 4, 5]),
        ("batch=1..10+4", [1, 5, 9, 10]),
        ("context=1024..5000x2", [1024, 2048, 4096, 5000]),
        ("prompt=7", [7]),
        ("prompt=512,1,64,64", [1, 64, 512]),
        ("batch=3..3", [3]),
        ("batch=1..4x1.5", [1, 2, 3, 4]),
    ],
)
def test_ranges_are_read(text: str, points: list[int]) -> None:
    assert parse_sweep(text) == (text.partition("=")[0], points)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "batch",
        "batch=",
        "batch=a..b",
        "batch=9..1",
        "batch=0..4",
        "batch=-1..4",
        "batch=1..4x1",
        "batch=1..4x0.5",
        "batch=1..4+0",
        "batch=1..4+1.5",
        "tp=1..4",
        "batch=1..999999999999",
        "batch=1,,2",
        "batch=999999999999",
        "batch=1..4..9",
        "batch=" + "9" * 400,
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--sweep"):
        parse_sweep(text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "--batch is 0"),
        ({"prompt": -5}, "--prompt is -5"),
        ({"context": 2**40}, "--context is"),
        ({"tp": 3}, "does not divide"),
        ({"operator": "nothing"}, "attention.core"),
        ({"operator": ""}, "attention.core"),
        ({"precision": "fp9"}, r"fp9, in which no engine keeps weights; use one of: fp32, fp16, bf16, fp8, int8, fp4"),
        ({"precision": "fp8", "engine": "llama.cpp"}, "no such file type; use one of: fp16, bf16, fp32, int8, int4$"),
        ({"precision": "fp16", "dtype": "bfloat16"}, "--precision is fp16 and --dtype bfloat16; give one of them"),
        ({"peak": ["bf16=300T", "bfloat16=500T"]}, "--peak gives bf16 twice"),
        ({"precision": "tf32"}, "in which no engine keeps weights"),
        ({"batch": 600, "max_num_seqs": 500}, "more than --max-num-seqs"),
        ({"max_len": 2048, "prompt": 4096}, "longer than --max-len"),
        ({"bandwidth": "fast"}, "--bandwidth"),
        ({"gpu": ["l40s", "l4"], "bandwidth": "864GB/s"}, "figures of one accelerator"),
        ({"gpu": []}, "no accelerator"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        roofline("llama-2-7b", **{"gpu": "l40s", **options})


def test_the_layer_and_the_question_share_a_name() -> None:
    """`narrows.roofline` is the function, and once the layer is imported the module, which can be called as well."""
    program = (
        "import narrows; a = narrows.roofline('qwen3-0.6b', gpu='l40s', prompt=64); import narrows.roofline as layer;"
        "b = narrows.roofline('qwen3-0.6b', gpu='l40s', prompt=64); assert a == b; assert layer.roof; print('ok')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("ok\n", "")
    assert package.roofline("qwen3-0.6b", gpu="l40s").phases == api.roofline("qwen3-0.6b", gpu="l40s").phases


def test_the_command_answers_and_exits_0_whatever_fits(cli: Cli) -> None:
    code, out, err = cli("roofline", "llama-2-7b", "--gpu", "l40s", "--batch", "16", "--context", "4096")
    assert (code, err) == (0, "")
    for said in ("decode is memory-bandwidth-bound", "prefill is compute-bound", "capacity-bound", "mlp.gate_up"):
        assert said in out
    code, out, err = cli("roofline", "llama-2-7b", "--gpu", "l40s", "--sweep", "batch=4..1")
    assert (code, out) == (2, "")
    assert "a range goes up" in err


def test_every_part_of_the_report_is_printed(cli: Cli) -> None:
    extras = ("--operator", "attention.core", "--generations", "--naive-attention", "--sweep", "batch=1..64")
    code, out, _ = cli("roofline", "llama-2-7b", "--gpu", "l40s", "--gpu", "h100-sxm", *extras)
    assert code == 0
    for said in (
        "memory wall",
        "on-chip memory",
        "Kernels that keep their scores",
        "of 64 points",
        "compute-bound from batch",
    ):
        assert said in out


def test_json_is_the_answer(cli: Cli) -> None:
    code, out, _ = cli("roofline", "llama-2-7b", "--gpu", "l40s", "--batch", "16", "--json")
    found = json.loads(out)
    assert code == 0
    assert set(found) >= {"phases", "operators", "turning_points", "prescriptions"}
    for phase in found["phases"].values():
        assert set(phase) >= {"time", "bound", "flops", "bytes", "intensity", "ridge"}
        assert phase["time"]["kind"] == "predicted"
    assert isinstance(found["phases"]["decode"]["bytes"], int)


def test_roofline_loads_nothing_heavy() -> None:
    line = ("roofline", "llama-2-7b", "--gpu", "l40s", "--prompt", "4096", "--batch", "16", "--context", "4096")
    assert loaded(*line, names=HEAVY) == set()
    assert loaded(*line, "--json", names=HEAVY + " rich") == set()


def test_a_cache_that_nobody_knows_the_pages_of_is_counted_by_bytes() -> None:
    config = {
        "model_type": "recurrent_gemma",
        "hidden_size": 2560,
        "intermediate_size": 15360,
        "num_hidden_layers": 26,
        "num_attention_heads": 10,
        "num_key_value_heads": 1,
        "lru_width": 2560,
        "vocab_size": 256000,
        "torch_dtype": "bfloat16",
    }
    answer = roofline(read_config(config, name="griffin"), "l40s", batch=4, context=2048)
    assert answer.fits
    assert "by bytes alone memory holds" in str(answer.capacity)


def test_a_config_of_ones_own_is_answered(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    assert roofline(str(path), "l40s").phases.decode.bound == "memory bandwidth"


QWEN = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
    "vocab_size": 151669,
    "max_position_embeddings": 32768,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize("name", ["Qwen3Model", "Qwen3ForSequenceClassification", "Qwen3ForRewardModel"])
def test_a_model_that_generates_nothing_is_said_to(name: str) -> None:
    answer = roofline(read_config({"architectures": [name], **QWEN}, name="some"), "l40s")
    assert "generates nothing" in str(answer.cautions[0])
    assert not roofline(read_config({"architectures": ["Qwen3ForCausalLM"], **QWEN}, name="some"), "l40s").cautions


def test_a_class_that_is_called_after_its_family_generates_where_that_chats() -> None:
    # InternVLChatModel of internvl_chat, as MistralModel of mistral, which has no head
    answer = roofline("OpenGVLab/InternVL3-8B", "l40s")
    assert answer.generates
    assert "generates nothing" not in str(answer)


def test_of_a_model_that_generates_nothing_prefill_alone_is_answered() -> None:
    config = {"architectures": ["Qwen3ForSequenceClassification"], **QWEN, "tie_word_embeddings": True}
    spec = read_config(config, name="some")
    answer = roofline(spec, ["l40s", "l4"], generations=True, sweep="prompt=64..1024x2")
    assert not answer.generates
    assert {row.phase for row in answer.operators} == {one.phase for one in answer.prescriptions} == {"prefill"}
    assert [point.name for point in answer.turning_points] == ["prefill_compute"]
    assert not answer.path
    # no head, though the embedding is tied to one
    assert "head" not in {row.name for row in answer.operators}
    report = str(answer)
    for line in report.splitlines():
        if "decode" in line:
            assert "there is no decode" in line, line
    with pytest.raises(BadInput, match="sweep the prompt"):
        roofline(spec, "l40s", sweep="batch=1..8")
    with pytest.raises(BadInput, match="they have"):
        roofline(spec, "l40s", operator="head")


def test_a_model_that_reads_all_at_once_has_no_decode() -> None:
    sizes = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "vocab_size": 30522,
        "max_position_embeddings": 512,
        **sizes,
    }
    with pytest.raises(BadInput, match="no decode"):
        roofline(read_config(config, name="bert"), "l40s")


def test_a_prompt_of_an_encoder_decoder_goes_to_the_encoder() -> None:
    """T5 large: 302 M parameters of matrices in the encoder, 50 M that make keys and values of what it read, and 16
    heads of 64 over 512 × 512 pairs, 24 times each; the decoder's own matrices run for its first token."""
    config = {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "d_model": 1024,
        "d_ff": 4096,
        "num_layers": 24,
        "num_decoder_layers": 24,
        "num_heads": 16,
        "d_kv": 64,
        "vocab_size": 32128,
        "n_positions": 512,
    }
    answer = roofline(read_config(config, name="t5"), "l40s", prompt=512, context=512)
    layer = 4 * 1024 * 1024 + 2 * 1024 * 4096
    encoder = 24 * 2 * 512 * (layer + 2 * 1024 * 1024) + 24 * 4 * 512 * 512 * 1024
    decoder = 24 * 2 * (layer + 2 * 1024 * 1024) + 2 * 1024 * 32128 + 24 * 4 * (512 + 1) * 1024
    assert answer.phases.prefill.flops == encoder + decoder
    assert any("the decoder starts with one token" in str(text) for text in answer.assumptions)
    changes = {one.change for one in answer.prescriptions}
    assert not {"prefix caching", "speculative decoding"} & changes


def test_pictures_are_said_to_be_left_out() -> None:
    said = [str(text) for text in roofline("qwen3-vl-8b-instruct", "l40s", prompt=64, context=64).assumptions]
    assert any("text alone: the vision tower reads nothing" in text for text in said)


def test_graphs_are_prescribed_to_an_engine_without_them() -> None:
    without = roofline("llama-3.2-1b", "h100-sxm", batch=1, context=512, enforce_eager=True)
    found = next(one for one in without.prescriptions if one.name == "graphs")
    assert found.after == pytest.approx(
        roofline("llama-3.2-1b", "h100-sxm", batch=1, context=512).phases.decode.time.value
    )
    assert any("host launches" in str(text) for text in without.assumptions)


def test_a_prompt_that_memory_does_not_hold_is_said_though_the_batch_fits() -> None:
    """200,000 tokens at 128 KiB are 24.4 GiB; an L40S has 24.3 beside the weights of Llama-3.1-8B."""
    answer = roofline("llama-3.1-8b", "l40s", prompt=200_000, batch=1)
    assert answer.fits
    assert any("no prompt of 200,000 tokens fits on 1 × NVIDIA L40S" in str(text) for text in answer.cautions)
    shorter = roofline("llama-3.1-8b", "l40s", prompt=100_000, batch=1)
    assert not shorter.cautions


def test_more_memory_than_the_device_has_is_said() -> None:
    more = roofline("llama-3.2-1b", "l40s", prompt=64, context=64, memory=96 * 2**30)
    assert "--memory is 96.00 GiB, and NVIDIA L40S has" in str(more.cautions[0])
    assert not roofline("llama-3.2-1b", "l40s", prompt=64, context=64, memory=40 * 2**30).cautions


def test_a_length_beyond_the_models_limit_is_said_first_and_once() -> None:
    answer = roofline("llama-2-7b", "l40s", batch=1, prompt=64, context=5000)
    said = "5,000 tokens is beyond the model's own limit of 4,096"
    assert [said in str(text) for text in answer.cautions] == [True]
    assert not any(said in str(text) for text in answer.assumptions)
    assert not roofline("llama-2-7b", "l40s", batch=1, prompt=64, context=4096).cautions

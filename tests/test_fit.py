"""`fit` answers the chapter's question with exact sizes, says why it does not fit, and offers a mend that works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows import api
from narrows.answers.fit import Fit, fit
from narrows.answers.roofline import roofline
from narrows.text import BadInput
from narrows.units import GIB, size

from .conftest import LLAMA


def chapter() -> Fit:
    return fit("llama-2-7b", ["a10g", "l40s"], max_len=4096, cloud="aws")


def test_llama_2_7b_has_the_chapters_sizes() -> None:
    model = chapter().model
    assert model.unique_parameters == 6_738_415_616
    assert model.checkpoint_bytes == 13_476_831_232
    assert model.kv_bytes_per_token == 524_288
    assert 16 * model.kv_bytes_per_sequence == 32 * GIB


def test_an_a10g_takes_3_and_an_l40s_13_at_4096_tokens() -> None:
    assert [one.max_batch for one in chapter().candidates] == [3, 13]


def test_prices_are_those_of_the_smallest_aws_instances() -> None:
    found = [(one.usd_per_hour, one.instance) for one in chapter().candidates]
    assert found == [(1.006, "aws g5.xlarge (us-east-1)"), (1.861, "aws g6e.xlarge (us-east-1)")]
    first = chapter().candidates[0]
    assert first.usd_per_hour_per_sequence == pytest.approx(1.006 / 3)


def test_twice_the_models_size_does_not_fit_an_a10g_but_an_l40s() -> None:
    assert [one.rule_of_thumb.holds for one in chapter().candidates] == [False, True]
    assert chapter().candidates[0].rule_of_thumb.bytes == 2 * 13_476_831_232


def test_weights_too_big_name_another_device_that_fits() -> None:
    one = fit("llama-3.1-70b", "l40s", max_len=4096).candidates[0]
    assert (one.fits, one.verdict) == (False, "weights do not fit")
    assert one.mend is not None
    assert one.mend.change == "--tp 4"
    assert one.terms.free < 0
    again = fit("llama-3.1-70b", "l40s", max_len=4096, tp=4)
    assert again.fits


def test_a_load_too_big_is_mended_by_length_then_concurrency() -> None:
    one = fit("llama-2-7b", "a10g", batch=8, max_len=4096).candidates[0]
    assert one.verdict == "this load does not fit"
    assert one.mend is not None
    assert one.mend.change.startswith("--max-len ")
    shorter = int(one.mend.change.split()[1])
    assert shorter % 16 == 0
    assert fit("llama-2-7b", "a10g", batch=8, max_len=shorter).fits
    assert "--batch 3" in [mend.change for mend in one.other_mends]


def test_one_sequence_too_long_says_so() -> None:
    one = fit("llama-2-7b", "a10g", max_len=100_000).candidates[0]
    assert one.verdict == "no room for one sequence"
    assert one.batch == 1


@given(
    model=st.sampled_from(("llama-2-7b", "llama-3.1-70b", "mixtral-8x7b", "gemma-3-27b", "deepseek-v2-lite")),
    gpu=st.sampled_from(("t4", "a10g", "l40s", "h100-sxm")),
    batch=st.integers(1, 200),
    length=st.integers(300, 60_000),
)
def test_every_mend_works(model: str, gpu: str, batch: int, length: int) -> None:
    one = fit(model, gpu, batch=batch, max_len=length).candidates[0]
    flags = {
        "--max-len": "max_len",
        "--batch": "batch",
        "--tp": "tp",
        "--pp": "pp",
        "--max-num-seqs": "max_num_seqs",
        "--max-num-batched-tokens": "max_num_batched_tokens",
        "--gpu-memory-utilization": "gpu_memory_utilization",
        "--kv-cache-dtype": "kv_cache_dtype",
        "--gpu": "gpu",
    }
    assert one.fits or one.mend is not None
    for mend in (one.mend, *one.other_mends) if one.mend else ():
        words = mend.change.split()
        options: dict[str, object] = {"gpu": gpu, "batch": batch, "max_len": length}
        for flag, value in zip(words[::2], words[1::2], strict=True):
            options[flags[flag]] = float(value) if "." in value else int(value) if value.isdigit() else value
        again = fit(model, **options)  # type: ignore[arg-type]
        assert again.fits
        assert (mend.max_batch, mend.length) == (again.candidates[0].max_batch, again.candidates[0].length)


def test_where_the_reserve_is_what_lacks_fewer_sequences_or_a_larger_share_are_the_mend() -> None:
    """The engine's usual 1,024 sequences of 201,088 logits take 6 GiB; 16 sequences need a fraction of that."""
    one = fit("gpt-oss-120b", "h100-sxm", batch=16, max_len=4096).candidates[0]
    assert one.mend is not None
    flag, value = one.mend.change.split()
    assert flag == "--max-num-seqs"
    assert 16 <= int(value) < 1024
    # the largest of those halves that does
    assert fit("gpt-oss-120b", "h100-sxm", batch=16, max_len=4096, max_num_seqs=int(value)).fits
    assert not fit("gpt-oss-120b", "h100-sxm", batch=16, max_len=4096, max_num_seqs=2 * int(value)).fits
    one = fit("llama-3.1-8b", "l4", max_len=32768).candidates[0]
    changes = [mend.change for mend in (one.mend, *one.other_mends) if mend]
    assert any(change.startswith("--gpu-memory-utilization 0.9") for change in changes)


def test_experts_are_not_cut_through_blocks_that_share_a_scale() -> None:
    """1,536 ÷ 8 = 192 is no multiple of 128, 1,536 ÷ 4 = 384 is; with a scale per tensor nothing is in the way."""
    with pytest.raises(BadInput, match="--ep 8, or --tp 4"):
        fit("qwen3-235b-a22b-fp8", "h100-sxm", tp=8)
    assert fit("qwen3-235b-a22b-fp8", "h100-sxm", tp=4, max_len=4096).fits
    assert roofline("qwen3-235b-a22b-fp8", "h100-sxm", tp=8, ep=8).fits
    assert fit("deepseek-v3", "h200-sxm", tp=8, max_len=4096).fits
    assert roofline("qwen3-235b-a22b", "h100-sxm", tp=8, precision="fp8").fits


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_what_does_not_fit_is_said_to_need_more_than_there_is(engine: str) -> None:
    """Layers of a window keep the tokens in flight too, which the model's own count of its cache does not."""
    one = fit("gemma-3-27b", "h100-sxm", batch=8, max_len=8192, engine=engine).candidates[0]
    assert not one.fits
    needed, left, kept = (size(name, str(one.reason.params[name])) for name in ("paged", "pool", "needed"))
    assert needed > left > kept


def test_the_answer_prints_as_the_report_and_encodes_as_the_json() -> None:
    answer = api.fit("llama-2-7b", gpu="l40s", max_len=4096)
    assert "L40S" in str(answer)
    assert "13 × 4,096" in str(answer)
    assert answer._repr_html_().startswith("<h4>")  # type: ignore[union-attr]
    assert '"max_batch": 13' in answer.to_json()


def test_the_answer_is_frozen() -> None:
    with pytest.raises(AttributeError):
        chapter().model = None  # type: ignore[misc, assignment]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": -1}, "--batch is -1"),
        ({"batch": 0}, "--batch is 0"),
        ({"prompt": 5000, "max_len": 4096}, "longer than --max-len"),
        ({"tp": 3}, "does not divide 32 attention heads"),
        ({"cloud": "mars"}, "mars"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        fit("llama-2-7b", "l40s", **options)  # type: ignore[arg-type]


def test_no_gpu_is_refused() -> None:
    with pytest.raises(BadInput, match="no accelerator"):
        fit("llama-2-7b", [])


def test_parallel_devices_are_priced_as_one_instance() -> None:
    one = fit("llama-3.1-70b", "l40s", max_len=4096, tp=8, cloud="aws").candidates[0]
    assert (one.count, one.instance) == (8, "aws g6e.48xlarge (us-east-1)")


SERVE = "vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 2 --max-model-len 32768"


def test_a_pasted_command_is_the_question() -> None:
    pasted = fit(SERVE, "l40s").candidates[0]
    asked = fit("meta-llama/Llama-3.1-8B-Instruct", "l40s", tp=2, max_len=32768).candidates[0]
    assert pasted.terms == asked.terms
    assert pasted.serve_command == SERVE
    assert asked.serve_command == SERVE
    assert pasted.starts == "starts"


def test_an_option_given_beside_a_pasted_command_beats_it() -> None:
    assert fit(SERVE, "l40s", max_len=8192).candidates[0].length == 8192
    assert fit("docker run vllm/vllm-openai:v0.8.5 --model Qwen/Qwen3-8B", "l40s").candidates[0].engine == "vllm==0.8.5"


def test_the_command_of_a_load_that_does_not_fit_carries_the_mend() -> None:
    one = fit("vllm serve Qwen/Qwen3-32B --max-model-len 32768", "l40s").candidates[0]
    assert one.starts == "fails at load"
    assert one.serve_command == "vllm serve Qwen/Qwen3-32B --max-model-len 32768 --tensor-parallel-size 2"
    long = fit("vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 131072", "a10g").candidates[0]
    assert long.starts == "fails at KV allocation"
    assert long.mend is not None
    shorter = long.mend.change.split()[1]
    assert long.serve_command == f"vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len {shorter}"


def test_more_than_fits_starts_and_preempts() -> None:
    assert (
        fit("llama-2-7b", "l40s", batch=20, max_len=4096).candidates[0].starts
        == "starts, but will preempt at this load"
    )


def test_what_the_engine_pages_is_said_apart() -> None:
    """gpt-oss keeps 128 tokens of a window, and vLLM two steps of tokens in flight beside them."""
    answer = fit("gpt-oss-20b", "h100-sxm", max_len=131072)
    one = answer.candidates[0]
    assert one.paged_bytes_per_sequence == 9225 * 393216
    assert one.paged_bytes_per_sequence > answer.model.kv_bytes_per_sequence
    assert one.kv_block_size == 16


def test_a_share_that_leaves_nothing_for_the_context_does_not_start() -> None:
    one = fit("llama-2-7b", "l40s", max_len=4096, gpu_memory_utilization=0.999).candidates[0]
    assert (one.fits, one.verdict) == (False, "the engine does not start")
    assert one.mend is not None
    assert one.mend.change.startswith("--gpu-memory-utilization 0.9")
    assert fit("llama-2-7b", "l40s", max_len=4096, gpu_memory_utilization=float(one.mend.change.split()[1])).fits


def test_the_kv_format_of_a_checkpoint_is_what_the_engine_keeps() -> None:
    """DeepSeek-V3.1-NVFP4 asks for an 8-bit cache: 576 elements in 61 layers are 35,136 bytes per token."""
    answer = fit("nvidia/DeepSeek-V3.1-NVFP4", "h200-sxm", tp=8, max_len=4096)
    assert answer.model.kv_cache_dtype == "float8_e4m3fn"
    assert answer.candidates[0].terms.kv_cache == answer.candidates[0].batch * 4096 * 35_136


def test_the_pipeline_stage_with_least_room_decides() -> None:
    """Gemma-2-9b's tied head stands in the first and in the last stage, and so little room is in neither."""
    one = fit("llama-3.1-8b", "a10g", pp=3, max_len=131072).candidates[0]
    # 32 layers on 3 stages are 11, 11 and 10; the first also keeps the embedding
    assert one.terms.kv_cache == one.batch * 131072 * 2 * 8 * 128 * 2 * 11
    assert one.terms.weights > 16_060_522_496 // 3


def test_more_at_once_than_the_engine_runs_by_itself_is_told() -> None:
    answer = fit("qwen3-0.6b", "l40s", batch=300, max_len=512)
    assert answer.candidates[0].max_num_seqs == 300
    assert "--max-num-seqs 300" in answer.candidates[0].serve_command
    capped = fit("qwen3-0.6b", "l40s", batch=300, max_len=512, max_num_seqs=64).candidates[0]
    assert not capped.fits
    assert capped.mend is not None
    assert capped.mend.change == "--max-num-seqs 300"
    assert fit("llama-2-7b", "l40s", max_len=4096, max_num_seqs=4).candidates[0].max_batch == 4


@pytest.mark.parametrize("name", ["$MODEL", '"${MODEL:-x}"', "models/$NAME"])
def test_a_model_that_only_a_shell_knows_is_asked_for(name: str) -> None:
    with pytest.raises(BadInput, match="a shell would fill in"):
        fit(f"vllm serve {name} --max-model-len 8192", "l40s")


def test_a_checkpoint_that_the_engine_does_not_load_is_not_said_to_start(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"quantization": {"group_size": 64, "bits": 4}}))
    answer = fit(str(path), "l40s")
    assert answer.candidates[0].starts == "fails at load"
    assert any("does not load checkpoints" in str(text) for text in answer.assumptions)


def test_a_step_must_hold_a_token_of_every_sequence() -> None:
    with pytest.raises(BadInput, match="less than --max-num-seqs 256"):
        fit("llama-2-7b", "l40s", max_num_batched_tokens=7, max_num_seqs=256)
    assert fit("llama-2-7b", "l40s", max_num_batched_tokens=256, max_num_seqs=256, max_len=256).fits


def test_a_folder_called_gguf_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "sub.gguf").mkdir()
    assert fit(str(tmp_path), "l40s").fits

"""Each public complaint about memory: its log goes in, the true cause and a mend that works come out."""

from __future__ import annotations

import io
import json
import re
import shlex
from typing import Any

import pytest

from narrows.answers.check import Check, check
from narrows.deployment import deploy
from narrows.diagnosis import notes
from narrows.diagnosis.literals import UNREAD, literal
from narrows.diagnosis.predicted import predict
from narrows.hardware import find_accelerator
from narrows.models import load_model
from narrows.report.check import check_report
from narrows.report.console import to_text
from narrows.text import BadInput

LLAMA = "meta-llama/Llama-3.1-8B-Instruct"


def of(text: str, **options: Any) -> Check:
    return check(io.BytesIO(text.encode()), **options)


def log(version: str, *lines: str, **arguments: Any) -> str:
    """The log of a start: its banner, its arguments, what it said."""
    begin = [
        f"INFO 06-16 14:13:11 [api_server.py:1896] vLLM API server version {version}",
        f"INFO 06-16 14:13:11 [utils.py:328] non-default args: {arguments}",
    ]
    return "\n".join([*begin, *lines, ""])


def v0(version: str, *lines: str, model: str = LLAMA, **config: Any) -> str:
    """The log of a V0 start."""
    settings = ", ".join(f"{name}={value}" for name, value in config.items())
    begin = f"INFO 01-11 15:51:02 llm_engine.py:70] Initializing an LLM engine (v{version}) with config: "
    return "\n".join([f"{begin}model='{model}', {settings}, dtype=torch.bfloat16, seed=0", *lines, ""])


def oom(tried: str, total: str, free: str, rest: str = "") -> str:
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of {total} "
        f"of which {free} is free. {rest}"
    )


def cause(answer: Check) -> str:
    assert answer.cause is not None
    return answer.cause.id


def note_ids(answer: Check) -> set[str]:
    return {note.id for note in answer.notes}


def changes(answer: Check) -> list[str]:
    found = [answer.mend, *answer.other_mends] if answer.mend else []
    return [one.change for one in found]


FLAGS = {
    "--max-model-len": "max_length",
    "--max-num-seqs": "max_num_seqs",
    "--max-num-batched-tokens": "max_num_batched_tokens",
    "--gpu-memory-utilization": "utilization",
    "--tensor-parallel-size": "tensor_parallel",
    "--kv-cache-dtype": "kv_cache_dtype",
    "--quantization": "quantization",
    "--kv-cache-memory-bytes": "kv_cache_memory_bytes",
    "--enforce-eager": "enforce_eager",
}


def starts(answer: Check, model: str, gpu: str, **given: Any) -> bool:
    """Whether the whole corrected command is predicted to start (as the prediction stands, unshifted)."""
    assert answer.mend is not None
    words = re.split(r"\s+", answer.mend.command)
    options: dict[str, Any] = {"engine": f"vllm=={answer.version}", **given}
    for index, word in enumerate(words):
        if word in FLAGS:
            value = words[index + 1] if index + 1 < len(words) else ""
            number = float(value) if re.fullmatch(r"[\d.]+", value) else value
            options[FLAGS[word]] = (
                True if word == "--enforce-eager" else int(number) if str(value).isdigit() else number
            )
    return predict(deploy(load_model(model), find_accelerator(gpu), **options)).starts


# --- the length does not fit the cache -------------------------------------------------------------------------------

TOO_LONG = (
    "ValueError: The model's max seq len ({length}) is larger than the maximum number of tokens that can be stored in "
    "KV cache ({tokens}). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`."
)


def test_a_length_beyond_the_cache_is_shortened_to_what_it_holds() -> None:
    text = v0("0.6.3", TOO_LONG.format(length=131072, tokens=23648), max_seq_len=131072)
    answer = of(text, gpu="rtx-3090")
    assert cause(answer) == "longest-request-does-not-fit"
    assert "23,648 tokens" in str(answer.cause.text)  # type: ignore[union-attr]
    assert answer.mend is not None and answer.mend.change.startswith("--max-model-len 23648")
    assert answer.mend.kv_tokens == 23648
    assert "--kv-cache-dtype fp8" not in changes(answer), "twice 23,648 is still too few"
    assert answer.exit_code == 1


def test_without_model_and_device_the_logs_own_figures_mend() -> None:
    text = v0("0.6.3", TOO_LONG.format(length=131072, tokens=23648), model="/models/mine", max_seq_len=131072)
    answer = of(text)
    assert answer.missing == ("--model", "--gpu")
    assert answer.mend is not None and "--max-model-len 23648" in answer.mend.command
    assert (answer.mend.kv_tokens, answer.mend.basis) == (23648, "log")


@pytest.mark.parametrize(("length", "fits"), [(20000, True), (29000, False), (35000, True)])
def test_v0_profiles_whole_prompts_so_longer_can_start_again(length: int, fits: bool) -> None:
    one = predict(deploy(load_model(LLAMA), find_accelerator("rtx-3090"), engine="vllm==0.6.3", max_length=length))
    assert one.starts is fits


def test_the_mend_of_a_profile_as_long_as_the_prompt_is_to_cut_it() -> None:
    text = v0("0.6.3", TOO_LONG.format(length=29000, tokens=23648), max_seq_len=29000)
    answer = of(text, gpu="rtx-3090")
    assert cause(answer) == "profile-grows-with-length"
    assert answer.mend is not None
    assert "--enable-chunked-prefill --max-num-batched-tokens 512" in answer.mend.command
    assert (answer.mend.kv_tokens or 0) > 29000
    assert starts(answer, LLAMA, "rtx-3090", max_length=29000)


def test_a_small_model_fills_the_card_by_design() -> None:
    text = log(
        "0.10.2",
        "INFO 06-16 14:13:41 [gpu_model_runner.py:2392] Model loading took 0.2389 GiB and 1.4 seconds",
        "INFO 06-16 14:13:56 [gpu_worker.py:298] Available KV cache memory: 19.32 GiB",
        "INFO 06-16 14:13:57 [kv_cache_utils.py:864] GPU KV cache size: 562,720 tokens",
        "INFO 06-16 14:13:57 [kv_cache_utils.py:868] Maximum concurrency for 2,048 tokens per request: 274.77x",
        "INFO:     Application startup complete.",
        model="facebook/opt-125m",
        max_model_len=2048,
    )
    answer = of(text)
    assert answer.outcome == "started" and answer.cause is None and answer.exit_code == 0
    assert "pool-is-a-budget" in note_ids(answer)


# --- others hold memory ----------------------------------------------------------------------------------------------

NO_BLOCKS = (
    "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing "
    "the engine."
)


def test_a_second_server_whose_share_is_already_spent() -> None:
    text = v0("0.6.6", NO_BLOCKS, model="Qwen/Qwen2.5-1.5B-Instruct", max_seq_len=4096)
    text = text.replace("seed=0", "seed=0, gpu_memory_utilization=0.2")
    text += "INFO 01-11 15:51:02 worker.py:267] the current vLLM instance can use total_gpu_memory (79.15GiB) x "
    text += "gpu_memory_utilization (0.20) = 15.83GiB\n"
    answer = of(text, gpu="h100-sxm")
    assert cause(answer) == "others-hold-memory"
    assert any("stay below 1" in str(one.text) for one in (answer.mend, *answer.other_mends) if one)


def test_what_others_hold_is_named_and_added_in_versions_that_count_it() -> None:
    text = crowded_log("0.9.0")
    answer = of(text, gpu="h100-sxm")
    assert cause(answer) == "others-hold-memory"
    assert "56.65 GiB" in str(answer.cause.text)  # type: ignore[union-attr]
    assert answer.mend is not None and answer.mend.change == "--gpu-memory-utilization 0.92"


def test_a_version_that_leaves_others_out_is_not_told_to_count_them() -> None:
    """A larger share than is free would be refused: no such mend."""
    answer = of(crowded_log("0.10.2"), gpu="h100-sxm")
    assert cause(answer) == "others-hold-memory"
    assert "leaves out what others hold when it starts" in str(answer.cause.text)  # type: ignore[union-attr]
    assert not any("utilization" in one.change for one in (answer.mend, *answer.other_mends) if one)


def crowded_log(version: str) -> str:
    return log(
        version,
        "INFO 06-16 14:13:41 [gpu_model_runner.py:2392] Model loading took 2.8876 GiB and 1.4 seconds",
        "INFO 06-16 14:13:41 [w.py:1] Initial free memory: 22.5 GiB; Requested memory: 0.2 (util), 15.83 GiB",
        "INFO 06-16 14:14:04 [w.py:1] Free memory on device (22.5/79.15 GiB) on startup.",
        "ERROR 06-16 14:14:04 [core.py:1] " + NO_BLOCKS,
        model="Qwen/Qwen2.5-1.5B-Instruct",
        gpu_memory_utilization=0.2,
        max_model_len=4096,
    )


def test_a_share_that_is_not_free_is_lowered_to_what_is() -> None:
    text = log(
        "0.11.0",
        "(EngineCore pid=1) ERROR 06-16 14:14:04 [core.py:1] ValueError: Free memory on device (20.11/44.4 GiB) on "
        "startup is less than desired GPU memory utilization (0.9, 39.96 GiB). Decrease GPU memory utilization or "
        "reduce GPU memory used by other processes.",
        model="Qwen/Qwen2.5-1.5B-Instruct",
        max_model_len=4096,
    )
    answer = of(text, gpu="l40s")
    assert cause(answer) == "share-not-free"
    assert "24.29 GiB" in str(answer.cause.text)  # type: ignore[union-attr]
    assert answer.mend is not None and answer.mend.change == "--gpu-memory-utilization 0.43"
    assert (answer.mend.kv_tokens or 0) > 4096


def test_alone_on_the_device_too_a_length_that_does_not_fit_is_shortened() -> None:
    """Qwen3-8B keeps 40,960 tokens at 144 KiB, 5.6 GiB: an A10G has 3 GiB left beside weights and reserve."""
    text = log(
        "0.10.2",
        "ERROR 06-16 14:14:04 [core.py:1] ValueError: Free memory on device (10.31/22.05 GiB) on startup is less than "
        "desired GPU memory utilization (0.9, 19.85 GiB). Decrease GPU memory utilization or reduce GPU memory used "
        "by other processes.",
        model="Qwen/Qwen3-8B",
    )
    answer = of(text, gpu="a10g")
    assert cause(answer) == "share-not-free"
    assert answer.mend is not None and answer.mend.change.startswith("--max-model-len ")
    assert starts(answer, "qwen3-8b", "a10g")
    # a length that fits is started as before
    shorter = of(text.replace("Qwen3-8B'", "Qwen3-8B', 'max_model_len': 8192"), gpu="a10g")
    assert shorter.mend is not None and shorter.mend.change == ""


def test_float16_that_does_not_fit_comes_with_what_makes_it_fit() -> None:
    text = log(
        "0.8.5",
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has "
        "compute capability 7.5. You can use float16 instead by explicitly setting the `dtype` flag in CLI, for "
        "example: --dtype=half.",
        model="Qwen/Qwen3-8B",
    )
    assert changes(of(text)) == ["--dtype half --tensor-parallel-size 2"]
    assert changes(of(text.replace("Qwen3-8B", "Qwen3-0.6B"))) == ["--dtype half"]


def test_weights_above_the_share_need_a_larger_share_or_more_devices() -> None:
    text = log(
        "0.10.2",
        "INFO 06-16 14:13:41 [gpu_model_runner.py:2392] Model loading took 14.9889 GiB and 1.4 seconds",
        "ERROR 06-16 14:14:04 [core.py:1] " + NO_BLOCKS,
        model=LLAMA,
        gpu_memory_utilization=0.5,
        max_model_len=4096,
    )
    answer = of(text, gpu="rtx-4090")
    assert cause(answer) == "weights-exceed-share"
    assert answer.mend is not None and answer.mend.change.startswith("--gpu-memory-utilization 0.")
    assert starts(answer, LLAMA, "rtx-4090")


# --- parallelism -----------------------------------------------------------------------------------------------------


def test_two_cards_are_not_one_and_ranks_beyond_the_kv_heads_hold_no_more() -> None:
    text = log(
        "0.10.2",
        "(VllmWorker rank=0 pid=1) INFO 06-16 14:13:56 [gpu_worker.py:298] Available KV cache memory: 3.10 GiB",
        "(VllmWorker rank=1 pid=2) INFO 06-16 14:13:56 [gpu_worker.py:298] Available KV cache memory: 2.90 GiB",
        "INFO 06-16 14:13:57 [kv_cache_utils.py:864] GPU KV cache size: 108,608 tokens",
        "INFO:     Application startup complete.",
        model="Qwen/Qwen2.5-7B-Instruct",
        tensor_parallel_size=2,
        max_model_len=8192,
    )
    per_rank = next(note for note in of(text).notes if note.id == "per-rank")
    assert "2.90 GiB" in str(per_rank.text)
    eight = of(text.replace("'tensor_parallel_size': 2", "'tensor_parallel_size': 4"), gpu="rtx-4090")
    assert "kv-replicated" not in note_ids(eight), "4 ranks on 4 KV heads"
    model = "meta-llama/Llama-3.1-8B-Instruct"
    more = log("0.10.2", "INFO:     Application startup complete.", model=model, tensor_parallel_size=16)
    assert "kv-replicated" in note_ids(of(more, gpu="rtx-4090"))


def test_heads_that_do_not_divide() -> None:
    text = log(
        "0.10.2",
        "ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (8).",
        model="Qwen/Qwen2.5-7B-Instruct",
        tensor_parallel_size=8,
    )
    answer = of(text, gpu="rtx-4090")
    assert cause(answer) == "heads-do-not-divide"
    assert answer.mend is not None and answer.mend.change in ("--tensor-parallel-size 7", "--tensor-parallel-size 4")


def test_experts_cut_through_their_blocks_are_kept_whole() -> None:
    text = log(
        "0.11.0",
        "(Worker_TP0 pid=7) ERROR 10-02 10:10:10 [multiproc_executor.py:597] ValueError: The output_size of gate's and "
        "up's weight = 192 is not divisible by weight quantization block_n = 128.",
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
        model="Qwen/Qwen3-235B-A22B-FP8",
        tensor_parallel_size=8,
    )
    answer = of(text)
    assert cause(answer) == "blocks-do-not-divide"
    assert changes(answer) == ["--enable-expert-parallel", "--tensor-parallel-size 4"]
    # whole experts on every rank: what a log with that flag reports is predicted
    other = text.replace("'tensor_parallel_size': 8", "'tensor_parallel_size': 8, 'enable_expert_parallel': True")
    assert of(other, gpu="h100-sxm").terms


# --- what the log's figures mean -------------------------------------------------------------------------------------


def test_hybrid_tokens_are_explained_by_version() -> None:
    text = log(
        "0.19.1",
        "INFO 06-16 14:13:57 [kv_cache_utils.py:864] GPU KV cache size: 502,656 tokens",
        "INFO 06-16 14:13:57 [kv_cache_utils.py:868] Maximum concurrency for 32,768 tokens per request: 57.74x",
        "INFO:     Application startup complete.",
        model="Qwen/Qwen3.5-9B",
        max_model_len=32768,
    )
    note = next(note for note in of(text).notes if note.id == "stated-tokens")
    assert "57.74 requests" in str(note.text) and "1,892,024" in str(note.text)


def test_kv_cache_follows_the_checkpoint() -> None:
    model = "nvidia/Llama-3.1-70B-Instruct-FP8"
    text = log("0.10.2", "INFO:     Application startup complete.", model=model, max_model_len=4096)
    assert "kv-follows-checkpoint" in note_ids(of(text, gpu="h200-sxm"))
    text = log(
        "0.10.2", "INFO:     Application startup complete.", model=model, max_model_len=4096, kv_cache_dtype="bfloat16"
    )
    assert "kv-follows-checkpoint" not in note_ids(of(text, gpu="h200-sxm"))


def test_one_tokens_cost_is_derived_from_kv_heads_not_from_the_hidden_size() -> None:
    text = log("0.10.2", "INFO:     Application startup complete.", model=LLAMA, max_model_len=4096)
    note = next(note for note in of(text, gpu="l40s").notes if note.id == "kv-per-token")
    assert "128.00 KiB" in str(note.text) and "32 layers × 2 × 8 KV heads × 128 × 2 B" in str(note.text)


# --- upgrades --------------------------------------------------------------------------------------------------------


def test_an_upgrade_that_changed_the_profile_is_pinned_to_the_old_values() -> None:
    before = log("0.8.5", "INFO:     Application startup complete.", model=LLAMA, max_model_len=8192)
    after = log("0.10.2", "ERROR 06-16 14:14:04 [core.py:1] " + NO_BLOCKS, model=LLAMA, max_model_len=8192)
    answer = of(before + after, gpu="rtx-pro-6000-blackwell-ws")
    assert (answer.starts, answer.start) == (2, 2)
    assert cause(answer) == "upgrade-changed-the-profile"
    text = str(answer.cause.text)  # type: ignore[union-attr]
    assert "0.8.5" in text and "0.10.2" in text
    assert answer.mend is not None
    assert answer.mend.change == "--max-num-batched-tokens 2048 --max-num-seqs 256"
    assert starts(answer, LLAMA, "rtx-pro-6000-blackwell-ws")
    first = of(before + after, gpu="rtx-pro-6000-blackwell-ws", start=1)
    assert first.outcome == "started" and first.cause is None


# --- out of memory, by stage -----------------------------------------------------------------------------------------


def test_graphs_find_no_room_outside_a_high_share() -> None:
    text = log(
        "0.10.2",
        "INFO 06-16 14:13:41 [gpu_model_runner.py:2392] Model loading took 14.9889 GiB and 1.4 seconds",
        "INFO 06-16 14:13:56 [gpu_worker.py:298] Available KV cache memory: 6.10 GiB",
        "INFO 06-16 14:13:57 [kv_cache_utils.py:864] GPU KV cache size: 49,968 tokens",
        "INFO 06-16 14:13:58 [gpu_model_runner.py:1] Capturing CUDA graph shapes: 10%",
        "ERROR 06-16 14:14:04 [core.py:1] " + oom("96.00 MiB", "23.52 GiB", "21.00 MiB"),
        model=LLAMA,
        gpu_memory_utilization=0.97,
        max_model_len=4096,
    )
    answer = of(text, gpu="rtx-4090")
    assert cause(answer) == "graph-capture"
    assert answer.mend is not None
    match = re.fullmatch(r"--gpu-memory-utilization (0\.\d+)", answer.mend.change)
    assert match and 0.85 <= float(match[1]) <= 0.95
    assert "--enforce-eager" in changes(answer)
    assert (answer.mend.kv_tokens or 0) > 4096
    alone = of(text.replace(LLAMA, "/models/mine"))
    assert alone.mend is not None and alone.mend.kv_tokens is not None and alone.mend.kv_tokens < 49968


def test_sampler_warm_up_takes_sequences_times_vocabulary() -> None:
    text = log(
        "0.8.0",
        "ERROR 06-16 14:14:04 [x.py:1] RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 "
        "dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing the engine.",
        model="Qwen/Qwen2.5-7B-Instruct",
        max_model_len=4096,
    )
    answer = of(text, gpu="rtx-4090")
    assert cause(answer) == "sampler-warm-up"
    assert "1,024 sequences × 152,064" in str(answer.cause.text)  # type: ignore[union-attr]
    assert answer.mend is not None and answer.mend.change == "--max-num-seqs 256"
    assert starts(answer, "Qwen/Qwen2.5-7B-Instruct", "rtx-4090")


def test_profiling_of_images() -> None:
    text = log(
        "0.10.2",
        "INFO 06-16 14:13:12 [x.py:1] Resolved architecture: Qwen2_5_VLForConditionalGeneration",
        "INFO 06-16 14:13:41 [gpu_model_runner.py:2392] Model loading took 15.63 GiB and 1.4 seconds",
        'ERROR 06-16 14:14:04 [core.py:1]   File "/vllm/v1/worker/gpu_worker.py", line 1, in profile_run',
        "ERROR 06-16 14:14:04 [core.py:1] " + oom("6.20 GiB", "23.52 GiB", "2.10 GiB"),
        model="Qwen/Qwen2.5-VL-7B-Instruct-mine",
        max_model_len=32768,
    )
    answer = of(text)
    assert cause(answer) == "multimodal-profiling"
    assert answer.mend is not None and answer.mend.change.startswith("--limit-mm-per-prompt")
    assert any(change.startswith("--max-num-batched-tokens") for change in changes(answer))


def test_a_profiled_step_too_large_is_made_smaller() -> None:
    text = log(
        "0.10.2",
        "INFO 06-16 14:13:41 [gpu_model_runner.py:2392] Model loading took 14.9889 GiB and 1.4 seconds",
        'ERROR 06-16 14:14:04 [core.py:1]   File "/vllm/v1/worker/gpu_worker.py", line 1, in profile_run',
        "ERROR 06-16 14:14:04 [core.py:1] " + oom("1.75 GiB", "23.52 GiB", "1.10 GiB"),
        model=LLAMA,
        max_num_batched_tokens=65536,
        max_model_len=8192,
    )
    answer = of(text, gpu="rtx-4090")
    assert cause(answer) == "activation-peak"
    assert answer.mend is not None and answer.mend.change.startswith("--max-num-batched-tokens ")
    assert starts(answer, LLAMA, "rtx-4090")


def test_weights_beyond_the_device_need_more_of_them() -> None:
    text = log(
        "0.10.2",
        "INFO 06-16 14:13:27 [gpu_model_runner.py:2338] Starting to load model x...",
        'ERROR 06-16 14:14:04 [core.py:1]   File "/vllm/v1/worker/gpu_worker.py", line 1, in load_model',
        "ERROR 06-16 14:14:04 [core.py:1] " + oom("112.00 MiB", "44.40 GiB", "31.00 MiB"),
        model="meta-llama/Llama-3.1-70B-Instruct",
        max_model_len=8192,
    )
    answer = of(text, gpu="l40s")
    assert cause(answer) == "weights-exceed-device"
    assert answer.mend is not None and answer.mend.change == "--tensor-parallel-size 4"
    assert starts(answer, "meta-llama/Llama-3.1-70B-Instruct", "l40s")


def test_it_started_and_dies_under_load() -> None:
    text = log(
        "0.10.2",
        "INFO 06-16 14:13:41 [gpu_model_runner.py:2392] Model loading took 14.9889 GiB and 1.4 seconds",
        "INFO 06-16 14:13:56 [gpu_worker.py:298] Available KV cache memory: 6.10 GiB",
        "INFO 06-16 14:13:57 [kv_cache_utils.py:864] GPU KV cache size: 49,968 tokens",
        "INFO 06-16 14:14:04 [core.py:218] init engine (profile, create kv cache, warmup model) took 22.67 seconds",
        "INFO:     Application startup complete.",
        "ERROR 06-16 15:14:04 [core.py:1] " + oom("602.00 MiB", "23.52 GiB", "41.00 MiB"),
        "ERROR 06-16 15:14:04 [core.py:1] EngineCore encountered a fatal error.",
        model=LLAMA,
        gpu_memory_utilization=0.98,
        max_model_len=4096,
    )
    answer = of(text, gpu="rtx-4090")
    assert (answer.outcome, answer.stage, cause(answer)) == ("failed", "under load", "headroom-outside-the-share")
    assert answer.mend is not None and answer.mend.change == "--gpu-memory-utilization 0.91"
    assert (answer.mend.kv_tokens or 0) > 4096


def test_a_full_cache_is_named_though_nothing_failed() -> None:
    text = log(
        "0.10.2",
        "INFO 06-16 14:13:56 [gpu_worker.py:298] Available KV cache memory: 6.10 GiB",
        "INFO 06-16 14:13:57 [kv_cache_utils.py:864] GPU KV cache size: 49,968 tokens",
        "INFO 06-16 14:13:57 [kv_cache_utils.py:868] Maximum concurrency for 4,096 tokens per request: 12.20x",
        "INFO:     Application startup complete.",
        "INFO 06-16 15:13:57 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation "
        "throughput: 80.0 tokens/s, Running: 31 reqs, Waiting: 97 reqs, GPU KV cache usage: 99.4%, Prefix cache "
        "hit rate: 0.0%",
        model=LLAMA,
        max_model_len=4096,
    )
    answer = of(text, gpu="rtx-4090")
    assert (answer.outcome, answer.exit_code) == ("serving", 0)
    assert cause(answer) == "kv-cache-full"
    assert changes(answer)[0] == "--max-num-seqs 12"
    assert "--kv-cache-dtype fp8" in changes(answer)


def test_one_sequence_at_a_time_is_the_last_thing_to_try() -> None:
    text = log(
        "0.10.2",
        "INFO 06-16 14:13:57 [kv_cache_utils.py:864] GPU KV cache size: 29,552 tokens",
        "INFO 06-16 14:13:57 [kv_cache_utils.py:868] Maximum concurrency for 16,384 tokens per request: 1.80x",
        "INFO:     Application startup complete.",
        "INFO 06-16 15:13:57 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation "
        "throughput: 80.0 tokens/s, Running: 3 reqs, Waiting: 61 reqs, GPU KV cache usage: 99.4%, Prefix cache "
        "hit rate: 0.0%",
        model=LLAMA,
        max_model_len=16384,
    )
    answer = of(text)
    assert changes(answer)[0] == "--kv-cache-dtype fp8"
    assert changes(answer)[-1] == "--max-num-seqs 1"
    assert "one sequence at a time" in str(answer.other_mends[-1].text)


def test_a_difference_that_rounds_to_nothing_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    log = "tests/data/logs/excerpts/vllm-0.10.2.log"
    (told,) = (str(one.text) for one in check(log).notes if one.id == "shifted")
    assert "(+0.1 % of it)" in told
    monkeypatch.setattr(notes, "_TELLING", 0.001)
    assert "shifted" not in note_ids(check(log))
    assert "shifted" in note_ids(check("tests/data/logs/excerpts/vllm-0.10.0-tp8.log", gpu="h100-sxm"))


# --- boards, other engines -------------------------------------------------------------------------------------------


def test_a_unified_board_is_given_a_pool_in_bytes() -> None:
    text = log(
        "0.10.2",
        "INFO 06-16 14:13:41 [gpu_model_runner.py:2392] Model loading took 2.8876 GiB and 1.4 seconds",
        "INFO 06-16 14:13:56 [gpu_worker.py:298] Available KV cache memory: 4.02 GiB",
        "INFO 06-16 14:13:57 [kv_cache_utils.py:864] GPU KV cache size: 150,544 tokens",
        "Killed",
        model="Qwen/Qwen2.5-1.5B-Instruct",
        max_model_len=200,
    )
    answer = of(text, gpu="jetson-orin-nano-super-8gb")
    assert cause(answer) == "unified-memory"
    assert answer.mend is not None and answer.mend.change.startswith("--kv-cache-memory-bytes ")
    assert int(answer.mend.change.split()[1]) < 2**30
    assert "unified-memory" in note_ids(answer)


def test_planner_said_it_fits_and_the_ledger_says_where_it_does_not() -> None:
    answer = of(
        log(
            "0.19.1",
            "WARNING 04-26 12:03:38 [model.py:1963] Your device 'Tesla T4' (with compute capability 7.5) doesn't "
            "support torch.bfloat16. Falling back to torch.float16 for compatibility.",
            "INFO 06-16 14:13:41 [gpu_model_runner.py:2392] Model loading took 14.25 GiB and 1.4 seconds",
            'ERROR 06-16 14:14:04 [core.py:1]   File "/vllm/v1/worker/gpu_worker.py", line 1, in profile_run',
            "ERROR 06-16 14:14:04 [core.py:1] " + oom("1.02 GiB", "14.56 GiB", "111.81 MiB"),
            model="Qwen/Qwen2.5-7B-Instruct",
            max_model_len=4096,
            gpu_memory_utilization=0.85,
        )
    )
    assert cause(answer) == "weights-leave-no-room"
    kv = next(one for one in answer.terms if one.name == "kv_cache")
    assert kv.predicted is not None and kv.predicted.value < 0
    assert kv.predicted.low is not None and kv.predicted.high is not None


def test_sglang_needs_a_higher_static_fraction() -> None:
    answer = of(
        "[2026-04-06 01:35:44] server_args=ServerArgs(model_path='Qwen/Qwen3-8B', mem_fraction_static=0.6, tp_size=1)\n"
        "[2026-04-06 01:36:03] Load weight begin. avail mem=23.30 GB\n"
        "[2026-04-06 01:36:06] Load weight end. elapsed=3.48 s, type=Qwen3ForCausalLM, avail mem=7.90 GB, mem "
        "usage=15.40 GB.\n"
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
    )
    assert cause(answer) == "static-fraction-too-low"
    assert answer.mend is not None
    fraction = float(answer.mend.change.split()[1])
    assert 15.4 / 23.3 < fraction <= 0.95
    kv = next(one for one in answer.terms if one.name == "kv_cache")
    assert kv.predicted is not None and kv.predicted.value < 0


def test_llama_cpps_compute_buffer_is_named() -> None:
    answer = of(
        "llama_context: n_ctx = 65536\nllama_context: n_ubatch = 2048\n"
        "llama_kv_cache:      CUDA0 KV buffer size =  1024.00 MiB\n"
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 8900.01 MiB on device 0: cudaMalloc failed: out "
        "of memory\n"
        "llama_context: failed to allocate compute buffers\n"
    )
    assert cause(answer) == "compute-buffer"
    assert answer.mend is not None and answer.mend.change == "-ub 512"


# --- the command that is given back ----------------------------------------------------------------------------------


def too_long(version: str = "0.32.0", model: str = LLAMA, **arguments: Any) -> str:
    """A start whose longest request does not fit, so that a corrected command is given."""
    return log(
        version,
        "INFO 06-16 14:13:56 [gpu_worker.py:298] Available KV cache memory: 2.91 GiB",
        "ERROR 06-16 14:14:04 [core.py:1] ValueError: To serve at least one request with the model's max seq len "
        "(32768), (4.0 GiB KV cache is needed, which is larger than the available KV cache memory (2.91 GiB). Based on "
        "the available memory, the estimated maximum model length is 23824.",
        model=model,
        max_model_len=32768,
        **arguments,
    )


def command(answer: Check) -> list[str]:
    assert answer.mend is not None
    return shlex.split(answer.mend.command)


def behind(words: list[str], flag: str) -> str:
    return words[words.index(flag) + 1]


def test_every_flag_of_the_user_stays_in_the_command() -> None:
    long = "x" * 3000
    words = command(
        of(
            too_long(
                chat_template=long,
                api_server_count=4,
                speculative_config={"method": "mtp", "note": "it's"},
                served_model_name=["a", "b c"],
                enable_prefix_caching=False,
                async_scheduling=True,
                rope_factor=-1.5,
                flag_of_next_year="v",
            )
        )
    )
    assert behind(words, "--chat-template") == long
    assert behind(words, "--api-server-count") == "4"
    assert json.loads(behind(words, "--speculative-config")) == {"method": "mtp", "note": "it's"}
    at = words.index("--served-model-name")
    assert words[at + 1 : at + 3] == ["a", "b c"]
    assert {"--no-enable-prefix-caching", "--async-scheduling", "--rope-factor=-1.5"} <= set(words)
    assert behind(words, "--flag-of-next-year") == "v"
    assert behind(words, "--max-model-len") == "23824"


def test_no_secret_leaves_the_log() -> None:
    keys = ["sk-one-111", "hf_two222", "three333", "user:four444", "five555"]
    text = too_long(
        api_key=[keys[0]],
        hf_token=keys[1],
        kv_transfer_config={"extra": {"api_key": keys[2]}},
        otlp_traces_endpoint=f"http://{keys[3]}@host:4317",
        ssl_keyfile_password=keys[4],
        max_num_batched_tokens=8192,
        tokenizer="mine",
    )
    answer = of(text)
    shown = to_text(check_report(answer)) + answer.to_json() + str(answer)
    assert [key for key in keys if key in shown] == []
    assert answer.mend is not None
    assert '--api-key "$VLLM_API_KEY" --hf-token "$HF_TOKEN"' in answer.mend.command
    assert '"$VLLM_API_KEY"' in to_text(check_report(answer)), "the variable must not lose its double quotes"
    assert "--max-num-batched-tokens 8192 --tokenizer mine" in answer.mend.command
    notes = {note.id: str(note.text) for note in answer.notes}
    assert "--kv-transfer-config, --otlp-traces-endpoint" in notes["flags-not-kept"]
    assert "--api-key, --hf-token, --ssl-keyfile-password" in notes["secrets-not-kept"]


def test_what_cannot_be_given_back_is_named() -> None:
    text = too_long(compilation_config="HERE", chat_template="two\nlines").replace("'HERE'", "<Level.X: 3>")
    notes = {note.id: str(note.text) for note in of(text).notes}
    assert "--compilation-config, --chat-template" in notes["flags-not-kept"]
    cut = re.sub(r"('max_model_len': 32768).*\}", r"\1, 'served_model_name': ['x", text, count=1)
    assert "arguments-cut" in note_ids(of(cut))
    assert not {"arguments-cut", "flags-not-kept", "secrets-not-kept"} & note_ids(of(too_long()))


def test_a_dump_of_all_arguments_gives_only_those_that_were_set() -> None:
    dump = (
        "args: Namespace(subparser='serve', model_tag='m', host=None, port=8000, uvicorn_log_level='info', "
        "allowed_origins=['*'], api_key=None, tokenizer_mode='auto', config_format=<ConfigFormat.AUTO: 'auto'>, "
        "max_lora_rank=16, multi_step_stream_outputs=True, enforce_eager=False, "
        "model='meta-llama/Llama-3.1-8B-Instruct', max_model_len=32768, "
        "lora_modules=[LoRAModulePath(name='a', path='/a', base_model_name=None)], "
        "limit_mm_per_prompt={'image': 2}, dispatch_function=<function x at 0x7f>)"
    )
    lines = too_long("0.8.5").replace("non-default args: ", "x ").splitlines()
    words = command(of("\n".join([lines[0], "INFO 06-16 14:13:11 [api_server.py:1044] " + dump, *lines[2:], ""])))
    assert words[3:7] == ["--max-model-len", "23808", "--lora-modules", '{"name": "a", "path": "/a"}']
    assert words[7:] == ["--limit-mm-per-prompt", "image=2"]


def test_a_hostile_name_neither_reaches_the_terminal_nor_ends_its_word() -> None:
    for name in ("$(touch x)\x1b]0;owned\x07", "a\u202eb; ls", "-x", "it's `id`"):
        answer = of(too_long(model="HOSTILE", tokenizer="-x").replace("'HOSTILE'", f'"{name}"'))
        assert answer.mend is not None
        words = command(answer)
        clean = "".join(char if char.isprintable() else " " for char in name)
        assert words[2].strip() == ("./-x" if name == "-x" else clean.strip())
        assert "--tokenizer=-x" in words
        shown = to_text(check_report(answer)) + "".join(mend.change for mend in answer.other_mends)
        assert all(char.isprintable() or char == "\n" for char in shown)
        assert answer.mend.command.isprintable()


@pytest.mark.parametrize("value", ["(" * 9000, "[" * 9000, "-" * 9000 + "1", "1" + "-1" * 9000, "'\\" * 9000, "1+1"])
def test_a_value_that_is_no_literal_is_not_read(value: str) -> None:
    assert literal(value) is UNREAD


# --- causes and mends, further ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "sizes"), [("Qwen/Qwen2.5-7B-Instruct", "421"), ("/models/mine", "742")])
def test_ranks_are_offered_only_where_the_model_can_be_cut(model: str, sizes: str) -> None:
    text = log(
        "0.10.2",
        "ValueError: Total number of attention heads (28) must be divisible by tensor parallel size (8).",
        model=model,
        tensor_parallel_size=8,
    )
    assert changes(of(text)) == [f"--tensor-parallel-size {size}" for size in sizes]


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): "
        "{'EngineCore_DP0': -9}",
        "Killed",
        "start.sh: line 3: 4711 Killed",
        "vllm-1 exited with code 137",
        "    Reason:       OOMKilled",
        "    Exit Code:    137",
    ],
)
def test_a_kill_by_the_host_is_named(line: str) -> None:
    assert cause(of(log("0.19.0", line, model=LLAMA))) == "killed-by-the-host"


def test_what_is_offered_after_an_upgrade_frees_what_was_short() -> None:
    before = log("0.11.2", "INFO:     Application startup complete.", model=LLAMA, max_num_batched_tokens=32768)
    after = log(
        "0.14.1",
        "INFO 06-16 14:13:41 [gpu_model_runner.py:2392] Model loading took 14.9889 GiB and 1.4 seconds",
        'ERROR 06-16 14:14:04 [core.py:1]   File "/vllm/v1/worker/gpu_worker.py", line 1, in profile_run',
        "ERROR 06-16 14:14:04 [core.py:1] " + oom("3.75 GiB", "44.40 GiB", "1.75 GiB"),
        model=LLAMA,
        max_num_batched_tokens=32768,
        max_model_len=8192,
    )
    answer = of(before + after, gpu="l40s")
    assert cause(answer) == "upgrade-changed-the-profile"
    assert answer.mend is not None
    match = re.match(r"--max-num-batched-tokens (\d+)", answer.mend.change)
    assert match

    def activations(tokens: int) -> int:
        made = deploy(
            load_model(LLAMA),
            find_accelerator("l40s"),
            engine="vllm==0.14.1",
            max_length=8192,
            max_num_batched_tokens=tokens,
        )
        return predict(made).start.reserve.activations

    assert activations(32768) - activations(int(match[1])) >= 2**31
    assert activations(32768) - activations(16384) < 2**31, "the nearest smaller step would not do"


def test_preemptions_are_told_without_a_usage_that_no_line_states() -> None:
    text = log(
        "0.6.3",
        "INFO:     Application startup complete.",
        "WARNING 06-16 15:13:57 [scheduler.py:1242] Sequence group 0 is preempted by PreemptionMode.RECOMPUTE mode "
        "because there is not enough KV cache space. total_num_cumulative_preemption=51",
        model=LLAMA,
    )
    answer = of(text)
    assert answer.cause is not None and str(answer.cause.text).startswith("capacity-bound: 51 preemptions")


def test_every_start_of_a_crash_loop_is_counted() -> None:
    once = log("0.10.2", "ERROR 06-16 14:14:04 [core.py:1] " + NO_BLOCKS, model=LLAMA)
    answer = of(once * 300)
    assert (answer.starts, answer.start) == (300, 300)
    assert of(once * 300, start=150).start == 150
    with pytest.raises(BadInput, match="from number 100 on"):
        of(once * 300, start=99)


def test_a_step_of_less_than_a_second_is_no_narrow_stage() -> None:
    text = log(
        "0.10.2",
        "INFO 06-16 14:13:41 [gpu_model_runner.py:2392] Model loading took 0.2389 GiB and 0.4 seconds",
        "INFO:     Application startup complete.",
        model=LLAMA,
    )
    assert of(text).timeline.narrow_stage is None
    assert of(text.replace("0.4 seconds", "4 seconds")).timeline.narrow_stage == "load model"


def test_a_figure_that_the_log_lacks_is_left_out_of_the_sentence() -> None:
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB."
    text = log(
        "0.10.2", "INFO 06-16 14:13:58 [gpu_model_runner.py:1] Capturing CUDA graph shapes: 10%", line, model="/m/mine"
    )
    answer = of(text)
    assert cause(answer) == "graph-capture"
    assert answer.cause is not None and "?" not in str(answer.cause.text)

"""Logs of engines are read to the values they state, whoever carries them and however they are cut or mixed."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from narrows.observe import Observation, missing, observe, observe_path
from narrows.observe.facts import vocabulary
from narrows.observe.lines import LONGEST, blocks, clean
from narrows.text import BadInput
from narrows.units import GIB, MIB

LOGS = Path(__file__).parent / "data" / "logs"
REAL = sorted(LOGS.rglob("*.log"))
QUOTES = [json.loads(line) for line in (LOGS / "quotes.jsonl").read_text("utf-8").splitlines()]


def read(name: str) -> Observation:
    """The last start of a fixture."""
    return observe_path(LOGS / name)[-1]


def excerpt(name: str) -> Observation:
    return read(f"excerpts/{name}.log")


def of(text: str | bytes) -> list[Observation]:
    return observe(io.BytesIO(text.encode() if isinstance(text, str) else text))


def gib(value: float) -> int:
    return round(value * GIB)


def steps(observation: Observation) -> dict[str, float]:
    return {stage.name: stage.seconds for stage in reversed(observation.timeline)}


# --- a real engine's complete logs -----------------------------------------------------------------------------------


def test_a_cpu_server_says_version_model_settings_and_its_pool() -> None:
    seen = read("vllm-0.32.0-cpu-default.log")
    assert (seen.engine, seen.version, seen.model) == ("vllm", "0.32.0", "ckpt/llama-tiny")
    assert seen.outcome == "serving" and seen.error is None and seen.stage is None
    assert seen.kv_tokens == 65536 and seen.max_concurrency == 32.0 and seen.concurrency_length == 2048
    assert seen.terms.kv_cache == 268435456
    """the log rounds to 0.25 GiB; the arguments say the bytes"""
    assert seen.settings.max_model_len == 2048 and seen.settings.dtype == "bfloat16"
    assert seen.settings.quantization == "none" and seen.settings.enforce_eager is False
    assert steps(seen)["init engine"] == 147.53 and steps(seen)["read weights"] == 0.11
    assert seen.seconds_to_ready == 231.0
    """16:45:03 to 16:48:54"""


def test_an_operator_who_stops_the_server_is_no_failure() -> None:
    text = (LOGS / "vllm-0.32.0-cpu-default.log").read_text("utf-8")
    assert "EngineDeadError" in text
    assert read("vllm-0.32.0-cpu-default.log").outcome == "serving"


def test_what_does_not_fit_says_needed_and_the_longest_length() -> None:
    seen = read("vllm-0.32.0-cpu-nofit.log")
    assert (seen.outcome, seen.stage) == ("failed", "kv allocation")
    assert seen.estimated_max_len == 3968 and seen.settings.max_model_len == 8192
    assert seen.needed_bytes == gib(0.03) and seen.terms.kv_cache == 16777216
    assert seen.error is not None and seen.error.startswith("ValueError: To serve at least one request")
    assert len(seen.error) <= 300


def test_automatic_fitting_replaces_the_length() -> None:
    seen = read("vllm-0.32.0-cpu-autolen-dummy.log")
    assert seen.settings.max_model_len == 4064 and seen.kv_tokens == 4096
    assert seen.settings.load_format == "dummy" and seen.settings.block_size == 32


def test_memory_that_is_not_free_fails_before_loading() -> None:
    seen = read("vllm-0.32.0-cpu-default-util.log")
    assert (seen.outcome, seen.stage) == ("failed", "load")
    assert seen.terms.free_at_start == gib(17.41) and seen.terms.total == gib(23.54)
    assert seen.terms.requested == gib(21.66) and seen.settings.gpu_memory_utilization == 0.92
    assert seen.ranks.keys() == {"rank 0"}


def test_reports_keep_the_last_values_and_the_peak() -> None:
    serving = read("vllm-0.32.0-cpu-preempt.log").serving
    assert serving is not None and serving.running == 0
    assert serving.peak_kv_usage == 1.0 and serving.peak_waiting == 8


def test_a_log_without_line_ends_is_split_at_its_marks() -> None:
    seen = read("llamacpp-node-cpu.log")
    assert seen.engine == "llama.cpp" and seen.outcome == "started" and seen.architecture == "llama"
    assert seen.terms.weights == round(58.28 * MIB) and seen.terms.kv_cache == 64 * MIB
    assert seen.kv_tokens == 16384 and seen.settings.max_model_len == 4096 and seen.settings.max_num_seqs == 4


# --- public logs, by version -----------------------------------------------------------------------------------------


def test_vllm_0_8_namespace_and_two_line_capacity() -> None:
    seen = excerpt("vllm-0.8.5")
    assert seen.version == "0.8.5.post1" and seen.outcome == "started"
    assert seen.terms.weights == gib(27.5916) and seen.terms.graphs == gib(0.70)
    assert seen.kv_tokens == 32832 and seen.max_concurrency == 1.0
    assert seen.settings.gpu_memory_utilization == 0.9 and seen.settings.max_num_batched_tokens == 2048
    assert seen.settings.swap_space == 4 * GIB and seen.settings.max_num_seqs is None
    assert steps(seen)["capture graphs"] == 33 and steps(seen)["load model"] == 4.056921


def test_vllm_0_10_2_has_the_whole_ledger_and_exact_pool_bytes() -> None:
    seen = excerpt("vllm-0.10.2")
    terms = seen.terms
    assert seen.gpu == "NVIDIA H100 80GB HBM3" and seen.gpu_blocks == 5924
    assert (terms.total, terms.free_at_start, terms.requested) == (gib(79.18), gib(78.57), gib(71.26))
    assert (terms.weights, terms.activations, terms.non_torch) == (gib(56.9342), gib(5.58), gib(0.07))
    assert terms.kv_cache == 9318930329 and terms.graphs == gib(0.69)
    nested = {stage.name for stage in seen.timeline if stage.nested}
    assert nested == {"read weights", "trace model", "compile graph", "torch.compile", "capture graphs"}


def test_over_ranks_the_smallest_pool_binds_and_the_slowest_rank_decides_a_step() -> None:
    seen = excerpt("vllm-0.10.0-tp8")
    assert seen.binding_rank == "rank 6" and seen.terms.kv_cache == gib(35.65)
    assert seen.kv_tokens == 1590736 and seen.max_concurrency == 48.55
    """99421 blocks x 16, as num_gpu_blocks says, not the 1,594,928 that is printed first"""
    assert seen.gpu_blocks == 99421
    assert steps(seen)["read weights"] == 107.15 and steps(seen)["load model"] == 120.22235
    assert seen.ranks["rank 7"].kv_cache == gib(36.12)
    assert seen.terms.weights == gib(27.6656)


def test_an_oom_is_read_with_the_stage_where_it_happened() -> None:
    seen = excerpt("vllm-0.19.1-oom")
    assert (seen.outcome, seen.stage, seen.gpu) == ("failed", "profiling", "Tesla T4")
    assert seen.oom is not None
    assert (seen.oom.tried, seen.oom.total, seen.oom.device) == (gib(1.02), gib(14.56), "0")
    assert seen.oom.free == round(111.81 * MIB)
    assert seen.error is not None and "Tried to allocate 1.02 GiB" in seen.error
    assert steps(seen)["download weights"] == 41.892663 and steps(seen)["load model"] == 53.543025


def test_processes_named_by_number_may_be_the_process_itself() -> None:
    oom = excerpt("vllm-0.8.0-oom").oom
    assert oom is not None and oom.named_processes == gib(22.97) and oom.other_processes is None
    assert oom.private_pools == 128 * MIB and oom.reserved_unallocated == round(185.98 * MIB) and oom.device == "1"
    apart = of(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total capacity of 14.57 "
        "GiB of which 1.58 GiB is free. Process 2493055 has 12.02 GiB memory in use. Including non-PyTorch memory, "
        "this process has 966.00 MiB memory in use. Of the allocated memory 734.07 MiB is allocated by PyTorch\n"
    )[-1].oom
    assert apart is not None and apart.other_processes == gib(12.02)
    assert apart.in_use_by_this_process == 966 * MIB and apart.named_processes is None


def test_the_oom_of_torch_before_2_1() -> None:
    oom = of(
        "RuntimeError: CUDA out of memory. Tried to allocate 376.00 MiB (GPU 0; 3.95 GiB total capacity; 1.72 GiB "
        "already allocated; 354.88 MiB free; 2.46 GiB reserved in total by PyTorch)\n"
    )[-1].oom
    assert oom is not None and oom.tried == 376 * MIB and oom.allocated_by_torch == gib(1.72)


def test_vllm_0_23_names_ranks_late_and_counts_the_graphs() -> None:
    seen = excerpt("vllm-0.23.1-tp4")
    assert seen.binding_rank == "TP2" and seen.terms.kv_cache == gib(32.31)
    assert seen.settings.cpu_offload == 40 * GIB and seen.settings.kv_cache_dtype == "fp8_ds_mla"
    assert seen.settings.block_size == 64 and seen.terms.graphs_estimated == gib(0.06)
    assert seen.terms.activations == gib(1.47) and seen.terms.non_torch == gib(0.63)
    assert set(seen.ranks) == {"TP0", "TP2", "TP3"}


def test_the_draft_models_name_and_load_do_not_replace_the_targets() -> None:
    seen = excerpt("vllm-0.25.1-nofit")
    assert seen.model == "poolside/Laguna-S-2.1-INT4"
    assert seen.settings.speculative is not None and "DFlash" in seen.settings.speculative
    assert (seen.needed_bytes, seen.estimated_max_len, seen.terms.kv_cache) == (gib(18.35), 121840, gib(8.72))
    assert [stage.seconds for stage in seen.timeline if stage.name == "read weights"] == [321.42, 12.98]


def test_ray_workers_of_v0_and_their_ledger() -> None:
    seen = excerpt("vllm-0.8-ray-v0")
    assert seen.terms.total == gib(44.53) and seen.terms.activations == gib(1.52)
    assert seen.terms.kv_cache == gib(21.20) and seen.settings.gpu_memory_utilization == 0.98
    assert (seen.outcome, seen.stage) == ("failed", "graph capture")


def test_the_profiling_line_of_0_6_4_gives_the_activations_by_difference() -> None:
    seen = of(
        "INFO 12-07 17:39:08 model_runner.py:1025] Loading model weights took 14.9888 GB\n"
        "INFO 12-07 17:39:09 worker.py:237] Memory profiling results: duration=39.11 seconds, total_gpu_memory=44.98GiB"
        ", initial_memory_usage=15.23GiB, peak_torch_memory=16.20GiB, memory_usage_post_profile=15.46GiB, "
        "non_torch_memory=0.44GiB, kv_cache_size=23.84GiB, gpu_memory_utilization=0.90.\n"
    )[-1]
    assert seen.terms.activations == gib(16.20) - gib(14.9888) and seen.terms.non_torch == gib(0.44)
    assert seen.terms.kv_cache == gib(23.84) and seen.settings.gpu_memory_utilization == 0.9


def test_vllm_before_it_printed_its_version() -> None:
    seen = excerpt("vllm-0.2.7")
    assert (seen.outcome, seen.stage, seen.version) == ("failed", "kv allocation", None)
    assert (seen.gpu_blocks, seen.kv_tokens, seen.settings.max_model_len) == (229, 3664, 4096)
    assert "version" in missing(seen) and "model" not in missing(seen)


def test_sampler_warm_up_and_docker_timestamps() -> None:
    assert excerpt("vllm-sampler").stage == "warm-up" and excerpt("vllm-sampler").settings.max_num_seqs == 1024
    assert (excerpt("vllm-docker-timestamps").kv_tokens, excerpt("vllm-docker-timestamps").gpu_blocks) == (6048, 378)


def test_sglang_ledger() -> None:
    seen = excerpt("sglang-l40s")
    assert (seen.engine, seen.model, seen.outcome) == ("sglang", "Qwen/Qwen2.5-1.5B-Instruct", "serving")
    assert seen.terms.weights == gib(3.03) and seen.terms.kv_cache == 2 * gib(17.19)
    assert seen.terms.graphs == gib(0.18) + gib(0.51) and seen.kv_tokens == 1287482
    assert seen.settings.mem_fraction_static == 0.85 and seen.settings.max_num_seqs == 4096
    assert seen.settings.kv_cache_dtype == "float16" and seen.settings.max_model_len == 32768


def test_sglang_counts_both_pools_of_the_target_and_keeps_the_drafts_apart() -> None:
    seen = of(
        "[2026-08-01 23:40:00] Load weight begin. avail mem=110.00 GB\n"
        "[2026-08-01 23:40:01] Load weight end. type=Laguna, avail mem=42.00 GB, mem usage=67.56 GB.\n"
        "[2026-08-01 23:40:02] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 148717, K size: 10.21 GB, V size:"
        " 10.21 GB\n"
        "[2026-08-01 23:40:02] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 185897, K size: 4.25 GB, V size: "
        "4.25 GB\n"
        "[2026-08-01 23:40:03] Memory pool end. avail mem=17.73 GB\n"
        "[2026-08-01 23:40:04] Load weight end. type=Draft, avail mem=16.00 GB, mem usage=1.58 GB.\n"
        "[2026-08-01 23:40:05] KV Cache is allocated. #tokens: 185897, K size: 2.13 GB, V size: 2.13 GB\n"
    )[-1]
    assert seen.terms.kv_cache == 2 * gib(10.21) + 2 * gib(4.25) and seen.kv_tokens == 185897
    assert seen.terms.draft_kv_cache == 2 * gib(2.13)
    assert (seen.terms.weights, seen.terms.draft) == (gib(67.56), gib(1.58))


def test_llamacpp_by_device_and_with_two_caches() -> None:
    metal = excerpt("llamacpp-b6050-metal")
    assert (metal.version, metal.gpu, metal.binding_rank) == ("b6050", "Apple M2 Pro", "Metal")
    assert metal.terms.weights == round(7875.80 * MIB) and metal.terms.kv_cache == 640 * MIB
    assert metal.terms.activations == 312 * MIB and metal.ranks["CPU"].weights == 440 * MIB
    both = excerpt("llamacpp-b8680-swa")
    assert both.version == "b8680" and both.terms.kv_cache == 1064 * MIB and both.kv_tokens == 65536


def test_llamacpp_fails_at_its_compute_buffer_unless_it_tries_again() -> None:
    failed = excerpt("ikllama-oom")
    assert (failed.outcome, failed.stage, failed.binding_rank) == ("failed", "profiling", "CUDA0")
    assert failed.oom is not None and failed.oom.tried == round(279356.51 * MIB)
    assert excerpt("llamacpp-retry").outcome == "started"


def test_tensorrt_llm_is_recognised() -> None:
    seen = excerpt("tensorrt-llm-1.2")
    assert (seen.engine, seen.version, seen.kv_tokens) == ("tensorrt-llm", "1.2.0rc4", 900800)


def given_as(observation: Observation) -> dict[str, float | None]:
    """An observation in the units of the table of quotes."""
    terms, oom = observation.terms, observation.oom
    bytes_of: dict[str, int | None] = {
        "kv_cache_gib": terms.kv_cache,
        "weights_gib": terms.weights,
        "total_gpu_gib": terms.total,
        "non_torch_gib": terms.non_torch,
        "needed_gib": observation.needed_bytes or (oom.tried if oom else None),
    }
    return {name: None if size is None else size / GIB for name, size in bytes_of.items()} | {
        "kv_tokens": observation.kv_tokens,
        "gpu_blocks": observation.gpu_blocks,
        "max_model_len": observation.settings.max_model_len or observation.concurrency_length,
        "max_concurrency": observation.max_concurrency,
        "gpu_memory_utilization": observation.settings.gpu_memory_utilization,
        "mem_fraction_static": observation.settings.mem_fraction_static,
        "estimated_max_len": observation.estimated_max_len,
        "weights_load_s": steps(observation).get("load model"),
    }


@pytest.mark.parametrize("row", QUOTES, ids=lambda row: row["id"])
def test_quoted_log_lines_give_the_values_of_their_run(row: dict[str, Any]) -> None:
    seen = given_as(of(row["text"] + "\n")[-1])
    for field, expected in row["expected"].items():
        assert seen[field] == pytest.approx(expected, rel=0.006, abs=0.006), field


# --- carriers, interleaving, several starts --------------------------------------------------------------------------

CARRIED: dict[str, Callable[[str], str]] = {
    "compose": lambda line: f"vllm-1  | {line}",
    "kubernetes": lambda line: f"2026-11-29T18:30:34.123456789Z stdout F {line}",
    "journald": lambda line: f"Nov 29 18:30:34 node-7 vllm[991]: {line}",
    "docker json": lambda line: json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026-11-29T18:30:34Z"}),
    "colour": lambda line: f"\x1b[36m{line[:15]}\x1b[0;0m{line[15:]}",
    "carriage return": lambda line: f"Loading:  50%|█████     | 1/2 [00:01<00:01]\r{line}",
    "windows": lambda line: line + "\r",
}


@pytest.mark.parametrize("carrier", CARRIED)
def test_what_carries_a_log_does_not_change_what_it_says(carrier: str) -> None:
    lines = (LOGS / "excerpts" / "vllm-0.23.1-tp4.log").read_text("utf-8").splitlines()
    carried = of("\n".join(CARRIED[carrier](line) for line in lines) + "\n")
    assert len(carried) == 1
    plain = excerpt("vllm-0.23.1-tp4")
    assert (carried[0].terms, carried[0].settings, carried[0].ranks) == (plain.terms, plain.settings, plain.ranks)
    assert (carried[0].version, carried[0].model, carried[0].outcome) == (plain.version, plain.model, plain.outcome)
    assert carried[0].kv_tokens == plain.kv_tokens and carried[0].timeline == plain.timeline


def test_powershells_utf16_is_read() -> None:
    text = (LOGS / "excerpts" / "vllm-0.10.2.log").read_text("utf-8")
    assert of(text.encode("utf-16"))[-1].terms == excerpt("vllm-0.10.2").terms


def test_the_order_of_interleaved_ranks_does_not_matter() -> None:
    lines = (LOGS / "excerpts" / "vllm-0.10.0-tp8.log").read_text("utf-8").splitlines(keepends=True)
    workers = [line for line in lines if line.startswith("(Vllm")]
    first = of("".join(workers))[-1]
    for seed in range(20):
        random.Random(seed).shuffle(workers)
        again = of("".join(workers))[-1]
        assert (again.terms, again.ranks, steps(again)) == (first.terms, first.ranks, steps(first))


def test_each_start_in_a_file_is_its_own_observation() -> None:
    names = ("vllm-0.32.0-cpu-nofit.log", "vllm-0.32.0-cpu-default-util.log", "vllm-0.32.0-cpu-default.log")
    texts = [(LOGS / name).read_bytes().rstrip(b"\n") + b"\n" for name in names]
    found = of(b"".join(texts))
    assert [seen.outcome for seen in found] == ["failed", "failed", "serving"]
    assert [seen.terms for seen in found] == [read(name).terms for name in names]
    assert found[2].kv_tokens == 65536 and found[2].oom is None
    first = sum(text.count(b"\n") for text in texts[:2])
    assert found[2].evidence[0].line == first + read(names[2]).evidence[0].line


def test_two_data_parallel_engines_are_one_start() -> None:
    text = "".join(
        f"(EngineCore_DP{n} pid={n + 10}) INFO 11-29 16:46:00 [core.py:1] Initializing a V1 LLM engine (v0.11.0) with "
        f"config: model='m', tensor_parallel_size=1, data_parallel_size=2, seed=0\n"
        for n in (0, 1)
    ) + "".join(
        f"(EngineCore_DP{n} pid={n + 10}) INFO 11-29 16:46:09 [kv.py:1] GPU KV cache size: {tokens} tokens\n"
        for n, tokens in ((0, "2,000"), (1, "1,600"))
    )
    found = of(text)
    assert len(found) == 1 and found[0].kv_tokens == 1600 and found[0].settings.data_parallel == 2


def test_an_engine_started_again_in_the_same_process_is_another_start() -> None:
    once = (LOGS / "excerpts" / "vllm-0.2.7.log").read_text("utf-8")
    assert len(of(once + once)) == 2


def test_requests_that_die_under_load_are_told_from_start_up() -> None:
    text = (LOGS / "excerpts" / "vllm-0.10.2.log").read_text("utf-8") + (
        "(EngineCore_DP0 pid=1289229) ERROR 06-16 15:00:00 [core.py:710] EngineCore encountered a fatal error.\n"
        "(EngineCore_DP0 pid=1289229) ERROR 06-16 15:00:00 [core.py:710] torch.OutOfMemoryError: CUDA out of memory. "
        "Tried to allocate 2.32 GiB. GPU 0 has a total capacity of 79.18 GiB of which 1.10 GiB is free.\n"
    )
    seen = of(text)[-1]
    assert (seen.outcome, seen.stage) == ("failed", "under load")
    assert seen.oom is not None and seen.oom.tried == gib(2.32) and seen.kv_tokens == 94784


@pytest.mark.parametrize(
    ("text", "stage", "begins"),
    [
        ("vllm serve: error: argument --dtype: invalid choice: 'fp12'\n", "arguments", "vllm serve: error"),
        (
            "INFO 05-12 02:45:15 [api_server.py:1043] vLLM API server version 0.8.5\n"
            "Traceback (most recent call last):\nOSError: You are trying to access a gated repo.\n",
            None,
            "OSError: You are",
        ),
        (
            "INFO 05-12 02:45:31 [gpu_model_runner.py:1329] Starting to load model m...\nKilled\n",
            "load",
            "Killed",
        ),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n",
            "kv allocation",
            "RuntimeError: Not enough",
        ),
    ],
)
def test_other_ends_of_a_start(text: str, stage: str | None, begins: str) -> None:
    seen = of(text)[-1]
    assert (seen.outcome, seen.stage) == ("failed", stage)
    assert seen.error is not None and seen.error.startswith(begins)


# --- partial, broken, hostile ----------------------------------------------------------------------------------------

CUT = (
    "kv_tokens",
    "gpu_blocks",
    "max_concurrency",
    "concurrency_length",
    "estimated_max_len",
    "needed_bytes",
    "version",
)


def agrees(part: Observation, whole: Observation) -> None:
    """What a cut log says is what the whole log says, as far as it goes; what ranks take the minimum of may shrink."""
    for name in CUT:
        value = getattr(part, name)
        if whole.engine == "tensorrt-llm" and name == "kv_tokens":
            continue  # a first pool for profiling, then the final one
        if value is not None and name in ("kv_tokens", "max_concurrency"):
            assert value >= getattr(whole, name)
        elif value is not None and name != "concurrency_length" and name != "gpu_blocks":
            assert value == getattr(whole, name)
    for name, value in msgspec.structs.asdict(part.terms).items():
        full = getattr(whole.terms, name)
        if value is not None and name in ("weights", "total", "non_torch", "activations"):
            assert value == pytest.approx(full, rel=0.01)


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_a_log_cut_after_any_tenth_line_says_nothing_wrong(path: Path) -> None:
    whole = observe_path(path)[-1]
    lines = path.read_bytes().splitlines(keepends=True)
    for end in [*range(0, len(lines), 10), len(lines)]:
        parts = of(b"".join(lines[:end]))
        assert len(parts) == 1
        agrees(parts[0], whole)


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_a_log_cut_within_a_line_says_no_shortened_number(path: Path) -> None:
    whole = observe_path(path)[-1]
    data = path.read_bytes()
    chance = random.Random(7)
    for _ in range(60):
        agrees(of(data[: chance.randrange(len(data))])[-1], whole)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=4000))
def test_arbitrary_bytes_are_read_without_an_error(data: bytes) -> None:
    assert of(data)[-1].outcome in ("unknown", "failed", "started")


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(REAL), st.randoms(use_true_random=False))
def test_damaged_logs_are_read_without_an_error(path: Path, chance: random.Random) -> None:
    data = bytearray(path.read_bytes()[:30000])
    for _ in range(chance.randrange(1, 200)):
        at = chance.randrange(len(data))
        if chance.random() < 0.5:
            data[at] = chance.randrange(256)
        else:
            data[at : at + chance.randrange(40)] = data[chance.randrange(len(data)) :][: chance.randrange(40)]
    for seen in of(bytes(data)):
        msgspec.json.encode(seen)


class Endless(io.RawIOBase):
    """`size` bytes without a newline, made as they are read; counts the largest piece asked for."""

    def __init__(self, size: int, filler: bytes = b"x") -> None:
        self.left, self.filler, self.largest = size, filler, 0

    def read(self, size: int = -1) -> bytes:
        self.largest = max(self.largest, size)
        size = min(size, self.left)
        self.left -= size
        return (self.filler * (size // len(self.filler) + 1))[:size]


def test_what_stands_beyond_the_longest_line_is_not_read() -> None:
    fact = b"GPU KV cache size: 1,234 tokens"
    for before, read in ((LONGEST // 2, True), (LONGEST, False)):
        assert (observe(io.BytesIO(b" " * before + fact + b"\n"))[-1].kv_tokens is not None) is read


@pytest.mark.parametrize("filler", [b"x", b"GPU KV cache size: 1,234 tokens ", b"9", b"\r", b"\x00\xff"])
def test_a_line_of_a_gigabyte_is_read_in_bounded_memory(filler: bytes) -> None:
    held = [len(block.data) for block in blocks(Endless(2**30, filler), 2**40)]  # type: ignore[arg-type]
    assert sum(held) <= 2 * LONGEST
    stream = Endless(2**30, filler)
    assert observe(stream)[-1].outcome == "unknown"  # type: ignore[arg-type]
    assert 0 < stream.largest <= 2**20


def test_a_line_after_a_huge_one_keeps_its_number() -> None:
    text = b"first\n" + b"y" * (3 * 2**20) + b"\nINFO 07-13 20:30:51 [k.py:1] GPU KV cache size: 545,856 tokens\n"
    seen = of(text)[-1]
    assert seen.kv_tokens == 545856 and seen.evidence[0].line == 3


def test_a_stream_that_is_no_log_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Endless(2**32, b"nothing of an engine here\n")
    monkeypatch.setattr("narrows.observe.parser.UNKNOWN_AFTER", 2**22)
    seen = observe(stream)[-1]  # type: ignore[arg-type]
    assert (seen.engine, seen.outcome, seen.complete) == (None, "unknown", False)
    assert stream.left > 2**31


def test_reports_of_weeks_end_with_the_last_one() -> None:
    line = (
        "(APIServer pid=7) INFO 11-29 16:51:38 [loggers.py:335] Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg "
        "generation throughput: 0.1 tokens/s, Running: {} reqs, Waiting: 0 reqs, GPU KV cache usage: 12.9%, Prefix\n"
    )
    text = (LOGS / "excerpts" / "vllm-0.10.2.log").read_text("utf-8") + "".join(line.format(n) for n in range(9000))
    serving = of(text)[-1].serving
    assert serving is not None and serving.running == 8999


def test_of_a_crash_loop_the_last_starts_are_kept() -> None:
    once = (LOGS / "excerpts" / "vllm-0.2.7.log").read_text("utf-8")
    found = of(once * 300)
    assert len(found) + found[-1].earlier_starts == 300 and found[-1].first_line == 299 * once.count("\n") + 2


def test_another_programs_traceback_is_no_engines_failure() -> None:
    seen = of('Traceback (most recent call last):\n  File "x.py", line 3, in f\nValueError: nothing\n')[-1]
    assert (seen.engine, seen.outcome, seen.error) == (None, "unknown", None)


def test_a_limit_cuts_and_says_so() -> None:
    data = (LOGS / "vllm-0.32.0-cpu-default.log").read_bytes()
    seen = observe(io.BytesIO(data), limit_bytes=5000)[-1]
    assert seen.version == "0.32.0" and seen.kv_tokens is None and not seen.complete


def test_files_that_cannot_be_read_are_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        observe_path(tmp_path / "absent.log")
    with pytest.raises(BadInput, match="cannot be read"):
        observe_path(tmp_path)
    (tmp_path / "empty.log").write_bytes(b"")
    with pytest.raises(BadInput, match="empty"):
        observe_path(tmp_path / "empty.log")


# --- the vocabulary is data ------------------------------------------------------------------------------------------


def test_every_fact_names_its_source_and_only_known_fields() -> None:
    known = {"seconds", "place", "gpu", "model", "version", "architecture", "rank", "dump"}
    known |= set(Observation.__struct_fields__)
    for found in vocabulary():
        assert found.fact.source.startswith(("https://", "tests/data/logs/")), found.fact.name
        for name in found.units:
            base = name.partition("__")[0]
            assert base in known or base.startswith(("oom_", "serving_")) or base in FIELDS, (found.fact.name, name)


FIELDS = set(msgspec.structs.asdict(Observation().terms)) | set(msgspec.structs.asdict(Observation().settings))


def test_names_of_facts_are_unique_within_an_engine() -> None:
    names = [(found.engine, found.fact.name) for found in vocabulary()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("filler", ["9", "1,", "a", " ", "(", "GiB 1.0 ", "=", "'"])
def test_no_pattern_is_slow_on_a_hostile_line(filler: str) -> None:
    """Every repetition is bounded, so that a line costs its length times a constant."""
    for found in vocabulary():
        pattern = found.find.pattern
        assert (
            not re.search(r"(?<!\\)[)\].\w][*+](?![^\[]*\])", re.sub(r"\[[^\]]*\]", "[]", pattern).replace(r"\s*", ""))
            or "[^\\n]*" in pattern
        ), found.fact.name
        found.find.search(found.fact.needle + filler * (LONGEST // len(filler)))


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_evidence_quotes_the_line_of_the_file(path: Path) -> None:
    lines = path.read_bytes().split(b"\n")
    for evidence in observe_path(path)[-1].evidence:
        assert len(evidence.text) <= 300 and evidence.text.isprintable() and evidence.fields
        texts = [re.sub(r"\s+", " ", line.text).strip() for line in clean(lines[evidence.line - 1], evidence.line)]
        assert any(text.startswith(evidence.text.rstrip("…")[:60]) for text in texts)


@pytest.mark.parametrize("name", ["vllm-0.32.0-cpu-nofit.log", "vllm-0.32.0-cpu-default.log"])
def test_a_crash_loop_is_skimmed_and_its_last_start_is_read_whole(name: str) -> None:
    start = (LOGS / name).read_bytes()
    second = observe(io.BytesIO(start * 2))[-1]
    found = observe(io.BytesIO(start * 300))
    last = found[-1]
    skipped = start.count(b"\n") * 298
    assert last.earlier_starts + len(found) == 300 and len(found) == 201
    assert last.first_line == second.first_line + skipped
    assert [one.line - skipped for one in last.evidence] == [one.line for one in second.evidence]
    changed = ("first_line", "earlier_starts", "evidence")
    assert all(getattr(last, name) == getattr(second, name) for name in last.__struct_fields__ if name not in changed)


def test_a_server_that_outlives_a_crash_loop_is_read_to_its_end() -> None:
    failing = (LOGS / "vllm-0.32.0-cpu-nofit.log").read_bytes()
    serving = (LOGS / "vllm-0.32.0-cpu-default.log").read_bytes()
    access = b'INFO:     127.0.0.1:46356 - "POST /v1/completions HTTP/1.1" 200 OK\n' * 100_000
    found = observe(io.BytesIO(failing * 80 + serving + access + failing))
    assert found[-1].earlier_starts + len(found) == 82
    assert [one.outcome for one in found[-3:]] == ["failed", "serving", "failed"]


def test_sizes_that_cannot_be_are_not_taken() -> None:
    seen = of(
        "INFO 05-12 02:45:15 [api_server.py:1043] vLLM API server version 0.8.5\n"
        "INFO Model loading took -5.0 GiB and 3 seconds\n"
        "INFO Available KV cache memory: -12.5 GiB\n"
        "INFO GPU KV cache size: -3 tokens\n"
    )[-1]
    assert (seen.terms.weights, seen.kv_tokens) == (None, None)
    # what is left can be less than nothing, and the engine prints it so
    assert seen.terms.kv_cache == round(-12.5 * GIB)

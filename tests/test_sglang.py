"""SGLang's memory: pools and tokens as its logs state them, and what of them is assumed."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest

from narrows.answers.check import check
from narrows.answers.fit import fit
from narrows.deployment import Deployment, deploy
from narrows.engines import find_engine
from narrows.engines.sglang import captured_batches, captured_sizes, sglang_facts
from narrows.engines.sglang_command import is_sglang_command, read_sglang_command
from narrows.hardware import find_accelerator
from narrows.memory import ledger, reserve, start
from narrows.memory.sglang import TokenPools, token_pools
from narrows.models import ModelSpec, read_config
from narrows.models.catalogue import catalogue_entry
from narrows.models.config import catalogued
from narrows.text import BadInput

from .conftest import Cli

GIB = 2**30


def known(name: str) -> ModelSpec:
    return catalogued(catalogue_entry(name))


MAMBA = read_config(
    {
        "model_type": "mamba",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "state_size": 16,
        "vocab_size": 1000,
        "conv_kernel": 4,
        "expand": 2,
        "time_step_rank": 4,
        "torch_dtype": "bfloat16",
    },
    name="mamba-tiny",
)


def run(name: str, gpu: str, version: str = "sglang", **options: Any) -> Deployment:
    return deploy(known(name), find_accelerator(gpu), engine=version, **options)


# --- what public logs say ---

STARTS = [
    # source, model, device, options, tokens that the log states, largest error
    (
        "lennonYe/6998_project",
        ("Qwen/Qwen2.5-1.5B-Instruct", "l40s", {"utilization": 0.85, "dtype": "float16"}),
        1_287_482,
        0.005,
    ),
    (
        "vllm-project/vllm#21348",
        ("Qwen/Qwen3-235B-A22B-FP8", "h100-sxm", {"utilization": 0.93, "tensor_parallel": 4}),
        367_404,
        0.06,
    ),
    (
        "ai-dynamo/aisimulate#263",
        (
            "deepseek-ai/DeepSeek-V3",
            "h200-sxm",
            {"utilization": 0.82, "tensor_parallel": 8, "max_num_batched_tokens": 32768},
        ),
        509_000,
        0.01,
    ),
]


@pytest.mark.parametrize(("source", "given", "tokens", "error"), STARTS, ids=[one[0] for one in STARTS])
def test_tokens_of_the_pool_are_those_of_public_starts(
    source: str, given: tuple[str, str, dict[str, Any]], tokens: int, error: float
) -> None:
    name, gpu, options = given
    found = start(run(name, gpu, **options))
    assert found.stage == "started"
    assert found.tokens == pytest.approx(tokens, rel=error)
    assert found.kv.low is not None and found.kv.high is not None
    assert found.pages.tokens(int(found.kv.low)) <= tokens <= found.pages.tokens(int(found.kv.high))


@pytest.mark.parametrize(
    ("name", "tp", "measured"),
    [
        # bytes of the pool by its tokens, from the records tm-040, 044, 050, 052, 053, 058, 059, 063 and 064
        ("deepseek-ai/DeepSeek-V3", 1, 70447.3),
        ("Qwen/Qwen2.5-1.5B-Instruct", 1, 28672.4),
        ("Qwen/Qwen3-235B-A22B-FP8", 4, 48104.5),
        ("Qwen/Qwen3-30B-A3B", 1, 98306.4),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 4, 63548.0),
        ("Qwen/Qwen3-Coder-480B-A35B-Instruct", 8, 31741.4),
        ("Qwen/Qwen3-32B", 4, 65561.5),
        ("Qwen/Qwen3-32B", 8, 32765.1),
    ],
)
def test_a_token_costs_what_logs_show(name: str, tp: int, measured: float) -> None:
    pools = token_pools(run(name, "h200-sxm", tensor_parallel=tp, utilization=0.9), 0)
    assert pools.whole == pytest.approx(measured, rel=0.003)


@pytest.mark.parametrize(
    ("free_after", "kv", "weights", "fraction"),
    [
        # records tm-058 to tm-061: GiB free after the pools, in the pools, loaded, and the static share
        (18.30, 9.28, 33.25, 0.7),
        (18.31, 24.30, 18.24, 0.7),
        (16.49, 21.66, 22.72, 0.73),
        (24.28, 4.80, 31.63, 0.6),
    ],
)
def test_the_pool_is_the_share_of_what_was_free_less_the_weights(
    free_after: float, kv: float, weights: float, fraction: float
) -> None:
    one = run("llama-2-7b", "l40s", utilization=fraction)
    free = free_after + kv + weights
    runtime = reserve(one).runtime
    given = deploy(
        one.model,
        one.accelerator,
        engine="sglang",
        utilization=fraction,
        device_memory=int(free * GIB) + runtime,
    )
    begun = start(given)
    assert (begun.kv.value + begun.weights) / GIB - weights == pytest.approx(kv, abs=0.07)


def test_sliding_windows_have_a_pool_of_their_own_and_the_memory_is_shared_by_the_ratio() -> None:
    pools = token_pools(run("openai/gpt-oss-20b", "l40s"), 0)
    assert (pools.whole, pools.windowed, pools.window, pools.ratio) == (12 * 2048, 12 * 2048, 128, 0.8)
    tokens, windows = pools.tokens(24 * GIB), pools.window_tokens(24 * GIB)
    assert windows == int(tokens * 0.8)
    used = tokens * pools.whole + windows * pools.windowed
    assert 24 * GIB - pools.whole - pools.windowed < used <= 24 * GIB


def test_a_pull_requests_two_pools_stand_in_the_ratio() -> None:
    # sgl-project/sglang#18039: full_layer_tokens=375360, swa_layer_tokens=300288
    pools = TokenPools(10, 10, 128, 0.8, 0, 0.9, 3, 0, page=64, most=375_360)
    assert (pools.tokens(GIB), pools.window_tokens(GIB)) == (375_360, 300_288)


def test_windows_are_kept_whole_where_the_version_has_no_pool_for_them() -> None:
    now = token_pools(run("google/gemma-3-27b-it", "h100-sxm"), 0)
    before = token_pools(run("google/gemma-3-27b-it", "h100-sxm", "sglang==0.5.6"), 0)
    assert (now.windowed, now.whole) == (0, before.whole + before.windowed)
    assert before.windowed > before.whole > 0


def test_state_slots_are_those_of_a_public_log() -> None:
    # kvcache-ai/ktransformers#1870: 82 slots, of which the pool keeps one more, take 0.13 + 7.29 GiB, and 580,364
    # tokens 8.30 GiB, on two ranks of Qwen3.5-397B-A17B: 45 layers with 64 value heads of 128 × 128
    each = 45 * (64 // 2 * 128 * 128 * 4 + (2 * 16 * 128 + 64 * 128) // 2 * 3 * 2)
    assert 83 * each / GIB == pytest.approx(0.13 + 7.29, abs=0.01)
    pools = TokenPools(15 * 2 * 256 * 2, 0, 0, 0.8, each, 0.9, 3, 0, page=1, most=0)
    kv = int((8.30 + 7.33) * GIB)
    assert pools.state_slots(kv) == pytest.approx(82, abs=1)
    assert pools.tokens(kv) == pytest.approx(580_364, rel=0.01)


def test_state_and_tokens_share_the_pool() -> None:
    pools = token_pools(run("Qwen/Qwen3.5-27B", "h100-sxm", tensor_parallel=2), 0)
    kv = 36 * GIB
    state = (pools.state_slots(kv) + pools.padding) * pools.state
    assert state / (kv - state) == pytest.approx(0.9, rel=0.02)
    assert pools.requests(kv, 1000) == pools.state_slots(kv) // 3


def test_layers_without_a_mixer_keep_nothing() -> None:
    name = "nvidia/Nemotron-H-56B-Base-8K"
    pools = token_pools(run(name, "h200-sxm", tensor_parallel=8), 0)
    attention = sum(1 for layer, indices in known(name).kinds for _ in indices if layer.mixer.cache())
    assert pools.whole == attention * 2 * 1 * 128 * 2
    assert pools.state > 0


def test_an_indexers_key_has_its_own_bytes_and_fp8_keeps_scales() -> None:
    plain = token_pools(run("deepseek-ai/DeepSeek-V3.2", "h200-sxm", tensor_parallel=8), 0)
    assert plain.whole == 61 * (2 * (512 + 64) + 132)
    eight = token_pools(run("deepseek-ai/DeepSeek-V3.2", "h200-sxm", tensor_parallel=8, kv_cache_dtype="fp8"), 0)
    assert eight.whole == 61 * (656 + 132)
    assert plain.page == 64


# --- defaults ---


@pytest.mark.parametrize(
    ("version", "gpu", "tp", "chunk", "graphs", "fraction"),
    [
        # (MiB − reserved) / MiB, as the version's own formula gives it
        ("sglang==0.5.3", "rtx-4090", 1, 2048, 16, round(1 - (512 + 3072 + 32 + 128) / 24564, 3)),
        ("sglang==0.5.6", "rtx-4090", 1, 2048, 24, round(1 - (512 + 3072 + 48 + 128) / 24564, 3)),
        ("sglang==0.5.9", "l40s", 1, 4096, 32, round(1 - (512 + 6144 + 64 + 128) / 46068, 3)),
        ("sglang==0.5.10", "l40s", 1, 4096, 32, round(1 - (512 + 6144 + 64 + 128 + 400) / 46068, 3)),
        ("sglang==0.5.20", "rtx-4090", 1, 4096, 48, round(1 - (512 + 6144 + 96 + 128 + 400) / 24564, 3)),
        ("sglang==0.5.9", "h100-sxm", 4, 8192, 512, round(1 - (512 + 12288 + 1024 + 512) / 81559, 3)),
    ],
)
def test_the_default_share_follows_the_version_and_the_device(
    version: str, gpu: str, tp: int, chunk: int, graphs: int, fraction: float
) -> None:
    one = run("llama-2-7b" if tp == 1 else "Qwen/Qwen3-32B", gpu, version, tensor_parallel=tp)
    assert (one.max_num_batched_tokens, one.graph_batch, one.utilization) == (chunk, graphs, fraction)
    assert any("by itself" in str(text) for text in one.assumptions)


def test_a_larger_chunk_and_no_graphs_change_the_share() -> None:
    usual = run("llama-2-7b", "l40s")
    assert run("llama-2-7b", "l40s", max_num_batched_tokens=16384).utilization < usual.utilization
    eager = run("llama-2-7b", "l40s", enforce_eager=True)
    assert eager.utilization == round(1 - (512 + 6144 + 128) / 46068, 3)
    assert (eager.graph_batch, eager.prefill_graphs) == (0, 0)


def test_captured_sizes_are_those_of_a_public_log() -> None:
    # lennonYe/6998_project: cuda_graph_bs=[1, 2, 4, 8, 12, 16, 24, 32] on a L40S
    assert captured_batches(32) == 8
    # sgl-project/sglang#15909: 1 to 512, 52 batches
    assert captured_batches(512) == 52
    assert (captured_sizes(4096), captured_sizes(8192), captured_sizes(32)) == (50, 58, 8)


def test_versions_beyond_the_known_ones_say_so() -> None:
    assert find_engine("sglang").version == sglang_facts().newest
    assert find_engine("sglang==0.5.6.post2").version == "0.5.6"
    assert "nearest known" in str(find_engine("sglang==0.5.99").assumptions[0])
    assert "nearest known" in str(find_engine("sglang==0.4.6").assumptions[0])
    with pytest.raises(BadInput, match=r"name one version, such as sglang==0\.5\.23"):
        find_engine("sglang>=0.5")


def test_every_fact_has_a_source_and_ascends() -> None:
    facts = sglang_facts()
    for name in ("classes", "prefill_graphs", "two_pools", "padding_slots", "graphs_up_to_running", "miscounted"):
        held = getattr(facts, name)
        assert all(one.source for one in held) and held[0].since == facts.oldest
        numbers = [tuple(map(int, one.since.split("."))) for one in held]
        assert numbers == sorted(numbers)


# --- what is refused ---


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kv_cache_memory_bytes": GIB}, "use --max-total-tokens"),
        ({"page_size": 0}, "--page-size is 0"),
        ({"max_total_tokens": -1}, "--max-total-tokens is -1"),
        ({"max_num_batched_tokens": 0}, "--chunked-prefill-size is 0"),
        ({"max_num_batched_tokens": 10**6}, "would leave no memory"),
        ({"utilization": 1.5}, "--mem-fraction-static is 1.5"),
        ({"cache_type_v": "q8_0"}, "llama.cpp"),
    ],
)
def test_what_sglang_cannot_have_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        run("llama-2-7b", "l40s", **options)


def test_its_options_are_refused_for_other_engines() -> None:
    with pytest.raises(BadInput, match="options of SGLang"):
        run("llama-2-7b", "l40s", "vllm", page_size=64)


def test_a_cache_that_its_pools_are_not_known_for_is_refused() -> None:
    with pytest.raises(BadInput, match="pools the cache of"):
        fit(MAMBA, "h200-sxm", engine="sglang", max_len=4096)


# --- the answer ---


def test_the_ledger_adds_up_and_activations_lie_outside_the_share() -> None:
    one = run("Qwen/Qwen3-32B", "h100-sxm", tensor_parallel=2)
    found = ledger(one, 4, 8192)
    total = found.weights + found.kv_cache + found.state + found.activations + found.graphs + found.runtime
    assert total + found.unclaimed + found.free == one.usable == found.usable
    kept = reserve(one)
    assert kept.claimed == kept.runtime + kept.tables


def test_the_answer_states_the_pools_as_the_log_will() -> None:
    one = fit("openai/gpt-oss-20b", "l40s", engine="sglang").candidates[0]
    assert f"full_layer_tokens={one.kv_tokens}, swa_layer_tokens={int(one.kv_tokens * 0.8)}" in one.log[0]
    assert one.log[-1].startswith(f"max_total_num_tokens={one.kv_tokens}, chunked_prefill_size=4096")
    latent = fit("deepseek-ai/DeepSeek-V3", "h200-sxm", tp=8, engine="sglang").candidates[0]
    assert latent.log[0] == (
        f"KV Cache is allocated. #tokens: {latent.kv_tokens}, KV size: {latent.kv_tokens * 70272 / GIB:.2f} GB"
    )


def test_weights_beyond_the_share_need_a_larger_one() -> None:
    one = fit("llama-2-7b", "rtx-4090", engine="sglang", gpu_memory_utilization=0.5, max_len=4096).candidates[0]
    assert one.verdict == "weights do not fit" and one.starts == "fails at KV allocation"
    assert one.mend is not None and one.mend.change.startswith("--mem-fraction-static 0.")
    assert "--mem-fraction-static 0.8" in one.serve_command or "--mem-fraction-static 0.9" in one.serve_command


def test_tokens_at_most_bound_the_pool() -> None:
    one = run("llama-2-7b", "l40s", max_total_tokens=10_000, page_size=64)
    assert start(one).tokens == 9984


# --- its logs ---


def test_a_log_is_held_against_its_prediction() -> None:
    answer = check("tests/data/logs/excerpts/sglang-l40s.log")
    terms = {one.name: one for one in answer.terms}
    tokens = terms["kv_tokens"]
    assert tokens.reported == 1_287_482 and tokens.predicted is not None
    assert tokens.predicted.value == pytest.approx(1_287_482, rel=0.005)
    kv = terms["kv_cache"]
    assert kv.predicted is not None and kv.reported is not None and kv.predicted.low is not None
    assert kv.predicted.low <= kv.reported <= (kv.predicted.high or 0)
    assert "not-predicted" not in [note.id for note in answer.notes]


def test_state_and_tokens_of_a_log_are_told_apart() -> None:
    answer = check(
        BytesIO(
            b"[2026-07-01 01:35:44] server_args=ServerArgs(model_path='Qwen/Qwen3.5-27B', mem_fraction_static=0.8, "
            b"tp_size=2, device='cuda')\n"
            b"[2026-07-01 01:36:03] Load weight begin. avail mem=78.00 GB\n"
            b"[2026-07-01 01:36:06] Load weight end. elapsed=3.4 s, type=Qwen3_5, avail mem=52.00 GB, mem usage=26.00 "
            b"GB.\n"
            b"[2026-07-01 01:36:06] Mamba Cache is allocated. max_mamba_cache_size: 230, conv_state size: 0.40GB, "
            b"ssm_state size: 16.50GB\n"
            b"[2026-07-01 01:36:06] KV Cache is allocated. #tokens: 620000, K size: 9.46 GB, V size: 9.46 GB\n"
        ),
    )
    terms = {one.name: one for one in answer.terms}
    state, kv = terms["state"].predicted, terms["kv_cache"].predicted
    assert state is not None and kv is not None
    assert state.value / kv.value == pytest.approx(0.9, rel=0.02)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("speculative_algorithm='EAGLE'", "a draft model runs beside it"),
        ("dp_size=4", "data parallelism"),
        ("device='npu'", "on CUDA devices only"),
    ],
)
def test_a_log_with_what_is_not_modelled_gets_no_prediction(arguments: str, said: str) -> None:
    answer = check(
        BytesIO(
            f"[2026-07-01 01:35:44] server_args=ServerArgs(model_path='Qwen/Qwen3-32B', mem_fraction_static=0.8, "
            f"tp_size=2, {arguments})\n[2026-07-01 01:36:03] Load weight begin. avail mem=78.00 GB\n"
            "[2026-07-01 01:36:06] Load weight end. elapsed=3.4 s, type=Qwen3, avail mem=52.00 GB, mem usage=26.00 GB."
            "\n".encode()
        ),
    )
    assert all(one.predicted is None for one in answer.terms)
    assert any(said in str(text) for text in answer.assumptions)


def test_a_log_whose_model_is_unknown_says_what_is_lacking() -> None:
    answer = check(
        BytesIO(
            b"[2026-07-01 01:35:44] server_args=ServerArgs(model_path='/models/mine', mem_fraction_static=0.8)\n"
            b"[2026-07-01 01:36:03] Load weight begin. avail mem=78.00 GB\n"
        ),
    )
    assert answer.missing == ("--model",)


def test_an_engine_that_the_log_is_not_of_predicts_nothing() -> None:
    log = "tests/data/logs/excerpts/vllm-0.8.5.log"
    for engine in ("sglang", "llama.cpp"):
        answer = check(log, model="llama-2-7b", gpu="l40s", engine=engine)
        assert all(one.predicted is None for one in answer.terms)
        assert any("so nothing is predicted" in str(text) for text in answer.assumptions)


# --- its commands ---


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (
            "python -m sglang.launch_server --model-path m --tp 2 --context-length 8192 --port 30000",
            {"tp": 2, "max_len": 8192},
        ),
        ("python3 -m sglang.launch_server --model m --tp-size=2 --dtype half", {"tp": 2, "dtype": "float16"}),
        (
            "CUDA_VISIBLE_DEVICES=0 sglang serve --model-path m --mem-fraction-static 0.8 --disable-cuda-graph",
            {"gpu_memory_utilization": 0.8, "enforce_eager": True},
        ),
        (
            "python -m sglang.launch_server --model-path m \\\n  --max-running-requests 64 --chunked-prefill-size 4096 "
            "--page-size 64 --max-total-tokens 100000 --kv-cache-dtype fp8_e5m2 && echo done",
            {
                "max_num_seqs": 64,
                "max_num_batched_tokens": 4096,
                "page_size": 64,
                "max_total_tokens": 100000,
                "kv_cache_dtype": "fp8_e5m2",
            },
        ),
    ],
)
def test_a_command_of_sglang_is_read(text: str, options: dict[str, Any]) -> None:
    assert is_sglang_command(text)
    found = read_sglang_command(text)
    assert (found.engine, found.model, found.options) == ("sglang", "m", {"engine": "sglang", **options})


def test_an_image_names_the_version() -> None:
    text = "docker run --gpus all lmsysorg/sglang:v0.5.6-cu129 python3 -m sglang.launch_server --model-path m"
    assert read_sglang_command(text).version == "0.5.6"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sglang serve --tp 2", "names no model"),
        ("sglang serve --model-path m --tp two", "--tp is two"),
        ("sglang serve --model-path m --mem-fraction-static 90", "must be a number"),
        ("sglang serve --model-path m --cuda-graph-max-bs 16", "add --mem-fraction-static"),
        ("sglang serve --model-path $MODEL", "a shell would fill in"),
        ("sglang serve --model-path 'm", "check its quotes"),
        ("sglang serve --model-path m --quantization", "has no value"),
    ],
)
def test_what_cannot_be_planned_for_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message.replace("$", r"\$")):
        read_sglang_command(text)


def test_the_command_line_takes_the_command_and_its_flags(cli: Cli) -> None:
    command = "python -m sglang.launch_server --model-path llama-2-7b --mem-fraction-static 0.8 --context-length 2048"
    code, out, _ = cli("fit", command, "--gpu", "l40s", "--json")
    given = json.loads(out)["candidates"][0]
    flags = ("--engine", "sglang", "--mem-fraction-static", "0.8", "--context-length", "2048")
    code_too, out, _ = cli("fit", "llama-2-7b", "--gpu", "l40s", "--json", *flags)
    assert (code, code_too) == (0, 0)
    assert json.loads(out)["candidates"][0]["kv_tokens"] == given["kv_tokens"]
    assert given["serve_command"] == command
    code, _, err = cli("fit", "llama-2-7b", "--gpu", "l40s", "--mem-fraction-static", "0.8")
    assert code == 2 and "--engine sglang" in err


def test_a_pasted_command_is_given_back_with_its_mend() -> None:
    text = "HF_HOME=$X python -m sglang.launch_server --model-path llama-2-7b --mem-fraction-static=0.4 --port 30000"
    one = fit(text, "rtx-4090", max_len=4096).candidates[0]
    assert one.mend is not None and one.mend.change.startswith("--mem-fraction-static")
    assert one.serve_command == (
        "HF_HOME=$X python -m sglang.launch_server --model-path llama-2-7b --port 30000 " + one.mend.change
    )

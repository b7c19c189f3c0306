"""llama.cpp's memory: cells and weights as its logs state them, the compute buffer as an estimate that says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from narrows.answers.fit import fit
from narrows.deployment import Deployment, deploy
from narrows.engines import find_engine
from narrows.engines.llamacpp import llama_facts
from narrows.hardware import find_accelerator
from narrows.memory import reserve, shards
from narrows.memory.llamacpp import LlamaShard
from narrows.models import ModelSpec, load_model, read_config
from narrows.models.catalogue import catalogue_entry
from narrows.models.config import catalogued
from narrows.models.readers import FAMILIES
from narrows.text import BadInput

from .conftest import Cli
from .gguf_models import write_model

MIB = 2**20


def known(name: str) -> ModelSpec:
    return catalogued(catalogue_entry(name))


def run(model: ModelSpec, length: int, **options: Any) -> Deployment:
    """A deployment on one device that is large enough."""
    return deploy(model, find_accelerator("h100-sxm"), engine="llama.cpp", max_length=length, **options)


def only(deployment: Deployment) -> LlamaShard:
    (found,) = shards(deployment)
    assert isinstance(found, LlamaShard)
    return found


GEMMA3_270M = read_config(
    {
        "model_type": "gemma3_text",
        "hidden_size": 640,
        "intermediate_size": 2048,
        "num_hidden_layers": 18,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "sliding_window": 512,
        "vocab_size": 262144,
        "torch_dtype": "bfloat16",
    },
    name="gemma-3-270m",
)
GEMMA4_E4B = read_config(
    {
        "model_type": "gemma4_text",
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 42,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "global_head_dim": 512,
        "sliding_window": 512,
        "num_kv_shared_layers": 18,
        "hidden_size_per_layer_input": 256,
        "vocab_size": 262144,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
    },
    name="gemma-4-E4B",
)
TINY = read_config(
    {
        "model_type": "llama",
        "hidden_size": 512,
        "intermediate_size": 1376,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "vocab_size": 8192,
        "max_position_embeddings": 8192,
        "torch_dtype": "float16",
    },
    name="random-llama",
)
TRILM = read_config(
    {
        "model_type": "llama",
        "hidden_size": 3072,
        "intermediate_size": 9216,
        "num_hidden_layers": 30,
        "num_attention_heads": 24,
        "vocab_size": 50688,
        "max_position_embeddings": 2048,
        "torch_dtype": "float16",
    },
    name="TriLM-3.9B",
)
NEMO = read_config(
    {
        "model_type": "llama",
        "hidden_size": 5120,
        "intermediate_size": 14336,
        "num_hidden_layers": 40,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 131072,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
    },
    name="mistral-nemo",
)


@pytest.mark.parametrize(
    ("model", "slots", "length", "mib"),
    [
        # logs that stand in tests/data/logs, and records of committed benchmarks
        (GEMMA4_E4B, 1, 65536, 1064),
        (TINY, 4, 4096, 64),
        (NEMO, 1, 4096, 640),
        (TRILM, 1, 512, 180),
        (known("meta-llama/Llama-2-7b-hf"), 1, 512, 256),
        (known("meta-llama/Llama-2-13b-hf"), 1, 512, 400),
        (known("meta-llama/Llama-2-70b-hf"), 1, 512, 160),
        # a live server's, as github.com/unslothai/unsloth/pull/7530 states them: 1,024 tokens over 3 and 4 slots
        (GEMMA3_270M, 3, 1024 // 3, 27),
        (GEMMA3_270M, 4, 1024 // 4, 18),
    ],
)
def test_the_kv_cache_is_what_logs_say(model: ModelSpec, slots: int, length: int, mib: int) -> None:
    assert slots * only(run(model, length)).kv_bytes(length) == mib * MIB


def test_weights_on_the_device_are_all_but_the_embedding() -> None:
    # Mistral Nemo Q5_K_M, build 6050: 440.00 MiB stay with the host, 7875.80 MiB are on the device, 8.12 GiB in all
    planned = run(NEMO, 4096, quantization="Q5_K_M")
    assert only(planned).weights / MIB == pytest.approx(7875.80, abs=0.05)
    assert planned.model.checkpoint_bytes() / MIB == pytest.approx(7875.80 + 440, abs=0.05)
    # a file of 58.28 MiB whose model is made of 75 tensors, of which 17 in 32 bits
    tiny = run(TINY, 4096).model
    assert tiny.checkpoint_bytes() / MIB == pytest.approx(58.28, abs=0.005)
    rows = tiny.tensor_table()
    assert sum(row.count for row in rows if row.parts[0].format.name == "F32") == 17
    assert sum(row.count for row in rows) == 75


def test_a_tied_head_is_a_copy_of_the_embedding_on_the_device() -> None:
    planned = run(known("Qwen/Qwen2.5-0.5B"), 4096)
    assert only(planned).weights == planned.model.checkpoint_bytes()


@pytest.mark.parametrize(
    ("model", "length", "mib", "error"),
    [
        (GEMMA4_E4B, 65536, 517.50, 0.002),  # build 8680
        (known("Qwen/Qwen2.5-3B"), 4096, 300.75, 1e-9),  # build 4701, github.com/SciSharp/LLamaSharp/issues/1099
        (TRILM, 512, 105.00, 1e-9),  # github.com/mozilla-ai/llamafile/pull/552
        (NEMO, 4096, 312.00, 0.16),  # build 6050, without flash attention
    ],
)
def test_the_compute_buffer_is_an_estimate_near_what_logs_say(
    model: ModelSpec, length: int, mib: float, error: float
) -> None:
    kept = reserve(run(model, length))
    assert kept.activations / MIB == pytest.approx(mib, rel=error)
    assert "an estimate" in str(kept.basis[0]) and "assumed" in str(kept.basis[1])
    assert kept.low < kept.activations + kept.runtime < kept.high


def test_state_spaces_are_said_to_need_more_than_the_estimate() -> None:
    def said(model: ModelSpec) -> bool:
        return any(
            "layers with constant state can need far more" in str(text) for text in reserve(run(model, 512)).basis
        )

    assert said(known("mistralai/Mamba-Codestral-7B-v0.1")) and not said(NEMO)


def test_cells_come_by_the_256_and_types_in_whole_blocks() -> None:
    model = known("meta-llama/Llama-3.1-8B")
    cell = 32 * 8 * 128
    assert only(run(model, 1000)).kv_bytes(1000) == 1024 * cell * (2 + 2)
    assert only(run(model, 1000, kv_cache_dtype="q8_0")).kv_bytes(1000) == 1024 * cell * 2 * 34 // 32
    mixed = run(model, 1000, kv_cache_dtype="q8_0", cache_type_v="q4_0")
    assert only(mixed).kv_bytes(1000) == 1024 * cell * (34 + 18) // 32
    assert any("flash attention" in str(text) for text in mixed.assumptions)


def test_windows_keep_themselves_and_a_step_unless_told_otherwise() -> None:
    model = known("openai/gpt-oss-20b")
    cell = 8 * 64 * 2 * 2
    # 128 tokens and a step of 512 are 640, in 768 cells, in every other layer
    assert only(run(model, 8192)).kv_bytes(8192) == cell * 12 * (8192 + 768)
    assert only(run(model, 8192, max_num_batched_tokens=2048)).kv_bytes(8192) == cell * 12 * (8192 + 2304)
    assert only(run(model, 8192, swa_full=True)).kv_bytes(8192) == cell * 24 * 8192
    # of models it gives no windows, though they have them
    mistral = known("mistralai/Mistral-7B-v0.1")
    assert only(run(mistral, 32768)).kv_bytes(32768) == 32 * 8 * 128 * 2 * 2 * 32768


def test_a_latent_is_kept_once_and_a_state_in_32_bits_without_the_newest_input() -> None:
    assert only(run(known("deepseek-ai/DeepSeek-V2-Lite"), 4096)).kv_bytes(4096) == 27 * 576 * 2 * 4096
    mamba = only(run(known("mistralai/Mamba-Codestral-7B-v0.1"), 4096))
    assert mamba.kv_bytes(4096) == 0
    inner, groups = 8192, 8
    assert mamba.state == 64 * 4 * (inner * 128 + 3 * (inner + 2 * groups * 128))


def test_layers_are_split_over_devices_and_nothing_else() -> None:
    model = known("meta-llama/Llama-3.1-70B")
    both = shards(run(model, 8192, pipeline_parallel=2, quantization="Q4_K_M"))
    one = only(run(model, 8192, quantization="Q4_K_M"))
    assert sum(shard.weights for shard in both) == one.weights
    assert sum(shard.kv_bytes(8192) for shard in both) == one.kv_bytes(8192)
    with pytest.raises(BadInput, match=r"--tp is 2, and llama\.cpp gives each device whole layers"):
        run(model, 8192, tensor_parallel=2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"utilization": 0.5}, "--gpu-memory-utilization is no option of llama.cpp"),
        ({"enforce_eager": True}, "--enforce-eager is no option of llama.cpp"),
        ({"kv_cache_memory_bytes": 2**30}, "--kv-cache-memory-bytes is no option of llama.cpp"),
        ({"kv_cache_dtype": "fp8"}, "llama.cpp keeps no KV cache in fp8; its types are: f32, f16, bf16, q8_0"),
        ({"quantization": "fp8"}, "--quantization fp8 is no option of llama.cpp"),
    ],
)
def test_what_llama_cpp_has_not_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        run(TINY, 512, **options)
    assert said in str(refused.value)


def test_heads_that_do_not_fill_a_block_of_the_cache_are_refused() -> None:
    narrow = read_config(
        {
            "model_type": "llama",
            "hidden_size": 160,
            "intermediate_size": 256,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "vocab_size": 256,
        },
        name="narrow",
    )
    with pytest.raises(BadInput, match="keeps 32 values together, and a head has 80"):
        run(narrow, 512, kv_cache_dtype="q8_0")


def test_facts_name_their_sources_and_families_that_are_read() -> None:
    facts = llama_facts()
    assert all(fact.source for fact in (facts.ubatch, facts.parallel, facts.cell_padding, facts.windowed))
    families = {family.removesuffix("_text") for family in FAMILIES}
    assert set(facts.windowed.value) <= families


def test_a_build_may_be_named_and_a_range_may_not() -> None:
    assert find_engine("llama.cpp").label == "llama.cpp"
    assert find_engine("llama.cpp==b8680").label == "llama.cpp==b8680"
    with pytest.raises(BadInput, match=r"'llama\.cpp>=1' is not a build of llama\.cpp"):
        find_engine("llama.cpp>=1")


def test_the_commands_flags_are_llama_cpps(cli: Cli) -> None:
    arguments = ("fit", "gpt-oss-20b", "--gpu", "l4", "--engine", "llama.cpp", "--quantization", "MXFP4_MOE")
    more = ("--ctx-size", "65536", "--parallel", "2", "--cache-type-k", "q8_0", "--json")
    code, out, err = cli(*arguments, *more)
    assert code == 0, err
    (one,) = json.loads(out)["candidates"]
    assert one["serve_command"] == "llama-server -m gpt-oss-20b-MXFP4_MOE.gguf -ngl 99 -c 65536 -np 2 -ctk q8_0"
    assert (one["batch"], one["length"], one["kv_block_size"]) == (2, 32768, 256)
    cell = 8 * 64 * 2 + 8 * 64 * 34 // 32
    assert one["terms"]["kv_cache"] == 2 * cell * 12 * (32768 + 768)
    terms = one["terms"]
    assert terms["usable"] == sum(value for name, value in terms.items() if name != "usable")
    assert {moment["terms"]["kv_cache"] for moment in one["growth"]} == {terms["kv_cache"]}


def test_a_pasted_command_is_read(tmp_path: Path, cli: Cli) -> None:
    write_model(tmp_path / "tiny.gguf", TINY, "Q4_K_M")
    command = f"./build/bin/llama-server -m {tmp_path}/tiny.gguf -c 8192 -np 2 -ctk q8_0 -ngl 99 --port 80 -fa on && x"
    code, out, err = cli("fit", command, "--gpu", "l4", "--json")
    assert code == 0, err
    answer = json.loads(out)
    (one,) = answer["candidates"]
    assert (one["engine"], one["batch"], one["length"]) == ("llama.cpp", 2, 4096)
    assert one["terms"]["kv_cache"] == 2 * 8 * 4096 * (128 * 2 + 128 * 34 // 32)
    assert one["serve_command"] == f"llama-server -m {tmp_path}/tiny.gguf -ngl 99 -c 8192 -np 2 -ctk q8_0"
    assert any(text.endswith("not read: --port") for text in answer["assumptions"])
    # without a number of slots one sequence may fill the context
    code, out, _ = cli("fit", f"llama-cli -m {tmp_path}/tiny.gguf -c 8192 -ub 1024 --swa-full", "--gpu", "l4", "--json")
    (one,) = json.loads(out)["candidates"]
    assert (code, one["batch"], one["length"], one["max_num_batched_tokens"]) == (0, 1, 8192, 1024)
    # where no context is given all slots share the model's own; flash attention turned off is not in the figures
    for context in ("", "-c 0"):
        bare = f"llama-server -m {tmp_path}/tiny.gguf {context} -np 4 -ngl all -fa off"
        code, out, _ = cli("fit", bare, "--gpu", "l4", "--json")
        answer = json.loads(out)
        (one,) = answer["candidates"]
        assert (code, one["batch"], one["length"] * 4) == (0, 4, 8192)
        assert any(text.endswith("not read: -fa") for text in answer["assumptions"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("-m {}/tiny.gguf -ngl 5", "-ngl 5 leaves layers of the model's 8 with the host"),
        ("-m {}/tiny.gguf -ot exps=CPU", "-ot changes what stands on which device"),
        ("-hf ggml-org/gemma-3-4b-it-GGUF", "the command names no GGUF file (-m)"),
        ("-m {}/tiny.gguf -c many", "-c is many; it must be a whole number"),
        ("-m {}/tiny.gguf -ngl x", "-ngl is x; it must be a whole number, all or auto"),
        ("-m {}/tiny.gguf -np 0", "-np is 0; it must be at least 1"),
        ("-m {}/tiny.gguf -ctk q8_0 -ctv q8_0 -fa off", "the values are kept in q8_0, for which llama.cpp needs flash"),
        ("-m {}/tiny.gguf -c", "-c is ?; it must be a whole number"),
        ("-m '{}/tiny.gguf", "a quote that does not end"),
    ],
)
def test_a_pasted_command_that_cannot_be_planned_for_is_refused(
    tmp_path: Path, arguments: str, said: str, cli: Cli
) -> None:
    write_model(tmp_path / "tiny.gguf", TINY)
    code, _, err = cli("fit", f"llama-server {arguments.format(tmp_path)}", "--gpu", "l4")
    assert code == 2 and said in err and err.count("\n") == 1


def test_they_are_refused_with_another_engine(cli: Cli) -> None:
    for flag, value in (
        ("--parallel", ["2"]),
        ("--ctx-size", ["512"]),
        ("--swa-full", []),
        ("--cache-type-v", ["f16"]),
    ):
        code, _, err = cli("fit", "llama-3.1-8b", "--gpu", "l4", flag, *value)
        assert code == 2 and "llama.cpp" in err


def test_slots_and_tokens_of_none_are_refused_by_the_flag_that_says_so(cli: Cli) -> None:
    for flag in ("--parallel", "--ctx-size", "--ubatch-size"):
        code, _, err = cli("fit", "llama-3.1-8b", "--gpu", "l4", "--engine", "llama.cpp", flag, "0")
        assert code == 2 and f"{flag} is 0; it must be at least 1" in err


def test_what_does_not_fit_gets_a_mend_that_llama_cpp_has() -> None:
    answer = fit("llama-3.1-70b", "l4", engine="llama.cpp", quantization="Q4_K_M", max_len=8192)
    (one,) = answer.candidates
    assert not one.fits and one.mend is not None
    assert one.mend.change.startswith("--pp") or one.mend.change.startswith("--gpu")
    long = fit("llama-3.1-8b", "l4", engine="llama.cpp", quantization="Q4_K_M", max_len=100_000, batch=2)
    changes = [mend.change for mend in (long.candidates[0].mend, *long.candidates[0].other_mends) if mend]
    assert "--kv-cache-dtype q8_0" in changes and not any("fp8" in change or "--tp" in change for change in changes)


def test_experts_stored_in_mxfp4_stay_so_in_the_file() -> None:
    """ggml-org/gpt-oss-20b-GGUF is 12.1 GB; in 16 bits it would be 42."""
    one = deploy(load_model("gpt-oss-20b"), find_accelerator("l4"), engine="llama.cpp", max_length=4096)
    assert any("MXFP4_MOE" in str(text) for text in one.assumptions)
    plain = deploy(load_model("llama-3.1-8b"), find_accelerator("l4"), engine="llama.cpp", max_length=4096)
    assert any("type BF16" in str(text) for text in plain.assumptions)
    assert one.model.checkpoint_bytes() == pytest.approx(12.1e9, rel=0.01)

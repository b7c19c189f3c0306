"""Flags as they are pasted: read as argparse reads them, and told where they are not read."""

from __future__ import annotations

import re

import pytest

from narrows.answers.fit import fit
from narrows.answers.roofline import roofline
from narrows.engines.command import read_command
from narrows.engines.flags import flag_table, meant
from narrows.engines.sglang_command import read_sglang_command
from narrows.text import BadInput


@pytest.mark.parametrize(
    ("written", "option", "value"),
    [
        ("--tensor-parallel 2", "tp", 2),
        ("--tensor_parallel 2", "tp", 2),
        ("--tensor=2", "tp", 2),
        ("--max-model 4096", "max_len", 4096),
        ("--gpu_memory 0.8", "gpu_memory_utilization", 0.8),
        ("--enforce", "enforce_eager", True),
        ("--pipeline-p 2", "pp", 2),
    ],
)
def test_the_only_beginning_of_a_flag_is_that_flag(written: str, option: str, value: object) -> None:
    found = read_command(f"vllm serve m {written} --port 1")
    assert found.options == {option: value}
    assert (found.model, found.unread) == ("m", ())


@pytest.mark.parametrize("written", ["--max-num 3", "--kv-cache fp8", "--data-parallel 2", "--max-l 3"])
def test_the_beginning_of_several_flags_is_refused_as_the_engine_does(written: str) -> None:
    with pytest.raises(BadInput, match=f"{written.split()[0]} in the command is short for --"):
        read_command(f"vllm serve m {written}")


def test_all_flags_that_a_beginning_can_mean_are_named_or_counted() -> None:
    for engine in ("vllm", "sglang"):
        for beginning in ("--max", "--m", "--c", "--e"):
            meanings = [one for one in flag_table(engine) if one.startswith(beginning)]
            with pytest.raises(BadInput) as refused:
                meant(engine, beginning)
            told = str(refused.value)
            named = [word.strip(",;") for word in told.split()[1:] if word.startswith("--")]
            more = re.search(r" and (\d+) more", told)
            assert set(named) <= set(meanings)
            assert len(named) + (int(more[1]) if more else 0) == len(meanings)
            assert len(told) < 360


def test_a_beginning_of_flags_that_do_not_bear_on_memory_is_passed_over() -> None:
    assert read_command("vllm serve m --ssl a --gen b").options == {}


def test_sglang_reads_beginnings_too() -> None:
    found = read_sglang_command("python -m sglang.launch_server --model m --tensor 4 --mem_frac 0.8 --chunked 4096")
    assert (found.options["tp"], found.options["gpu_memory_utilization"]) == (4, 0.8)
    assert found.options["max_num_batched_tokens"] == 4096
    drafted = read_sglang_command("python -m sglang.launch_server --model m --speculative-algo EAGLE")
    assert drafted.options["speculative_algorithm"] == "EAGLE"
    with pytest.raises(BadInput, match="changes what SGLang keeps"):
        read_sglang_command("python -m sglang.launch_server --model m --swa-full-tokens-ratio 0.5")


def test_a_flag_that_is_not_read_and_may_change_memory_is_said_first() -> None:
    answer = fit("vllm serve Qwen/Qwen3-8B --enable-dbo --frobnicate 3 --port 8000 --max-model-len 4096", "l40s")
    assert [str(text) for text in answer.warnings] == [
        "flags of the command that narrows does not read and that may change memory: --enable-dbo, --frobnicate; the "
        "figures are without them"
    ]
    assert "flags of the command that were not read: --port" in [str(text) for text in answer.assumptions]
    shown = str(answer)
    assert shown.index("--frobnicate") < shown.index("L40S")


@pytest.mark.parametrize("flag", ["--tensor_parallel", "--tensor-parallel", "--tensor-par"])
def test_a_corrected_command_has_each_flag_once(flag: str) -> None:
    command = read_command(f"vllm serve m {flag} 2 --port 1")
    assert command.corrected({"--tensor-parallel-size": "4"}) == "vllm serve m --port 1 --tensor-parallel-size 4"
    assert command.corrected({"--max-model-len": "8"}) == f"vllm serve m {flag} 2 --port 1 --max-model-len 8"


def test_a_manifest_is_read_with_beginnings_too(tmp_path: object) -> None:
    path = f"{tmp_path}/compose.yml"
    with open(path, "w", encoding="utf-8") as file:
        file.write(
            "services:\n  one:\n    image: vllm/vllm-openai:v0.9.1\n    command: --model m --tensor-parallel 2\n"
        )
    assert read_command(path).options["tp"] == 2


def test_the_engine_core_that_the_environment_asks_for_is_read() -> None:
    assert read_command("VLLM_USE_V1=0 vllm serve m").options["engine_core"] == "V0"
    assert read_command("docker run -e VLLM_USE_V1=1 vllm/vllm-openai:v0.8.5 --model m").options["engine_core"] == "V1"
    answer = fit("VLLM_USE_V1=0 vllm serve Qwen/Qwen3-8B --max-model-len 8192", "l40s", engine="vllm==0.8.5")
    assert answer.candidates[0].max_num_batched_tokens == 8192


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_every_flag_is_written_in_full_in_the_table(engine: str) -> None:
    table = flag_table(engine)
    assert all(meant(engine, name) == name for name in table)
    assert all(name.startswith("-") and name == name.strip() and "_" not in name for name in table)


def test_a_version_older_than_the_oldest_known_is_told_first_and_its_interval_is_wider() -> None:
    """vllm-project/vllm#2031: 0.2.5 has 20,865 blocks for Llama-2-70B on four A100, and 31,396 were predicted."""
    old, known = (fit("llama-2-70b", "a100-sxm-80gb", tp=4, engine=f"vllm=={version}") for version in ("0.2.5", "0.4"))
    assert [str(text)[:41] for text in old.warnings] == ["vllm 0.2.5 is older than 0.4, the oldest "]
    assert known.warnings == ()
    assert old.warnings[0] in roofline("llama-2-7b", "a100-sxm-80gb", engine="vllm==0.2.5").cautions
    wide, usual = (one.candidates[0].kv_cache_available for one in (old, known))
    assert wide.high is not None
    assert wide.low is not None
    assert usual.high is not None
    assert usual.low is not None
    assert wide.high - wide.low > 2 * (usual.high - usual.low)

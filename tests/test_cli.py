"""The command line says yes, no or why not by its exit code, and prints what the functions of the same name answer."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from narrows.answers.fit import Fit, fit
from narrows.answers.gpus import gpus
from narrows.answers.models import model, models
from narrows.cli.main import COMMANDS

from .conftest import LLAMA, Cli

Run = Callable[..., subprocess.CompletedProcess[str]]

TERMS = ("weights", "kv_cache", "state", "activations", "graphs", "runtime", "unclaimed", "free")


# ---------------------------------------------------------------- exit codes


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("fit llama-2-7b --gpu l40s --max-len 4096", 0),
        ("fit llama-2-7b --gpu l40s --max-len 4096 --batch 13", 0),
        ("fit llama-2-7b --gpu l40s --max-len 4096 --batch 14", 1),
        ("fit llama-3.1-70b --gpu l40s", 1),
        ("fit llama-3.1-70b --gpu a10g --gpu l40s --max-len 4096", 1),
        ("fit llama-3.1-70b --gpu a10g --gpu mi300x --max-len 4096", 0),
        ("fit llama-3.1-70b --gpu mi300x --gpu a10g --max-len 4096", 0),
        ("fit llama-2-7b --gpu h900", 2),
        ("fit no-such-model --gpu l40s", 2),
        ("models", 0),
        ("models llama-2-7b", 0),
        ("models --find nothing-like-this", 0),
        ("gpus", 0),
        ("gpus nothing-like-this", 0),
        ("--version", 0),
        ("--help", 0),
        ("-h", 0),
        ("", 0),
    ],
)
def test_exit_0_is_yes_1_is_no_and_2_is_bad_input(line: str, code: int, cli: Cli) -> None:
    ended, out, err = cli(*shlex.split(line))
    assert ended == code
    assert bool(err) == (code == 2)
    assert bool(out) == (code != 2)
    if line.startswith("fit") and code != 2:
        ended, out, err = cli(*shlex.split(line), "--json")
        assert (ended, err) == (code, "")
        assert any(one["fits"] for one in json.loads(out)["candidates"]) == (code == 0)


def test_a_process_of_its_own_ends_with_the_same_codes(narrows: Run) -> None:
    assert narrows("fit", "llama-2-7b", "--gpu", "l40s", "--max-len", "4096").returncode == 0
    assert narrows("fit", "llama-3.1-70b", "--gpu", "l40s", "--max-len", "4096").returncode == 1
    done = narrows("fit", "llama-2-7b", "--gpu", "l40s", "--tp", "3")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


# ---------------------------------------------------------------- what does not fit

MISFITS = {
    "too many sequences": "fit llama-2-7b --gpu a10g --max-len 4096 --batch 8",
    "too long a sequence": "fit llama-3.1-8b --gpu a10g",
    "a long prompt in too long a sequence": "fit llama-2-7b --gpu l40s --max-len 4096 --batch 64 --prompt 4000",
    "weights": "fit llama-3.1-70b --gpu l40s --max-len 4096",
    "weights, on two": "fit llama-3.1-70b --gpu l40s --max-len 4096 --tp 2",
    "weights, in two stages": "fit llama-3.1-70b --gpu l40s --max-len 4096 --pp 2",
    "float32 weights": "fit llama-2-7b --gpu a10g --max-len 512 --dtype float32",
    "a mixture of experts": "fit mixtral-8x7b-v0.1 --gpu a100-40gb-sxm --max-len 4096",
    "latent attention": "fit deepseek-v3 --gpu h100-sxm --tp 8 --max-len 4096",
    "windows": "fit gemma-3-27b --gpu l40s --max-len 8192 --batch 4",
    "state": "fit qwen3-next-80b-a3b --gpu h100-sxm --max-len 4096",
    "few KV heads": "fit llama-3.1-70b --gpu h100-sxm --tp 4 --max-len 131072 --batch 64",
    "little memory by hand": "fit llama-2-7b --gpu l40s --max-len 2048 --memory 10GiB",
    "a small share of memory": "fit llama-2-7b --gpu l40s --max-len 2048 --gpu-memory-utilization 0.3",
    "one cloud": "fit llama-3.1-70b --gpu a10g --max-len 4096 --cloud aws",
}


def with_change(arguments: list[str], change: str) -> list[str]:
    """The command line with the flags of a mend in place of its own, or added."""
    result, new = list(arguments), shlex.split(change)
    for flag, value in zip(new[::2], new[1::2], strict=True):
        if flag in result:
            result[result.index(flag) + 1] = value
        else:
            result += [flag, value]
    return result


@pytest.mark.parametrize("line", MISFITS.values(), ids=MISFITS)
def test_what_does_not_fit_says_why_and_every_mend_it_names_really_fits(line: str, cli: Cli) -> None:
    arguments = shlex.split(line)
    code, out, _ = cli(*arguments, "--json")
    (candidate,) = json.loads(out)["candidates"]
    assert (code, candidate["fits"]) == (1, False)
    assert candidate["verdict"] in ("weights do not fit", "no room for one sequence", "this load does not fit")
    assert any(unit in candidate["reason"] for unit in ("GiB", "MiB"))
    assert candidate["terms"]["free"] < 0
    assert candidate["mend"] is not None
    wrong = []
    for mend in (candidate["mend"], *candidate["other_mends"]):
        code, out, err = cli(*with_change(arguments, mend["change"]), "--json")
        if code != 0:
            wrong.append((mend["change"], code, err))
        else:
            (mended,) = json.loads(out)["candidates"]
            assert (mended["max_batch"], mended["length"]) == (mend["max_batch"], mend["length"])
            assert mended["usd_per_hour"] == mend["usd_per_hour"]
    assert not wrong


@pytest.mark.parametrize("name", ["too many sequences", "weights"])
def test_the_report_names_the_reason_and_the_nearest_thing_that_fits(name: str, cli: Cli) -> None:
    arguments = shlex.split(MISFITS[name])
    (candidate,) = json.loads(cli(*arguments, "--json")[1])["candidates"]
    code, out, _ = cli(*arguments)
    words = " ".join(out.split())
    assert code == 1
    assert f"{candidate['verdict']} — {candidate['reason']}" in words
    assert f"nearest that fits: {candidate['mend']['change']}" in words


def test_what_fits_offers_no_mend(cli: Cli) -> None:
    (candidate,) = json.loads(cli("fit", "llama-2-7b", "--gpu", "l40s", "--json")[1])["candidates"]
    assert (candidate["mend"], candidate["other_mends"]) == (None, [])


# ---------------------------------------------------------------- JSON


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("fit llama-2-7b --gpu l40s --max-len 4096", lambda: fit("llama-2-7b", "l40s", max_len=4096)),
        ("fit llama-2-7b --gpu a10g --gpu l40s", lambda: fit("llama-2-7b", ["a10g", "l40s"])),
        (
            "fit llama-3.1-70b --gpu h100-sxm --tp 4 --max-len 8192 --batch 3 --kv-cache-dtype fp8 --enforce-eager",
            lambda: fit(
                "llama-3.1-70b", "h100-sxm", tp=4, max_len=8192, batch=3, kv_cache_dtype="fp8", enforce_eager=True
            ),
        ),
        (
            "fit gpt2 --gpu t4 --memory 8GiB --prompt 100 --max-num-seqs 8 --max-num-batched-tokens 512 --dtype fp16"
            " --gpu-memory-utilization 0.5 --cloud aws --engine vllm --pp 2",
            lambda: fit(
                "gpt2",
                "t4",
                memory=8 * 2**30,
                prompt=100,
                max_num_seqs=8,
                max_num_batched_tokens=512,
                dtype="fp16",
                gpu_memory_utilization=0.5,
                cloud="aws",
                engine="vllm",
                pp=2,
            ),
        ),
        ("models", models),
        ("models --find qwen3", lambda: models("qwen3")),
        ("models gemma-3-27b --length 5000", lambda: model("gemma-3-27b", length=5000)),
        ("models gpt-oss-20b --kv-cache-dtype fp8", lambda: model("gpt-oss-20b", kv_cache_dtype="fp8")),
        ("gpus", gpus),
        ("gpus h100 --min-memory 81GB --precision fp8", lambda: gpus("h100", min_memory=81 * 10**9, precision="fp8")),
        ("gpus --vendor amd --cloud azure", lambda: gpus(vendor="amd", cloud="azure")),
    ],
)
def test_json_is_what_the_function_of_the_same_name_answers(line: str, answer: Callable[[], Any], cli: Cli) -> None:
    _, out, err = cli(*shlex.split(line), "--json")
    assert err == ""
    assert out == answer().to_json() + "\n"
    parsed = json.loads(out)
    assert {"schema", "narrows_version", "command", "assumptions", "sources"} <= parsed.keys()
    assert "NaN" not in out
    assert "Infinity" not in out


def test_json_is_the_same_in_a_pipe_whatever_the_terminal_says(narrows: Run) -> None:
    line = ("fit", "llama-2-7b", "--gpu", "l40s", "--json")
    usual = narrows(*line).stdout
    for environment in ({"COLUMNS": "20"}, {"FORCE_COLOR": "1"}, {"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert narrows(*line, **environment).stdout == usual
    assert json.loads(usual)


def test_models_has_the_stable_names_and_they_are_whole_numbers(cli: Cli) -> None:
    found = json.loads(cli("models", "jamba-v0.1", "--length", "1000", "--json")[1])
    assert found["name"] == "ai21labs/Jamba-v0.1"
    for name in (
        "unique_parameters",
        "active_parameters",
        "checkpoint_bytes",
        "cache_elements",
        "state_elements",
        "kv_bytes_per_token",
        "kv_bytes_per_sequence",
        "state_bytes_per_sequence",
    ):
        assert type(found[name]) is int
        assert found[name] > 0
    assert found["kv_bytes_per_sequence"] == 1000 * found["kv_bytes_per_token"] == 2 * found["cache_elements"]


def test_the_next_token_costs_nothing_beyond_every_window(cli: Cli) -> None:
    for length, bytes_of_next in ((1, 32 * 2 * 8 * 128 * 2), (4095, 32 * 2 * 8 * 128 * 2), (4096, 0), (100_000, 0)):
        found = json.loads(cli("models", "mistralai/Mistral-7B-v0.1", "--length", str(length), "--json")[1])
        assert found["kv_bytes_per_token"] == bytes_of_next


def test_fit_has_the_stable_names_and_its_terms_add_up(cli: Cli) -> None:
    line = "fit llama-3.1-8b --gpu h100-sxm --gpu a10g --gpu t4 --tp 2 --max-len 8192 --json"
    answer = json.loads(cli(*shlex.split(line))[1])
    assert answer["model"]["length"] == 8192
    assert [one["gpu"] for one in answer["candidates"]] == ["h100-sxm", "a10g", "t4"]
    for one in answer["candidates"]:
        assert (one["count"], one["tensor_parallel"], one["pipeline_parallel"]) == (2, 2, 1)
        for name in ("max_batch", "max_length", "kv_tokens"):
            assert type(one[name]) is int
        assert {"engine", "fits", "verdict", "max_concurrency", "usd_per_hour", "mend"} <= one.keys()
        assert all(type(value) is int for value in one["terms"].values())
        assert one["terms"]["usable"] == sum(one["terms"][name] for name in TERMS)
        assert set(one["terms"]) == {"usable", *TERMS}
        assert one["fits"] == (one["terms"]["free"] >= 0)
        for moment in one["growth"]:
            assert moment["terms"]["usable"] == sum(moment["terms"][name] for name in TERMS)
        assert one["max_batch"] <= one["max_concurrency"] + 1e-4 < one["max_batch"] + 1 + 1e-3


@pytest.mark.parametrize(
    "line",
    [
        "fit llama-2-7b --gpu l40s",
        "fit llama-2-7b --gpu a10g --gpu l40s --max-len 2048 --batch 3 --tp 2",
        "fit llama-2-7b --gpu l40s --kv-cache-dtype fp8 --enforce-eager --max-num-seqs 7",
        "fit llama-2-7b --gpu l40s --gpu-memory-utilization 0.5 --dtype float32 --prompt 9 --cloud aws",
        "fit llama-2-7b --gpu l40s --memory 30GiB --max-num-batched-tokens 512 --pp 2",
        "models llama-2-7b --length 100 --kv-cache-dtype fp8",
        "models --find 'qwen3 8b'",
        "gpus h100 --precision fp8 --min-memory 81GB --vendor nvidia --cloud aws",
    ],
)
def test_the_command_in_an_answer_gives_that_answer_again(line: str, cli: Cli) -> None:
    answer = json.loads(cli(*shlex.split(line), "--json")[1])
    name, *arguments = shlex.split(answer["command"])
    assert name == "narrows"
    assert json.loads(cli(*arguments, "--json")[1]) == answer


def test_the_command_in_an_answer_about_a_file_names_the_file(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    monkeypatch.chdir(tmp_path)
    for place in (str(folder), "a folder", "a folder/config.json"):
        for line in (("fit", place, "--gpu", "l40s"), ("models", place)):
            answer = json.loads(cli(*line, "--json")[1])
            assert json.loads(cli(*shlex.split(answer["command"])[1:], "--json")[1])["command"] == answer["command"]


# ---------------------------------------------------------------- where a model comes from


def test_a_dash_reads_stdin(narrows: Run) -> None:
    config = json.dumps(LLAMA).encode()
    done = narrows("fit", "-", "--gpu", "l40s", "--json", stdin=config)
    assert done.returncode == 0
    assert json.loads(done.stdout)["model"]["unique_parameters"] == 6_738_415_616
    done = narrows("models", "-", "--json", stdin=config)
    assert json.loads(done.stdout)["checkpoint_bytes"] == 13_476_831_232
    assert narrows("fit", "-", "--gpu", "l40s", stdin=b"[]").returncode == 2
    assert narrows("fit", "-", "--gpu", "l40s", stdin=b"").returncode == 2


def test_a_directory_a_file_and_stdin_give_the_same_figures(cli: Cli, narrows: Run, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    found = [json.loads(cli("models", str(place), "--json")[1]) for place in (file, tmp_path, f"{tmp_path}/")]
    found.append(json.loads(narrows("models", "-", "--json", stdin=file.read_bytes()).stdout))
    for one in found:
        for name in ("name", "command", "sources"):
            del one[name]
    assert all(one == found[0] for one in found)


LINEAR = 32 * (4 * 4096 * 4096 + 3 * 4096 * 11008)
"""Elements of the linear weights of Llama 2 7B."""


@pytest.mark.parametrize(
    ("name", "beside", "weight_bytes", "kv"),
    [
        (
            "hf_quant_config.json",
            {
                "producer": {"name": "modelopt", "version": "0.29.0"},
                "quantization": {
                    "quant_algo": "FP8",
                    "kv_cache_quant_algo": "FP8",
                    "exclude_modules": ["lm_head"],
                },
            },
            LINEAR + 32 * 7 * 8,
            "float8_e4m3fn",
        ),
        (
            "quantize_config.json",
            {"bits": 4, "group_size": 128, "desc_act": False, "sym": True, "model_file_base_name": "model"},
            32
            * sum(
                out * inner // 2 + (inner // 128) * (out // 2 + 2 * out) + 4 * inner
                for out, inner in [(4096, 4096)] * 4 + [(11008, 4096)] * 2 + [(4096, 11008)]
            ),
            "bfloat16",
        ),
    ],
)
def test_a_directory_as_downloaded_is_read_as_quantized(
    name: str, beside: dict[str, Any], weight_bytes: int, kv: str, cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    plain = json.loads(cli("models", str(tmp_path), "--json")[1])
    (tmp_path / name).write_text(json.dumps(beside))
    for place in (tmp_path, tmp_path / "config.json"):
        found = json.loads(cli("models", str(place), "--json")[1])
        assert found["unique_parameters"] == plain["unique_parameters"]
        assert found["checkpoint_bytes"] == plain["checkpoint_bytes"] - 2 * LINEAR + weight_bytes
        assert found["kv_cache_dtype"] == kv
        assert found["quantization"]


def test_an_unknown_architecture_can_be_read_as_another_and_that_is_told(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, "model_type": "new_llama"}))
    code, _, err = cli("fit", str(tmp_path), "--gpu", "l40s")
    assert code == 2
    assert "--assume" in err
    code, out, _ = cli("fit", str(tmp_path), "--gpu", "l40s", "--assume", "llama", "--json")
    assert code == 0
    assert any("read as llama" in told for told in json.loads(out)["assumptions"])


# ---------------------------------------------------------------- help and what is loaded


GROUPS = {"measure": ("machine", "model", "load")}
"""Commands that only hold others."""


@pytest.mark.parametrize(
    "command", ["", *COMMANDS, *(f"{group} {name}" for group, names in GROUPS.items() for name in names)]
)
def test_every_command_has_help_that_names_its_options(command: str, cli: Cli) -> None:
    code, out, err = cli(*command.split(), "--help")
    assert (code, err) == (0, "")
    assert "--lang" in out
    assert "Usage: narrows" in out
    if command in GROUPS:
        assert all(name in out for name in GROUPS[command])
    elif command:
        assert "--json" in out
        assert (code, out) == cli(*command.split(), "-h")[:2]
    else:
        assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("command", ["", *COMMANDS, "measure load"])
def test_help_is_no_wider_than_the_terminal(
    command: str, language: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, out, _ = cli(*command.split(), "--help", "--lang", language)
    assert max(cell_len(line) for line in out.split("\n")) <= 80 and "\0" not in out


def test_without_a_command_the_help_is_shown(cli: Cli) -> None:
    assert cli() == cli("--help")


def test_the_language_may_be_given_before_and_after_the_command(cli: Cli) -> None:
    assert cli("--lang", "en", "gpus", "l40s") == cli("gpus", "l40s", "--lang", "en") == cli("gpus", "l40s")


def loaded(*arguments: str, names: str) -> set[str]:
    """Which of the modules are loaded after the command line has run in a process of its own."""
    program = (
        "import sys\n"
        "from narrows.cli.main import main\n"
        "try: main(sys.argv[2:])\n"
        "except SystemExit: pass\n"
        "print(*(n for n in sys.argv[1].split() if n in sys.modules), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, names, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "NARROWS_LANG": "en"},
    )
    assert done.returncode == 0
    return set(done.stderr.split())


HEAVY = "numpy numba altair huggingface_hub importlib.metadata pandas torch"


def test_fit_loads_nothing_heavy() -> None:
    line = ("fit", "llama-2-7b", "--gpu", "a10g", "--gpu", "l40s", "--max-len", "4096")
    assert loaded(*line, names=HEAVY) == set()
    assert loaded(*line, "--json", names=HEAVY + " rich") == set()


def test_load_loads_nothing_heavy() -> None:
    assert loaded("load", "llama-2-7b", "--gpu", "l40s", "--from", "gp3", names=HEAVY) == set()


def test_models_and_gpus_load_nothing_heavy() -> None:
    assert loaded("models", "llama-2-7b", names=HEAVY) == set()
    assert loaded("gpus", names=HEAVY) == set()


def test_help_loads_neither_what_computes_nor_what_prints() -> None:
    assert loaded("--help", names=HEAVY + " msgspec rich narrows.models narrows.hardware narrows.answers") == set()
    assert loaded("--version", names=HEAVY + " msgspec rich") == set()


def test_the_answer_is_the_same_object_in_python() -> None:
    answer = fit("llama-2-7b", "l40s", max_len=4096)
    assert isinstance(answer, Fit)
    assert answer.fits is answer.candidates[0].fits is True


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (("roofline", "llama-2-7b", "--gpu", "l4", "--batch", "4", "--batch", "8"), "--batch"),
        (("fit", "llama-2-7b", "--gpu", "l4", "--tp=2", "--tp=4"), "--tp"),
        (("load", "llama-2-7b", "--from", "nvme", "--from", "s3"), "--from"),
        (("measure", "machine", "--seconds", "1", "--seconds", "2"), "--seconds"),
    ],
)
def test_an_option_with_one_value_is_given_once(arguments: tuple[str, ...], option: str, cli: Cli) -> None:
    code, _, error = cli(*arguments)
    assert code == 2
    assert f"{option} is given twice; it takes one value" in error


def test_what_may_be_repeated_may_be(cli: Cli) -> None:
    code, out, _ = cli("fit", "llama-2-7b", "--gpu", "l4", "--gpu", "a10g", "--max-len", "4096", "--json", "--json")
    assert code == 0
    assert len(json.loads(out)["candidates"]) == 2

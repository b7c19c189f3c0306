"""A pasted start command is read as the engine reads it, and can be given back corrected."""

from __future__ import annotations

import contextlib
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.answers.fit import fit
from narrows.answers.load import load
from narrows.answers.models import model
from narrows.answers.roofline import roofline
from narrows.engines.beginnings import looks_like_command
from narrows.engines.command import read_command
from narrows.text import BadInput

SERVE = "vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 2 --max-model-len 32768"


def test_a_serve_command() -> None:
    found = read_command(SERVE)
    assert found.model == "meta-llama/Llama-3.1-8B-Instruct"
    assert found.options == {"tp": 2, "max_len": 32768}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("vllm serve m -tp 4 -pp=2", {"tp": 4, "pp": 2}),
        ("vllm serve m --max_model_len=8k", {"max_len": 8000}),
        ("vllm serve m --max-model-len 8K", {"max_len": 8192}),
        ("vllm serve m --max-model-len 25.6k", {"max_len": 25600}),
        ("vllm serve m --max-model-len auto", {"max_len": "auto"}),
        (
            "vllm serve m --gpu-memory-utilization .95 --enforce-eager",
            {"gpu_memory_utilization": 0.95, "enforce_eager": True},
        ),
        (
            "vllm serve m --kv-cache-dtype fp8 --kv-cache-memory-bytes 8G",
            {"kv_cache_dtype": "fp8", "kv_cache_memory_bytes": 8 * 2**30},
        ),
        (
            "CUDA_VISIBLE_DEVICES=0 HF_TOKEN=x vllm serve m --port 8000 --host 0.0.0.0 --max-num-seqs 64",
            {"max_num_seqs": 64},
        ),
        (
            "python3 -m vllm.entrypoints.openai.api_server --model m --max-num-batched-tokens 4096",
            {"max_num_batched_tokens": 4096},
        ),
        ("vllm serve m \\\n  --tensor-parallel-size 2 \\\n  --dtype half 2>&1 | tee log", {"tp": 2, "dtype": "half"}),
        ("docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.8.5 --model m -tp 2", {"tp": 2}),
    ],
)
def test_spellings_the_engine_accepts(text: str, options: dict[str, object]) -> None:
    found = read_command(text)
    assert (found.model, found.options) == ("m", options)


def test_an_image_names_the_version() -> None:
    assert read_command("docker run --rm vllm/vllm-openai:v0.8.5.post1 --model m").version == "0.8.5"


def test_flags_that_do_not_bear_on_memory_are_named_not_guessed() -> None:
    found = read_command("vllm serve m --port 8000 --served-model-name x --trust-remote-code")
    assert found.ignored == ("--port", "--served-model-name", "--trust-remote-code")
    assert found.options == {}


COMPOSE = """
services:
  proxy:
    image: nginx:1.27
    command: ["nginx", "-g", "daemon off;"]
  vllm:
    image: vllm/vllm-openai:v0.10.2
    command: >
      --model Qwen/Qwen3-8B
      --max-model-len 16384
      --tensor-parallel-size 2
"""

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: llm}
spec:
  template:
    spec:
      containers:
      - name: server
        image: registry.example/vllm-openai:v0.11.0
        command: ["/bin/sh", "-c"]
        args:
        - |
          vllm serve Qwen/Qwen3-8B --max-model-len 16384 \\
            --tensor-parallel-size 2
---
kind: Service
"""

ARGS = """
kind: Pod
spec:
  containers:
  - image: vllm/vllm-openai:v0.11.0
    args: ["--model", "Qwen/Qwen3-8B", "--max-model-len", "16384", "--tensor-parallel-size", "2"]
"""


@pytest.mark.parametrize(("text", "version"), [(COMPOSE, "0.10.2"), (MANIFEST, "0.11.0"), (ARGS, "0.11.0")])
def test_compose_files_and_manifests(tmp_path: Path, text: str, version: str) -> None:
    path = tmp_path / "deploy.yaml"
    path.write_text(text)
    found = read_command(str(path))
    assert (found.model, found.version) == ("Qwen/Qwen3-8B", version)
    assert found.options == {"max_len": 16384, "tp": 2}


def test_the_corrected_command_changes_only_what_it_must() -> None:
    assert read_command(SERVE + " --port 9").corrected({"--max-model-len": "3968"}) == (
        "vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 2 --port 9 --max-model-len 3968"
    )
    eager = read_command("vllm serve m --enforce-eager -tp 2").corrected(
        {"--enforce-eager": None, "--tensor-parallel-size": "4"}
    )
    assert eager == "vllm serve m --tensor-parallel-size 4"
    assert read_command("vllm serve m").corrected({"--enforce-eager": ""}) == "vllm serve m --enforce-eager"


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        (
            "cd /srv && HF_HOME=~/.cache vllm serve $MODEL --max-model-len 8192 | tee log",
            "cd /srv && HF_HOME=~/.cache vllm serve $MODEL --max-model-len 100 | tee log",
        ),
        ("vllm serve m --max-model-len 8192; echo done > log", "vllm serve m --max-model-len 100; echo done > log"),
        ("nohup vllm serve m --port 1 >& out.log &", "nohup vllm serve m --port 1 --max-model-len 100 >& out.log &"),
        ("vllm serve m --port 1 2>&1 | tee x", "vllm serve m --port 1 --max-model-len 100 2>&1 | tee x"),
        (
            "export A=1\nvllm serve m --port 8000\necho done",
            "export A=1\nvllm serve m --port 8000 --max-model-len 100\necho done",
        ),
        ("vllm serve m \\\n  # why\n  --port 3", "vllm serve m --port 3 --max-model-len 100"),
        ("(vllm serve m)", "( vllm serve m --max-model-len 100 )"),
        (
            """vllm serve m --api-key "$KEY" --hf-overrides '{"a": 1}'""",
            """vllm serve m --api-key "$KEY" --hf-overrides '{"a": 1}' --max-model-len 100""",
        ),
    ],
)
def test_the_shell_around_the_arguments_is_given_back_as_it_was(text: str, corrected: str) -> None:
    assert read_command(text).corrected({"--max-model-len": "100"}) == corrected


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("docker run --name vllm -v ~/.cache/vllm:/root/.cache vllm/vllm-openai:latest --model m", None),
        ("docker run --entrypoint vllm vllm/vllm-openai serve m", None),
        ("podman run docker.io/vllm/vllm-openai:v0.11.0 m", "0.11.0"),
        ("docker run rocm/vllm:rocm6.3.1_vllm_0.8.5_20250513 vllm serve m", "0.8.5"),
        ("docker run nvcr.io/nvidia/vllm:25.09-py3 vllm serve m", None),
        ("docker run vllm/vllm-openai@sha256:0123abcd --model m", None),
    ],
)
def test_images_with_and_without_a_version(text: str, version: str | None) -> None:
    assert looks_like_command(text)
    found = read_command(text)
    assert (found.model, found.version) == ("m", version)


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        ("--trust-remote-code m", {}),
        ("--enable-auto-tool-choice --port 8000 m --enforce-eager", {"enforce_eager": True}),
        ("m --enforce-eager False --max-num-seqs 8", {"enforce_eager": False, "max_num_seqs": 8}),
        ("m --enforce-eager=true", {"enforce_eager": True}),
        ("--no-enforce-eager m", {"enforce_eager": False}),
        ("--enable-chunked-prefill true m", {}),
    ],
)
def test_switches_take_no_word_but_a_truth(flags: str, options: dict[str, object]) -> None:
    found = read_command("vllm serve " + flags)
    assert (found.model, found.options) == ("m", options)


def test_a_switch_is_taken_out_with_its_truth() -> None:
    command = read_command("vllm serve m --enforce-eager False --port 1")
    assert command.corrected({"--enforce-eager": ""}) == "vllm serve m --port 1 --enforce-eager"


def test_arguments_of_a_container_are_given_back_without_its_image(tmp_path: Path) -> None:
    path = tmp_path / "compose.yaml"
    path.write_text(COMPOSE)
    corrected = read_command(str(path)).corrected({"--max-model-len": "100"})
    assert corrected == "--model Qwen/Qwen3-8B --tensor-parallel-size 2 --max-model-len 100"


@pytest.mark.parametrize("part", ["${", "$(", "\"'", " ", "\n", "`", "\\\n", "-\n", "("])
def test_hostile_commands_end_soon(part: str) -> None:
    """Reading takes time in proportion to the text: this test would run for hours otherwise."""
    with contextlib.suppress(BadInput):
        read_command(("vllm serve m " + part * 100_000)[:199_999])


@pytest.mark.parametrize(
    "text",
    [
        "echo hello",
        "vllm serve",
        "vllm serve --port 8000",
        "vllm serve m --max-model-len",
        "vllm serve m --max-model-len many",
        "vllm serve m --gpu-memory-utilization most",
        "vllm serve 'm",
        "vllm serve m –tp 2",
        "vllm serve m —max-model-len 4096",
        "vllm serve m & vllm serve n",
        "vllm serve m --model n",
        "vllm serve m -tp 1.5",
        "vllm serve m -pp 0",
        "vllm serve m --max-model-len " + "9" * 400,
        "vllm serve m --max-model-len ٣",
        "vllm serve m --cpu-offload-gb nan",
        "vllm serve m --data-parallel-size 0",
        "vllm serve " + "x" * 300_000,
        "nosuch.yaml",
    ],
)
def test_what_is_not_a_start_command_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        read_command(text)


@pytest.mark.parametrize("text", ["a: [", "- &a [*a]", "x: !!python/object:os.system {}", "\x00", "[" * 5000])
def test_bad_yaml_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yml"
    path.write_text(text)
    with pytest.raises(BadInput):
        read_command(str(path))


@pytest.mark.parametrize(
    "text",
    [
        *("vllm serve", " vllm serve ", "A=1 vllm serve", "vllm serve; ls", "vllm serve --max-model-len 5"),
        *("docker run vllm/vllm-openai:v0.9.0", "python -m vllm.entrypoints.openai.api_server"),
        *("sglang serve", "python -m sglang.launch_server", "llama-server", "llama-server -c 5"),
    ],
)
def test_a_command_without_a_model_is_told_that_it_names_none(text: str) -> None:
    with pytest.raises(BadInput, match="the command names no"):
        fit(text, "l40s")


@pytest.mark.parametrize("text", ["vllm", "vllm bench m", "docker", "docker run x/y", "kubectl apply -f x", "sglang"])
def test_a_command_that_starts_no_engine_is_not_taken_for_a_model(text: str) -> None:
    with pytest.raises(BadInput, match="not a start command"):
        fit(text, "l40s")


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("vllm serve llama-2-7b", "sglang"),
        ("vllm serve llama-2-7b", "llama.cpp"),
        ("sglang serve --model-path llama-2-7b", "vllm==0.9"),
    ],
)
def test_another_engine_than_the_commands_is_refused(text: str, engine: str) -> None:
    for question in (fit, roofline):
        with pytest.raises(BadInput, match="does not read its flags"):
            question(text, "l40s", engine=engine)


def test_questions_about_a_model_alone_say_so_where_a_command_is_given() -> None:
    with pytest.raises(BadInput, match="takes a model, not a start command"):
        load("vllm serve llama-2-7b", gpu="l40s")
    with pytest.raises(BadInput, match="takes a model, not a start command"):
        model("vllm serve llama-2-7b")


def test_a_model_is_not_taken_for_a_command() -> None:
    assert looks_like_command(SERVE)
    assert looks_like_command("deploy/vllm.yaml")
    assert not looks_like_command("meta-llama/Llama-3.1-8B-Instruct")
    assert not looks_like_command("./models/vllm serve/config.json")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(BadInput):
        read_command("vllm serve " + text)


def test_words_that_belong_to_no_flag_are_named() -> None:
    assert read_command("vllm serve m n --enforce-eager maybe").ignored == ("n", "maybe")
    assert read_command("vllm serve m --served-model-name a b --port 1").ignored == ("--served-model-name", "--port")
    assert read_command("vllm serve m --port 1 \\\n").model == "m"


def test_two_engines_in_a_file_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "two.yaml"
    path.write_text("\n".join(f"{name}: {{image: vllm/vllm-openai, command: --model {name}}}" for name in "mn"))
    with pytest.raises(BadInput, match=r"more than one engine \(m, n\)"):
        read_command(str(path))


def test_aliases_that_multiply_are_walked_once(tmp_path: Path) -> None:
    """Ten lines name 10^9 parts: this test would not end otherwise."""
    names = "abcdefghij"
    lines = [f"a: &a [{','.join('x' * 9)}]"]
    lines += [f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]" for before, name in pairwise(names)]
    path = tmp_path / "bomb.yaml"
    path.write_text("\n".join([*lines, "s: {image: vllm/vllm-openai, command: *j}"]))
    with pytest.raises(BadInput):
        read_command(str(path))


@pytest.mark.parametrize(
    "text",
    [
        "docker run --gpus all --entrypoint bash vllm/vllm-openai:v0.10.0 -c 'vllm serve m --max-model-len 4096'",
        "docker run --gpus all --entrypoint=/bin/sh vllm/vllm-openai:v0.10.0 -lc 'pip install x && vllm serve m "
        "--max-model-len 4096'",
        "bash -c 'vllm serve m --max-model-len 4096'",
    ],
)
def test_what_a_shell_is_told_to_run_is_read(text: str) -> None:
    found = read_command(text)
    assert (found.model, found.options) == ("m", {"max_len": 4096})
    assert found.version == ("0.10.0" if "docker" in text else None)
    assert found.corrected({"--max-model-len": "2048"}).endswith("vllm serve m --max-model-len 2048")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("python -m sglang.launch_server --model-path m --tp 2", "'sglang.launch_server'"),
        ("llama-server -m m.gguf -c 8192", "'llama-server'"),
        ("trtllm-serve m", "'trtllm-serve'"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, said: str) -> None:
    assert looks_like_command(text)
    with pytest.raises(BadInput, match=re.escape(said)):
        read_command(text)

"""What the tests of bad input share: configs to spoil, and what is a proper answer to one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from narrows.answers.models import model
from narrows.models import ModelSpec, read_config
from narrows.models.catalogue import catalogue_entry
from narrows.text import BadInput

from .conftest import LLAMA

BASES = (
    "meta-llama/Llama-3.1-8B",
    "google/gemma-3-27b-it",
    "deepseek-ai/DeepSeek-V3",
    "ai21labs/Jamba-v0.1",
    "openai-community/gpt2",
    "openai/gpt-oss-20b",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
)
MOST_SECONDS = 1.0
"""Processor time in which any input is answered or refused."""


def config_of(name: str) -> dict[str, Any]:
    return catalogue_entry(name).config


def paths(config: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every field, also those inside objects, as a path of names."""
    for name, value in config.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from paths(value, (*above, name))


def put(config: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The config with another value in one place."""
    first, *rest = path
    return {**config, first: put(config[first], tuple(rest), value) if rest else value}


def is_sane(spec: ModelSpec) -> bool:
    facts = model(spec, length=2048)
    return (
        facts.unique_parameters > 0
        and 0 < facts.active_parameters <= facts.unique_parameters
        and facts.checkpoint_bytes > 0
        and facts.kv_bytes_per_sequence + facts.state_bytes_per_sequence > 0
        and facts.kv_bytes_per_token >= 0
    )


def refusal(config: dict[str, Any]) -> str:
    with pytest.raises(BadInput) as error:
        read_config(config, name="x")
    return str(error.value)


def is_one_line(code: int, out: str, err: str) -> bool:
    """Whether this is exit 2 with one printable line on stderr that is no traceback, and nothing on stdout."""
    line = err.removesuffix("\n")
    return (
        (code, out) == (2, "")
        and line.startswith("narrows: error: ")
        and len(line) > len("narrows: error: ") + 10
        and line.isprintable()
        and "Traceback" not in line
    )


def bounded(*arguments: str, seconds: int = 10, megabytes: int = 600) -> subprocess.CompletedProcess[bytes]:
    """The command line under limits of processor time and address space; -9 or -24 where it ran into one."""

    def limits() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (megabytes * 2**20, megabytes * 2**20))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    return subprocess.run(
        [sys.executable, "-m", "narrows", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        preexec_fn=limits,
        timeout=60,
        env={**os.environ, "NARROWS_LANG": "en"},
    )


GOOD = json.dumps(LLAMA)

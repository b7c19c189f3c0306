"""Fixtures that several tests share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from narrows.cli.main import main
from narrows.report.i18n import use_language

from .hub_server import Hub, started

# no deadline and no chance: a test must not depend on the machine's speed, nor on the day
settings.register_profile("narrows", deadline=None, derandomize=True)
settings.load_profile("narrows")

Cli = Callable[..., tuple[int, str, str]]

DATA = Path(__file__).parent / "data"

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
"""The config of Llama-2-7b, less the fields whose defaults hold: tests change it."""


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Every test starts and ends in English, without corrections on record and without the hub."""
    use_language("en")
    # the corrections of whoever runs the tests must not reach them
    monkeypatch.setenv("NARROWS_CALIBRATION", str(tmp_path / "calibration.jsonl"))
    monkeypatch.setenv("NARROWS_MACHINE", str(tmp_path / "this-machine.json"))
    # nor may a test reach the hub, or what someone downloaded from it
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    yield
    use_language("en")


@pytest.fixture
def narrows() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line in a process of its own, as a user does."""

    def run(*arguments: str, stdin: bytes | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        import os

        done = subprocess.run(
            [sys.executable, "-m", "narrows", *arguments],
            input=stdin if stdin is not None else b"",
            capture_output=True,
            timeout=120,
            env={**os.environ, "NARROWS_LANG": "en", **environment},
        )
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs the command line in this process: (exit code, stdout, stderr)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err

    return run


@pytest.fixture(scope="module")
def hub() -> Iterator[Hub]:
    """A server that speaks the hub's protocol."""
    yield from _served()


@pytest.fixture(scope="module")
def store() -> Iterator[Hub]:
    """A server on another host: where the hub sends for large files."""
    yield from _served()


def _served() -> Iterator[Hub]:
    one = started()
    yield one
    one.server.shutdown()
    one.server.server_close()

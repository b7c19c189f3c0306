"""Terminals, pipes and streams of any kind: no control sequence of a file gets through, no traceback."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .bad_input import is_one_line
from .conftest import LLAMA


def on_a_terminal(*arguments: str, **environment: str) -> tuple[int, str]:
    """The command line on a terminal of its own: (exit code, everything it wrote)."""
    pid, terminal = pty.fork()
    if pid == 0:
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
            os.environ.pop(name, None)
        os.environ.update({"NARROWS_LANG": "en", **environment})
        os.execv(sys.executable, [sys.executable, "-m", "narrows", *arguments])
    written = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        written += piece
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), written.decode()


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A line of bash in which `narrows` is the command line; the exit code is that of narrows."""
    return subprocess.run(
        ["bash", "-c", f'narrows() {{ "{sys.executable}" -m narrows "$@"; }}; {line}'],
        capture_output=True,
        timeout=60,
        env={**os.environ, "NARROWS_LANG": "en", **environment},
    )


FIT = "narrows fit llama-2-7b --gpu l40s --max-len 4096"


def test_what_a_file_says_cannot_command_the_terminal(tmp_path: Path) -> None:
    escape = "\x1b]0;owned\x07\x1b[2J\x1b[31m"
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA, "_name_or_path": escape, "architectures": [escape], f"new{escape}": 1}))
    for command in (["fit", str(file), "--gpu", "l40s"], ["models", str(file)]):
        code, written = on_a_terminal(*command, NO_COLOR="1", TERM="dumb")
        assert code == 0
        assert "\x1b" not in written
        assert "\x07" not in written


def test_an_error_cannot_command_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({**LLAMA, "hidden_size": "\x1b[2J"}))
    for command in (
        ["models", str(file)],
        ["fit", "llama-2-7b", "--gpu", "l40s", "--engine", "\x1b[2J"],
        ["fit", "llama-2-7b", "--gpu", "l40s", "--memory", "\x1b[2J"],
        ["--lang", "\x1b[2J"],
    ):
        code, written = on_a_terminal(*command)
        assert code == 2
        assert written.replace("\r\n", "").isprintable()


@pytest.mark.parametrize("columns", ["0", "1", "20", "-5", "many", "100000"])
def test_any_width_of_the_terminal_prints_the_report(columns: str) -> None:
    code, written = on_a_terminal("fit", "llama-2-7b", "--gpu", "l40s", COLUMNS=columns)
    assert code == 0
    assert "Traceback" not in written
    assert len(written.split()) > 100


def test_without_colour_there_is_none() -> None:
    assert "\x1b" in on_a_terminal("fit", "llama-2-7b", "--gpu", "l40s", TERM="xterm-256color")[1]
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        code, written = on_a_terminal("fit", "llama-2-7b", "--gpu", "l40s", **environment)
        assert code == 0
        assert "\x1b[3" not in written


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "cp437"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "POSIX"},
        {"LANG": "xx_YY.nonsense", "LC_ALL": ""},
        {"TERM": ""},
    ],
    ids=lambda environment: " ".join(f"{k}={v}" for k, v in environment.items()),
)
def test_an_output_that_cannot_print_every_character_is_no_reason_to_fail(environment: dict[str, str]) -> None:
    for line in (FIT, FIT + " --json", "narrows models llama-2-7b", "narrows --help"):
        done = shell(line, **environment)
        assert (done.returncode, done.stderr) == (0, b""), done.stderr.decode()[-200:]
        if "--json" in line:
            assert json.loads(done.stdout)["command"].startswith("narrows fit")


def test_an_error_is_one_line_also_where_its_characters_cannot_be_printed() -> None:
    done = shell("narrows fit 라마-×-7b --gpu l40s", PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert done.stderr.startswith(b"narrows: error: ")


@pytest.mark.parametrize(
    "line", [FIT, FIT + " --json", "narrows models", "narrows models --json", "narrows gpus --json"]
)
def test_a_reader_that_goes_away_is_no_error(line: str) -> None:
    """Neither a traceback nor exit 1, which would mean that it does not fit."""
    done = shell(line + " | true; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (0, b"")
    done = shell(line + " | head -1 > /dev/null; exit ${PIPESTATUS[0]}")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("line", [FIT, FIT + " --json", "narrows --help", "narrows models --json"])
def test_a_full_disk_is_told_in_one_line_and_is_neither_yes_nor_no(line: str) -> None:
    done = shell(line + " > /dev/full")
    assert done.returncode not in (0, 1)
    assert done.stderr.count(b"\n") == 1
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("line", [FIT, FIT + " --json", "narrows --help", "narrows gpus"])
def test_closed_streams_give_no_traceback(line: str) -> None:
    assert b"Traceback" not in shell(line + " >&-").stderr
    assert shell(line + " 2>&-").returncode == 0
    assert shell(line + " <&-").returncode == 0


def test_a_closed_or_unreadable_stdin_is_told_in_one_line(tmp_path: Path) -> None:
    for line in ("narrows fit - --gpu l40s <&-", f"narrows fit - --gpu l40s 0>{tmp_path}/out"):
        done = shell(line)
        assert is_one_line(done.returncode, done.stdout.decode(), done.stderr.decode()), done.stderr.decode()[-200:]


def test_an_interrupt_ends_it_without_a_traceback(tmp_path: Path) -> None:
    import signal

    process = subprocess.Popen(
        [sys.executable, "-m", "narrows", "fit", "-", "--gpu", "l40s"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    time.sleep(0.6)  # it waits for its input by then
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert (out, b"Traceback" in err, err.strip().count(b"\n")) == (b"", False, 0)

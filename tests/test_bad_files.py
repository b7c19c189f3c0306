"""A file, a path or a name that holds no config is refused in one line, with bounded time and memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from narrows.models import load_model

from .bad_input import GOOD, MOST_SECONDS, bounded, is_one_line
from .conftest import Cli

CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "spaces": b" \n\t ",
    "half": GOOD.encode()[: len(GOOD) // 2],
    "a list": b"[1, 2]",
    "a string": b'"llama"',
    "a number": b"7",
    "null": b"null",
    "an empty object": b"{}",
    "an empty list": b"[]",
    "not UTF-8": GOOD.replace("llama", "ll\xe4ma").encode("latin-1"),
    "UTF-16": GOOD.encode("utf-16"),
    "UTF-32": GOOD.encode("utf-32"),
    "NUL bytes": b"\0" * 1000,
    "a NUL inside": GOOD.replace("llama", "ll\\u0000ama").encode(),
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep and open": b"[" * 1_000_000,
    "deep inside a field": GOOD[:-1].encode() + b', "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a comment": b"// llama\n" + GOOD.encode(),
    "a trailing comma": GOOD[:-1].encode() + b",}",
    "two objects": GOOD.encode() * 2,
    "HTML": b"<!DOCTYPE html><html><body>404</body></html>",
    "a git-lfs pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 123\n",
    "safetensors": (64).to_bytes(8, "little") + b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}' + b" " * 8,
    "gguf": b"GGUF\x03\0\0\0" + b"\0" * 64,
    "an escape in a value": GOOD.replace("4096", '"\\u001b[2J\\n\\u202e"').encode(),
    "an escape in the family": GOOD.replace("llama", "\\u001b[2J\\u0007\\r\\n").encode(),
    "an escape in the format": GOOD.replace("bfloat16", "\\u001b[2J").encode(),
    "a lone surrogate": GOOD.replace("llama", "\\ud800").encode(),
    "a huge integer": GOOD.replace("4096", "9" * 4000).encode(),
    "a very huge integer": GOOD.replace("4096", "9" * 1_000_000).encode(),
    "a very long string": GOOD.replace("llama", "l" * 1_000_000).encode(),
    "a long fraction": GOOD.replace("4096", "0." + "1" * 100_000).encode(),
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_file_that_is_no_config_is_refused_in_one_line(content: bytes, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    begin = time.process_time()
    for place in (file, tmp_path):
        code, out, err = cli("fit", str(place), "--gpu", "l40s")
        assert is_one_line(code, out, err), err
        assert len(err) < 600
    assert time.process_time() - begin < 2 * MOST_SECONDS


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert load_model(str(file)).layers == 32


def test_of_a_key_that_stands_twice_the_last_one_counts(tmp_path: Path) -> None:
    """As in Python's and transformers' reading."""
    file = tmp_path / "config.json"
    file.write_text(GOOD[:-1] + ', "num_hidden_layers": 7}')
    assert load_model(str(file)).layers == 7


def test_a_config_of_100_mb_is_refused_without_being_read(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with file.open("wb") as handle:
        handle.truncate(100 * 10**6)
    done = bounded("fit", str(file), "--gpu", "l40s", megabytes=250)
    assert is_one_line(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert b"limit" in done.stderr


def test_100_mb_on_stdin_are_refused_after_the_first_of_them() -> None:
    feed = subprocess.Popen(["head", "-c", "100000000", "/dev/zero"], stdout=subprocess.PIPE)
    done = subprocess.run(
        [sys.executable, "-m", "narrows", "fit", "-", "--gpu", "l40s"], stdin=feed.stdout, capture_output=True
    )
    feed.kill()
    feed.wait()
    assert is_one_line(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/stdin", "/dev/null", "/dev/full", "/proc/self/mem", "/dev/tty"])
def test_a_device_is_refused(path: str) -> None:
    done = bounded("fit", path, "--gpu", "l40s", megabytes=250)
    assert is_one_line(done.returncode, done.stdout.decode(), done.stderr.decode())


def test_a_fifo_is_refused_instead_of_waited_for(cli: Cli, tmp_path: Path) -> None:
    for name in ("config.json", "pipe.json"):
        os.mkfifo(tmp_path / name)
        assert is_one_line(*cli("fit", str(tmp_path / name), "--gpu", "l40s"))
    assert is_one_line(*cli("fit", str(tmp_path), "--gpu", "l40s"))


def test_a_fifo_or_a_broken_file_beside_the_config_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(GOOD)
    os.mkfifo(tmp_path / "hf_quant_config.json")
    assert is_one_line(*cli("models", str(tmp_path)))
    (tmp_path / "hf_quant_config.json").unlink()
    for content in ("[]", "{", '{"bits": "4"}', '{"bits": 4, "quant_method": null}'):
        (tmp_path / "quantize_config.json").write_text(content)
        assert is_one_line(*cli("models", str(tmp_path)))


def test_a_directory_called_config_json_and_loops_of_links_are_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a" / "config.json").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "config.json").symlink_to(tmp_path / "b" / "config.json")
    (tmp_path / "c.json").symlink_to(tmp_path / "d.json")
    (tmp_path / "d.json").symlink_to(tmp_path / "c.json")
    (tmp_path / "e").mkdir()
    for name in ("a", "a/config.json", "b", "b/config.json", "c.json", "e", "nothing.json", "no/such/config.json"):
        assert is_one_line(*cli("fit", str(tmp_path / name), "--gpu", "l40s")), name


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_refused(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(GOOD)
    file.chmod(0)
    code, out, err = cli("fit", str(file), "--gpu", "l40s", "--max-len", "64")
    assert is_one_line(code, out, err)
    assert "cannot be read" in err


NAMES = {
    "empty": "",
    "spaces": "  ",
    "two dashes": "--",
    "three dashes": "---",
    "a dot": ".",
    "two dots": "..",
    "root": "/",
    "tilde": "~",
    "no such user": "~nobody-of-this-name/config.json",
    "passwd": "../../../../../../../../etc/passwd",
    "passwd.json": "/etc/passwd.json",
    "passwd as a folder": "/etc/passwd/config.json",
    "escapes": "/tmp/\x1b[2J\x1b]0;x\x07\n\r\t/config.json",
    "newline in a name": "lla\nma\n",
    "escape in a name": "\x1b[31mllama-2-7b",
    "right to left": "\u202egnp.json",
    "long name": "x" * 5_000,
    "long path": "/" + "x" * 5_000 + ".json",
    "deep path": "/" + "x/" * 3_000 + "config.json",
    "NUL": "a\0b.json",
    "surrogate": "/tmp/\udcff.json",
    "braces": "{0.__class__}/{name}",
    "percent": "%s%n%d",
    "url": "http://169.254.169.254/config.json",
    "file url": "file:///etc/passwd",
    "hub id": "someone/no-such-model",
    "several slashes": "a/b/c/d",
    "wide": "라마 " * 300,
}


@pytest.mark.parametrize("command", [("fit", "--gpu", "l40s"), ("models",)], ids=["fit", "models"])
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_model_that_is_not_there_is_refused_in_one_line(
    name: str, command: tuple[str, ...], cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = cli(command[0], *command[1:], "--", name)
    assert is_one_line(code, out, err), err
    assert len(err) < 700


@pytest.mark.parametrize("name", [name for name in NAMES.values() if name.strip() != "" and "\0" not in name])
def test_a_gpu_that_is_not_there_is_refused_in_one_line(name: str, cli: Cli) -> None:
    code, out, err = cli("fit", "llama-2-7b", f"--gpu={name}")
    assert is_one_line(code, out, err), err
    assert len(err) < 700

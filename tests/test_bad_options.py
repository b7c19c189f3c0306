"""An option that says nothing clear is refused in one line that says what to do, with exit 2."""

from __future__ import annotations

import json

import pytest

from .bad_input import is_one_line
from .conftest import Cli

WHOLE = ["--max-len", "--batch", "--prompt", "--tp", "--pp", "--max-num-seqs", "--max-num-batched-tokens"]
SHARE = ["--gpu-memory-utilization"]
SIZES = ["--memory"]
WORDS = ["--gpu", "--dtype", "--kv-cache-dtype", "--engine", "--cloud", "--assume", "--lang"]
NO_NUMBER = [
    "-1",
    "0",
    "nan",
    "inf",
    "-inf",
    "1e9",
    "0x10",
    "1.5",
    "",
    " ",
    "9" * 30,
    "9" * 5000,
    "²",
    "\x1b[2J",
    "4;5",
]


@pytest.mark.parametrize("option", WHOLE + SHARE + SIZES)
@pytest.mark.parametrize("value", NO_NUMBER, ids=lambda value: repr(value)[:20])
def test_a_number_that_an_option_cannot_be_is_refused(option: str, value: str, cli: Cli) -> None:
    code, out, err = cli("fit", "llama-2-7b", "--gpu", "l40s", f"{option}={value}")
    assert is_one_line(code, out, err), err
    assert option in err
    assert len(err) < 400


@pytest.mark.parametrize("option", WORDS)
@pytest.mark.parametrize("value", ["", " ", "xx", "-1", "\x1b[2J", "a\nb", "x" * 5000, "{0}", "％"], ids=repr)
def test_a_word_that_an_option_does_not_know_is_refused(option: str, value: str, cli: Cli) -> None:
    code, out, err = cli("fit", "llama-2-7b", "--gpu", "l40s", f"{option}={value}")
    assert is_one_line(code, out, err), err
    assert len(err) < 700


@pytest.mark.parametrize("value", NO_NUMBER, ids=lambda value: repr(value)[:20])
def test_a_length_or_a_least_memory_that_is_no_number_is_refused(value: str, cli: Cli) -> None:
    assert is_one_line(*cli("models", "llama-2-7b", f"--length={value}"))
    assert is_one_line(*cli("gpus", f"--min-memory={value}"))


def test_digits_of_other_scripts_count_as_digits(cli: Cli) -> None:
    code, out, _ = cli("fit", "llama-2-7b", "--gpu", "l40s", "--batch", "４", "--max-len", "1024", "--json")
    assert (code, json.loads(out)["candidates"][0]["batch"]) == (0, 4)


_LLAMA = ("--engine", "llama.cpp")
_SGLANG = ("--engine", "sglang")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nonsense"], "nonsense"),
        (["fi"], "fi"),
        (["FIT"], "FIT"),
        ([""], "see"),
        (["--nonsense"], "--nonsense"),
        (["--json"], "--json"),
        (["fit"], "MODEL"),
        (["fit", "llama-2-7b"], "--gpu"),
        (["fit", "llama-2-7b", "--gpu"], "--gpu"),
        (["fit", "--gpu", "l40s"], "MODEL"),
        (["fit", "llama-2-7b", "l40s"], "--gpu"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "more"], "more"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--bacth", "4"], "--batch"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--json=yes"], "--json"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--tp", "3"], "1, 2, 4, 8, 16, 32"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--pp", "33"], "32 layers"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--batch", "-1"], "--batch is -1"),
        (["fit", "llama-2-7b", "--gpu", "h900"], "nearest"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--gpu", "h900"], "h900"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--max-len", "64", "--prompt", "65"], "--prompt"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--engine", "vllm>=0.1"], "0.1"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--dtype", "int4"], "--dtype"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--kv-cache-dtype", "int4"], "--kv-cache-dtype"),
        (["fit", "llama-27b", "--gpu", "l40s"], "catalogue"),
        (["fit", "llama-2-7b", "--gpu", "l40s", "--quantization", ""], "--quantization is empty"),
        (["load", "llama-2-7b", "--gpu", "l40s", "--instance", " "], "--instance is empty"),
        (["load", "llama-2-7b", "--gpu", "l40s", "--target="], "--target is empty"),
        (["roofline", "llama-2-7b", "--gpu", "l40s", "--max-len", "0"], "--max-len is 0"),
        (["roofline", "llama-2-7b", "--gpu", "l40s", "--max-num-seqs", "-1"], "--max-num-seqs is -1"),
        (["roofline", "llama-2-7b", "--gpu", "l40s", "--ep", "0"], "--ep is 0"),
        (["fit", "llama-2-7b", "--gpu", "l40s", *_LLAMA, "--ctx-size", "10", "--parallel", "20"], "--ctx-size is 10"),
        (["fit", "llama-2-7b", "--gpu", "l40s", *_LLAMA, "--ctx-size", "64", "--max-len", "32"], "give one of them"),
        (["fit", "llama-2-7b", "--gpu", "l40s", *_LLAMA, "--parallel", "4", "--max-num-seqs", "8"], "one option"),
        (["fit", "llama-2-7b", "--gpu", "l40s", *_SGLANG, "--context-length", "8", "--max-len", "9"], "one option"),
        (["models", "--length", "5"], "--length is about one model"),
        (["models", "--assume", "llama"], "--assume is about one model"),
        (["models", "--kv-cache-dtype", "fp8"], "--kv-cache-dtype is about one model"),
        (["models", "llama-2-7b", "--find", "llama"], "give one of them"),
        (["load", "llama-2-7b", "--gpu", "l40s", "--bandwidth", "1B/s"], "--bandwidth is '1B/s'; write bytes per"),
        (["load", "llama-2-7b", "--gpu", "l40s", "--bandwidth", "-1GB/s"], "--bandwidth is '-1GB/s'; write bytes per"),
        (["--lang", "xx"], "en, ko"),
        (["--lang"], "--lang"),
        (["fit", "--lang"], "--lang"),
        (["models", "a", "b"], "b"),
        (["gpus", "a", "b"], "b"),
        (["gpus", "--vendor", "nobody"], "nvidia"),
        (["gpus", "--precision", "fp3"], "fp8"),
        (["gpus", "--cloud", "nowhere"], "aws"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else None,
)
def test_a_command_line_that_says_nothing_clear_is_refused_with_what_to_do(
    arguments: list[str], told: str, cli: Cli
) -> None:
    code, out, err = cli(*arguments)
    assert is_one_line(code, out, err), err
    assert told in err
    assert ".;" not in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--memory", "100GiB"), "--memory is 100.00 GiB, and NVIDIA L40S has 44.99 GiB"),
        (("--max-len", "5000"), "5,000 tokens is beyond the model's own limit of 4,096"),
    ],
)
def test_what_cannot_be_is_said_before_the_answer_and_once(arguments: tuple[str, ...], told: str, cli: Cli) -> None:
    code, out, _ = cli("fit", "llama-2-7b", "--gpu", "l40s", *arguments, "--json")
    answer = json.loads(out)
    assert code == 0
    assert [text for text in answer["warnings"] if told in text]
    assert not [text for text in answer["assumptions"] if told in text]


def test_two_names_of_one_option_may_say_the_same(cli: Cli) -> None:
    code, _, err = cli("fit", "llama-2-7b", "--gpu", "l40s", *_LLAMA, "--parallel", "4", "--max-num-seqs", "4")
    assert (code, err) == (0, "")

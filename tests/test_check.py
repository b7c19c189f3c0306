"""`check` reads a log, names the cause, gives the command that works, and compares with the prediction."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from narrows import api
from narrows.answers.check import Check, check
from narrows.calibration.store import corrections
from narrows.report.check import check_report
from narrows.report.console import to_text
from narrows.text import BadInput

LOGS = Path(__file__).parent / "data" / "logs"
REAL = sorted(LOGS.rglob("*.log"))
TINY: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1376,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 8192,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
"""The checkpoint of the captured logs."""


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("llama-tiny") / "config.json"
    path.write_text(json.dumps(TINY))
    return str(path)


def captured(name: str, model: str | None = None) -> Check:
    return check(str(LOGS / f"vllm-0.32.0-cpu-{name}.log"), model=model)


def excerpt(name: str, **options: Any) -> Check:
    return check(str(LOGS / "excerpts" / f"{name}.log"), **options)


def term(answer: Check, name: str) -> tuple[float | None, float | None]:
    """(predicted, reported)"""
    found = next(one for one in answer.terms if one.name == name)
    return found.predicted.value if found.predicted else None, found.reported


# --- a real engine's logs --------------------------------------------------------------------------------------------


def test_a_healthy_server_is_predicted_exactly(tiny: str) -> None:
    answer = captured("default", tiny)
    assert (answer.outcome, answer.cause, answer.mend, answer.exit_code) == ("serving", None, None, 0)
    assert term(answer, "kv_tokens") == (65536, 65536)
    assert term(answer, "max_concurrency") == (32.0, 32.0)
    residuals = [one.residual for one in answer.terms if one.residual is not None]
    assert residuals == [0, 0, 0]


@pytest.mark.parametrize("known", [True, False])
def test_what_does_not_fit_is_given_the_longest_length_and_its_flag(tiny: str, known: bool) -> None:
    answer = captured("nofit", tiny if known else None)
    assert (answer.outcome, answer.stage, answer.exit_code) == ("failed", "kv allocation", 1)
    assert answer.cause is not None and answer.cause.id == "longest-request-does-not-fit"
    assert "3,968" in str(answer.cause.text)
    assert answer.mend is not None and answer.mend.change == "--max-model-len 3968"
    assert answer.mend.command == (
        "vllm serve ckpt/llama-tiny --host 127.0.0.1 --port 8103 --max-model-len 3968 --enforce-eager "
        "--kv-cache-memory-bytes 16777216"
    )
    assert answer.mend.kv_tokens == (4096 if known else 3968)
    assert answer.mend.basis == ("prediction" if known else "log")
    assert answer.missing == (() if known else ("--model",))
    assert term(answer, "longest_request") == (3968 if known else None, 3968)


def test_automatic_fitting_is_predicted_to_the_token(tiny: str) -> None:
    answer = captured("autolen-dummy", tiny)
    assert answer.exit_code == 0
    assert term(answer, "longest_request") == (4064, 4064)
    assert term(answer, "kv_tokens") == (4096, 4096)


def test_a_share_that_is_not_available_is_lowered(tiny: str) -> None:
    answer = captured("default-util", tiny)
    assert answer.cause is not None and answer.cause.id == "share-not-free"
    assert answer.mend is not None and answer.mend.change == "--gpu-memory-utilization 0.73"


def test_a_server_that_preempts_is_capacity_bound(tiny: str) -> None:
    answer = captured("preempt", tiny)
    assert (answer.outcome, answer.exit_code) == ("serving", 0)
    assert answer.cause is not None and answer.cause.id == "kv-cache-full"
    assert answer.mend is not None and answer.mend.change == "--max-num-seqs 2"


def test_public_logs_are_compared_term_by_term() -> None:
    answer = excerpt("vllm-0.10.2")
    assert answer.missing == () and answer.exit_code == 0
    for name, most in (("weights", 0.005), ("activations", 0.05), ("kv_cache", 0.05), ("kv_tokens", 0.05)):
        predicted, reported = term(answer, name)
        assert predicted is not None and reported is not None
        assert abs(predicted / reported - 1) < most


def test_the_time_ledger_adds_no_step_twice() -> None:
    ledger = excerpt("vllm-0.10.2").timeline
    outer = sum(stage.seconds for stage in ledger.stages if not stage.nested)
    assert ledger.total == 53.0 and ledger.elsewhere == pytest.approx(53 - outer, abs=0.01)
    assert ledger.narrow_stage == "read weights"
    assert excerpt("vllm-0.10.0-tp8").timeline.narrow_stage == "torch.compile"
    assert excerpt("vllm-0.25.1-nofit").timeline.narrow_stage == "download weights"


@pytest.mark.parametrize(
    ("name", "cause", "change"),
    [
        ("vllm-0.2.7", "longest-request-does-not-fit", "--max-model-len 3664"),
        ("vllm-docker-timestamps", "longest-request-does-not-fit", "--max-model-len 6048"),
        ("vllm-0.25.1-nofit", "longest-request-does-not-fit", "--max-model-len 121824"),
        ("vllm-0.19.1-oom", "weights-leave-no-room", "--tensor-parallel-size 2"),
        ("vllm-sampler", "sampler-warm-up", "--max-num-seqs 256"),
        ("vllm-0.8-ray-v0", "graph-capture", "--gpu-memory-utilization 0.95"),
        ("ikllama-oom", "compute-buffer", "-ub 128"),
    ],
)
def test_public_failures_have_their_cause_and_a_mend(name: str, cause: str, change: str) -> None:
    answer = excerpt(name)
    assert answer.exit_code == 1
    assert answer.cause is not None and answer.cause.id == cause
    assert answer.mend is not None and answer.mend.change == change


def test_numbers_of_ranks_are_the_smallest_and_said_so() -> None:
    answer = excerpt("vllm-0.10.0-tp8")
    note = next(note for note in answer.notes if note.id == "per-rank")
    assert "35.65 GiB" in str(note.text) and "36.12 GiB" in str(note.text)


def test_the_command_keeps_what_the_log_shows_of_it() -> None:
    answer = excerpt("vllm-0.19.1-oom")
    assert answer.mend is not None
    assert answer.mend.command == (
        "vllm serve Qwen/Qwen2.5-7B-Instruct --host 0.0.0.0 --max-model-len 4096 --gpu-memory-utilization 0.85 "
        "--disable-log-stats --tensor-parallel-size 2"
    )


def test_the_last_of_several_starts_is_meant_and_another_can_be_asked_for(tiny: str) -> None:
    text = b"".join((LOGS / f"vllm-0.32.0-cpu-{name}.log").read_bytes() for name in ("nofit", "default"))
    last = check(io.BytesIO(text), model=tiny)
    assert (last.starts, last.start, last.outcome) == (2, 2, "serving")
    assert "several-starts" in {note.id for note in last.notes}
    first = check(io.BytesIO(text), model=tiny, start=1)
    assert first.outcome == "failed"
    with pytest.raises(BadInput, match="--start is 3"):
        check(io.BytesIO(text), start=3)


# --- what cannot be read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\x00\xff\x80" * 1000, b"hello\nworld\n", b"PK\x03\x04" + b"\0" * 999])
def test_no_engines_log_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput, match="no line of an engine"):
        check(io.BytesIO(data))


def test_tensorrt_llm_is_recognised_and_refused() -> None:
    with pytest.raises(BadInput, match="log of tensorrt-llm"):
        excerpt("tensorrt-llm-1.2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpu": "h900"}, "h900"),
        ({"model": "no-such-model-at-all"}, "not in the catalogue"),
        ({"engine": "vllm>=0.6"}, "range"),
    ],
)
def test_bad_flags_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        excerpt("vllm-0.10.2", **options)


def test_a_log_that_ends_too_early_says_so() -> None:
    text = (LOGS / "vllm-0.32.0-cpu-default.log").read_bytes().splitlines(keepends=True)[:20]
    answer = check(io.BytesIO(b"".join(text)))
    assert (answer.outcome, answer.exit_code) == ("unknown", 2)
    assert check_report(answer)


@pytest.mark.parametrize("digits", ["²", "٣", "9" * 5000, "nan", "inf", "1e400", "-1", ""])
def test_a_number_that_is_none_stops_nothing(digits: str) -> None:
    for path in REAL:
        lines = path.read_text("utf-8").splitlines(keepends=True)
        for every in (1, 3, 7):
            # in the arguments all numbers at once, of the rest each so many lines
            spoilt = [
                re.sub(r"(?<![\d.])\d+(?:\.\d+)?(?![\d.])", digits, line) if "args" in line or not at % every else line
                for at, line in enumerate(lines)
            ]
            with contextlib.suppress(BadInput):
                check(io.BytesIO("".join(spoilt).encode()))


def test_an_address_is_told_from_a_file() -> None:
    with pytest.raises(BadInput, match="is an address, and only logs are read"):
        check("http://localhost:8000/metrics")


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_mutated_logs_are_answered_or_refused(path: Path) -> None:
    dice = random.Random(path.name)
    whole = path.read_bytes()[:60_000]
    for _ in range(12):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 40)):
            at = dice.randrange(len(data))
            data[at : at + dice.randrange(0, 30)] = dice.choice(
                (b"", b"9" * 30, b"-1", b"\n", b"0", b"\xff", b"None", b"'")
            )
        lines = bytes(data).splitlines(keepends=True)
        if dice.random() < 0.4:
            dice.shuffle(lines)
        if dice.random() < 0.4:
            lines = lines[: dice.randrange(1, len(lines) + 1)]
        try:
            answer = check(io.BytesIO(b"".join(lines)), gpu=dice.choice((None, "l40s", "t4")))
        except BadInput:
            continue
        assert to_text(check_report(answer), 80)
        json.loads(answer.to_json())


# --- the terminal ----------------------------------------------------------------------------------------------------


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "narrows", *arguments], input=stdin, capture_output=True, check=False)


@pytest.mark.parametrize(
    ("name", "code"), [("default", 0), ("nofit", 1), ("default-util", 1), ("preempt", 0), ("autolen-dummy", 0)]
)
def test_exit_codes_through_a_pipe(name: str, code: int) -> None:
    done = run("check", "-", stdin=(LOGS / f"vllm-0.32.0-cpu-{name}.log").read_bytes())
    assert (done.returncode, done.stderr) == (code, b"")


@pytest.mark.parametrize("arguments", [("check", "-"), ("check", "/nonexistent.log"), ("check",)])
def test_bad_input_is_one_line_and_exit_2(arguments: tuple[str, ...]) -> None:
    done = run(*arguments, stdin=b"\x00\x01\x02")
    assert done.returncode == 2 and done.stdout == b""
    assert done.stderr.startswith(b"narrows: error: ") and done.stderr.count(b"\n") == 1


def test_the_first_screen_is_cause_and_command() -> None:
    done = run("check", str(LOGS / "vllm-0.32.0-cpu-nofit.log"))
    lines = [line.strip() for line in done.stdout.decode().splitlines()]
    assert lines[0].startswith("One request of 8,192 tokens needs 0.03 GiB of KV cache, and 16.00 MiB is there")
    assert lines[2] == "vllm serve ckpt/llama-tiny --host 127.0.0.1 --port 8103 \\"
    assert lines[3].startswith("--max-model-len 3968")


def test_a_command_in_the_report_can_be_copied(tiny: str) -> None:
    import shlex

    answer = captured("preempt", tiny)
    assert answer.mend is not None
    for width in (80, 110):
        text = to_text(check_report(answer), width)
        begin = text.index("vllm serve")
        shown = text[begin : text.index("at most 2 sequences")]
        pasted = shown.replace("\n", "\x00")
        assert all(line.rstrip().endswith("\\") for line in shown.strip().split("\n")[:-1])
        assert shlex.split(pasted.replace("\\", "").replace("\x00", " ")) == shlex.split(answer.mend.command)


def test_the_answer_is_in_the_api() -> None:
    answer = api.check(str(LOGS / "vllm-0.32.0-cpu-nofit.log"))
    assert "3,968" in str(answer)
    found = json.loads(answer.to_json())
    assert {"engine", "version", "model", "gpu", "outcome", "stage", "cause", "mend", "terms", "timeline"} <= set(found)
    assert found["mend"]["command"] and found["mend"]["kv_tokens"] == 3968
    assert {"name", "predicted", "reported", "residual"} <= set(found["terms"][0])


def test_what_a_start_showed_is_kept_and_used() -> None:
    log = str(LOGS / "excerpts" / "vllm-0.10.2.log")
    before = check(log)
    kept = check(log, calibrate=True)
    assert "calibrated" in [note.id for note in kept.notes]
    after = check(log)
    residual = {
        name: next(one.residual for one in answer.terms if one.name == "kv_cache")
        for name, answer in (("before", before), ("after", after))
    }
    assert residual["before"] is not None and residual["after"] is not None
    assert abs(residual["after"]) < abs(residual["before"]) / 100
    # the same log again changes nothing
    check(log, calibrate=True)
    assert len(corrections()) == 1


def test_there_must_be_something_to_keep() -> None:
    with pytest.raises(BadInput, match="nothing to calibrate"):
        check(str(LOGS / "vllm-0.32.0-cpu-nofit.log"), calibrate=True)


@pytest.mark.parametrize("log", REAL, ids=lambda path: path.stem)
def test_sizes_of_nothing_in_a_log_end_in_no_traceback(log: Path) -> None:
    data = re.sub(rb"[0-9.]+(?= ?[GM]i?B)", b"0", log.read_bytes())
    with contextlib.suppress(BadInput):
        assert to_text(check_report(check(io.BytesIO(data))))

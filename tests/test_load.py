"""`narrows load`: the answer, its names, what it refuses, and its picture."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from narrows.answers.load import load
from narrows.loading.path import Limit
from narrows.report import charts
from narrows.report.console import to_text
from narrows.report.i18n import LANGUAGES, use_language
from narrows.report.load import limit_name, load_report, stage_name
from narrows.report.load_chart import load_chart
from narrows.report.render import answer_html, answer_text
from narrows.text import BadInput

from .conftest import LLAMA, Cli
from .safetensors_files import write

NAMES = {"stages", "total_sequential", "total_pipelined", "narrow_stage", "remedies"}


def test_the_json_has_the_documented_names(cli: Cli) -> None:
    code, out, _ = cli("load", "llama-2-7b", "--from", "gp3", "--gpu", "l40s", "--json")
    found = json.loads(out)
    assert code == 0
    assert set(found) >= NAMES | {"schema", "narrows_version", "command", "assumptions", "sources"}
    for stage in found["stages"]:
        assert set(stage) >= {"name", "time", "bytes", "bandwidth"}
        assert stage["time"]["low"] <= stage["time"]["value"] <= stage["time"]["high"]
    assert found["narrow_stage"] in [stage["name"] for stage in found["stages"]]


def test_the_command_in_the_answer_gives_the_answer_again(cli: Cli) -> None:
    line = ("--from", "io2", "--gpu", "h100-sxm-80gb", "--tp", "4", "--loader", "runai", "--concurrency", "8",
            "--instance", "g5.12xlarge", "--compile-cache")  # fmt: skip
    first = json.loads(cli("load", "llama-2-7b", *line, "--json")[1])
    again = json.loads(cli(*first["command"].split()[1:], "--json")[1])
    assert again == first


def test_stages_add_up_and_each_begins_where_it_can() -> None:
    answer = load("llama-2-7b", "l40s", source="gp3")
    assert answer.total_sequential.value == pytest.approx(sum(one.time.value for one in answer.stages))
    assert answer.total.value == answer.total_sequential.value
    ends = 0.0
    for one in answer.stages:
        assert one.begins == pytest.approx(ends)
        assert one.ends == pytest.approx(one.begins + one.time.value)
        ends = one.ends
    assert ends == pytest.approx(answer.total.value)


def test_stages_that_overlap_begin_together_and_end_before_what_follows() -> None:
    answer = load("llama-2-7b", "l40s", source="gp3", loader="runai")
    by = {one.name: one for one in answer.stages}
    assert by["read"].overlaps
    assert by["host_to_device"].begins < by["read"].begins + by["read"].time.value
    # the last bytes cross the link after they were read, so that the faster stage ends last
    assert by["read"].ends < by["host_to_device"].ends <= by["initialise"].begins + 1e-9
    assert by["host_to_device"].ends - by["host_to_device"].begins > 2 * by["host_to_device"].time.value
    assert answer.total.value == pytest.approx(answer.total_pipelined.value)
    assert answer.total.value < answer.total_sequential.value


def test_what_crosses_the_link_is_what_the_ranks_keep() -> None:
    answer = load("llama-2-7b", "l40s", source="gp3", tp=4)
    crossing = next(one for one in answer.stages if one.name == "host_to_device")
    assert crossing.bytes == 4 * answer.resident_bytes
    assert answer.bytes == answer.model.checkpoint_bytes == 13476831232 + (answer.bytes - 13476831232)


def test_weights_in_host_memory_would_cost_half_a_second_a_pass() -> None:
    found = load("llama-2-7b", "l40s", source="gp3").host_memory
    assert found is not None
    assert found.per_request.value == pytest.approx(0.54, abs=0.01)
    assert found.from_device_memory.value == pytest.approx(0.0156, abs=0.0001)
    assert found.slowdown == pytest.approx(35, abs=1)
    assert found.per_layer.value * 32 == pytest.approx(found.per_request.value)


def test_only_a_pass_that_touches_all_experts_moves_all_weights() -> None:
    sparse, dense = (
        " ".join(to_text(load_report(load(model, "h200-sxm", source="nvme"))).split())
        for model in ("gpt-oss-20b", "qwen3-8b")
    )
    assert "a pass that touches all experts" in sparse
    assert "every pass would move" not in sparse
    assert "every pass would move" in dense


def test_a_device_that_shares_the_hosts_memory_has_no_link() -> None:
    answer = load("llama-2-7b", "gb10", source="nvme")
    assert answer.host_memory is None
    assert any("shares the host's memory" in str(text) for text in answer.assumptions)


def test_mapped_files_are_slow_to_copy_on_a_gb10() -> None:
    slow, usual = (load("llama-2-7b", gpu, source="tmpfs").weights.value for gpu in ("gb10", "l40s"))
    assert slow > 5 * usual


def test_llama_cpp_loads_the_file_it_is_told_of() -> None:
    answer = load("llama-2-7b", "l40s", source="nvme", engine="llama.cpp", quantization="Q4_K_M")
    assert answer.loader == "gguf-mmap"
    assert answer.bytes == pytest.approx(4.08e9, rel=0.01)
    assert [one.name for one in answer.stages] == ["process_start", "read", "host_to_device"]


def test_what_a_figure_takes_for_granted_is_said_unless_it_is_given() -> None:
    said = [str(text) for text in load("llama-2-7b", "l40s", source="gp3").assumptions]
    assert any("1000 MiB/s" in text for text in said)
    given = [str(text) for text in load("llama-2-7b", "l40s", source="gp3", bandwidth=10**9).assumptions]
    assert not any("1000 MiB/s" in text for text in given)


def test_faults_of_single_pages_are_named_as_the_cause() -> None:
    answer = load("llama-2-7b", "l40s", source="gp3", readahead=4096)
    assert answer.narrow_stage == "read"
    assert "faults that bring 4 KiB each" in str(answer.narrow_reason)
    assert answer.weights.value > 10 * load("llama-2-7b", "l40s", source="gp3").weights.value


def test_where_loading_does_not_decide_the_narrow_transfer_is_named_all_the_same() -> None:
    answer = load("llama-2-7b", "l40s", source="nvme")
    assert (answer.narrow_stage, answer.narrow_transfer) == ("compile", "read")
    assert "On the way of the weights it is read from storage" in answer_text(answer)


def test_addresses_name_their_storage() -> None:
    assert load("llama-2-7b", "l40s", source="s3://bucket/llama").storage == "s3"
    assert load("llama-2-7b", "l40s", source="gs://bucket/llama").storage == "gcs"


# ---------------------------------------------------------------- local paths


def test_a_local_checkpoint_is_looked_up(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    size = write(tmp_path / "model.safetensors", {"model.norm.weight": ("BF16", (4096,))})
    answer = load("llama-2-7b", "l40s", source=str(tmp_path))
    assert answer.bytes == (tmp_path / "model.safetensors").stat().st_size > size
    assert answer.filesystem
    assert any("what is there is what is loaded" in str(text) for text in answer.assumptions)
    assert any("(assumed)" in str(text) and str(tmp_path) in str(text) for text in answer.assumptions)


def test_a_config_alone_is_taken_to_come_from_the_hub(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    answer = load(str(tmp_path), "l40s")
    assert answer.storage == "hub"
    assert any("no weights in" in str(text) for text in answer.assumptions)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--from floppy", "'floppy' is no storage that is known"),
        ("--from /not/there", "there is no file or directory '/not/there'"),
        ("--loader gguf", "vllm does not have"),
        ("--engine llama.cpp --loader runai", "llama.cpp does not have"),
        ("--concurrency 0", "--concurrency is 0"),
        ("--instance x", "the limits of instance 'x' are not known"),
        ("--bandwidth fast", "--bandwidth is 'fast'"),
        ("--readahead 5", "--readahead is '5'"),
        ("--target s3", "--target is s3"),
        ("--from s3 --target s3", "--target is s3"),
        ("--from s3 --warm", "--warm is of files in the page cache"),
        ("--from nvme --target gp3", "--target is where a download is put"),
        ("--from nvme --loader runai_streamer --readahead 4MiB", "--readahead is of files that are mapped"),
        ("--tp 3", "--tp 3 does not divide"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(cli: Cli, line: str, said: str) -> None:
    code, out, err = cli("load", "llama-2-7b", "--gpu", "l40s", *line.split())
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_without_an_accelerator_it_asks_for_one() -> None:
    with pytest.raises(BadInput, match="--gpu"):
        load("llama-2-7b")


# ---------------------------------------------------------------- report and picture


def test_the_report_names_every_stage_and_the_narrow_one() -> None:
    answer = load("llama-2-7b", "l40s", source="hub")
    text = answer_text(answer)
    assert "The narrow stage is download" in text
    for one in answer.stages:
        assert stage_name(one.name) in text
    assert "<table>" in answer_html(answer)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_limit_has_a_word_of_its_own(language: str) -> None:
    use_language(language)
    words = {limit_name(limit) for limit in get_args(Limit)}
    assert len(words) == len(get_args(Limit)) and "" not in words
    assert limit_name(None) == ""


@pytest.mark.parametrize("loader", ["safetensors", "runai", "eager"])
@pytest.mark.parametrize("source", ["gp3", "hub", "tmpfs"])
def test_the_waterfall_has_a_bar_and_a_figure_per_stage_inside_the_picture(
    tmp_path: Path, loader: str, source: str
) -> None:
    answer = load("llama-2-7b", "l40s", source=source, loader=loader)
    file = tmp_path / "load.svg"
    charts.save(load_chart(answer), file)
    drawing = file.read_text("utf-8")
    for one in answer.stages:
        assert stage_name(one.name) in drawing
    width = float(re.search(r'<svg[^>]* width="([\d.]+)"', drawing).group(1))  # type: ignore[union-attr]
    assert width < 1000
    spec = load_chart(answer).to_dict()
    rows = next(iter(spec["layer"]))["data"]["values"]
    assert len(rows) == len(answer.stages)
    top = spec["layer"][0]["encoding"]["x"]["scale"]["domain"][1]
    for row in rows:
        figure = charts.text_width(row["note"], 11) / 660 * top
        left, right = (row["begin"] - figure, row["begin"]) if row["before"] else (row["end"], row["end"] + figure)
        assert left >= 0
        assert right <= top * 1.25


@pytest.mark.parametrize(
    ("model", "options", "told"),
    [
        ("deepseek-v3", {"gpu": "t4"}, "they do not fit, and the times are as if they did"),
        ("llama-2-7b", {"gpu": "tpu-v5e", "tp": 4}, "by a plugin alone"),
        ("llama-2-7b", {"gpu": "l40s", "instance": "g5.xlarge"}, "--instance g5.xlarge has a10g, not l40s"),
        ("llama-2-7b", {"gpu": "a10g", "instance": "g5.xlarge"}, None),
        ("llama-2-7b", {"gpu": "l40s"}, None),
    ],
)
def test_what_does_not_run_is_said_before_its_times(model: str, options: dict[str, Any], told: str | None) -> None:
    warnings = [str(text) for text in load(model, source="gp3", **options).warnings]
    assert len(warnings) == (told is not None)
    assert told is None or told in warnings[0]

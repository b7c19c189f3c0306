"""Pictures as they are drawn: no text on another, none cut, none too small, in English and Korean."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import msgspec
import pytest

from narrows.answers.explain import TOPICS, explain
from narrows.answers.fit import Fit, fit
from narrows.answers.load import load
from narrows.answers.roofline import Roofline, roofline
from narrows.report import charts
from narrows.report.bounds_chart import bounds_chart
from narrows.report.fit_chart import fit_chart
from narrows.report.i18n import use_language
from narrows.report.load_chart import load_chart
from narrows.report.measure_chart import machine_chart
from narrows.report.measure_load_chart import loading_chart
from narrows.report.measure_model_chart import decoder_chart
from narrows.report.roofline_chart import roofline_chart
from narrows.report.roofline_words import label, short
from narrows.report.sweep_chart import spread

from .svg_boxes import drawn, faults, texts
from .test_measure import measured
from .test_measure_load import answered as loaded
from .test_measure_load import ran
from .test_measure_model import modelled

LLAMA = "llama-3.1-8b"
MANY = [
    "l40s",
    "a100-sxm-80gb",
    "h100-sxm",
    "h200-sxm",
    "b200-sxm",
    "mi300x",
    "rtx-4090",
    "rtx-pro-6000-blackwell-server",
]

ANSWERS: dict[str, Callable[[], Any]] = {
    "one device": lambda: fit(LLAMA, gpu=["l40s"]),
    "three devices": lambda: fit(LLAMA, gpu=["l40s", "h100-sxm", "a10g"]),
    "twelve devices": lambda: fit(LLAMA, gpu=[*MANY, "t4", "a10g", "l4", "v100-sxm2-32gb"], max_len=8192),
    "ranks": lambda: fit("deepseek-v3", gpu=["h200-sxm", "b200-sxm"], tp=8),
    "far too much": lambda: fit("llama-3.1-70b", gpu=["t4"], max_len=131072, batch=64),
    "next to nothing": lambda: fit("qwen3-0.6b", gpu=["mi300x", "t4"], max_len=128, batch=1),
    "state": lambda: fit("qwen3-next-80b-a3b", gpu=["mi300x", "h200-sxm"], tp=2),
    "operators": lambda: roofline(LLAMA, "l40s"),
    "forty operators": lambda: roofline("deepseek-v3", "h200-sxm", tp=8, operator="experts"),
    "small steps": lambda: roofline("gpt-oss-20b", "b200-sxm", batch=1, prompt=16),
    "eight devices": lambda: roofline(LLAMA, MANY, sweep="batch=1..256x2"),
    "precisions": lambda: roofline(LLAMA, "l40s", precision=["bf16", "fp8", "int8", "int4"], generations=True),
    "prompts": lambda: roofline(LLAMA, "l40s", sweep="prompt=512..8192+512", operator="attention.core"),
    "contexts": lambda: roofline(LLAMA, "l40s", sweep="context=1024..65536x2"),
    "one point": lambda: roofline("qwen3-0.6b", "rtx-4090", sweep="batch=8"),
    "five decades": lambda: roofline("qwen3-0.6b", "h200-sxm", sweep="batch=1..65536x4", context=16),
    "volume": lambda: load(LLAMA, gpu="l40s", source="gp3"),
    "object store": lambda: load("deepseek-v3", gpu="h200-sxm", source="s3", tp=8),
    "memory": lambda: load("qwen3-0.6b", gpu="l40s", source="tmpfs", enforce_eager=True),
    **{topic: partial(explain, topic) for topic in TOPICS if explain(topic).topics[0].roofline},
}


MEASURED: dict[str, Callable[[], Any]] = {
    "machine": lambda: machine_chart(measured()),
    "decoder": lambda: decoder_chart(modelled()),
    "loaders": lambda: loading_chart(loaded(ran([0.7, 0.7]))),
}


@cache
def answered(case: str) -> Any:
    return ANSWERS[case]()


def picture(answer: Any) -> Any:
    draw: dict[str, Callable[[Any], Any]] = {
        "Fit": fit_chart, "Roofline": bounds_chart, "Load": load_chart, "Explanation": roofline_chart,
    }  # fmt: skip
    return draw[type(answer).__name__](answer)


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("case", ANSWERS)
def test_every_text_of_a_picture_can_be_read(case: str, language: str) -> None:
    use_language(language)
    assert faults(drawn(picture(answered(case)))) == []


def long_named(answer: Any) -> Any:
    """The same of a model and devices whose names are as long as names get."""
    model = msgspec.structs.replace(answer.model, name="organisation-of-many/" + "A-very-long-name-" * 8)
    answer = msgspec.structs.replace(answer, model=model)
    name = "Vendor Accelerator of a Long Name and a Longer Edition of It 96GB"
    if isinstance(answer, Fit):
        candidates = tuple(msgspec.structs.replace(one, gpu_name=name) for one in answer.candidates)
        return msgspec.structs.replace(answer, candidates=candidates)
    if isinstance(answer, Roofline):
        others = tuple(msgspec.structs.replace(one, gpu_name=name) for one in answer.others)
        return msgspec.structs.replace(answer, others=others)
    return msgspec.structs.replace(answer, gpu_name=name, storage_name="a storage of a very long name " * 3)


@pytest.mark.parametrize("case", ["one device", "three devices", "operators", "precisions", "volume"])
def test_long_names_are_cut_where_they_have_no_room_and_wrapped_where_they_have(case: str) -> None:
    assert faults(drawn(picture(long_named(answered(case))))) == []


def test_what_tells_deployments_apart_stays_when_their_name_is_cut() -> None:
    one = long_named(answered("precisions")).others[0]
    assert short(one) == "Accelerator of a Long Na… fp8 per tensor" == label(one)[:24] + "… fp8 per tensor"
    assert short(answered("precisions").candidates[0]) == "L40S bf16"


@pytest.mark.parametrize("case", ["operators", "eight devices", "volume", "one device"])
def test_the_title_says_what_was_found(case: str) -> None:
    first = " ".join(one.text for one in texts(drawn(picture(answered(case)))) if one.size >= 17)
    assert {
        "operators": "prefill is compute-bound, decode is memory-bandwidth-bound" in first,
        "eight devices": "Fastest: B200" in first,
        "volume": "the narrow stage is: read from storage" in first,
        "one device": "131,072 tokens per sequence" in first,
    }[case]


def test_curves_of_many_deployments_are_numbered_alike_in_legend_curves_and_strips() -> None:
    found = [one.text for one in texts(drawn(picture(answered("eight devices"))))]
    for i in range(1, len(MANY) + 1):
        assert found.count(str(i)) >= 4, i
        assert any(text.startswith(f"{i}: ") for text in found)


def test_numbers_that_meet_move_apart_and_stay_inside() -> None:
    assert spread([50, 50, 50], 12, 0, 100) == [50, 62, 74]
    assert spread([99, 98, 10], 12, 0, 100) == [100, 88, 10]
    crowd = spread([5.0] * 30, 12, 0, 100)
    assert min(crowd) >= -1e-9 and max(crowd) <= 100 + 1e-9


def test_texts_that_meet_are_found() -> None:
    """The test's own eyes."""
    alt = charts.plotting()

    def two(x: float) -> Any:
        rows = [{"x": 100, "text": "a label"}, {"x": x, "text": "another"}]
        mark = alt.Chart(alt.Data(values=rows)).mark_text(align="left", fontSize=12)
        chart = mark.encode(x=alt.X("x:Q", scale=None, axis=None), text="text:N").properties(width=300)
        return charts.themed(chart)

    assert faults(drawn(two(200))) == []
    assert [one.split(":")[0] for one in faults(drawn(two(130)))] == ["overlap"]
    assert [one.split(":")[0] for one in faults(drawn(charts.themed(alt.Chart(alt.Data(values=[{}])).mark_text(
        text="much too small", fontSize=6
    ))))] == ["small"]  # fmt: skip


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("draw", MEASURED)
def test_every_text_of_what_was_measured_can_be_read(draw: str, language: str) -> None:
    use_language(language)
    assert faults(drawn(MEASURED[draw]())) == []


def test_peaks_that_are_alike_have_names_apart() -> None:
    answer = measured()
    first, second = answer.peaks[0], answer.peaks[-1]
    near = msgspec.structs.replace(first, precision="tf32", flops=second.flops)
    chart = machine_chart(msgspec.structs.replace(answer, peaks=(first, second, near)))
    assert faults(drawn(chart)) == []

"""Charts of `roofline`: what they show is what the answer says, and every word can be read."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from narrows.answers.roofline import Roofline, roofline
from narrows.models import read_config
from narrows.report import charts
from narrows.report.bounds_chart import bounds_chart
from narrows.report.labels import Box, Spot, arrange
from narrows.report.memory_wall_chart import HEIGHT, wall_chart, wall_layout
from narrows.report.roofline_step_chart import LABELLED, WIDTH, StepLayout, step_layout
from narrows.report.roofline_words import spent_word
from narrows.report.spending_chart import spending_chart, spending_rows
from narrows.report.sweep_chart import curves, doublings, runs, sweep_chart, sweep_title, ticks

from .conftest import Cli
from .test_charts import drawn, korean

assert korean  # a fixture

CASES: list[tuple[str, str, dict[str, Any]]] = [
    ("llama-3.1-8b", "l40s", {}),
    ("llama-2-7b", "l40s", {}),
    ("llama-3.1-8b", "h100-sxm", {"precision": "fp8", "batch": 128, "context": 512}),
    ("deepseek-v3", "h200-sxm", {"tp": 8}),
    ("gpt-oss-120b", "h100-sxm", {}),
    ("gpt-oss-20b", "b200-sxm", {"batch": 1, "prompt": 16}),
    ("qwen3-next-80b-a3b", "mi300x", {"tp": 2}),
    ("qwen3-0.6b", "t4", {"batch": 1}),
    ("gemma-3-27b", "rtx-pro-6000-blackwell-server", {"precision": "fp4", "prompt": 100000}),
]


@pytest.fixture(scope="module")
def compared() -> Roofline:
    return roofline(
        "llama-3.1-8b",
        ["l40s", "h100-sxm", "mi300x"],
        precision=["bf16", "fp8"],
        sweep="batch=1..512x2",
        generations=True,
    )


@cache
def answered(case: int) -> Roofline:
    model, gpu, options = CASES[case]
    return roofline(model, gpu, **options)


every_case = pytest.mark.parametrize("case", range(len(CASES)), ids=[f"{model}-{gpu}" for model, gpu, _ in CASES])


def values(chart: Any) -> list[dict[str, Any]]:
    """Every row that a chart draws."""
    found = []

    def walk(part: Any) -> None:
        if isinstance(part, dict):
            if isinstance(part.get("values"), list) and all(isinstance(row, dict) for row in part["values"]):
                found.extend(part["values"])
            for inner in part.values():
                walk(inner)
        elif isinstance(part, list):
            for inner in part:
                walk(inner)

    walk(charts.themed(chart).to_dict() if hasattr(chart, "to_dict") else chart)
    return found


def marks(made: StepLayout) -> list[Box]:
    frame = made.frame
    rings = [Spot("", frame.x(one.intensity), frame.y(one.attained), 4).mark for one in made.wholes]
    return [*(Spot("", dot.x, dot.y, dot.radius).mark for dot in made.dots), *rings]


def check_apart(made: StepLayout) -> None:
    labels = [one for found in made.labels.values() for one in found]
    for one, other in combinations([*labels, *made.notes], 2):
        assert not one.box.meets(other.box), (one.text, other.text)
    frame = made.frame
    for box in made.around:
        assert box.left >= 0
        assert not any(box.meets(other) for other in (*(one.box for one in (*labels, *made.notes)), *marks(made)))
    for one in [*labels, *made.notes]:
        assert one.box.left >= 0 and one.box.right <= frame.width, one.text
        assert one.box.top >= 0 and one.box.bottom <= frame.height, one.text
    for one in labels:
        for roof in made.roofs.values():
            heights = [frame.roof(roof, one.box.left + (one.box.right - one.box.left) * t / 20) for t in range(21)]
            assert all(not one.box.top < height < one.box.bottom for height in heights), one.text
        for mark in marks(made):
            assert not one.box.meets(mark), one.text


@every_case
def test_no_label_stands_on_another_on_a_mark_or_on_a_roof(case: int) -> None:
    check_apart(step_layout(answered(case).candidates[0]))


@every_case
def test_labels_stand_apart_in_korean_too(case: int, korean: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from narrows.report import i18n

    class Long:
        def gettext(self, msgid: str) -> str:
            # Korean letters are square: wider than any translation
            return "".join("가" if char.isalpha() and "{" not in msgid else char for char in msgid)

    monkeypatch.setattr(i18n, "_translations", Long())
    check_apart(step_layout(answered(case).candidates[0]))


@every_case
def test_every_operator_with_flops_is_a_point_where_the_answer_says(case: int) -> None:
    one = answered(case).candidates[0]
    made = step_layout(one)
    expected = {(row.phase, row.name, row.shape) for row in one.operators if row.flops}
    assert {(dot.row.phase, dot.row.name, dot.row.shape) for dot in made.dots} == expected
    for dot in made.dots:
        assert (dot.x, dot.y) == (made.frame.x(dot.row.intensity), made.frame.y(dot.row.attained))
        assert 0 <= dot.x <= made.frame.width and 0 <= dot.y <= made.frame.height
    used = {(ridge.peak, ridge.bandwidth) for ridge in one.ridges if ridge.used}
    assert {(roof.peak, roof.bandwidth) for roof in made.roofs.values()} == used
    path = [(at.value, at.intensity, at.attained, at.fits) for at in one.path]
    wholes = [(at.batch, at.intensity, at.attained, at.fits) for at in made.wholes if at.phase == "decode"]
    assert wholes == path


def test_the_largest_operators_are_named_with_their_share() -> None:
    one = roofline("llama-3.1-8b", "l40s").candidates[0]
    made = step_layout(one)
    for phase in ("prefill", "decode"):
        lines = [line for label in made.labels[phase] for line in label.text.split("\n")]
        rows = sorted((row for row in one.operators if row.phase == phase and row.flops), key=lambda row: -row.share)
        for row in rows[:3]:
            assert f"{row.name} {100 * row.share:.0f} %" in lines
        assert len(lines) <= LABELLED + 5
    texts = [label.text for label in made.labels["decode"]]
    assert {"B = 1", "B = 256", f"B = {one.max_batch}, all that memory holds"} <= set(texts)


def test_the_path_of_decode_reaches_beyond_what_memory_holds() -> None:
    path = roofline("llama-3.1-8b", "l40s").path
    assert path[0].value == 1 and path[-1].value == 256
    assert {16, 48} <= {point.value for point in path}
    assert [point.fits for point in path] == [point.value <= 48 for point in path]


def test_gaps_lead_from_operators_to_their_own_roofs() -> None:
    one = roofline("deepseek-v3", "h200-sxm", tp=8).candidates[0]
    made = step_layout(one)
    assert set(made.roofs) == {"fp8", "bf16"}
    for intensity, low, high in made.gaps:
        row = next(dot.row for dot in made.dots if (dot.row.intensity, dot.row.attained) == (intensity, low))
        assert high == made.roofs[row.precision].attainable(intensity) > low


def test_bars_are_the_shares_of_the_time(compared: Roofline) -> None:
    rows = [row for row in values(spending_chart(compared, WIDTH)) if "cause" in row]
    bars = [row for row in spending_rows(compared) if row.phase is not None]
    assert len(bars) == 2 * len(compared.candidates) == 12
    for top in {row["y"] for row in rows}:
        own = sorted((row for row in rows if row["y"] == top), key=lambda row: row["x"])
        phase = next(bar for i, bar in enumerate(spending_rows(compared)) if 28 * i == top).phase
        assert phase is not None
        whole = own[-1]["x2"] - own[0]["x"]
        for row in own:
            share = phase.spending[row["code"]] / phase.time.value
            assert (row["x2"] - row["x"]) / whole == pytest.approx(share)
        for one, other in pairwise(own):
            assert other["x"] == pytest.approx(one["x2"])


def test_bars_name_every_cause_that_can_be_seen_and_no_other() -> None:
    spec = spending_chart(roofline("llama-3.1-8b", "l40s"), WIDTH).to_dict()
    legend = next(
        layer["encoding"]["color"]["legend"]["values"]
        for layer in spec["layer"]
        if "color" in layer["encoding"] and layer["encoding"]["color"].get("legend")
    )
    causes = ("weights", "kv_cache", "activations", "compute", "overhead")
    assert legend == [spent_word(cause) for cause in causes]  # type: ignore[arg-type]


def test_curves_are_the_points_of_the_sweep(compared: Roofline) -> None:
    rows = [row for row in values(sweep_chart(compared, WIDTH)) if "name" in row]
    made = curves(compared.candidates, 400)
    assert len(set(made.names)) == 6
    for name, one in zip(made.names, compared.candidates, strict=True):
        assert one.sweep is not None
        drawn_points = {(row["x"], row["y"]) for row in rows if row["name"] == name}
        times = {(point.value, 1e3 * point.time) for point in one.sweep.points}
        rates = {(point.value, point.tokens_per_second) for point in one.sweep.points}
        assert drawn_points == times | rates


def test_the_fastest_of_a_sweep_is_named_where_memory_still_holds_it() -> None:
    """16,384 sequences of 4,096 tokens hold on none of them: the last batch that holds on one is what is compared."""
    answer = roofline("llama-3.1-8b", ["l40s", "h100-sxm"], sweep="batch=1..16384x2")
    sweeps = [one.sweep for one in answer.candidates if one.sweep is not None]
    assert not any(sweep.points[-1].fits for sweep in sweeps)
    largest = max(point.value for sweep in sweeps for point in sweep.points if point.fits)
    assert f"decode at batch {largest:,}: " in sweep_title(answer)
    nowhere = roofline("llama-3.1-70b", ["l40s", "a10g"], sweep="batch=1..8x2")
    assert "decode at batch 8: " in sweep_title(nowhere)


def test_strips_say_the_verdict_at_every_point(compared: Roofline) -> None:
    made = curves(compared.candidates, 400)
    found = runs(made)
    for i, one in enumerate(compared.candidates):
        own = [run for run in found if run.row == i]
        assert own[0].left == 0 and own[-1].right == 400
        assert all(a.right == b.left for a, b in pairwise(own))
        assert one.sweep is not None
        for point in one.sweep.points:
            at = min(max(made.x(point.value), 1e-6), 400 - 1e-6)
            run = next(run for run in own if run.left <= at < run.right)
            assert (run.bound, run.fits) == (point.bound, point.fits)


def test_a_sweep_of_thousands_of_points_is_drawn_with_hundreds() -> None:
    answer = roofline("qwen3-0.6b", "rtx-4090", sweep="batch=1..4000")
    rows = [row for row in values(sweep_chart(answer, WIDTH)) if "name" in row]
    assert len(rows) < 2 * 210
    assert {1, 4000} <= {row["x"] for row in rows}
    assert answer.sweep is not None
    largest = max(point.value for point in answer.sweep.points if point.fits)
    assert {largest, largest + 1} <= {row["x"] for row in rows}


def test_a_sweep_of_one_point_can_be_drawn(tmp_path: Path) -> None:
    assert "tokens/s" in drawn(bounds_chart(roofline("qwen3-0.6b", "rtx-4090", sweep="batch=8")), tmp_path)


def test_the_memory_wall_shows_every_device_and_no_label_on_another(compared: Roofline) -> None:
    devices = compared.generations
    rows = [row for row in values(wall_chart(devices, WIDTH)) if "ridge" in row]
    assert [(row["year"], row["ridge"]) for row in rows] == [(one.year, one.ridge) for one in devices]
    made = wall_layout(devices, WIDTH)
    assert len(made.labels) == len(made.spots)
    for one, other in combinations(made.labels, 2):
        assert not one.box.meets(other.box), (one.text, other.text)
    for one in made.labels:
        assert one.box.left >= 0 and one.box.right <= WIDTH and one.box.top >= 0 and one.box.bottom <= HEIGHT
        assert not any(one.box.meets(spot.mark) for spot in made.spots), one.text
    assert any(label.text.startswith("B200, B300") for label in made.labels)


@pytest.mark.parametrize(
    ("options", "panels"),
    [
        ({}, 2),
        ({"sweep": "batch=1..8"}, 3),
        ({"generations": True}, 3),
        ({"sweep": "batch=1..8", "generations": True}, 4),
    ],
)
def test_what_is_drawn_follows_from_what_was_asked(options: dict[str, Any], panels: int, tmp_path: Path) -> None:
    chart = bounds_chart(roofline("llama-3.1-8b", "l40s", **options))
    assert len(chart.to_dict()["vconcat"]) == panels
    text = drawn(chart, tmp_path)
    assert "L40S bf16: prefill is compute-bound, decode is memory-bandwidth-bound" in text
    assert ("The memory wall" in text) == ("generations" in options)
    assert ("decode is memory-bandwidth-bound at every batch from 1 to 8" in text) == ("sweep" in options)


def test_of_a_model_that_generates_nothing_no_decode_is_drawn(tmp_path: Path) -> None:
    config = {"architectures": ["Qwen3ForSequenceClassification"], "model_type": "qwen3", "hidden_size": 1024}
    config |= {"num_hidden_layers": 4, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
    config |= {"intermediate_size": 3072, "vocab_size": 151669}
    model = read_config(config, name="some")
    one, two = roofline(model, "l40s"), roofline(model, ["l40s", "l4"], sweep="prompt=64..1024x2")
    for answer in (one, two):
        text = drawn(bounds_chart(answer), tmp_path)
        assert "prefill" in text
        assert "decode" not in text


def test_a_load_that_memory_does_not_hold_says_so(tmp_path: Path) -> None:
    text = drawn(bounds_chart(roofline("llama-2-7b", "l40s")), tmp_path)
    assert "memory does not hold this load" in text and "B = 13, all that memory holds" in text
    assert "memory does not hold" not in drawn(bounds_chart(roofline("llama-2-7b", "l40s", batch=8)), tmp_path)


def test_long_names_do_not_widen_the_picture(tmp_path: Path) -> None:
    answer = roofline("llama-3.1-8b", "l40s", precision=["bf16", "fp8"], sweep="batch=1..8")
    long = msgspec.structs.replace(answer.model, name="organisation/" + "A-very-long-name-" * 8)
    other = msgspec.structs.replace(answer.others[0], gpu_name="Vendor " + "Accelerator of a Long Name " * 4)

    def width(shown: Roofline) -> float:
        charts.save(bounds_chart(shown), tmp_path / "chart.svg")
        return float(ET.fromstring((tmp_path / "chart.svg").read_bytes()).attrib["width"])

    assert width(msgspec.structs.replace(answer, model=long, others=(other,))) < 1.03 * width(answer)


def test_a_spot_with_no_free_place_goes_without_a_label() -> None:
    spots = [Spot("one", 50, 50), Spot("two", 52, 50)]
    assert set(arrange(100, 100, spots, [], [Box(0, 0, 100, 100)], lambda _box: False)) == set()
    assert set(arrange(400, 400, spots, [], [], lambda _box: False)) == {0, 1}
    near = arrange(400, 400, spots, [], [Box(0, 0, 200, 120)], lambda _box: False, farthest=6)
    assert near == {}


def test_ticks_are_round_and_few() -> None:
    assert ticks(1, 1000) == [1, 3, 10, 30, 100, 300, 1000]
    assert all(len(ticks(low, low * span)) <= 7 for low in (0.013, 1.0, 470.0) for span in (1.5, 3, 20, 1e4, 1e9))
    assert all(ticks(low, low * span) for low in (0.013, 1.0, 470.0) for span in (1.5, 3, 20, 1e4, 1e9))
    assert doublings(1, 256, 9) == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert doublings(1024, 131072, 6) == [1024, 4096, 16384, 65536]


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_the_command_draws_to_every_kind_of_file(suffix: str, narrows: Cli, tmp_path: Path) -> None:
    path = tmp_path / f"chart.{suffix}"
    narrows("roofline", "llama-3.1-8b", "--gpu", "l40s", "--plot", str(path))
    content = path.read_bytes()
    assert len(content) > 20_000
    if suffix != "png":
        assert b"mlp.gate_up" in content
    if suffix == "html":
        page = content.decode()
        assert '"url"' not in page[page.rindex("vegaEmbed(") :]


@pytest.mark.usefixtures("korean")
def test_korean_pictures_are_in_korean(tmp_path: Path) -> None:
    assert "연산 병목" in drawn(bounds_chart(roofline("llama-3.1-8b", "l40s")), tmp_path)


def test_drawing_is_only_loaded_when_something_is_drawn() -> None:
    import subprocess
    import sys

    code = "import sys, narrows.report.bounds_chart; "
    code += "print([m for m in ('altair', 'vl_convert', 'numpy') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout.strip().replace("'", '"')) == []

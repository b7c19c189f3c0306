"""The chapter's worked examples: every number, by value, from the steps that `explain` computes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from narrows.answers.explain import TOPICS, Explanation, explain
from narrows.quantity import Quantity
from narrows.report import i18n
from narrows.report.console import Table, to_text
from narrows.report.explain import explain_report
from narrows.step.textbook import Matmul, PrefillAttention
from narrows.text import BadInput
from narrows.units import GB, GIB


@pytest.fixture(scope="module")
def lesson() -> Explanation:
    return explain()


def value(lesson: Explanation, topic: str, step: str) -> float:
    return lesson.result(topic, step).value


def kind(lesson: Explanation, topic: str, step: str) -> str:
    return lesson.result(topic, step).kind


# -- loading ----------------------------------------------------------------------------------------------------------


def test_the_tiers_are_quoted_with_their_ranges(lesson: Explanation) -> None:
    table = next(step.table for step in lesson.topics[0].steps if step.id == "bandwidths")
    assert table is not None
    ranges = {row.id: row.cells[1].quantity for row in table.rows}
    assert all(isinstance(one, Quantity) and one.kind == "cited" for one in ranges.values())
    assert {name: (one.low, one.high) for name, one in ranges.items() if one} == {
        "disk": (0.5 * GB, 14 * GB),
        "cpu": (50 * GB, 200 * GB),
        "gpu": (300 * GB, 3000 * GB),
    }


def test_weights_in_host_memory_would_cost_half_a_second_per_pass_against_sixteen_milliseconds(
    lesson: Explanation,
) -> None:
    assert value(lesson, "tiers", "weights") == 14 * GB
    assert value(lesson, "tiers", "pcie_pass") == pytest.approx(0.56)
    assert value(lesson, "tiers", "hbm_pass") == pytest.approx(0.0162, abs=5e-5)
    assert value(lesson, "tiers", "slowdown") == pytest.approx(34.56)
    assert kind(lesson, "tiers", "pcie_pass") == "assumed"


# -- model size -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("precision", "each", "total"), [("float32", 4, 28), ("float16", 2, 14), ("float8_e4m3fn", 1, 7)]
)
def test_a_parameter_takes_the_bytes_of_its_precision(
    lesson: Explanation, precision: str, each: int, total: int
) -> None:
    _, _, one, seven = lesson.row("precision", "table", precision)
    assert (one, seven) == (each, total * GB)


def test_the_checkpoint_says_that_it_has_two_bytes_per_parameter(lesson: Explanation) -> None:
    assert value(lesson, "precision", "dtype") == 2


def test_four_bits_are_more_than_four_with_their_scales(lesson: Explanation) -> None:
    assert 4.125 < value(lesson, "precision", "packed") < 4.2


def test_llama_2_7b_is_14_gb_by_its_name_and_13_48_gb_by_its_tensors(lesson: Explanation) -> None:
    assert value(lesson, "weights", "estimate") == 14 * GB
    assert value(lesson, "weights", "parameters") == 6_738_415_616
    assert value(lesson, "weights", "bytes") == 13_476_831_232
    assert round(13_476_831_232 / GB, 2) == 13.48
    assert round(13_476_831_232 / GIB, 2) == 12.55


def test_its_components_add_up(lesson: Explanation) -> None:
    names = ("embedding", "attention", "mlp", "norms", "head")
    assert sum(lesson.row("weights", "components", name)[2] or 0 for name in names) == 6_738_415_616


def test_its_two_files_are_quoted_and_agree(lesson: Explanation) -> None:
    files = lesson.result("weights", "files")
    assert files.value == pytest.approx(13.48 * GB)
    assert files.kind == "cited"
    assert files.value == pytest.approx(value(lesson, "weights", "bytes"), rel=1e-3)


def test_the_name_hides_four_percent_and_the_unit_seven(lesson: Explanation) -> None:
    assert value(lesson, "weights", "rounding") == pytest.approx(1.0388, abs=1e-4)
    assert value(lesson, "weights", "units") == pytest.approx(1.0737, abs=1e-4)


# -- KV cache ---------------------------------------------------------------------------------------------------------


def test_a_token_of_llama_2_7b_costs_half_a_mebibyte_of_kv_cache(lesson: Explanation) -> None:
    assert value(lesson, "kv", "per_token") == 524_288
    assert value(lesson, "kv", "per_request") == 2 * GIB


def test_sixteen_requests_of_4096_tokens_cost_32_gibibytes_more_than_the_model(lesson: Explanation) -> None:
    assert value(lesson, "kv", "total") == 32 * GIB
    assert round(32 * GIB / GB, 2) == 34.36
    assert value(lesson, "kv", "against_weights") == pytest.approx(2.55, abs=0.005)


def test_gqa_and_mla_shrink_the_cache(lesson: Explanation) -> None:
    assert value(lesson, "kv", "gqa") == 131_072
    assert value(lesson, "kv", "mla") == 70_272
    assert lesson.row("kv", "table", "mha")[2:] == (524_288, 32 * GIB, 1)
    assert lesson.row("kv", "table", "gqa")[2:] == (131_072, 8 * GIB, 4)
    *_, times = lesson.row("kv", "table", "mla")
    assert times == pytest.approx(71.1, abs=0.05)


# -- GPU plan ---------------------------------------------------------------------------------------------------------


def test_by_arithmetic_an_a10_takes_5_requests_and_an_l40s_17(lesson: Explanation) -> None:
    assert value(lesson, "plan", "request") == 2048 * 2**20
    assert value(lesson, "plan", "a10_arithmetic") == 5
    assert value(lesson, "plan", "l40s_arithmetic") == 17
    assert lesson.row("plan", "table", "a10_arithmetic")[2:] == (10 * GB, 5)
    assert lesson.row("plan", "table", "l40s_arithmetic")[2:] == (34 * GB, 17)


def test_in_the_chapters_practice_they_take_4_and_16(lesson: Explanation) -> None:
    assert lesson.row("plan", "table", "a10_practice")[3] == 4
    assert lesson.row("plan", "table", "l40s_practice")[3] == 16


def test_by_the_engines_ledger_they_take_3_and_13(lesson: Explanation) -> None:
    assert lesson.result("plan", "a10_ledger").value == 3
    assert lesson.result("plan", "l40s_ledger").value == 13
    assert kind(lesson, "plan", "l40s_ledger") == "predicted"


def test_the_three_counts_are_told_apart(lesson: Explanation) -> None:
    plan = next(topic for topic in lesson.topics if topic.id == "plan")
    table = next(step.table for step in plan.steps if step.id == "table")
    assert table is not None
    assert [row.known for row in table.rows] == ["computed", "cited", "predicted"] * 2


def test_the_ledger_adds_up(lesson: Explanation) -> None:
    def line(name: str) -> tuple[float, float]:
        _, a10g, l40s = lesson.row("plan", "ledger", name)
        assert a10g is not None
        assert l40s is not None
        return a10g, l40s

    for gpu in (0, 1):
        taken = sum(line(name)[gpu] for name in ("weights", "activations", "graphs", "runtime"))
        assert line("budget")[gpu] - taken == line("pool")[gpu]
    assert [round(one / GIB, 2) for one in line("usable")] == [22.06, 44.42]
    assert [round(one / GIB, 2) for one in line("weights")] == [12.55, 12.55]
    assert line("budget")[1] == int(line("usable")[1] * 0.9)


def test_four_times_the_concurrency_costs_about_twice_as_much(lesson: Explanation) -> None:
    assert value(lesson, "plan", "concurrency_ratio") == 4
    assert value(lesson, "plan", "price_ratio") == pytest.approx(1.875)
    assert value(lesson, "plan", "why") == pytest.approx(3.4)
    assert value(lesson, "plan", "a10_per_request") == pytest.approx(0.5)
    assert value(lesson, "plan", "l40s_per_request") == pytest.approx(0.234, abs=5e-4)


@pytest.mark.parametrize(
    ("row", "price"),
    [
        ("a10_cited", 2),
        ("a10_share", 2.036),
        ("a10_smallest", 1.006),
        ("l40s_cited", 3.75),
        ("l40s_share", 3.766),
        ("l40s_smallest", 1.861),
    ],
)
def test_the_chapters_prices_are_shares_of_large_instances(lesson: Explanation, row: str, price: float) -> None:
    found = lesson.row("plan", "prices", row)[2]
    assert found == pytest.approx(price, abs=5e-4)


def test_the_a10g_of_aws_has_another_peak_than_the_a10(lesson: Explanation) -> None:
    assert value(lesson, "plan", "naming") == pytest.approx(0.56)


# -- while serving ----------------------------------------------------------------------------------------------------


def test_memory_grows_from_the_weights_to_the_peak(lesson: Explanation) -> None:
    moments = ("loaded", "first prefill", "mid-decode", "peak")
    used = [lesson.row("serving", "growth", name)[4] or 0 for name in moments]
    cache = [lesson.row("serving", "growth", name)[2] for name in moments]
    assert used == sorted(used)
    assert cache == [0, 13 * GIB, 19.5 * GIB, 26 * GIB]


def test_one_request_more_than_fits_is_the_accident(lesson: Explanation) -> None:
    assert value(lesson, "serving", "peak") == 13 * 2 * GIB
    assert -2 * GIB < value(lesson, "serving", "accident") < 0


@pytest.mark.parametrize(
    ("lever", "requests"),
    [("max_num_seqs", 13), ("max_model_len", 26), ("max_num_batched_tokens", 12), ("gpu_memory_utilization", 14)],
)
def test_each_lever_moves_what_fits(lesson: Explanation, lever: str, requests: int) -> None:
    assert lesson.row("serving", "levers", lever)[3] == requests


def test_twice_the_models_size_starts_it_but_sixteen_long_requests_need_four_times(lesson: Explanation) -> None:
    assert value(lesson, "serving", "rule_of_thumb") == 2 * 13_476_831_232
    assert value(lesson, "serving", "thumb_requests") == 4
    assert value(lesson, "serving", "needed") / 13_476_831_232 == pytest.approx(4.0, abs=0.05)


# -- arithmetic intensity ---------------------------------------------------------------------------------------------


def test_the_ridge_of_the_l40s_is_419(lesson: Explanation) -> None:
    assert value(lesson, "intensity", "ridge") == pytest.approx(419.04, abs=0.005)


def test_at_210_half_of_the_peak_is_reached_and_at_1000_all_of_it(lesson: Explanation) -> None:
    assert value(lesson, "intensity", "at_210") == pytest.approx(0.501, abs=5e-4)
    assert value(lesson, "intensity", "at_1000") == 1
    picture = next(topic.roofline for topic in lesson.topics if topic.id == "intensity")
    assert picture is not None
    assert [point.bound for point in picture.points] == ["memory bandwidth", "compute"]


def test_a_product_is_counted_exactly_and_as_2mnk(lesson: Explanation) -> None:
    assert value(lesson, "matmul", "count") == 64**3 + 64 * 64 * 63
    assert value(lesson, "matmul", "flops") == 2 * 64**3
    assert value(lesson, "matmul", "bytes") == 2 * 3 * 64**2


@pytest.mark.parametrize(
    ("size", "intensity", "bound"),
    [(64, 21.3, "memory bandwidth"), (512, 170.7, "memory bandwidth"), (4096, 1365.3, "compute")],
)
def test_square_products_turn_from_memory_to_compute(
    lesson: Explanation, size: int, intensity: float, bound: str
) -> None:
    assert lesson.row("matmul", "table", str(size))[3] == pytest.approx(intensity, abs=0.05)
    picture = next(topic.roofline for topic in lesson.topics if topic.id == "matmul")
    assert picture is not None
    assert {str(point.label): point.bound for point in picture.points}[f"matmul {size}"] == bound


def test_the_turn_of_square_products_is_the_first_that_reaches_the_ridge(lesson: Explanation) -> None:
    turn, ridge = int(value(lesson, "matmul", "turn")), value(lesson, "intensity", "ridge")
    assert Matmul(turn - 1, turn - 1, turn - 1).intensity < ridge <= Matmul(turn, turn, turn).intensity


def test_element_wise_and_reducing_operators_have_little_intensity_and_a_small_share(lesson: Explanation) -> None:
    assert value(lesson, "matmul", "elementwise") == pytest.approx(1 / 6)
    assert value(lesson, "matmul", "reduction") == pytest.approx(0.5, abs=1e-3)
    assert value(lesson, "matmul", "share") < 0.001


# -- prefill, decode, batching ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("prompt", "prefill"), [(64, 62.06), (512, 409.60), (4096, 1365.33)])
def test_prefill_gains_intensity_with_length_and_decode_stays_at_one(
    lesson: Explanation, prompt: int, prefill: float
) -> None:
    _, found, _, decode, _ = lesson.row("phases", "table", str(prompt))
    assert found == pytest.approx(prefill, abs=0.005)
    assert decode == pytest.approx(1.0, abs=0.001)


def test_only_the_longest_prefill_is_compute_bound_and_decode_never(lesson: Explanation) -> None:
    picture = next(topic.roofline for topic in lesson.topics if topic.id == "phases")
    assert picture is not None
    assert {str(point.label): point.bound for point in picture.points} == {
        "decode": "memory bandwidth",
        "prefill s = 64": "memory bandwidth",
        "prefill s = 512": "memory bandwidth",
        "prefill s = 4096": "compute",
    }


def test_sixteen_requests_raise_decode_to_15_88(lesson: Explanation) -> None:
    assert value(lesson, "batching", "b16") == pytest.approx(15.88, abs=0.005)


def test_decode_is_compute_bound_on_the_l40s_from_527_requests(lesson: Explanation) -> None:
    assert value(lesson, "batching", "turn") == 527
    ridge = value(lesson, "intensity", "ridge")
    assert Matmul(526, 4096, 4096).intensity < ridge <= value(lesson, "batching", "around_turn")
    assert value(lesson, "batching", "limit") == 2048


def test_no_batch_raises_the_intensity_of_decode_attention_but_gqa_does(lesson: Explanation) -> None:
    assert lesson.row("batching", "kv_intensity", "mha")[2:] == pytest.approx((1, 1, 1), rel=1e-3)
    assert lesson.row("batching", "kv_intensity", "gqa")[2:] == pytest.approx((4, 4, 4), rel=2e-3)
    assert value(lesson, "batching", "gqa") == 4


def test_batching_shares_the_weights_and_not_the_cache(lesson: Explanation) -> None:
    assert value(lesson, "batching", "weights_per_token") == 13_476_831_232 / 16
    assert value(lesson, "batching", "kv_per_token") == 2 * GIB
    assert value(lesson, "batching", "step_time") == pytest.approx((13_476_831_232 + 32 * GIB) / 864e9)


# -- memory hierarchy -------------------------------------------------------------------------------------------------


def test_the_levels_of_the_l40s_are_from_the_catalogue(lesson: Explanation) -> None:
    assert lesson.row("hierarchy", "levels", "memory")[1:] == (48_305_799_168, 864e9)
    assert lesson.row("hierarchy", "levels", "l2")[1] == 96 * 2**20
    assert lesson.row("hierarchy", "levels", "sram")[1] == 142 * 128 * 2**10


def test_fused_attention_does_the_same_flops_with_a_thirty_third_of_the_bytes(lesson: Explanation) -> None:
    assert value(lesson, "hierarchy", "exception") == 4 * 4096**2 * 128
    assert value(lesson, "hierarchy", "scores") == 2 * 4096**2
    assert value(lesson, "hierarchy", "fused_bytes") == 4 * 2 * 4096 * 128
    assert value(lesson, "hierarchy", "naive_bytes") == 4 * 2 * 4096 * 128 + 4 * 2 * 4096**2
    assert value(lesson, "hierarchy", "verdicts") == 33


def test_naive_attention_is_memory_bound_and_fused_attention_compute_bound(lesson: Explanation) -> None:
    ridge = value(lesson, "intensity", "ridge")
    assert value(lesson, "hierarchy", "naive_intensity") == pytest.approx(62.06, abs=0.005)
    assert value(lesson, "hierarchy", "fused_intensity") == 2048
    assert value(lesson, "hierarchy", "naive_intensity") < ridge < value(lesson, "hierarchy", "fused_intensity")


def test_sharing_kv_heads_saves_traffic_of_fused_attention_and_no_flops() -> None:
    mha, gqa = PrefillAttention(1024, 32, 32, 128), PrefillAttention(1024, 32, 8, 128)
    assert mha.flops == gqa.flops
    assert mha.bytes - gqa.bytes == 2 * 24 * 1024 * 128 * 2


# -- prescription, summary --------------------------------------------------------------------------------------------


def test_the_wrong_medicine_does_nothing(lesson: Explanation) -> None:
    _, before, fewer, faster = lesson.row("prescription", "tried", "decode")
    assert before and fewer
    assert fewer == pytest.approx(before / 2, rel=1e-3)
    assert faster == before
    _, before, fewer, faster = lesson.row("prescription", "tried", "prefill")
    assert fewer == before
    assert before and faster
    assert faster == pytest.approx(before * 362.05 / 733)


def test_every_verdict_has_its_prescription(lesson: Explanation) -> None:
    topic = next(topic for topic in lesson.topics if topic.id == "prescription")
    assert {step.id for step in topic.steps if step.points} == {"compute", "memory_bandwidth", "capacity"}


def test_the_summary_repeats_the_three_limits(lesson: Explanation) -> None:
    assert lesson.row("summary", "table", "loading")[2] == 14 * GB
    assert lesson.row("summary", "table", "kv")[2] == 32 * GIB
    assert lesson.row("summary", "table", "prefill")[2] == pytest.approx(1365.33, abs=0.005)
    assert lesson.row("summary", "table", "decode")[2] == pytest.approx(1.0, abs=0.001)


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_topics_are_those_of_the_chapter_in_its_order(lesson: Explanation) -> None:
    expected = "tiers precision weights kv plan serving intensity matmul phases batching hierarchy prescription summary"
    assert list(TOPICS) == expected.split()
    assert [topic.id for topic in lesson.topics] == expected.split()


def test_a_single_topic_is_the_same_as_in_the_whole(lesson: Explanation) -> None:
    for topic in lesson.topics:
        assert explain(topic.id).topics == (topic,)


def test_a_single_topic_computes_only_that() -> None:
    code = "import sys; from narrows.answers.explain import explain; explain('matmul'); print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "narrows.answers.explain.intensity" in found
    assert "narrows.answers.explain.planning" not in found
    assert not {"numpy", "altair", "rich"} & set(found)


def test_every_cell_has_a_column_and_every_step_its_own_id(lesson: Explanation) -> None:
    for topic in lesson.topics:
        assert len({step.id for step in topic.steps}) == len(topic.steps)
        for step in topic.steps:
            if step.table is not None:
                assert all(len(row.cells) == len(step.table.columns) for row in step.table.rows)
                assert len({row.id for row in step.table.rows}) == len(step.table.rows)


def test_every_result_shows_its_derivation(lesson: Explanation) -> None:
    assert all(step.derivation for topic in lesson.topics for step in topic.steps if step.result)


def test_what_is_quoted_has_its_source(lesson: Explanation) -> None:
    for topic in lesson.topics:
        quoted = any(step.result and step.result.kind == "cited" for step in topic.steps)
        if quoted:
            assert any("O'Reilly" in source for source in topic.sources)


def test_the_json_is_valid_and_carries_the_numbers() -> None:
    found = json.loads(explain("kv").to_json())
    assert found["schema"] == "narrows.explain/1"
    assert found["command"] == "narrows explain kv"
    steps = {step["id"]: step for step in found["topics"][0]["steps"]}
    assert steps["per_token"]["result"]["value"] == 524_288
    assert steps["per_token"]["derivation"].startswith("2 × 32 layers × 32 KV heads × 128 × 2 B = 524,288 B")


@pytest.mark.parametrize(("wrong", "near"), [("kvcache", None), ("roof\x1b[1mline", None), ("batch", "batching")])
def test_an_unknown_topic_is_refused_with_the_list(wrong: str, near: str | None) -> None:
    with pytest.raises(BadInput) as caught:
        explain(wrong)
    assert ", ".join(TOPICS) in str(caught.value)
    assert "\x1b" not in str(caught.value)
    if near:
        assert f"the nearest is '{near}'" in str(caught.value)


def run(*arguments: str, language: str = "en") -> subprocess.CompletedProcess[str]:
    code = "from narrows.cli.main import main; main()"
    environment = {**os.environ, "NARROWS_LANG": language, "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, encoding="utf-8", env=environment
    )


def test_on_the_command_line_an_unknown_topic_is_one_line_and_exit_2() -> None:
    found = run("explain", "roof")
    assert found.returncode == 2
    assert found.stdout == ""
    assert found.stderr.count("\n") == 1


def test_the_whole_lesson_prints() -> None:
    found = run("explain")
    assert found.returncode == 0
    assert all(f"[{topic}]" in found.stdout for topic in TOPICS)


@pytest.mark.parametrize("width", [80, 110])
def test_no_derivation_and_no_table_is_broken_over_lines(lesson: Explanation, width: int) -> None:
    parts = explain_report(lesson)
    printed = {line.strip() for line in to_text(parts, width).splitlines()}
    for topic in lesson.topics:
        for step in topic.steps:
            if step.derivation is not None:
                assert any(line.startswith(str(step.derivation)) for line in printed), step.id
    for part in parts:
        if isinstance(part, Table):
            assert len(to_text([part], width).splitlines()) <= len(part.rows) + 4


@pytest.mark.parametrize("language", ["en", "ko"])
def test_both_languages_render(lesson: Explanation, language: str) -> None:
    before = i18n.language()
    try:
        i18n.use_language(language)
        shown = to_text(explain_report(lesson))
    finally:
        i18n.use_language(before)
    assert "13,476,831,232 B" in shown
    assert "524,288 B" in shown

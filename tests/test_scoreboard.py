"""Boards of `accuracy`: a row for what is predicted, a column for each method; the first screen and all of it."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from narrows.accuracy.board import Interval, LeftOut, Score
from narrows.accuracy.gemm import OperatorScores, Split
from narrows.answers.accuracy import RooflineAccuracy
from narrows.report.accuracy_roofline import accuracy_roofline_report
from narrows.report.console import Table, to_text
from narrows.report.i18n import use_language
from narrows.report.scoreboard import board_table, lines_of
from narrows.text import Text

PLAIN = "plain roofline, 0.7 of peak and 0.8 of bandwidth"
THREE = "three constants: per layer, byte and FLOP"


def score(group: str, method: str, quantity: str, n: int = 100, median: float = 0.1) -> Score:
    return Score(quantity, group, method, n, 7, median, 2 * median, 9.0, -0.03, n >= 20)


def boards(quantity: str, protocol: Split, *groups: str, excluded: int = 0) -> OperatorScores:
    scores = [score(group, method, quantity) for group in groups for method in ("narrows", PLAIN)]
    intervals = [Interval(group, 100, 0.8, 0.4, 0.3) for group in groups]
    return OperatorScores(protocol, tuple(scores), tuple(intervals), excluded)


@pytest.fixture
def answer() -> RooflineAccuracy:
    link = [
        score("all_reduce nccl, PCIe", "law of the link, device left out", "collectives"),
        score("all_reduce nccl, PCIe", "0.8 of the link", "collectives"),
        score("all_reduce", "table, every other size left out", "collectives"),
    ]
    return RooflineAccuracy(
        command="narrows accuracy roofline",
        topic="roofline",
        records=3525,
        end_to_end=(
            boards("time per output token", "test split", "dense models", "dense models, seen on the device"),
            boards("decode for one user", "leave one device out", "all engines", "llama.cpp", "vllm"),
        ),
        operators=(
            boards("GEMM", "test split", "fp8 rtx-pro-6000"),
            boards("GEMM", "leave one device out", "fp8 l40s", "fp8 h100-sxm", "fp8 (all)", excluded=3),
            boards("GEMM", "fitted rows", "fp8 (all)"),
            boards("attention", "test split", "prefill fp8 l40s", "prefill (all)", "attention (all)"),
            OperatorScores("leave one device out", tuple(link), (), 0),
        ),
        laws=(),
        left_out=(LeftOut(Text("no time is stated"), ("a", "b")), LeftOut(Text("unsteady run"), ("c",))),
    )


def tables(answer: RooflineAccuracy, full: bool) -> list[Table]:
    return [part for part in accuracy_roofline_report(answer, full=full) if isinstance(part, Table)]


def test_the_first_screen_has_whole_groups_beside_their_baselines_and_no_rows_that_laws_saw(
    answer: RooflineAccuracy,
) -> None:
    served, operators = tables(answer, full=False)
    assert [row[0] for row in served.rows] == [
        "time per output token", "  dense models, kept apart", "decode for one user", "  device left out",
    ]  # fmt: skip
    assert [row[0] for row in operators.rows] == [
        "matrix products", "  fp8, kept apart", "  fp8, device left out", "attention", "  kept apart",
        "collectives", "  all_reduce nccl, PCIe, device left out",
    ]  # fmt: skip
    assert all(row[-3:] == ("10.0 / 20.0", "80 %", "40 %") for row in (*operators.rows[1:3], served.rows[1]))
    text = to_text(accuracy_roofline_report(answer))
    assert "3 records are left out" in text and "--all" in text and "fitted rows" not in text


def test_all_of_it_has_every_group_the_rows_that_laws_saw_and_the_reasons(answer: RooflineAccuracy) -> None:
    text = to_text(accuracy_roofline_report(answer, full=True))
    for wanted in ("llama.cpp", "seen on the device", "fitted rows", "no time is stated", "unsteady run", "-3.0 %"):
        assert wanted in text
    assert "rows of tables in which more than one in twenty is faster than memory are not scored" in " ".join(
        text.split()
    )
    assert "table, every other size left out" in text
    assert "fp8 l40s" not in text and "--all" not in text


def test_a_method_that_some_rows_lack_leaves_their_cell_empty() -> None:
    scores = [score("dense", "narrows", "s"), score("dense", THREE, "s"), score("experts", "narrows", "s", n=4)]
    table = board_table("time", [("", lines_of(scores))])
    assert [one.heading for one in table.columns] == ["time", "n", "narrows", "three constants"]
    assert table.rows[0] == ("dense", "100", "10.0 / 20.0", "10.0 / 20.0")
    assert table.rows[1] == ("experts", "4 (few)", "10.0 / 20.0", "")


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize("full", [False, True])
def test_no_board_is_wider_than_a_page(answer: RooflineAccuracy, language: str, full: bool) -> None:
    use_language(language)
    assert max(cell_len(line) for line in to_text(accuracy_roofline_report(answer, full=full)).split("\n")) <= 140

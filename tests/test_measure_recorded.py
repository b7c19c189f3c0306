"""`measure model` on a decoder that was recorded as it ran: 494 M parameters on two cores without bf16 arithmetic.

At fp32 its library multiplies one row by another kernel than two, and takes twice as long for hardly more work.
"""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from narrows.answers.measure_model import ModelMeasured, measure_model
from narrows.hardware.this_machine import machine_path
from narrows.measure.decoder import Point, Run
from narrows.measure.predict import Predicted
from narrows.measure.recorder import Call
from narrows.measure.timing import Sample
from narrows.measure.verdicts import growths, kernel_changes, observed, throughout, turning_rows
from narrows.report.render import answer_text
from narrows.text import BadInput

RECORD = Path(__file__).parent / "data" / "decoder-run.json.gz"


@cache
def record() -> dict[str, Any]:
    with gzip.open(RECORD) as file:
        found: dict[str, Any] = json.load(file)
    return found


class Replayed:
    """The recorded decoder; `slower`: what its times are multiplied by at (precision, batch)."""

    random, name = True, "transformers"
    parameters = applied = 494_032_768
    library = SimpleNamespace()

    def __init__(self, precision: str, slower: dict[tuple[str, int], float]) -> None:
        self.precision, self.slower = precision, slower
        self.points = {
            (one["phase"], one["batch"], one["length"]): one
            for one in record()["points"]
            if one["precision"] == precision
        }
        self.weight_bytes = next(iter(self.points.values()))["weights"]

    def run(self, point: Point) -> Run:
        one = self.points.get((point.phase, point.batch, point.length))
        if one is None:
            raise BadInput("it was not recorded")
        calls = Counter({msgspec.convert(call, Call): count for call, count in one["calls"]})
        seconds = one["seconds"] * self.slower.get((self.precision, point.batch), 1.0)
        return Run(calls, Sample(seconds, seconds, seconds, 5))


def replayed(slower: dict[tuple[str, int], float] | None = None) -> ModelMeasured:
    Path(machine_path()).write_text(json.dumps(record()["machine"]), encoding="utf-8")
    return measure_model("m", building=lambda source, precision, device: Replayed(precision, slower or {}), seconds=600)


def test_the_recorded_decoder_is_predicted_from_the_machine_alone_and_every_clear_verdict_is_right() -> None:
    answer = replayed()
    assert len(answer.points) >= 20
    assert answer.median_error < 0.1
    assert answer.right == answer.verdicts >= 12 and answer.agrees


def test_the_doubling_from_one_row_to_two_is_a_change_of_kernel_and_two_rows_still_have_a_verdict() -> None:
    answer = replayed()
    (change,) = answer.kernel_changes
    assert (change.precision, change.phase, change.fewer, change.more) == ("fp32", "decode", 1, 2)
    assert change.measured == pytest.approx(1.98, abs=0.02) and change.predicted == pytest.approx(1.89, abs=0.02)
    assert change.roof == pytest.approx(1.0)
    two = next(one for one in answer.points if (one.precision, one.phase, one.batch) == ("fp32", "decode", 2))
    # less the little by which two more rows grow the bytes
    assert two.observed.growth == pytest.approx(math.log(310 / 248) / math.log(2), abs=0.05)
    assert two.observed.bound == "memory bandwidth" and two.right is True
    assert two.reached < 0.4


def test_the_table_marks_the_change_and_says_what_it_is() -> None:
    text = " ".join(answer_text(replayed()).split())
    assert "memory-bandwidth-bound *" in text
    assert "from 1 to 2 rows the library changes the kernel of its products: the step takes 1.98 times as long" in text


def test_a_doubling_that_the_machines_curve_does_not_know_still_makes_the_verdict_wrong() -> None:
    # from four rows on the decoder does what its products, as they were measured, do not explain
    answer = replayed({("fp32", 4): 2.0, ("fp32", 8): 4.0})
    assert answer.right < answer.verdicts and not answer.agrees


# The rule by itself


def expected(reached: float, products: float = 1.0, host: float = 0.0) -> Predicted:
    time = products + host
    return Predicted(time, products, 0, 0, 0, host, 1, 1, "memory bandwidth", 10, reached)


def test_only_products_that_reach_less_of_their_roof_with_more_rows_are_another_kernel() -> None:
    assert kernel_changes({1: expected(0.8), 2: expected(0.4), 4: expected(0.4), 8: expected(0.8)}) == (2,)
    assert kernel_changes({1: expected(0.8), 2: expected(0.7)}) == ()  # as much as repeats may differ by
    assert kernel_changes({1: expected(0.4), 2: expected(0.4, products=2.0, host=0.0)}) == ()


def test_a_change_that_is_little_of_the_step_is_none() -> None:
    assert kernel_changes({1: expected(0.8, 0.1, 0.9), 2: expected(0.4, 0.2, 0.9)}) == ()


def test_growth_is_counted_within_the_rows_of_one_kernel() -> None:
    times = {1: 1.0, 2: 2.0, 4: 2.0, 8: 2.0}
    assert growths(times)[2] == pytest.approx(0.5)
    within = growths(times, (2,))
    assert within[1] is None and within[2] == within[4] == within[8] == 0.0
    assert growths({1: 1.0, 2: 2.0, 4: 8.0}, (2, 4)) == {1: None, 2: None, 4: None}


def test_a_time_alone_in_its_kernel_goes_by_the_share_that_is_reached() -> None:
    work = Predicted(1, 1, 0, 0, 0, 0, 10, 80, "memory bandwidth", 8)
    growth = growths({1: 1.0, 2: 2.0, 4: 2.0}, (2,))[1]
    assert observed(growth, 1.0, work, 100, 100).bound == "memory bandwidth"


def test_a_verdict_does_not_turn_where_only_the_kernel_changes() -> None:
    times = {1: 1.0, 2: 1.0, 4: 3.0, 8: 3.0, 16: 3.0}
    assert turning_rows(times) is not None
    assert turning_rows(times, (4,)) is None


def test_what_never_turns_is_said_to_be_bound_by_one_thing_throughout() -> None:
    assert throughout({1: 1.0, 2: 2.0, 4: 4.0}) == "compute"
    assert throughout({1: 1.0, 2: 1.0, 4: 1.1}) == "memory bandwidth"
    assert throughout({1: 1.0, 2: 1.0, 4: 2.0, 8: 4.0}) is None
    assert throughout({1: 1.0}) is None
    assert "bf16: decode turns compute-bound at a batch of none of these, which are all compute-bound" in " ".join(
        answer_text(replayed()).split()
    )


def test_a_time_that_grows_as_its_bytes_do_is_memory_bound_though_it_is_not_flat() -> None:
    # each row is sent to other experts, which are read for it
    times = {1: 1.0, 2: 1.6, 4: 2.56}
    asked = {1: (1.0, 1.0), 2: (1.6, 2.0), 4: (2.56, 4.0)}
    assert growths(times)[2] == pytest.approx(0.678, abs=0.01)
    assert growths(times, (), asked) == {1: None, 2: None, 4: None}, "bytes grow almost as FLOPs do"
    asked = {rows: (rows**0.3, float(rows)) for rows in times}
    flat, linear = {rows: rows**0.3 for rows in times}, {rows: float(rows) for rows in times}
    assert growths(flat, (), asked)[2] == pytest.approx(0.0) and growths(linear, (), asked)[2] == pytest.approx(1.0)
    assert throughout(flat, (), asked) == "memory bandwidth" and throughout(linear, (), asked) == "compute"

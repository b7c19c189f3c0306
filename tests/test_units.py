"""Figures as people read them."""

from __future__ import annotations

import pytest

from narrows.units import rate, seconds


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (999.7, "1,000 s"),
        (999.4, "999 s"),
        (0.9997, "1 s"),
        (0.9994, "999 ms"),
        (0.9997e-3, "1 ms"),
        (0.9994e-3, "999 µs"),
        (1234.5, "1,234 s"),
    ],
)
def test_a_duration_just_below_a_unit_is_one_of_it(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(999.7e12, "1.00 PFLOP/s"), (999.7e9, "1 TFLOP/s"), (999.4e12, "999 TFLOP/s"), (362e12, "362 TFLOP/s")],
)
def test_a_rate_just_below_a_unit_is_one_of_it(value: float, text: str) -> None:
    assert rate(value) == text

"""Fits a law of speed to measured rows: what the scripts that write laws share.

Coefficients are positive and fitted as logarithms, by least squares on the logarithm of predicted ÷ measured with a
loss that is linear beyond a tenth, and a weak pull to where they start, so that one that the rows say nothing about
stays there. Needs scipy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares

from narrows.calibration.laws import Law
from narrows.hardware import Accelerator
from narrows.roofline.timed import Parts
from narrows.step import Operator

PULL = 0.005
"""Weight of a coefficient's distance from its start beside the mean error of the rows."""
LINEAR_BEYOND = 0.1
LEAST, MOST = 1.0, 10.0
"""Of a sharpness: 1 adds, 10 is as good as the larger."""
SHARP = ("sharpness", "resident_sharpness")
SHARES = ("bandwidth", "peak")
MOST_OF_PAPER = 0.96
"""Of what a device has on paper: the most that the best kernels reach."""

TimeOf = Callable[[Operator, Accelerator, Law, bool], Parts]


class Coefficient(NamedTuple):
    """Where a coefficient starts, and how many times as hard as others it is pulled back there."""

    start: float
    stiffness: float = 1.0


class Sample(NamedTuple):
    """Rows of one device: their operator, measured seconds, and how much each weighs."""

    device: Accelerator
    operator: Operator
    seconds: Any
    weights: Any


def law_of(values: Mapping[str, float]) -> Law:
    """A law with these values and nothing else, for the functions of time."""
    return Law("", "", dict(values), 1.0, 1.0, 0, "", "")


def fit(
    samples: Sequence[Sample], time_of: TimeOf, start: Mapping[str, Coefficient], fixed: Mapping[str, float]
) -> tuple[dict[str, float], float]:
    """The coefficients, and the loss. fixed: those that are not fitted."""
    names = list(start)
    first = np.log([start[name].start for name in names])
    stiff = np.array([start[name].stiffness for name in names])
    rows = sum(len(sample.seconds) for sample in samples)

    def values(x: Any) -> dict[str, float]:
        found = dict(zip(names, np.exp(x).tolist(), strict=True)) | dict(fixed)
        found |= {name: min(max(found[name], LEAST), MOST) for name in SHARP if name in found}
        return found | {name: min(found[name], MOST_OF_PAPER) for name in SHARES if name in found}

    def residuals(x: Any) -> Any:
        law = law_of(values(x))
        parts = [
            np.log(time_of(one.operator, one.device, law, False).time / one.seconds) * one.weights for one in samples
        ]
        return np.concatenate([*parts, PULL * np.sqrt(rows) * stiff * (x - first)])

    found = least_squares(residuals, first, loss="soft_l1", f_scale=LINEAR_BEYOND, max_nfev=80)
    return values(found.x), float(found.cost) / rows


def fitted(
    samples: Sequence[Sample],
    time_of: TimeOf,
    start: Mapping[str, Coefficient],
    choices: Sequence[tuple[Mapping[str, float], Mapping[str, float]]],
) -> dict[str, float]:
    """The best of several choices of (other starts, fixed coefficients), rounded to three digits."""
    best: tuple[dict[str, float], float] | None = None
    for other, fixed in choices:
        begin = {name: one._replace(start=other.get(name, one.start)) for name, one in start.items()}
        found = fit(samples, time_of, {name: one for name, one in begin.items() if name not in fixed}, fixed)
        if best is None or found[1] < best[1]:
            best = found
    assert best is not None
    return {name: float(f"{value:.3g}") for name, value in best[0].items()}


def between(
    own: Mapping[str, float], all_devices: Sequence[Mapping[str, float]], names: Sequence[str]
) -> dict[str, float]:
    """The law of a class that one device stands for: shares of peak and bandwidth half-way to the mean of all devices.

    With n devices of a class, the mean of theirs has the weight n ÷ (n + 1) where classes differ as much as the
    devices in them do.
    """
    found = dict(own)
    for name in names:
        mean = float(np.exp(np.mean([np.log(one[name]) for one in all_devices])))
        found[name] = float(f"{(own[name] * mean) ** 0.5:.3g}")
    return found


def ratios(sample: Sample, time_of: TimeOf, values: Mapping[str, float]) -> Any:
    """Measured ÷ predicted."""
    return sample.seconds / time_of(sample.operator, sample.device, law_of(values), False).time


def middle(ratios: Sequence[Any], weights: Sequence[Any]) -> tuple[float, float]:
    """The bounds of the middle 80 %, each group of rows with the same weight."""
    value = np.concatenate(list(ratios))
    weight = np.concatenate([one / one.sum() for one in weights])
    order = np.argsort(value)
    share = np.cumsum(weight[order]) / weight.sum()
    low, high = (float(value[order][np.searchsorted(share, q)]) for q in (0.1, 0.9))
    return float(f"{min(low, 0.98):.3g}"), float(f"{max(high, 1.02):.3g}")

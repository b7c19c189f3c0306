"""The laws of matrix products and elementwise operators: what is true of them by physics, and how far they are off."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.accuracy.elementwise import elementwise_scores
from narrows.accuracy.gemm import OURS, PLAIN, OperatorScores, gemm_scores
from narrows.accuracy.operator_rows import Table, _physical, gemm_tables
from narrows.calibration.laws import law, laws
from narrows.hardware import Accelerator, accelerators, find_accelerator
from narrows.roofline.devices import device_keys
from narrows.roofline.elementwise import elementwise_time
from narrows.roofline.gemm import gemm_time, spread
from narrows.roofline.timed import Parts
from narrows.step import Elementwise, Gemm, Operator

L40S = find_accelerator("l40s")
H100 = find_accelerator("h100-sxm")
BITS = {"fp8": 8, "int8": 8, "fp4": 4, "int4": 4}


def product(m: int, k: int, n: int, precision: str = "bf16", weight_bits: float = 0) -> Operator:
    bits = BITS.get(precision, 16)
    return Operator("mlp.up", Gemm(m, k, n, 1, weight_bits or bits, bits), 1, precision, 2 * m * k * n)


def timed(device: Accelerator, operator: Operator, cold: bool = True) -> Parts:
    found = law("gemm", "gemm", device_keys(device), operator.precision)
    return gemm_time(operator, device, found, cold)


sizes = st.integers(0, 16).map(lambda power: 2**power)


@given(sizes, sizes, sizes, st.sampled_from(["a100-sxm-80gb", "l40s", "h100-sxm", "rtx-pro-6000-blackwell-server"]))
def test_a_product_is_never_faster_than_peak_and_memory_with_cold_weights(m: int, k: int, n: int, name: str) -> None:
    device = find_accelerator(name)
    weights = 2 * k * n / device.memory_bandwidth
    assert timed(device, product(m, k, n)).time > max(2 * m * k * n / device.peak("bf16"), weights)


@given(sizes, sizes, sizes, st.sampled_from(["m", "k", "n"]))
def test_a_product_with_more_of_anything_takes_no_less(m: int, k: int, n: int, axis: str) -> None:
    small = {"m": m, "k": k, "n": n}
    large = small | {axis: 2 * small[axis]}
    for device, precision in ((H100, "bf16"), (L40S, "bf16"), (H100, "fp8"), (L40S, "fp8")):
        first = timed(device, product(**small, precision=precision)).time
        assert timed(device, product(**large, precision=precision)).time >= first * (1 - 1e-9)


def test_columns_give_what_numbers_give() -> None:
    shapes = [(1, 4096, 4096), (17, 64, 65536), (300, 8192, 1024), (8192, 8192, 28672)]
    for device, precision in ((H100, "bf16"), (H100, "fp8"), (L40S, "fp8"), (L40S, "bf16")):
        one = [timed(device, product(*shape, precision=precision), cold=False) for shape in shapes]
        m, k, n = (np.array(column, dtype=float) for column in zip(*shapes, strict=True))
        all_at_once = timed(device, product(m, k, n, precision), cold=False)  # type: ignore[arg-type]
        for number, part in enumerate(Parts._fields):
            assert np.broadcast_to(all_at_once[number], 4).tolist() == pytest.approx([getattr(o, part) for o in one])


def test_weights_that_fit_in_l2_are_found_there_by_a_benchmark_and_not_by_a_step() -> None:
    small, large = product(1, 2048, 2048), product(1, 8192, 28672)
    assert timed(L40S, small, cold=True).time > 1.3 * timed(L40S, small, cold=False).time
    assert timed(L40S, large, cold=True).time == timed(L40S, large, cold=False).time


def test_decode_of_one_large_matrix_reaches_most_of_the_bandwidth_and_of_a_small_one_little() -> None:
    def share(k: int, n: int) -> float:
        return 2 * k * n / H100.memory_bandwidth / timed(H100, product(1, k, n)).time

    assert share(8192, 28672) > 0.75
    assert share(1024, 1024) < 0.3


def test_a_large_product_on_a_board_short_of_power_reaches_less_of_its_peak() -> None:
    l4, large = find_accelerator("l4"), product(8192, 8192, 8192)
    assert 2 * 8192**3 / timed(l4, large).time < 0.55 * l4.peak("bf16")


def test_int4_weights_multiplied_in_bf16_are_read_as_stored_with_a_wider_interval() -> None:
    stored, plain = product(1, 8192, 28672, weight_bits=4.25), product(1, 8192, 28672)
    assert timed(H100, stored).memory == pytest.approx(timed(H100, plain).memory * 4.25 / 16, rel=0.01)
    found = law("gemm", "gemm", device_keys(H100), "bf16")
    assert spread(plain, found) == (found.low, found.high)
    low, high = spread(stored, found)
    assert low < found.low and high > found.high


def test_fp8_pays_in_decode_of_large_weights_and_not_of_small_ones() -> None:
    assert timed(H100, product(1, 8192, 28672, "fp8")).time < 0.6 * timed(H100, product(1, 8192, 28672)).time
    assert timed(H100, product(1, 1024, 1024, "fp8")).time > timed(H100, product(1, 1024, 1024)).time


def test_quantizing_activations_is_in_the_time_of_the_product_and_takes_none_beside_it() -> None:
    found = law("elementwise", "elementwise", device_keys(H100))
    quantize = Operator("mlp.up.quantize", Elementwise(4096, 8192), 1, "fp8", 0, reads=2 * 2**25, writes=2**25)
    assert elementwise_time(quantize, H100, found).time == 0
    assert timed(H100, product(4096, 8192, 64, "fp8")).memory > 3 * 2**25 / H100.memory_bandwidth


def test_every_device_of_the_catalogue_has_laws_at_all_its_precisions() -> None:
    for device in accelerators():
        for precision in device.precisions:
            time, *parts = timed(device, product(16, 4096, 4096, precision))
            assert 0 < max(parts) <= time < 1
        norm = Operator("norm", Elementwise(16, 4096), 1, "bf16", 0, reads=2**17, writes=2**17)
        assert 0 < elementwise_time(norm, device, law("elementwise", "elementwise", device_keys(device))).time < 1e-3


def test_nothing_was_fitted_on_the_device_of_the_test_split() -> None:
    test = {table.device for table in gemm_tables() if table.test}
    assert [device.id for device in test] == ["rtx-pro-6000-blackwell-server"]
    fitted = {row.device for row in laws("gemm")}
    keys = device_keys(next(iter(test)))
    assert [key for key in keys if key in fitted] == ["nvidia GDDR", "nvidia", "any"]
    assert not any("rtx" in row.basis for row in laws("gemm"))


def test_a_row_faster_than_the_device_can_be_is_left_out_and_counted() -> None:
    m, n, k, seconds = (np.array(column) for column in ([8192.0] * 2, [8192.0] * 2, [8192.0] * 2, [1e-3, 2e-3]))
    kept = _physical(Table(H100, "vllm", "bf16", False, m, n, k, seconds))
    assert (kept.excluded, kept.seconds.tolist()) == (1, [2e-3])


def test_the_laws_need_no_numpy_for_numbers() -> None:
    code = "import sys, narrows.roofline.gemm, narrows.roofline.elementwise; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def by_group(protocol: str) -> dict[str, tuple[tuple[float, float], tuple[float, float], float]]:
    found: OperatorScores = next(one for one in gemm_scores() if one.protocol == protocol)
    intervals = {one.group: one.coverage for one in found.intervals}
    rows = {(one.group, one.method): (one.median, one.p90) for one in found.scores}
    return {group: (rows[group, OURS], rows[group, PLAIN], intervals[group]) for group in intervals}


def test_fp8_products_of_a_device_never_seen_are_within_what_is_promised() -> None:
    (group,) = by_group("test split").values()
    (median, p90), plain, coverage = group
    assert median <= 0.125 and p90 <= 0.50 and plain[0] > 2 * median
    assert 0.7 <= coverage <= 0.9


def test_bf16_products_of_a_device_left_out_are_within_what_is_promised_where_l2_hides_no_weights() -> None:
    scores = by_group("leave one device out")
    for name in ("a100-sxm-80gb", "h100-sxm", "b200-sxm"):
        (median, p90), plain, _ = scores[f"bf16 {name}"]
        assert median <= 0.12 and p90 <= 0.40 and median < plain[0]
    assert scores["bf16 l40s"][0][0] <= 0.16
    assert scores["bf16 (all)"][0][0] <= 0.12


def test_a_devices_own_law_beats_the_plain_roofline_and_holds_its_interval() -> None:
    for (median, p90), plain, coverage in by_group("fitted rows").values():
        assert median <= 0.15 and p90 <= 0.5 and median < 0.5 * plain[0]
        assert 0.7 <= coverage <= 0.9


def test_products_that_another_laboratory_measured_are_within_what_is_promised() -> None:
    scores = by_group("other laboratory")
    assert len(scores) == 4
    for (median, p90), _, _ in scores.values():
        assert median <= 0.15 and p90 <= 0.40


def test_elementwise_operators_of_a_device_left_out_beat_bytes_over_bandwidth() -> None:
    found = elementwise_scores()[0]
    together = {(one.group, one.method): one.median for one in found.scores if one.group.endswith("(all)")}
    for kind in ("activation", "norm", "residual", "rotary", "embedding"):
        assert together[f"{kind} (all)", OURS] < 0.26
        assert together[f"{kind} (all)", OURS] < together[f"{kind} (all)", PLAIN]

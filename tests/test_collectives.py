from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.accuracy.collectives import collective_intervals, collective_scores, points
from narrows.calibration.collectives import collective_tables
from narrows.hardware import find_accelerator
from narrows.hardware.machines import span_of
from narrows.roofline.collectives import CUSTOM_LIMIT, collective_time, rising, traffic
from narrows.roofline.link import link_across, link_of
from narrows.step import Collective
from narrows.text import BadInput

MIB = 2**20


def seconds(device: str, ranks: int, message: int, engine: str = "vllm") -> float:
    return float(collective_time(Collective("all_reduce", ranks, message), find_accelerator(device), engine).time)


def test_a_measured_size_takes_what_was_measured():
    # 8 × H100, 512 Ki elements of 16 bits through vLLM's all-reduce: 14.968 µs; 128 MiB through NCCL: 1/2 of 256 MiB
    assert seconds("h100-sxm", 8, MIB) == pytest.approx(14.968e-6, rel=1e-6)
    assert collective_time(Collective("all_reduce", 8, MIB), find_accelerator("h100-sxm")).library == "custom"


@pytest.mark.parametrize(("ranks", "slower"), [(4, 5), (8, 15)])
def test_cards_on_pcie_take_the_middle_one_of_the_hosts_that_were_measured(ranks: int, slower: float) -> None:
    device = find_accelerator("l40s")
    table = next(
        one
        for one in collective_tables()
        if (one.device, one.op, one.library, one.ranks) == ("l40s", "all_reduce", "nccl", ranks)
    )
    size = 16 * MIB
    apart = 1e-6 * table.microseconds[table.bytes.index(size)]
    joined = 2 * (ranks - 1) / ranks * size / (0.8 * link_of(device, ranks).bandwidth)
    assert apart > slower * 0.8 * joined
    found = collective_time(Collective("all_reduce", ranks, size), device)
    # slower than cards that share their link without loss, faster than those of the one host that were measured
    assert 1.3 * joined < found.time < 0.7 * apart
    assert found.low * found.time < 1.1 * joined and 0.9 * apart < found.high * found.time
    assert not found.measured


def test_the_middle_host_is_one_of_three_and_its_share_of_the_link_holds_for_other_links() -> None:
    # of L40S, RTX PRO 6000 and Arc B60: eight cards reach 2, 14 and, by the four of the B60, about 18 of 32 or 63 GB/s
    size, message = 256 * MIB, Collective("all_reduce", 8, 256 * MIB)
    own = next(
        one
        for one in collective_tables()
        if (one.device, one.op, one.library, one.ranks) == ("rtx-pro-6000-blackwell-server", "all_reduce", "nccl", 8)
    )
    measured = 1e-6 * own.microseconds[own.bytes.index(size)]
    assert collective_time(message, find_accelerator("rtx-pro-6000-blackwell-server")).time == pytest.approx(measured)
    # a link of half the speed takes twice as long but for the latency
    assert collective_time(message, find_accelerator("l40s")).time == pytest.approx(2 * measured, rel=0.02)


def test_an_engines_own_all_reduce_is_used_up_to_its_largest_message_only():
    h100 = find_accelerator("h100-sxm")
    small, large = (collective_time(Collective("all_reduce", 4, n), h100) for n in (64 * 1024, 2 * CUSTOM_LIMIT))
    assert (small.library, large.library) == ("custom", "nccl")
    # four cards without NVLink cannot use it, and an engine without one has NCCL only
    assert collective_time(Collective("all_reduce", 4, 4096), find_accelerator("l40s")).library == "nccl"
    assert collective_time(Collective("all_reduce", 4, 4096), h100, "llama.cpp").library == "nccl"


def test_of_the_libraries_that_apply_the_faster_one_counts():
    h100 = find_accelerator("h100-sxm")
    both = collective_time(Collective("all_reduce", 8, 4096), h100).time
    assert both < collective_time(Collective("all_reduce", 8, 4096), h100, "llama.cpp").time
    # outside a CUDA graph its own takes 23 µs or more, NCCL 16
    assert collective_time(Collective("all_reduce", 8, 4096), h100, graphs=False).library == "nccl"


@pytest.mark.parametrize("device", ["h100-sxm", "mi300x", "l40s", "gaudi3", "a100-sxm-40gb", "rtx-4090", "h100-nvl"])
@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send"])
def test_numbers_and_arrays_give_the_same_times(device: str, op: Literal["all_reduce", "send"]) -> None:
    messages = np.array([1, 700, 10**4, 10**6, 3 * 10**7, 10**10])
    ranks = 2 if op == "send" else 4
    many = collective_time(Collective(op, ranks, messages), find_accelerator(device))  # type: ignore[arg-type]
    ones = [collective_time(Collective(op, ranks, int(m)), find_accelerator(device)) for m in messages]
    np.testing.assert_allclose(many.time, [one.time for one in ones], rtol=1e-9)
    np.testing.assert_allclose(many.network + many.overhead, many.time, rtol=1e-9)
    assert all(one.network >= -1e-15 for one in ones)


@given(
    st.sampled_from(["h100-sxm", "b200-sxm", "l40s", "a100-sxm-80gb", "mi300x", "a40"]),
    st.integers(2, 8),
    st.integers(8, 2**30),
    st.integers(8, 2**30),
    st.sampled_from(["vllm", "tensorrt-llm", "llama.cpp"]),
)
def test_a_larger_message_is_never_faster(device: str, ranks: int, one: int, other: int, engine: str) -> None:
    small, large = sorted((one, other))
    assert seconds(device, ranks, small, engine=engine) <= seconds(device, ranks, large, engine=engine) * (1 + 1e-9)


def test_every_table_is_read_as_rising_and_near_to_what_was_measured() -> None:
    for table in collective_tables():
        measured = [1e-6 * time for time in table.microseconds]
        read = rising(tuple(measured))
        assert list(read) == sorted(read)
        # what pools hold is kept: the product of the times
        assert np.log(read).sum() == pytest.approx(np.log(measured).sum())
    assert rising((1.0, 4.0, 1.0, 8.0)) == pytest.approx((1.0, 2.0, 2.0, 8.0))


def test_ranks_between_two_tables_take_a_time_between_theirs():
    times = [seconds("h100-sxm", n, MIB, engine="llama.cpp") for n in (4, 6, 8)]
    assert times[0] < times[1] < times[2]


def test_a_device_like_one_measured_is_told_from_the_one_measured():
    own, twin = (
        collective_time(Collective("all_reduce", 8, MIB), find_accelerator(name))
        for name in ("a100-sxm-80gb", "a100-sxm-40gb")
    )
    assert own.time == twin.time and own.measured and not twin.measured
    law = collective_time(Collective("all_reduce", 8, MIB), find_accelerator("mi300x"))
    assert not law.measured and law.high - law.low > twin.high - twin.low


def test_two_devices_of_a_mesh_have_one_link_of_seven():
    mi300x = find_accelerator("mi300x")
    assert link_of(mi300x, 2).bandwidth == pytest.approx(64e9)
    assert link_of(mi300x, 8).bandwidth == pytest.approx(448e9)


@pytest.mark.parametrize(
    ("device", "ranks", "kinds"),
    [
        # eight fill a machine: the next stage stands in another
        ("h200-sxm", 8, ["between nodes", "between nodes"]),
        ("h200-sxm", 4, ["NVLink switch", "between nodes", "NVLink switch"]),
        # two of three fit beside each other into a machine, the third does not
        ("h200-sxm", 3, ["NVLink switch", "between nodes"]),
        ("h200-sxm", 16, ["between nodes"]),
        # bridged in pairs, which other pairs reach over PCIe
        ("h100-nvl", 1, ["NVLink bridge", "NVLink pairs", "NVLink bridge", "NVLink pairs"]),
        ("h100-nvl", 2, ["NVLink pairs"] * 3 + ["between nodes"]),
        ("l40s", 1, ["PCIe"] * 7 + ["between nodes"]),
        # a rack of 72 joins nine stages of eight
        ("gb200", 8, ["NVLink switch"] * 8 + ["between nodes"]),
        ("mi300x", 4, ["mesh", "between nodes"]),
    ],
)
def test_a_stage_sends_over_the_link_to_the_device_of_the_next(device: str, ranks: int, kinds: list[str]) -> None:
    accelerator = find_accelerator(device)
    spans = [span_of(accelerator, ranks, stage) for stage in range(len(kinds))]
    assert [link_across(accelerator, 2, span).kind for span in spans] == kinds


def test_a_send_to_the_next_machine_takes_its_network_card():
    message = 64 * MIB
    here = collective_time(Collective("send", 2, message), find_accelerator("h200-sxm")).time
    there = collective_time(Collective("send", 2, message, span=9), find_accelerator("h200-sxm")).time
    assert message / there < 63e9 < message / here


def test_a_device_that_nothing_joins_to_others_is_refused():
    with pytest.raises(BadInput, match="nothing is known of a link"):
        link_of(find_accelerator("apple-m4-pro"), 2)
    with pytest.raises(BadInput, match="nothing is known of a link"):
        link_of(find_accelerator("epyc-9654"), 2)


def test_no_measured_time_is_below_what_the_link_can_do_on_paper():
    # in-switch reduction (NVLS) halves the traffic of an all-reduce
    for point in points():
        share = traffic(point.op, point.ranks) / (2 if point.op == "all_reduce" else 1)
        assert point.time > 0.95 * point.size * share / point.link.bandwidth, point


def test_the_tables_interpolate_and_the_laws_carry_to_devices_left_out():
    scores = {(row.group, row.method): row for row in collective_scores()}
    assert scores["all_reduce", "table, every other size left out"].median < 0.03
    law = scores["all_reduce nccl, NVLink switch", "law of the link, device left out"]
    plain = scores["all_reduce nccl, NVLink switch", "0.8 of the link"]
    assert law.median < 0.16 and law.median < plain.median / 5
    assert {table.device for table in collective_tables()} >= {"h100-sxm", "l40s", "b200-sxm", "a100-pcie-80gb"}


def test_intervals_of_laws_hold_on_devices_left_out() -> None:
    for found in collective_intervals():
        assert found.n < 100 or 0.7 <= found.coverage <= 0.9, found

"""Accelerators, the names that find them, and what they cost."""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.hardware import (
    PRECISIONS,
    Accelerator,
    accelerators,
    cheapest,
    clouds,
    find_accelerator,
    precision_name,
    prices_of,
    select,
)
from narrows.text import BadInput
from narrows.units import GIB

EVERY = pytest.mark.parametrize("device", accelerators(), ids=lambda device: device.id)


def by_id(name: str) -> Accelerator:
    (device,) = [device for device in accelerators() if device.id == name]
    return device


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(BadInput) as caught:
        call()
    return str(caught.value)


# Facts


@EVERY
def test_every_device_names_its_source_and_has_positive_figures(device: Accelerator) -> None:
    assert device.source and device.as_of and device.memory_basis
    links = [getattr(device.links, name) for name in device.links.__struct_fields__ if name != "other"]
    peaks = [device.peak(name) for name in device.precisions]
    sizes = [device.memory_bytes, device.usable_bytes, device.l2_bytes, device.sram_bytes, device.sm_count]
    assert all(value > 0 for value in [*links, *peaks, *sizes, device.memory_bandwidth] if value is not None)
    assert peaks and all(math.isfinite(peak) for peak in peaks)


@pytest.mark.parametrize(
    ("name", "precision", "peak"),
    [
        ("l40s", "bf16", 362.05e12),
        ("l40s", "fp8", 733e12),
        ("h100-sxm", "bf16", 989.4e12),
        ("h100-pcie", "bf16", 756e12),
        ("a100-sxm-80gb", "fp16", 312e12),
        ("l4", "bf16", 121e12),
        ("a10", "bf16", 125e12),
        ("a10g", "bf16", 70e12),
        ("b200-sxm", "fp4", 9e15),
        ("mi300x", "torch.bfloat16", 1307.4e12),
    ],
)
def test_peaks_are_the_dense_ones_and_not_the_sparse_ones_of_the_data_sheets(
    name: str, precision: str, peak: float
) -> None:
    assert by_id(name).peak(precision) == peak


@pytest.mark.parametrize("name", ["h100-sxm", "h100-pcie", "h200-sxm", "b200-sxm", "mi300x", "rtx-4090"])
def test_fp8_is_twice_bf16(name: str) -> None:
    assert by_id(name).peak("fp8") == pytest.approx(2 * by_id(name).peak("bf16"), rel=0.002)


def test_the_ridge_of_an_l40s_at_bf16_is_419_flop_per_byte() -> None:
    assert round(by_id("l40s").ridge("bf16")) == 419


def test_a_peak_that_a_device_does_not_have_is_refused_with_those_it_has() -> None:
    message = refusal(lambda: by_id("t4").peak("fp8"))
    assert "fp8" in message and "fp16" in message


@pytest.mark.parametrize("name", ["fp64", "int32", "", "fp8\n" * 200])
def test_an_unknown_precision_is_refused_with_the_known_ones(name: str) -> None:
    assert ", ".join(PRECISIONS) in refusal(lambda: precision_name(name))


def test_links_are_per_direction() -> None:
    assert by_id("h100-sxm").links.nvlink == 450e9
    assert by_id("l40s").links.nvlink is None
    assert by_id("l40s").links.pcie == 31.5e9
    assert by_id("mi300x").links.infinity_fabric == 448e9


def test_on_chip_memory_of_an_a100_is_108_times_192_kib() -> None:
    assert by_id("a100-sxm-80gb").sram_bytes == 108 * 192 * 1024


# Usable memory


@EVERY
def test_usable_memory_is_less_than_all_memory_and_never_silent_about_how_it_is_known(device: Accelerator) -> None:
    if device.is_cpu:
        assert "may be used" in refusal(lambda: device.usable)
        return
    size, kind, basis = device.usable
    assert 0.6 * device.memory_bytes < size < device.memory_bytes
    assert kind == (device.usable_kind if device.usable_bytes else "assumed")
    assert str(basis)


@pytest.mark.parametrize(("name", "gib"), [("a10g", 22.06), ("l40s", 44.42), ("h100-sxm", 79.19)])
def test_usable_memory_is_what_cuda_reports(name: str, gib: float) -> None:
    assert by_id(name).usable.kind == "measured"
    assert by_id(name).usable.bytes / GIB == pytest.approx(gib, abs=0.005)


def test_an_a10_was_not_measured_itself_so_its_usable_memory_is_assumed() -> None:
    size, kind, basis = by_id("a10").usable
    assert (size, kind) == (by_id("a10g").usable.bytes, "assumed")
    assert "A10G" in str(basis)


def test_a_device_nobody_measured_gets_the_median_share_of_its_vendors_measured_ones() -> None:
    shares = [
        device.usable_bytes / device.memory_bytes
        for device in accelerators()
        if device.vendor == "nvidia" and device.memory_kind == "device"
        if device.usable_bytes and device.usable_kind == "measured"
    ]
    device = by_id("h200-nvl")
    assert device.usable.bytes == int(statistics.median(shares) * device.memory_bytes)
    assert "nobody measured" in str(device.usable.basis) and f"({len(shares)})" in str(device.usable.basis)


@pytest.mark.parametrize(("name", "gib"), [("m1 16gb", 16 * 2 / 3), ("m2 ultra 64gb", 48), ("mi300a", 96)])
def test_unified_memory_is_not_all_for_the_accelerator(name: str, gib: float) -> None:
    device = find_accelerator(name)
    assert device.unified
    assert device.usable.bytes / GIB == pytest.approx(gib)


# Names

NAMES = {
    "a10": "a10",
    "A10G": "a10g",
    "NVIDIA A10G": "a10g",
    "aws a10g": "a10g",
    "A10 24 GB": "a10",
    "NVIDIA L40S 48GB": "l40s",
    "nvidia-l40s": "l40s",
    "  L40S ": "l40s",
    "NVIDIA L40S, 46068 MiB": "l40s",
    "l40": "l40",
    "L4": "l4",
    "Tesla T4": "t4",
    "H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "H100 SXM5": "h100-sxm",
    "h100sxm": "h100-sxm",
    "h100 pcie": "h100-pcie",
    "NVIDIA H100 NVL": "h100-nvl",
    "h100 94gb": "h100-nvl",
    "NVIDIA H200 NVL": "h200-nvl",
    "NVIDIA A100-SXM4-80GB": "a100-sxm-80gb",
    "NVIDIA A100-SXM4-40GB": "a100-sxm-40gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "Tesla V100-SXM2-16GB": "v100-sxm2-16gb",
    "NVIDIA GH200 480GB": "gh200-96gb",
    "NVIDIA B200": "b200-sxm",
    "b200 192gb": "b200-sxm",
    "gb200": "gb200",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "4090": "rtx-4090",
    "RTX4090": "rtx-4090",
    "4080": "rtx-4080",
    "4080 super": "rtx-4080-super",
    "RTX 6000 Ada": "rtx-6000-ada",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "a6000": "rtx-a6000",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "rtx-pro-6000-blackwell-ws",
    "DGX Spark": "gb10-dgx-spark",
    "MI300X": "mi300x",
    "AMD Instinct MI300X": "mi300x",
    "7900 xtx": "rx-7900-xtx",
    "gaudi 3": "gaudi3",
    "TPU v5e": "tpu-v5e",
    "trn2": "trainium2",
    "Apple M3 Max": "apple-m3-max-40",
    "m1": "apple-m1",
    "Intel(R) Xeon(R) Platinum 8480+": "xeon-8480plus",
    "grace": "grace-72",
}


@pytest.mark.parametrize(("name", "expected"), NAMES.items())
def test_a_name_finds_the_device_that_it_means(name: str, expected: str) -> None:
    assert find_accelerator(name).id == expected


QUESTIONS = {
    "h100": ["h100-pcie", "h100-sxm", "h100-nvl"],
    "NVIDIA H200": ["h200-sxm", "h200-nvl"],
    "a100": ["a100-pcie-40gb", "a100-sxm-40gb", "a100-pcie-80gb", "a100-sxm-80gb"],
    "a100-80gb": ["a100-pcie-80gb", "a100-sxm-80gb"],
    "gh200": ["gh200-96gb", "gh200-144gb"],
    "rtx pro 6000": ["rtx-pro-6000-blackwell-server", "rtx-pro-6000-blackwell-ws"],
}


@pytest.mark.parametrize(("name", "choices"), QUESTIONS.items())
def test_a_name_that_fits_several_devices_is_answered_with_exactly_those(name: str, choices: list[str]) -> None:
    assert f"could be any of: {', '.join(choices)};" in refusal(lambda: find_accelerator(name))


@pytest.mark.parametrize(
    ("name", "really"),
    [
        ("L40S 24GB", "l40s (48 GB)"),
        ("a10 80gb", "a10 (24 GB)"),
        ("a100 64gb", "a100-sxm-80gb (80 GB)"),
        ("RTX 3080 12GB", "rtx-3080-10gb (10 GB)"),
        ("m2 ultra 100gb", "apple-m2-ultra (up to 192 GB unified)"),
    ],
)
def test_a_memory_size_that_a_device_does_not_have_is_refused_with_what_it_has(name: str, really: str) -> None:
    assert really in refusal(lambda: find_accelerator(name))


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("a10x", "a10, a10g"),
        ("l40x", "l40"),
        ("AMD L40S", "l40s"),
        ("radeon 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090"),
        ("2x l40s", "l40s"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "h100-sxm"),
    ],
)
def test_a_device_that_is_not_known_is_refused_with_the_nearest(name: str, near: str) -> None:
    message = refusal(lambda: find_accelerator(name))
    assert "not in the catalogue" in message and near in message and "narrows gpus" in message


@pytest.mark.parametrize(
    "name", ["", " ", "nvidia", "GPU", "rtx", "pcie", "ultra", "80gb", "72", "hbm3", "☃", "ＧＰＵ"]
)
def test_a_word_that_stands_for_no_device_finds_none(name: str) -> None:
    assert "narrows gpus" in refusal(lambda: find_accelerator(name))


CATALOGUE_NAMES = [(name, d.id) for d in accelerators() for name in (d.id, d.name, *d.aliases)]


@given(st.sampled_from(CATALOGUE_NAMES), st.sampled_from([str, str.upper, str.lower, str.title, " {} ".format]))
def test_every_name_the_catalogue_prints_finds_its_own_device_in_any_case(
    pair: tuple[str, str], spelling: Callable[[str], str]
) -> None:
    assert find_accelerator(spelling(pair[0])).id == pair[1]


@given(st.sampled_from(accelerators()), st.sampled_from(["{} GPU", "{v} {}", "{}, accelerator"]))
def test_words_that_tell_nothing_change_nothing(device: Accelerator, pattern: str) -> None:
    assert find_accelerator(pattern.format(device.id, v=device.vendor)).id == device.id


@given(st.text(max_size=300))
def test_any_text_is_a_device_or_a_refusal_that_can_be_printed(text: str) -> None:
    try:
        assert find_accelerator(text) in accelerators()
    except BadInput as refused:
        assert len(str(refused)) < 1000
        assert str(refused).isprintable()


@pytest.mark.parametrize("text", ["a" * 10**6, "l40s " * 10**5, "9" * 200, "9" * 190 + "gb", "\x00\x1b[2J" * 30])
def test_hostile_names_are_refused_quickly_and_briefly(text: str) -> None:
    start = time.process_time()
    message = refusal(lambda: find_accelerator(text))
    assert time.process_time() - start < 0.5
    assert len(message) < 300 and message.isprintable()


# Prices


def test_every_price_is_of_whole_known_devices_and_names_source_licence_and_date() -> None:
    for device in accelerators():
        for price in prices_of(device.id):
            assert price.accelerator_count >= 1 and price.usd_per_hour > 0
            assert price.source and price.as_of[:2] == "20"
            assert price.licence.startswith(("Apache-2.0", "MIT"))


@pytest.mark.parametrize(
    ("device", "count", "cloud", "instance", "usd"),
    [
        ("a10g", 1, None, "g5.xlarge", 1.006),
        ("a10g", 4, "aws", "g5.12xlarge", 5.672),
        ("a10g", 8, None, "g5.48xlarge", 16.288),
        ("l40s", 1, "aws", "g6e.xlarge", 1.861),
        ("l40s", 1, " AWS ", "g6e.xlarge", 1.861),
        ("l40s", 4, None, "g6e.12xlarge", 10.49264),
    ],
)
def test_the_cheapest_instance_is_named_beside_its_price(
    device: str, count: int, cloud: str | None, instance: str, usd: float
) -> None:
    price = cheapest(device, count, cloud)
    assert price is not None
    assert (price.instance, price.usd_per_hour, price.accelerator_count) == (instance, usd, count)
    assert instance in price.label and price.cloud in price.label


def test_without_a_cloud_no_row_of_the_snapshot_is_cheaper() -> None:
    price = cheapest("l40s")
    assert price is not None
    assert price.usd_per_hour == min(p.usd_per_hour for p in prices_of("l40s") if p.accelerator_count == 1)


def test_where_no_instance_has_that_many_the_next_larger_says_so_itself() -> None:
    price = cheapest("l40s", 2)
    assert price is not None and price.accelerator_count == 4
    assert cheapest("l40s", 9) is None


def test_the_share_of_one_accelerator_depends_on_the_size_of_the_host() -> None:
    shares = {p.usd_per_accelerator_hour for p in prices_of("a10g") if p.accelerator_count == 4}
    assert shares == {1.418, 2.036}


def test_a_device_that_is_sold_and_not_rented_has_no_price() -> None:
    assert cheapest("apple-m2-ultra") is None
    assert cheapest("a10g", 1, "gcp") is None


def test_bad_questions_about_prices_are_refused() -> None:
    assert "at least 1" in refusal(lambda: cheapest("l40s", 0))
    assert ", ".join(clouds()) in refusal(lambda: cheapest("l40s", 1, "acme"))
    assert "narrows gpus" in refusal(lambda: cheapest("L40S 48GB"))


# Filters


def test_filters_narrow_together_and_keep_the_order_of_the_catalogue() -> None:
    found = select(vendor="NVIDIA", min_memory=80e9, precision="fp8", text="hopper sxm")
    assert [device.id for device in found] == ["h100-sxm", "h200-sxm", "h800-sxm"]
    assert select() == accelerators()
    assert select(text="no such device") == ()


@pytest.mark.parametrize("size", [math.nan, math.inf, -1])
def test_a_least_memory_that_is_no_size_is_refused(size: float) -> None:
    assert "bytes" in refusal(lambda: select(min_memory=size))


def test_an_unknown_vendor_is_refused_with_the_known_ones() -> None:
    assert "amd, apple, aws, google, intel, nvidia" in refusal(lambda: select(vendor="acme"))


def test_an_unknown_precision_is_no_filter() -> None:
    assert "bf16" in refusal(lambda: select(precision="bf17"))


# Cost


def test_finding_a_device_its_memory_and_its_price_imports_nothing_heavy() -> None:
    code = (
        "import sys; from narrows.hardware import find_accelerator, cheapest;"
        "device = find_accelerator('NVIDIA L40S 48GB'); device.usable; cheapest(device.id);"
        "print([m for m in ('numpy', 'importlib.metadata', 'importlib.resources', 'pathlib') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"

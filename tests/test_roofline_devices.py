from __future__ import annotations

import pytest

from narrows.hardware import accelerators, find_accelerator
from narrows.roofline.devices import device_keys


@pytest.mark.parametrize(
    ("device", "keys"),
    [
        ("h100-sxm", ("h100-sxm", "Hopper HBM", "nvidia HBM", "nvidia", "any")),
        ("l40s", ("l40s", "Ada Lovelace GDDR", "nvidia GDDR", "nvidia", "any")),
        ("b300-sxm", ("b300-sxm", "Blackwell HBM", "nvidia HBM", "nvidia", "any")),
        ("rtx-5090", ("rtx-5090", "Blackwell GDDR", "nvidia GDDR", "nvidia", "any")),
        ("gb10-dgx-spark", ("gb10-dgx-spark", "Blackwell DDR", "nvidia DDR", "nvidia", "any")),
        ("apple-m4-pro", ("apple-m4-pro", "Apple GPU DDR", "apple DDR", "apple", "any")),
        ("epyc-9654", ("epyc-9654", "cpu", "any")),
    ],
)
def test_laws_of_a_device_are_sought_from_the_device_to_its_class_to_any(device: str, keys: tuple[str, ...]) -> None:
    assert device_keys(find_accelerator(device)) == keys


def test_a_device_on_a_board_shares_its_class_with_the_same_chip_on_another():
    keys = {device.id: device_keys(device) for device in accelerators()}
    assert keys["rtx-pro-6000-blackwell-server"][1:] == keys["rtx-5080"][1:]
    assert keys["a100-pcie-80gb"][1:] == keys["a100-sxm-40gb"][1:]
    assert keys["a10"][1] != keys["a100-sxm-40gb"][1]


def test_time_on_a_host_processor_needs_no_capacity() -> None:
    from narrows.answers.roofline import roofline

    answer = roofline("llama-3.1-8b", "epyc-9654")
    assert any("as much as it can take was counted" in str(text) for text in answer.cautions)
    told = roofline("llama-3.1-8b", "epyc-9654", memory=256 * 2**30)
    assert not any("whether it fits" in str(text) for text in told.cautions)
    assert answer.phases.decode.time == told.phases.decode.time
    assert answer.phases.prefill.time == told.phases.prefill.time

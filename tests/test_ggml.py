"""GGML types: bits per weight as published."""

from __future__ import annotations

import pytest

from narrows.precision.ggml import file_type_name, file_types, ggml_types


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        # llama.cpp, pull request 1684 and the README of its quantize tool
        ("Q2_K", 2.625),
        ("Q3_K", 3.4375),
        ("Q4_K", 4.5),
        ("Q5_K", 5.5),
        ("Q6_K", 6.5625),
        ("IQ1_S", 1.5625),
        ("IQ2_XXS", 2.0625),
        ("IQ4_XS", 4.25),
        ("Q8_0", 8.5),
        ("Q4_0", 4.5),
        ("MXFP4", 4.25),
        ("F16", 16),
        ("F32", 32),
    ],
)
def test_a_type_has_its_published_bits_per_weight(name: str, bits: float) -> None:
    assert ggml_types()[name].bits_per_weight == bits


def test_bytes_are_those_of_whole_blocks() -> None:
    q4 = ggml_types()["Q4_K"]
    assert q4.bytes_for(4096 * 4096) == 4096 * 16 * 144
    assert q4.bytes_for(1) == 144
    assert ggml_types()["F32"].bytes_for(3) == 12


def test_names_and_numbers_are_unique() -> None:
    assert len({one.id for one in ggml_types().values()}) == len(ggml_types())
    assert len({one.number for one in file_types().values()}) == len(file_types())


def test_a_file_type_names_the_type_most_tensors_have() -> None:
    assert (file_types()["Q4_K_M"].number, file_types()["Q4_K_M"].base.name) == (15, "Q4_K")
    assert file_types()["IQ2_S"].base.name == "IQ2_XS"
    assert file_type_name(15) == "Q4_K_M"
    assert file_type_name(1024) == ""
    assert file_type_name(None) == ""

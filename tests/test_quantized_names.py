"""Quantized checkpoints by their names, where the hub cannot be asked: the usual scheme, and that it is assumed."""

from __future__ import annotations

import pytest

from narrows.models import load_model
from narrows.models.quantized_names import endings, quantized_entry
from narrows.text import BadInput


@pytest.mark.parametrize(
    ("name", "original", "gigabytes"),
    [
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "meta-llama/Llama-3.1-8B-Instruct", 9.1),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8", "meta-llama/Llama-3.1-8B-Instruct", 9.1),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct", 5.57),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen/Qwen2.5-7B-Instruct", 5.58),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "Qwen/Qwen2.5-7B-Instruct", 8.87),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "Qwen/Qwen3-30B-A3B-Instruct-2507", 31.2),
    ],
)
def test_the_usual_scheme_of_a_name_gives_the_published_size(name: str, original: str, gigabytes: float) -> None:
    """Sizes of the safetensors files, as the hub's pages show them."""
    spec = load_model(name, online=False)
    assert spec.name == name
    assert spec.checkpoint_bytes() / 1e9 == pytest.approx(gigabytes, rel=0.02)
    said = str(spec.assumptions[0])
    assert "is assumed to be" in said
    assert original.rpartition("/")[2] in said


def test_a_name_in_the_catalogue_is_not_guessed() -> None:
    assert load_model("Qwen/Qwen3-30B-A3B-FP8", online=False).assumptions == ()


@pytest.mark.parametrize("ours", ["Qwen/Qwen3-30B-A3B-FP8", "Qwen/Qwen3-4B-AWQ"])
def test_what_is_assumed_agrees_with_checkpoints_that_are_known(ours: str) -> None:
    from narrows.models import read_config

    found = quantized_entry(ours)
    assert found is not None
    guessed, known = read_config(found[0].config, name=ours, as_usual=False), load_model(ours, online=False)
    assert guessed.checkpoint_bytes() == pytest.approx(known.checkpoint_bytes(), rel=0.005)


def test_a_model_nobody_knows_stays_unknown() -> None:
    with pytest.raises(BadInput, match="catalogue"):
        load_model("org/Nobody-7B-AWQ", online=False)
    with pytest.raises(BadInput):
        load_model("AWQ", online=False)


@pytest.mark.parametrize("ending", endings(), ids=lambda one: f"{one.ends} {' '.join(one.organisations)}")
def test_every_ending_reads_into_a_smaller_model(ending: object) -> None:
    organisation = (ending.organisations or ("org",))[0]  # type: ignore[attr-defined]
    spec = load_model(f"{organisation}/Qwen3-8B-{ending.ends}", online=False)  # type: ignore[attr-defined]
    assert spec.checkpoint_bytes() < 0.7 * load_model("Qwen3-8B").checkpoint_bytes()

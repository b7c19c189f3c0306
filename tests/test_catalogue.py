"""The bundled catalogue: every entry is read and counts what it should, and names are found as people type them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from narrows.models import load_model, read_config
from narrows.models.catalogue import CatalogueEntry, catalogue, catalogue_entry
from narrows.models.readers import FAMILIES
from narrows.text import BadInput

EXPECTED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "catalogue_expected.json").read_text()
)
ENTRIES = [pytest.param(entry, id=entry.id) for entry in catalogue()]


def refusal(name: str) -> str:
    with pytest.raises(BadInput) as error:
        catalogue_entry(name)
    return str(error.value)


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_has_the_parameters_and_the_cache_that_independent_counts_give(entry: CatalogueEntry) -> None:
    spec, expected = read_config(entry.config, name=entry.id), EXPECTED[entry.id]
    assert spec.unique_parameters() == expected["unique_parameters"]
    if "active_parameters" in expected:
        assert spec.active_parameters() == expected["active_parameters"]
    if "cache_elements_4096" in expected:
        assert spec.cache_elements(4096) == expected["cache_elements_4096"]
        assert spec.cache_elements(131072) == expected["cache_elements_131072"]


@pytest.mark.parametrize("name", [name for name, row in EXPECTED.items() if "stored_elements" in row])
def test_quantized_checkpoints_store_the_elements_that_the_hub_counts(name: str) -> None:
    table = load_model(name).tensor_table()
    assert sum(row.stored_elements for row in table) == EXPECTED[name]["stored_elements"]


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_says_where_it_comes_from_and_holds_nothing_a_reader_does_not_know(entry: CatalogueEntry) -> None:
    assert entry.source
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", entry.id)
    told = [str(text) for text in read_config(entry.config, name=entry.id).assumptions]
    assert not [text for text in told if "not understood" in text]


def test_ids_are_unique_and_the_expected_table_covers_them() -> None:
    ids = [entry.id for entry in catalogue()]
    assert len({name.lower() for name in ids}) == len(ids)
    assert set(ids) == set(EXPECTED)


def test_the_catalogue_has_models_of_many_families_all_of_which_are_read() -> None:
    families = {entry.config["model_type"] for entry in catalogue()}
    assert families <= set(FAMILIES)
    assert len(families) >= 40


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf"),
        ("llama-2-7b", "meta-llama/Llama-2-7b-hf"),
        ("Llama2 7B", "meta-llama/Llama-2-7b-hf"),
        ("  llama_2_7b\n", "meta-llama/Llama-2-7b-hf"),
        ("llama-2-13b-chat", "meta-llama/Llama-2-13b-chat-hf"),
        ("https://huggingface.co/meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf"),
        ("llama-3-8b", "meta-llama/Meta-Llama-3-8B"),
        ("llama-3-8b-instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("llama-3.1-8b", "meta-llama/Llama-3.1-8B"),
        ("Meta-Llama-3.1-8B", "meta-llama/Llama-3.1-8B"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("llama 3.3 70b", "meta-llama/Llama-3.3-70B-Instruct"),
        ("qwen3-8b", "Qwen/Qwen3-8B"),
        ("QWEN/QWEN3-8B", "Qwen/Qwen3-8B"),
        ("qwen 3 30b a3b fp8", "Qwen/Qwen3-30B-A3B-FP8"),
        ("qwen2.5-7b", "Qwen/Qwen2.5-7B"),
        ("qwen2.5-7b-chat", "Qwen/Qwen2.5-7B-Instruct"),
        ("qwen3-next-80b-a3b", "Qwen/Qwen3-Next-80B-A3B-Instruct"),
        ("qwen3-coder-480b-a35b", "Qwen/Qwen3-Coder-480B-A35B-Instruct"),
        ("mistral 7b v0.1", "mistralai/Mistral-7B-v0.1"),
        ("mixtral-8x7b-v0.1", "mistralai/Mixtral-8x7B-v0.1"),
        ("deepseek-v3", "deepseek-ai/DeepSeek-V3"),
        ("DeepSeek R1", "deepseek-ai/DeepSeek-R1"),
        ("gpt-oss-20b", "openai/gpt-oss-20b"),
        ("GPT OSS 120B", "openai/gpt-oss-120b"),
        ("gpt2", "openai-community/gpt2"),
        ("gemma-2-9b", "google/gemma-2-9b-it"),
        ("gemma-3-27b", "google/gemma-3-27b-it"),
        ("kimi-k2", "moonshotai/Kimi-K2-Instruct"),
        ("Phi 4", "microsoft/phi-4"),
    ],
)
def test_a_model_is_found_by_the_name_people_type(typed: str, meant: str) -> None:
    assert catalogue_entry(typed).id == meant


def test_a_miss_suggests_the_nearest_and_says_how_to_pass_a_file() -> None:
    message = refusal("llama-27b-hf")
    assert "is not in the catalogue" in message
    assert "meta-llama/Llama-2-7b-hf" in message
    assert "config.json" in message


@pytest.mark.parametrize("name", ["someone/entirely-else-9000", "!!!", "라마", "/", "a\x1b[2J\nb", "x" * 10_000])
def test_an_unknown_hub_id_says_how_to_pass_a_file(name: str) -> None:
    message = refusal(name)
    assert "config.json" in message
    assert len(message) < 400
    assert message.isprintable()


def test_an_ambiguous_name_lists_the_candidates() -> None:
    message = refusal("mistral 7b")
    assert "could be any of" in message
    assert "mistralai/Mistral-7B-v0.1" in message
    assert "mistralai/Mistral-7B-v0.3" in message


def test_a_beginning_of_several_names_lists_them() -> None:
    message = refusal("Qwen/Qwen3-235B")
    assert "could be any of" in message
    assert "Qwen/Qwen3-235B-A22B-FP8" in message
    assert refusal("qwen").endswith("…; give the whole name")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("jamba", "ai21labs/Jamba-v0.1"),
        ("qwen3-next", "Qwen/Qwen3-Next-80B-A3B-Instruct"),
        ("mixtral-8x7b", "mistralai/Mixtral-8x7B-v0.1"),
    ],
)
def test_the_beginning_of_one_name_only_is_that_name(name: str, found: str) -> None:
    assert catalogue_entry(name).id == found


@pytest.mark.parametrize(
    ("model", "elements"),
    [
        # elements of all tensors in the published files, as the hub counts them from the headers
        ("Qwen/Qwen3-0.6B", 751_632_384),
        ("google/medgemma-27b-it", 28_842_036_848),
        ("openai-community/gpt2", 137_022_720),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 81_324_862_720),
    ],
)
def test_what_the_files_hold_beside_the_tensors_is_counted_as_stored_only(model: str, elements: int) -> None:
    spec = load_model(model)
    assert sum(row.stored_elements for row in spec.tensor_table()) == elements
    assert spec.unique_parameters() < elements


def test_gptq_files_are_as_large_as_published() -> None:
    assert load_model("TheBloke/Genz-70b-GPTQ").checkpoint_bytes() == pytest.approx(26_774_982_616, rel=2e-5)
    assert load_model("TheBloke/Wizard-Vicuna-30B-Uncensored-GPTQ").checkpoint_bytes() == pytest.approx(
        16_940_128_464, rel=2e-4
    )


def test_one_name_in_two_organisations_is_asked_about_only_where_the_structure_differs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def holding(*sizes: int) -> None:
        entries = tuple(
            CatalogueEntry(f"org{index}/Same-7B", "here", {"hidden_size": size}) for index, size in enumerate(sizes)
        )
        monkeypatch.setattr("narrows.models.catalogue.catalogue", lambda: entries)

    holding(8, 16)
    message = refusal("same-7b")
    assert "could be any of" in message
    holding(8, 8)
    assert catalogue_entry("same-7b").config == {"hidden_size": 8}


@pytest.mark.parametrize("name", ["foo/Llama-2-7b-hf", "foo/llama-2-7b", "openai/gpt2", "Qwen/DeepSeek-V3"])
def test_a_wrong_organisation_does_not_match(name: str) -> None:
    assert "is not in the catalogue" in refusal(name)


def test_load_model_carries_id_and_source() -> None:
    spec = load_model("llama-2-7b")
    assert spec.name == "meta-llama/Llama-2-7b-hf"
    assert spec.source == catalogue_entry("llama-2-7b").source


def test_the_file_stays_small() -> None:
    data = Path(__file__).parent.parent / "src/narrows/models/data/catalogue.jsonl"
    assert data.stat().st_size < 400_000

"""Room for LoRA adapters, as a pasted command asks for it."""

from __future__ import annotations

import pytest

from narrows.answers.fit import fit
from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.memory.adapters import adapter_bytes
from narrows.models.catalogue import catalogue_entry
from narrows.models.config import catalogued
from narrows.text import BadInput


@pytest.mark.parametrize(("slots", "rank"), [(1, 16), (4, 64)])
def test_adapters_take_rank_times_in_and_out_of_every_matrix(slots: int, rank: int) -> None:
    model = catalogued(catalogue_entry("llama-3.1-8b"))
    one = deploy(model, find_accelerator("l40s"), adapters=(slots, rank))
    # Llama-3.1-8B: 41,943,040 parameters at rank 16 on all matrices of attention and MLP
    assert adapter_bytes(one) == slots * 41_943_040 * rank // 16 * 2


def test_tensor_parallelism_cuts_one_of_the_two() -> None:
    model = catalogued(catalogue_entry("llama-3.1-8b"))
    both = deploy(model, find_accelerator("l40s"), adapters=(1, 16), tensor_parallel=2)
    cut = 4096 + 1024 * 2 + 4096 + 14336 * 2 + 14336
    whole = 4096 * 3 + 4096 + 4096 * 2 + 4096
    assert adapter_bytes(both) == 32 * 16 * (whole + cut // 2) * 2


def test_a_pasted_command_states_them() -> None:
    command = "vllm serve llama-3.1-8b --max-model-len 8192"
    (without,) = fit(command, "l40s").candidates
    more = fit(f"{command} --enable-lora --max-loras 4 --max-lora-rank 64", "l40s")
    (found,) = more.candidates
    added = 4 * 41_943_040 * 4 * 2
    assert found.terms.weights == without.terms.weights + added
    assert without.kv_cache_available is not None and found.kv_cache_available is not None
    assert found.kv_cache_available.value == without.kv_cache_available.value - added
    assert any("room for 4 adapters of rank 64" in str(text) for text in found.reserve_basis)
    assert not any("not read" in str(text) for text in more.assumptions)
    # what bounds adapters does nothing where they are not turned on
    (off,) = fit(f"{command} --max-loras 4", "l40s").candidates
    assert off.terms == without.terms
    told = fit(f"{command} --max-lora-rank 64", "l40s").warnings
    assert [str(one) for one in told] == ["--max-lora-rank does nothing without --enable-lora"]


@pytest.mark.parametrize(
    ("version", "rank", "taken"),
    [
        ("0.32", 1, True),
        ("0.32", 48, False),
        ("0.32", 512, True),
        ("0.32", 1024, False),
        ("0.11.1", 1, True),
        ("0.11", 1, False),  # verl-project/verl#3696
        ("0.8", 320, True),
        ("0.7.3", 320, False),
        ("0.6", 256, True),
        ("0.5.3", 128, False),  # vllm-project/vllm#3934
        ("0.5.3", 64, True),
    ],
)
def test_a_rank_that_the_version_does_not_take_is_refused_with_those_that_it_takes(
    version: str, rank: int, taken: bool
) -> None:
    command = f"vllm serve llama-3.1-8b --enable-lora --max-lora-rank {rank}"
    if taken:
        assert fit(command, "h200-sxm", engine=f"vllm=={version}").candidates
        return
    with pytest.raises(BadInput, match=rf"--max-lora-rank is [\d,]+, and vllm=={version} takes .*8, 16, 32, 64"):
        fit(command, "h200-sxm", engine=f"vllm=={version}")

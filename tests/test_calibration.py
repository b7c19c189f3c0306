"""Corrections are kept, listed and removed; predictions use the nearest that holds, and say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from narrows.answers.calibration import calibration
from narrows.answers.fit import fit
from narrows.calibration.store import Correction, add, corrections, store_path
from narrows.text import BadInput
from narrows.units import GIB


def correction(
    kv_bytes: int, gpu: str = "l40s", model: str = "meta-llama/Llama-2-7b-hf", log: str = "a.log"
) -> Correction:
    return Correction("vllm", "0.32", gpu, model, 1, kv_bytes, log, "2026-11-29")


def kv(gpu: str, model: str = "llama-2-7b") -> float:
    return fit(model, gpu, max_len=4096).candidates[0].kv_cache_available.value


def test_without_a_store_nothing_is_corrected() -> None:
    assert corrections() == ()
    assert "on record" in str(calibration.__doc__)


def test_a_correction_moves_the_prediction_by_what_was_measured() -> None:
    before = kv("l40s")
    add(correction(-GIB))
    answer = fit("llama-2-7b", "l40s", max_len=4096)
    assert answer.candidates[0].kv_cache_available.value == before - GIB
    assert any("1 starts of this deployment" in str(text) for text in answer.candidates[0].reserve_basis)


def test_more_memory_than_predicted_makes_the_reserve_smaller() -> None:
    before = kv("l40s")
    add(correction(GIB // 4))
    assert kv("l40s") == pytest.approx(before + GIB // 4, abs=2)


def test_the_exact_deployment_comes_before_the_device_and_the_device_before_the_version() -> None:
    other = "meta-llama/Llama-2-13b-hf"
    before = kv("l40s"), kv("l40s", "llama-2-13b"), kv("h100-sxm", "llama-3.1-8b")
    add(correction(-GIB, log="exact.log"))
    add(correction(-3 * GIB, model=other, log="device.log"))
    add(correction(-5 * GIB, gpu="a10g", model=other, log="version.log"))
    assert kv("l40s") == before[0] - GIB
    assert kv("l40s", "llama-2-13b") == before[1] - 3 * GIB
    # all three are of this version: their median
    assert kv("h100-sxm", "llama-3.1-8b") == before[2] - 3 * GIB


def test_the_same_start_is_kept_once() -> None:
    add(correction(-GIB))
    add(correction(-2 * GIB))
    assert [one.kv_bytes for one in corrections()] == [-2 * GIB]


def test_a_correction_can_be_forgotten() -> None:
    add(correction(-GIB))
    assert calibration(forget=1).corrections == ()
    with pytest.raises(BadInput, match="no correction 1"):
        calibration(forget=1)


@pytest.mark.parametrize("text", ["{", "[]", '{"engine": 3}', "\xff"])
def test_a_damaged_store_is_told_not_ignored(text: str) -> None:
    Path(store_path()).write_bytes(text.encode("latin-1"))
    with pytest.raises(BadInput, match="cannot be read"):
        fit("llama-2-7b", "l40s", max_len=4096)

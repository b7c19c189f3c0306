"""What other processes hold of a device is part of the prediction, by the law of the engine's version."""

from __future__ import annotations

import json

import pytest

from narrows.answers.fit import Candidate, fit
from narrows.text import BadInput
from narrows.units import GIB

from .conftest import Cli

MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def beside(held: int | None, engine: str, **options: float) -> Candidate:
    return fit(MODEL, "l40s", max_len=8192, batch=4, engine=engine, memory_in_use=held, **options).candidates[0]  # type: ignore[arg-type]


def terms(one: Candidate) -> dict[str, int]:
    return {name: getattr(one.terms, name) for name in one.terms.__struct_fields__}


@pytest.mark.parametrize("engine", ["vllm", "vllm==0.9.0", "vllm==0.6.6", "vllm==0.6.4", "sglang", "llama.cpp"])
@pytest.mark.parametrize("held", [0, GIB, 12 * GIB, 40 * GIB])
def test_the_ledger_adds_up_with_what_others_hold(engine: str, held: int) -> None:
    found = terms(beside(held, engine))
    usable = found.pop("usable")
    assert found["others"] == held
    assert sum(found.values()) == usable
    assert found["unclaimed"] >= 0


@pytest.mark.parametrize("engine", ["vllm==0.6.4", "vllm==0.8.5"])
def test_versions_that_count_others_have_so_much_less_cache(engine: str) -> None:
    alone, crowded = beside(None, engine), beside(10 * GIB, engine)
    assert crowded.starts == "starts"
    assert alone.kv_cache_available.value - crowded.kv_cache_available.value == 10 * GIB


@pytest.mark.parametrize("engine", ["vllm==0.9.1", "vllm==0.11", "vllm"])
def test_newer_versions_refuse_a_share_that_is_not_free(engine: str) -> None:
    one = beside(10 * GIB, engine)
    assert one.starts == "fails: its share of the memory is not free"
    assert "10.00 GiB" in str(one.reason)
    assert "refuses to start" in str(one.reason)


@pytest.mark.parametrize("engine", ["vllm==0.5.4", "vllm==0.6.6"])
def test_older_versions_do_not_see_others_and_run_out_of_memory(engine: str) -> None:
    one = beside(10 * GIB, engine)
    assert one.kv_cache_available.value == beside(None, engine).kv_cache_available.value
    assert one.starts == "fails at KV allocation"


@pytest.mark.parametrize("engine", ["vllm", "vllm==0.6.6", "vllm==0.5.4", "sglang"])
def test_the_mend_starts_beside_them(engine: str) -> None:
    one = beside(30 * GIB, engine)
    assert not one.fits
    if one.mend is not None and one.mend.change.startswith("--gpu-memory-utilization"):
        share = float(one.mend.change.split()[1])
        assert beside(30 * GIB, engine, gpu_memory_utilization=share).fits


def test_what_is_counted_asks_for_a_larger_share_where_that_helps() -> None:
    one = beside(18 * GIB, "vllm==0.8.5", gpu_memory_utilization=0.8)
    changes = [mend.change for mend in (one.mend, *one.other_mends) if mend]
    assert not one.fits
    assert any(change.startswith("--gpu-memory-utilization 0.") for change in changes)
    assert "--memory-in-use 0" in changes


def test_a_share_that_leaves_room_for_others_starts() -> None:
    one = beside(10 * GIB, "vllm", gpu_memory_utilization=0.7)
    assert one.starts == "starts"
    assert one.kv_cache_available.value == beside(None, "vllm", gpu_memory_utilization=0.7).kv_cache_available.value


def test_sglang_takes_its_share_of_what_is_free() -> None:
    alone, crowded = beside(None, "sglang"), beside(10 * GIB, "sglang")
    lost = alone.kv_cache_available.value - crowded.kv_cache_available.value
    assert lost == pytest.approx(alone.gpu_memory_utilization * 10 * GIB, rel=1e-6)


def test_the_rule_of_thumb_counts_what_is_free() -> None:
    assert beside(None, "vllm").rule_of_thumb.holds
    assert not beside(20 * GIB, "vllm").rule_of_thumb.holds


@pytest.mark.parametrize("held", [45 * GIB, -1])
def test_others_cannot_hold_more_than_the_device(held: int) -> None:
    with pytest.raises(BadInput, match="memory-in-use"):
        beside(held, "vllm")


def test_the_option_takes_a_size_and_nothing(cli: Cli) -> None:
    words = ["fit", MODEL, "--gpu", "l40s", "--max-len", "8192", "--json", "--memory-in-use"]
    seen = [json.loads(cli(*words, held)[1]) for held in ("5GiB", "0")]
    assert [one["candidates"][0]["terms"].get("others", 0) for one in seen] == [5 * GIB, 0]


def test_the_mend_beside_others_is_the_largest_free_share_with_as_many_sequences_as_it_holds() -> None:
    answer = fit("llama-3.1-8b", "l40s", max_len=4096, memory_in_use=10 * GIB)
    mend = answer.candidates[0].mend
    assert mend is not None
    assert mend.change == "--gpu-memory-utilization 0.76"
    assert not any(other.change.startswith("--gpu-memory") for other in answer.candidates[0].other_mends)
    lower = fit("llama-3.1-8b", "l40s", max_len=4096, memory_in_use=10 * GIB, gpu_memory_utilization=0.76)
    assert lower.candidates[0].fits
    assert lower.candidates[0].max_batch == mend.max_batch
    assert (
        not fit("llama-3.1-8b", "l40s", max_len=4096, memory_in_use=10 * GIB, gpu_memory_utilization=0.78)
        .candidates[0]
        .fits
    )


def test_versions_that_do_not_count_others_are_warned_of_where_both_are_more_than_the_device() -> None:
    crowded = fit("llama-3.1-8b", "l40s", max_len=4096, memory_in_use=5 * GIB, engine="vllm==0.6.0")
    assert crowded.candidates[0].terms.free < 0
    assert any("under load" in str(warning) for warning in crowded.warnings)
    roomy = fit("llama-3.1-8b", "l40s", max_len=4096, memory_in_use=GIB, engine="vllm==0.6.0")
    assert roomy.candidates[0].terms.free >= 0
    assert not any("under load" in str(warning) for warning in roomy.warnings)


def test_a_device_that_is_too_small_for_what_others_hold_is_named() -> None:
    with pytest.raises(BadInput, match=r"less than the 14\.56 GiB of NVIDIA T4"):
        fit("llama-3.1-8b", ["l40s", "t4"], memory_in_use=20 * GIB)


def test_a_share_that_holds_fewer_than_were_asked_for_says_how_many() -> None:
    one = fit("llama-3.1-8b", "l40s", max_len=4096, batch=300, memory_in_use=10 * GIB).candidates[0]
    assert one.mend is not None
    assert one.mend.change.endswith(f"--batch {one.mend.max_batch}")


def test_another_device_as_a_mend_is_one_that_nobody_else_holds() -> None:
    one = fit("qwen3-8b", "l4", engine="vllm==0.24", max_len=8192, memory_in_use=12 * 2**30).candidates[0]
    (other,) = [mend for mend in (one.mend, *one.other_mends) if mend is not None and "--gpu " in mend.change]
    assert other.change.endswith("--memory-in-use 0")


def test_a_device_that_runs_more_at_once_by_itself_is_told_how_many_were_asked_for() -> None:
    asked = {"engine": "vllm==0.17.1", "max_len": 16, "batch": 300}
    one = fit("stepfun-ai/step3", "t4", tp=4, dp=4, **asked).candidates[0]  # type: ignore[arg-type]
    assert one.mend is not None
    words = one.mend.change.split()
    assert "--max-num-seqs 300" in one.mend.change
    again = fit("stepfun-ai/step3", words[1], tp=8, max_num_seqs=300, **asked).candidates[0]  # type: ignore[arg-type]
    assert again.fits

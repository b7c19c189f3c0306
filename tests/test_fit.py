"""`fit` answers the chapter's question with exact sizes, says why it does not fit, and offers a mend that works."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows import api
from narrows.answers.fit import Fit, fit
from narrows.text import BadInput
from narrows.units import GIB


def chapter() -> Fit:
    return fit("llama-2-7b", ["a10g", "l40s"], max_len=4096, cloud="aws")


def test_llama_2_7b_has_the_chapters_sizes() -> None:
    model = chapter().model
    assert model.unique_parameters == 6_738_415_616
    assert model.checkpoint_bytes == 13_476_831_232
    assert model.kv_bytes_per_token == 524_288
    assert 16 * model.kv_bytes_per_sequence == 32 * GIB


def test_an_a10g_takes_3_and_an_l40s_13_at_4096_tokens() -> None:
    assert [one.max_batch for one in chapter().candidates] == [3, 13]


def test_prices_are_those_of_the_smallest_aws_instances() -> None:
    found = [(one.usd_per_hour, one.instance) for one in chapter().candidates]
    assert found == [(1.006, "aws g5.xlarge (us-east-1)"), (1.861, "aws g6e.xlarge (us-east-1)")]
    first = chapter().candidates[0]
    assert first.usd_per_hour_per_sequence == pytest.approx(1.006 / 3)


def test_twice_the_models_size_does_not_fit_an_a10g_but_an_l40s() -> None:
    assert [one.rule_of_thumb.holds for one in chapter().candidates] == [False, True]
    assert chapter().candidates[0].rule_of_thumb.bytes == 2 * 13_476_831_232


def test_weights_too_big_name_another_device_that_fits() -> None:
    one = fit("llama-3.1-70b", "l40s", max_len=4096).candidates[0]
    assert (one.fits, one.verdict) == (False, "weights do not fit")
    assert one.mend is not None
    assert one.mend.change == "--tp 4"
    assert one.terms.free < 0
    again = fit("llama-3.1-70b", "l40s", max_len=4096, tp=4)
    assert again.fits


def test_a_load_too_big_is_mended_by_length_then_concurrency() -> None:
    one = fit("llama-2-7b", "a10g", batch=8, max_len=4096).candidates[0]
    assert one.verdict == "this load does not fit"
    assert one.mend is not None
    assert one.mend.change.startswith("--max-len ")
    shorter = int(one.mend.change.split()[1])
    assert shorter % 16 == 0
    assert fit("llama-2-7b", "a10g", batch=8, max_len=shorter).fits
    assert "--batch 3" in [mend.change for mend in one.other_mends]


def test_one_sequence_too_long_says_so() -> None:
    one = fit("llama-2-7b", "a10g", max_len=100_000).candidates[0]
    assert one.verdict == "no room for one sequence"
    assert one.batch == 1


@given(
    model=st.sampled_from(("llama-2-7b", "llama-3.1-70b", "mixtral-8x7b", "gemma-3-27b", "deepseek-v2-lite")),
    gpu=st.sampled_from(("t4", "a10g", "l40s", "h100-sxm")),
    batch=st.integers(1, 200),
    length=st.integers(300, 60_000),
)
def test_every_mend_works(model: str, gpu: str, batch: int, length: int) -> None:
    one = fit(model, gpu, batch=batch, max_len=length).candidates[0]
    flags = {
        "--max-len": "max_len",
        "--batch": "batch",
        "--tp": "tp",
        "--pp": "pp",
        "--kv-cache-dtype": "kv_cache_dtype",
        "--gpu": "gpu",
    }
    assert one.fits or one.mend is not None
    for mend in (one.mend, *one.other_mends) if one.mend else ():
        words = mend.change.split()
        options: dict[str, object] = {"gpu": gpu, "batch": batch, "max_len": length}
        for flag, value in zip(words[::2], words[1::2], strict=True):
            options[flags[flag]] = int(value) if value.isdigit() else value
        again = fit(model, **options)  # type: ignore[arg-type]
        assert again.fits
        assert (mend.max_batch, mend.length) == (again.candidates[0].max_batch, again.candidates[0].length)


def test_the_answer_prints_as_the_report_and_encodes_as_the_json() -> None:
    answer = api.fit("llama-2-7b", gpu="l40s", max_len=4096)
    assert "L40S" in str(answer)
    assert "13 × 4,096" in str(answer)
    assert answer._repr_html_().startswith("<h4>")  # type: ignore[union-attr]
    assert '"max_batch": 13' in answer.to_json()


def test_the_answer_is_frozen() -> None:
    with pytest.raises(AttributeError):
        chapter().model = None  # type: ignore[misc, assignment]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": -1}, "--batch is -1"),
        ({"batch": 0}, "--batch is 0"),
        ({"prompt": 5000, "max_len": 4096}, "longer than --max-len"),
        ({"tp": 3}, "does not divide 32 attention heads"),
        ({"cloud": "mars"}, "mars"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        fit("llama-2-7b", "l40s", **options)  # type: ignore[arg-type]


def test_no_gpu_is_refused() -> None:
    with pytest.raises(BadInput, match="no accelerator"):
        fit("llama-2-7b", [])


def test_parallel_devices_are_priced_as_one_instance() -> None:
    one = fit("llama-3.1-70b", "l40s", max_len=4096, tp=8, cloud="aws").candidates[0]
    assert (one.count, one.instance) == (8, "aws g6e.48xlarge (us-east-1)")

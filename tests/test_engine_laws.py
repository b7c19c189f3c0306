"""Laws of memory that changed from version to version of vLLM."""

from __future__ import annotations

import pytest

from narrows.deployment import Deployment, deploy
from narrows.hardware import find_accelerator
from narrows.memory import reserve, start
from narrows.memory.activations import captures
from narrows.memory.paging import paging
from narrows.models import load_model
from narrows.text import BadInput


def on(gpu: str, model: str, version: str, **options: object) -> Deployment:
    return deploy(load_model(model), find_accelerator(gpu), engine=f"vllm=={version}", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("model", "blocks"), [("meta-llama-3-8b-instruct", 13248), ("mistral-7b-v0.1", 12735)])
def test_what_the_allocator_reserves_counts_before_0_6_4(model: str, blocks: int) -> None:
    """vllm-project/vllm#4454: blocks of plain starts on an RTX A6000."""
    assert start(on("rtx-a6000", model, "0.4.1")).blocks == pytest.approx(blocks, rel=0.02)
    more = reserve(on("rtx-a6000", model, "0.6.3")).activations - reserve(on("rtx-a6000", model, "0.6.4")).activations
    assert more > 2**29


def test_before_0_7_1_latent_attention_keeps_every_head() -> None:
    """vllm-project/vllm#6211: 63,040 tokens of DeepSeek-V2-Lite on two L40, though the latent is 12 times smaller."""
    old = on("l40", "deepseek-v2-lite", "0.5.1", tensor_parallel=2, max_length=30720)
    new = on("l40", "deepseek-v2-lite", "0.7.1", tensor_parallel=2, max_length=30720)
    assert paging(old).page_bytes == 16 * (8 * 256 * 2 * 2)
    assert paging(new).page_bytes < paging(old).page_bytes / 6
    assert any("padded to 256" in str(text) for text in old.assumptions)
    assert not any("padded to 256" in str(text) for text in new.assumptions)


def test_before_0_5_4_prompts_of_any_length_are_profiled_whole() -> None:
    assert on("h100-sxm", "llama-3.1-8b", "0.5.3").max_num_batched_tokens == 131_072
    assert on("h100-sxm", "llama-3.1-8b", "0.5.4").max_num_batched_tokens == 512


def test_before_0_9_2_windows_save_no_blocks() -> None:
    """vllm-project/vllm#7593: 22,982 blocks of all layers of Gemma 2 9B on eight L4."""
    assert paging(on("l4", "gemma-2-9b-it", "0.5.4", tensor_parallel=8)).group_count == 1
    assert paging(on("l4", "gemma-2-9b-it", "0.9.2", tensor_parallel=8)).group_count == 2


def test_graphs_of_0_8_do_not_follow_the_sequences() -> None:
    for version, follows in (("0.7.3", True), ("0.8.5", False), ("0.10", True)):
        one, many = (captures(on("a10", "qwen3-8b", version, max_num_seqs=n)) for n in (1, 256))
        assert (one < many) is follows, version


def test_the_default_step_is_no_longer_than_all_sequences_from_0_9_on() -> None:
    """vllm-project/vllm#33155: v0.14.1 compiles for (1, 5120) with one sequence of 5120 tokens on an H100."""
    assert on("h100-sxm", "gpt-oss-120b", "0.14.1", max_num_seqs=1, max_length=5120).max_num_batched_tokens == 5120
    assert on("h100-sxm", "gpt-oss-120b", "0.8.5", max_num_seqs=1, max_length=5120).max_num_batched_tokens == 8192


def test_a_step_of_fewer_tokens_than_sequences_lowers_them_or_is_refused() -> None:
    lowered = on("l40s", "qwen3-8b", "0.12", max_num_batched_tokens=64)
    assert lowered.max_num_seqs == 64
    assert any("lowers its own 256" in str(text) for text in lowered.assumptions)
    with pytest.raises(BadInput, match="add --max-num-seqs 64"):
        on("l40s", "qwen3-8b", "0.8.5", max_num_batched_tokens=64)
    assert on("l40s", "qwen3-8b", "0.8.5", max_num_batched_tokens=64, max_num_seqs=64).max_num_seqs == 64

"""Layers that run with another layer's weights, weights that no file holds, and caches no engine was seen to page."""

from __future__ import annotations

from typing import Any

import pytest

from narrows.answers.check import check
from narrows.answers.fit import fit
from narrows.answers.models import model as described
from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.memory.shard import shards
from narrows.models import ModelSpec, read_config
from narrows.text import BadInput

from .conftest import DATA

ZAMBA2 = {
    "model_type": "zamba2",
    "torch_dtype": "bfloat16",
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_hidden_layers": 6,
    "layers_block_type": ["mamba", "hybrid", "hybrid", "mamba", "hybrid", "hybrid"],
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "n_mamba_heads": 4,
    "mamba_d_state": 16,
    "num_mem_blocks": 2,
    "adapter_rank": 8,
    "max_position_embeddings": 4096,
}
BLOCK = (
    3 * 128 * 128  # q, k and v read twice the hidden size
    + 64 * 128
    + 3 * 64 * 128  # gate, up and down
    + 128
    + 64  # two norms
    + 2 * (8 * 64 + 256 * 8)  # adapters of the two layers that use the block
)

LOOPED = {
    "model_type": "inkling2_loop_text",
    "torch_dtype": "bfloat16",
    "vocab_size": 1000,
    "unpadded_vocab_size": 990,
    "hidden_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "swa_num_attention_heads": 4,
    "swa_num_key_value_heads": 2,
    "swa_head_dim": 16,
    "sliding_window_size": 8,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "loop_layer_index_start": 2,
    "loop_layer_index_end": 4,
    "n_layers_per_attn_res_block": 2,
    "max_position_embeddings": 4096,
}

LONGCAT = {
    "model_type": "longcat_flash",
    "torch_dtype": "bfloat16",
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_layers": 3,
    "num_attention_heads": 4,
    "ffn_hidden_size": 96,
    "expert_ffn_hidden_size": 32,
    "n_routed_experts": 8,
    "zero_expert_num": 4,
    "moe_topk": 2,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "max_position_embeddings": 4096,
}


def spec(config: dict[str, Any], **changes: Any) -> ModelSpec:
    return read_config({**config, **changes}, name="a model")


def weights(model: ModelSpec, stages: int = 1) -> list[int]:
    return [one.weights for one in shards(deploy(model, find_accelerator("h100-sxm"), pipeline_parallel=stages))]


def test_a_block_that_many_layers_use_is_counted_once_and_cached_at_every_use() -> None:
    """Four hybrid layers take turns with two blocks; with one there is a block less, and not a cache less."""
    two, one = spec(ZAMBA2), spec(ZAMBA2, num_mem_blocks=1)
    adapters = 4 * (8 * 64 + 256 * 8)
    assert two.unique_parameters() - one.unique_parameters() == BLOCK - adapters // 2
    assert two.cache_elements(100) == one.cache_elements(100) == 4 * 2 * 128 * 100


def test_without_tying_every_layer_has_a_block_of_its_own() -> None:
    """transformers ties the blocks where it ties the head, and only there."""
    tied, untied = spec(ZAMBA2), spec(ZAMBA2, tie_word_embeddings=False)
    assert untied.unique_parameters() - tied.unique_parameters() == 2 * BLOCK + 1000 * 64


def test_every_pipeline_stage_holds_the_blocks_its_layers_use() -> None:
    """Both stages use both blocks, and both need the tied embedding."""
    whole, halves = weights(spec(ZAMBA2)), weights(spec(ZAMBA2), stages=2)
    assert sum(halves) - sum(whole) == 2 * (2 * BLOCK + 1000 * 64)


def test_a_stage_without_hybrid_layers_holds_no_block() -> None:
    kinds = ["mamba", "mamba", "mamba", "mamba", "hybrid", "hybrid"]
    last = spec(ZAMBA2, layers_block_type=kinds)
    assert sum(weights(last, stages=2)) - sum(weights(last)) == 2 * 1000 * 64


def test_looped_layers_have_weights_once_and_a_cache_for_every_pass() -> None:
    """Layers 2 and 3 of six are passed three times: ten layers run and cache, six have weights."""
    three, once = spec(LOOPED), spec(LOOPED, loop_num_passes=1)
    assert three.layers == 10
    assert three.unique_parameters() == once.unique_parameters()
    assert three.cache_elements(8) * 6 == once.cache_elements(8) * 10
    assert three.state_elements() * 6 == once.state_elements() * 10


def test_equal_layers_are_one_line_whatever_weights_they_run_with() -> None:
    kinds = described(spec(LOOPED), length=8).layer_kinds
    assert sum(kind.count for kind in kinds) == 10
    assert [kind.count for kind in kinds if kind.parameters == 0] == [4]


def test_experts_that_do_nothing_are_parameters_of_the_class_and_take_no_memory() -> None:
    """transformers builds gate and up of them; no file holds those."""
    some, none = spec(LONGCAT), spec(LONGCAT, zero_expert_num=0)
    idle, classes = 3 * 4 * 2 * 32 * 64, 3 * 4 * 64
    assert some.unique_parameters() - none.unique_parameters() == idle + classes
    assert some.active_parameters() - none.active_parameters() == classes
    # a class more in the router costs its row, and a float32 of the correction
    assert some.checkpoint_bytes() - none.checkpoint_bytes() == 2 * classes + 4 * 3 * 4
    assert any("do nothing" in str(text) for text in some.assumptions)


def test_two_latent_attentions_per_layer_are_two_layers_of_pages() -> None:
    found = fit(spec(LONGCAT), gpu="h100-sxm", max_len=1024).candidates[0]
    assert found.paged_bytes_per_sequence == 3 * 2 * 1024 * (16 + 8) * 2


@pytest.mark.parametrize(
    "config",
    [
        LOOPED,
        {"model_type": "rwkv", "vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 2},
        {"model_type": "xlstm", "vocab_size": 1000, "hidden_size": 128, "num_hidden_layers": 2},
        {
            "model_type": "mimo_v2_flash",
            "vocab_size": 1000,
            "hidden_size": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 8,
            "intermediate_size": 64,
        },
    ],
    ids=lambda config: config["model_type"],
)
def test_a_cache_that_no_engine_was_seen_to_page_is_described_but_not_paged(config: dict[str, Any]) -> None:
    model = spec(config)
    assert described(model, length=64).state_elements + described(model, length=64).cache_elements > 0
    with pytest.raises(BadInput, match="pages the cache of"):
        fit(model, gpu="h100-sxm", max_len=64)


def test_the_log_of_such_a_model_is_diagnosed_without_a_prediction() -> None:
    """The cause comes from the log alone; that nothing is predicted is said with its reason."""
    log = DATA / "logs" / "vllm-0.32.0-cpu-nofit.log"
    found = check(str(log), model=spec(LOOPED))
    assert found.outcome == "failed"
    assert found.cause is not None
    assert any("pages the cache of" in str(text) for text in found.assumptions)

"""Decoders with a cache of their own kind: compressed entries, loops, prompts, borrowed keys; and older spellings."""

from __future__ import annotations

from typing import Any

import pytest

from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.memory import capacity, shards
from narrows.memory.paging import paging
from narrows.models import ModelSpec, read_config
from narrows.models.tensors import CacheRow
from narrows.text import BadInput

FLASH: dict[str, Any] = {
    "model_type": "deepseek_v4",
    "torch_dtype": "bfloat16",
    "vocab_size": 129280,
    "hidden_size": 4096,
    "num_hidden_layers": 43,
    "num_attention_heads": 64,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "q_lora_rank": 1024,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "sliding_window": 128,
    "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
    "index_n_heads": 64,
    "index_head_dim": 128,
    "n_routed_experts": 256,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 2048,
    "num_hash_layers": 3,
    "hc_mult": 4,
    "max_position_embeddings": 1048576,
    "num_nextn_predict_layers": 1,
    "tie_word_embeddings": False,
    "expert_dtype": "fp4",
}
"""DeepSeek-V4-Flash, of its config.json on the hub what decides sizes."""
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}

LLAMA_LIKE: dict[str, Any] = {
    "torch_dtype": "bfloat16",
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "tie_word_embeddings": False,
}


def spec(**fields: Any) -> ModelSpec:
    return read_config({**LLAMA_LIKE, **fields}, name="x")


def flash(**fields: Any) -> ModelSpec:
    return read_config({**FLASH, **fields}, name="flash")


# ---------------------------------------------------------------- compressed entries


def test_the_published_file_of_v4_flash_has_the_parameters_that_transformers_builds_of_it() -> None:
    assert flash().unique_parameters() == 284_332_230_231
    assert flash().active_parameters() == 13_799_622_231


def test_a_compressed_layer_keeps_its_window_its_entries_and_the_tokens_that_wait() -> None:
    """Two layers of DeepSeek-V4, heads of 8, at 11 tokens: a window of 3; entries of 4 tokens and of 5."""
    one = flash(
        num_hidden_layers=2,
        compress_ratios=None,
        layer_types=["compressed_sparse_attention", "heavily_compressed_attention"],
        compress_rates={"compressed_sparse_attention": 4, "heavily_compressed_attention": 5},
        sliding_window=3,
        head_dim=8,
        qk_rope_head_dim=4,
        index_head_dim=2,
        o_groups=1,
    )
    windows = 2 * 3 * 8
    # 2 entries, 3 tokens waiting as key and gate of two series, 4 overlapping ones as key and gate of one
    sparse = 2 * 8 + 3 * 2 * 16 + 4 * 2 * 8
    indexer = 2 * 2 + 3 * 2 * 4 + 4 * 2 * 2
    heavy = 2 * 8 + 1 * 2 * 8
    assert one.cache_elements(11) == windows + sparse + indexer + heavy


def test_v4_flash_keeps_a_million_tokens_in_seven_gigabytes() -> None:
    assert flash().kv_bytes_per_sequence(1_048_576) == 7_220_054_016


def test_a_token_that_completes_an_entry_adds_nothing_though_its_sequence_then_keeps_less() -> None:
    model = flash()
    assert model.kv_bytes_per_sequence(128) < model.kv_bytes_per_sequence(127)
    assert model.kv_bytes_per_token(127) == 0


def test_the_most_that_a_row_keeps_on_the_way_never_shrinks() -> None:
    row = CacheRow("waiting", 1, 8, every=5, waiting=True)
    most = [row.most(length) for length in range(40)]
    assert most == sorted(most)
    assert all(row.most(length) >= row.tokens(length) for length in range(40))
    assert max(most) == 4


def test_experts_of_v4_take_four_bits_and_a_scale_per_32_beside_fp8() -> None:
    model = flash(quantization_config=FP8)
    experts = [row for row in model.tensor_table() if row.component == "experts"]
    assert sum(row.stored_bytes for row in experts) == sum(row.elements for row in experts) * 17 // 32
    q_up = next(row for row in model.tensor_table() if row.tensor.role == "csa.q_up")
    assert q_up.parts[0].format.name == "float8_e4m3fn"


def test_a_table_of_experts_by_token_is_stored_but_is_no_parameter() -> None:
    tables = [row for row in flash().tensor_table() if row.tensor.role == "router.by_token"]
    assert sum(row.count for row in tables) == 3
    assert {(row.tensor.shape, row.tensor.use) for row in tables} == {((129280, 6), "buffer")}


def test_every_rank_keeps_the_one_key_of_v4_whole() -> None:
    one, eight = (deploy(flash(), find_accelerator("h200-sxm"), tensor_parallel=tp, max_length=4096) for tp in (1, 8))
    assert shards(one)[0].kv_bytes(4096) == shards(eight)[0].kv_bytes(4096)


@pytest.mark.parametrize(
    ("length", "blocks", "tokens"), [(1024, 424, 41_397), (16_384, 6_724, 41_766), (1_048_576, 10_778, 1_667_623)]
)
def test_pages_of_v4_flash_are_those_of_the_allocator(length: int, blocks: int, tokens: int) -> None:
    """vLLM 0.32 on an H100 with 16 GiB of KV cache and 8192 batched tokens."""
    made = deploy(
        flash(),
        find_accelerator("h100-sxm"),
        max_num_batched_tokens=8192,
        max_length=1_048_576,
        device_memory=80 * 2**30,
    )
    found = paging(made)
    assert (found.block, found.block_bytes, found.blocks(16 * 2**30)) == (256, 1_002_240, 17_141)
    assert found.blocks_per_request(length) == blocks
    assert found.tokens(16 * 2**30, length) == tokens


# ---------------------------------------------------------------- other caches


def test_a_layer_that_runs_six_times_keeps_keys_and_values_six_times() -> None:
    """HRM-Text: 2 high cycles of 3 low ones and the high stack, 16 layers each, 12 heads of 128."""
    model = spec(model_type="hrm_text", num_hidden_layers=16, num_attention_heads=12, hidden_size=1536, head_dim=128)
    assert model.layers == 32
    assert model.cache_elements(17) == 17 * 2 * 12 * 128 * 16 * (2 * 3 + 2)


def test_a_cache_of_the_last_loop_only_is_that_of_one_run() -> None:
    dory = {"model_type": "dory", "num_hidden_layers": 4, "n_input_layers": 1, "n_output_layers": 1, "head_dim": 16}
    thrice, last = (
        spec(**dory, n_recurrent_loops=3, recurrent_kv_cache_mode=mode) for mode in ("per_loop", "last_loop")
    )
    assert thrice.cache_elements(8) == 8 * 2 * 2 * 16 * (2 + 2 * 3)
    assert last.cache_elements(8) == 8 * 2 * 2 * 16 * 4


def test_a_learned_prompt_is_kept_before_every_sequence() -> None:
    model = spec(model_type="cpmant", num_hidden_layers=3, dim_head=16, dim_ff=96, prompt_length=5)
    assert model.state_elements() == 3 * 2 * 4 * 16 * 5
    assert model.cache_elements(7) == 3 * 2 * 4 * 16 * 7


def test_the_last_layers_of_gemma_3n_read_the_keys_of_earlier_ones() -> None:
    model = read_config({"model_type": "gemma3n_text", "torch_dtype": "bfloat16"}, name="x")
    assert model.unique_parameters() == 6_835_235_568
    assert model.cache_elements(100) == 20 * 2 * 2 * 256 * 100


def test_a_draft_model_keeps_nothing_of_its_own_and_is_not_served_alone() -> None:
    draft = read_config(
        {"model_type": "gemma4_unified_assistant", "torch_dtype": "bfloat16", "text_config": {"num_hidden_layers": 6}},
        name="x",
    )
    assert draft.cache_elements(1000) == 0
    with pytest.raises(BadInput, match="drafts for another one"):
        capacity(deploy(draft, find_accelerator("l40s"), max_length=1024))


@pytest.mark.parametrize(
    "fields",
    [
        {"model_type": "hrm_text", "num_hidden_layers": 2, "head_dim": 16},
        {"model_type": "cpmant", "num_hidden_layers": 2, "dim_head": 16, "dim_ff": 96},
    ],
)
def test_pages_that_nobody_measured_are_not_made_up(fields: dict[str, Any]) -> None:
    made = deploy(spec(**fields), find_accelerator("l40s"), max_length=1024)
    with pytest.raises(BadInput, match="is not known, so narrows does not say how many sequences fit"):
        capacity(made)


# ---------------------------------------------------------------- spellings


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"model_type": "exaone", "num_layers": 3}, {"num_layers": None, "num_hidden_layers": 3}),
        (
            {"model_type": "dory", "num_hidden_layers": 8, "n_input_layers": 2, "n_output_layers": 2, "head_dim": 16}
            | {"layer_types": ["sliding_attention", "mlp"] * 3 + ["full_attention", "mlp"]},
            {"num_hidden_layers": 4, "n_input_layers": 1, "n_output_layers": 1}
            | {"layer_types": ["sliding_attention"] * 3 + ["full_attention"]},
        ),
        (
            {"model_type": "cohere2_moe", "num_hidden_layers": 4, "first_k_dense_replace": 1, "head_dim": 16},
            {"first_k_dense_replace": None, "mlp_layer_types": ["dense", *["sparse"] * 3]}
            | {"layer_types": ["full_attention", *["sliding_attention"] * 3]},
        ),
    ],
)
def test_files_of_before_say_the_same_in_other_words(old: dict[str, Any], new: dict[str, Any]) -> None:
    changed = {name: value for name, value in {**old, **new}.items() if value is not None}
    before, after = spec(**old), spec(**changed)
    assert before.groups == after.groups
    assert before.unique_parameters() == after.unique_parameters()


def test_ratios_of_compression_name_the_kinds_of_layers() -> None:
    kinds = ["sliding_attention"] * 2
    kinds += ["compressed_sparse_attention", "heavily_compressed_attention"] * 20 + ["compressed_sparse_attention"]
    assert flash().groups == flash(compress_ratios=None, layer_types=kinds).groups


def test_a_flat_file_of_fuyu_is_the_same_model_as_a_nested_one() -> None:
    text = {"num_hidden_layers": 2, **LLAMA_LIKE}
    nested = read_config({"model_type": "fuyu", "text_config": text, "tie_word_embeddings": False}, name="x")
    flat = read_config({"model_type": "fuyu", **text}, name="x")
    assert nested.unique_parameters() == flat.unique_parameters()

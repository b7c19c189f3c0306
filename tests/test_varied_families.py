"""Spellings of published files that transformers' own configs no longer have, held against what its classes build."""

from __future__ import annotations

from typing import Any

import pytest

from narrows.models import read_config
from narrows.text import BadInput

MIMO = {
    "model_type": "mimo_v2_flash",
    "num_hidden_layers": 48,
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 192,
    "v_head_dim": 128,
    "intermediate_size": 16384,
    "vocab_size": 152576,
    "max_position_embeddings": 262144,
    "sliding_window": 128,
    "sliding_window_size": 128,
    "swa_num_attention_heads": 64,
    "swa_num_key_value_heads": 8,
    "swa_head_dim": 192,
    "swa_v_head_dim": 128,
    "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0] + [1, 1, 1, 1, 1, 0] * 7,
    "moe_layer_freq": [0] + [1] * 47,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": None,
    "num_experts_per_tok": 8,
    "add_swa_attention_sink_bias": True,
    "add_full_attention_sink_bias": False,
    "torch_dtype": "bfloat16",
}

MINIMAX_M3 = {
    "model_type": "minimax_m3_vl_text",
    "dtype": "bfloat16",
    "hidden_size": 6144,
    "intermediate_size": 3072,
    "num_hidden_layers": 60,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 200064,
    "max_position_embeddings": 1048576,
    "dense_intermediate_size": 12288,
    "shared_intermediate_size": 3072,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "n_shared_experts": 1,
    "moe_layer_freq": [0, 0, 0] + [1] * 57,
    "sparse_attention_config": {
        "sparse_index_dim": 128,
        "sparse_num_index_heads": 4,
        "sparse_attention_freq": [0, 0, 0] + [1] * 57,
    },
}


def parameters(config: dict[str, Any], **changes: Any) -> int:
    return read_config({**config, **changes}, name="a model").unique_parameters()


def test_mimo_says_which_layers_slide_and_which_are_sparse_with_zeros_and_ones() -> None:
    """9 full layers of 4 KV heads, 39 windowed ones of 8; a window of 128 earlier tokens and the current one."""
    model = read_config(MIMO, name="MiMo-V2-Flash")
    assert model.unique_parameters() == 308_778_768_832
    assert model.cache_elements(1000) == 9 * 4 * 320 * 1000 + 39 * 8 * 320 * 129


@pytest.mark.parametrize(
    "changes",
    [
        {"swa_num_key_value_heads": 4},
        {"swa_head_dim": 128},
        {"add_full_attention_sink_bias": True},
        {"hybrid_layer_pattern": [0, 1]},
        {"hybrid_layer_pattern": [2] * 48},
    ],
    ids=str,
)
def test_what_the_class_would_build_otherwise_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        read_config({**MIMO, **changes}, name="a model")


def test_minimax_m3_indexes_the_layers_its_file_lists() -> None:
    """57 layers cache an index key of 128 beside 4 KV heads of 128."""
    model = read_config(MINIMAX_M3, name="MiniMax-M3")
    assert model.unique_parameters() == 426_174_565_632
    assert model.cache_elements(1000) == 60 * 2 * 4 * 128 * 1000 + 57 * 128 * 1000


def test_more_shared_experts_than_the_class_builds_are_refused() -> None:
    with pytest.raises(BadInput, match="n_shared_experts"):
        read_config({**MINIMAX_M3, "n_shared_experts": 2}, name="a model")


LONGCAT = {
    "model_type": "longcat_flash",
    "vocab_size": 1000,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "ffn_hidden_size": 96,
    "n_routed_experts": 8,
}


def test_longcat_counts_layers_once_or_twice() -> None:
    """Two latent attentions make a layer: `num_layers` 3 and `num_hidden_layers` 6 are one model."""
    assert parameters(LONGCAT, num_layers=3) == parameters(LONGCAT, num_hidden_layers=6)
    assert parameters(LONGCAT, num_layers=3, num_hidden_layers=3) == parameters(LONGCAT, num_layers=3)
    with pytest.raises(BadInput, match="contradicts itself"):
        parameters(LONGCAT, num_layers=3, num_hidden_layers=5)


def test_zamba2_reads_layer_kinds_of_before_transformers_5() -> None:
    zamba = {
        "model_type": "zamba2",
        "vocab_size": 1000,
        "hidden_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "lora_rank": 128,
    }
    new = parameters(zamba, layers_block_type=["linear_attention", "hybrid", "linear_attention"])
    assert parameters(zamba, layers_block_type=["mamba", "hybrid", "mamba"]) == new
    with pytest.raises(BadInput, match="layers_block_type"):
        parameters(zamba)


def test_sarvam_reads_the_names_its_first_files_had() -> None:
    new = {
        "model_type": "sarvam_mla",
        "vocab_size": 1000,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 96,
        "moe_intermediate_size": 32,
        "n_routed_experts": 6,
        "n_shared_experts": 2,
    }
    old = {k: v for k, v in new.items() if not k.startswith("n_")} | {"num_experts": 6, "num_shared_experts": 2}
    assert parameters(old) == parameters(new)


def test_what_an_encoder_puts_out_is_left_out_of_the_cache_and_said_so() -> None:
    config = {
        "model_type": "mllama_text_model",
        "vocab_size": 1000,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "cross_attention_layers": [1],
    }
    model = read_config(config, name="a model")
    assert model.cache_elements(10) == 3 * 2 * 2 * 16 * 10
    assert any("encoder" in str(text) for text in model.assumptions)


def test_a_recurrence_keeps_float32_and_its_convolution_the_models_format() -> None:
    """RecurrentGemma: per channel the last three inputs in bfloat16 and one float32."""
    config = {
        "model_type": "recurrent_gemma",
        "torch_dtype": "bfloat16",
        "vocab_size": 1000,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 3,
        "intermediate_size": 96,
    }
    model = read_config(config, name="a model")
    assert model.state_bytes_per_sequence() == 2 * (64 * 3 * 2 + 64 * 4)
    assert model.cache_elements(5000) == 2 * 64 * 2048

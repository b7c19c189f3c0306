"""What a configuration class needs to be told before a model of it can be built: its bare defaults cannot be.

Each reason is what transformers 5.24 raises without it.
"""

from __future__ import annotations

from typing import Any

_EVERY_FOURTH = ["linear_attention", "linear_attention", "linear_attention", "full_attention"]

_DECODER = {"model_type": "bert", "is_decoder": True, "add_cross_attention": True}
"""A decoder that hears its encoder: a class made of two configurations builds one that does not, and cannot run it."""

_INDEXER = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 64,
    "indexer_compress_ratio": 4,
    "ple_layer_ids": [2, 3],
    "ngram_vocab_size_base": 1000,
    "eos_token_id": 1,
}
"""Sizes of Qwen 4's indexer and n-grams, which its class leaves to the file."""

STARTS: dict[str, dict[str, Any]] = {
    "encoder-decoder": {"encoder": {"model_type": "bert"}, "decoder": _DECODER},
    "vision-encoder-decoder": {"encoder": {"model_type": "vit"}, "decoder": _DECODER},
    "speech-encoder-decoder": {"encoder": {"model_type": "wav2vec2"}, "decoder": _DECODER},
    # a cache needs one layer of attention
    "bamba": {"attn_layer_indices": [9, 18, 27]},
    "granitemoehybrid": {"layer_types": _EVERY_FOURTH * 8, "num_local_experts": 8, "num_experts_per_tok": 2},
    # numbers of experts, groups or heads that are None by default
    "dots1": {"n_routed_experts": 128, "num_experts_per_tok": 6, "n_shared_experts": 2},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128, "num_experts": 8, "moe_topk": 2},
    "lfm2_moe": {"layer_types": ["conv", "conv", "conv", "full_attention"] * 8},
    "ministral": {"head_dim": 128},
    **{
        name: {"text_config": _INDEXER} if name == "qwen4_exp" else _INDEXER for name in ("qwen4_exp", "qwen4_exp_text")
    },
    # without an audio_config there is no audio tower
    "gemma4": {"audio_config": {}},
    "hunyuan_vl": {"text_config": {"head_dim": 128}},
    "aya_vision": {"vision_config": {"model_type": "siglip_vision_model", "num_attention_heads": 16}},
    "nemotron": {"num_key_value_heads": 8, "head_dim": 128},
}

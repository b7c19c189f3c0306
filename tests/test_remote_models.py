"""Models whose classes stand beside their files on the hub: parameters as their published files count them.

Counts are those of the published safetensors headers (as the Apache-2.0 package llmfit 1.1.17 lists them), unless said
otherwise; configs hold of each published config.json what decides sizes.
"""

from __future__ import annotations

from typing import Any

import pytest

from narrows.models import ModelSpec, read_config
from narrows.models.readers import FAMILIES
from narrows.text import BadInput


def llama(hidden: int, inner: int, layers: int, heads: int, kv: int, vocab: int) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "vocab_size": vocab,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }


def glm(**fields: Any) -> dict[str, Any]:
    return {
        "model_type": "chatglm",
        "hidden_size": 4096,
        "ffn_hidden_size": 13696,
        "kv_channels": 128,
        "num_attention_heads": 32,
        "multi_query_attention": True,
        "multi_query_group_num": 2,
        "add_bias_linear": False,
        "add_qkv_bias": True,
        "rmsnorm": True,
        "post_layer_norm": True,
        "tie_word_embeddings": False,
        "torch_dtype": "float16",
        **fields,
    }


def ling(**fields: Any) -> dict[str, Any]:
    return {
        "model_type": "bailing_moe",
        "num_experts": 256,
        "num_experts_per_tok": 8,
        "num_shared_experts": 1,
        "use_qk_norm": True,
        "use_qkv_bias": False,
        "use_bias": False,
        "moe_router_enable_expert_bias": True,
        "head_dim": 128,
        **fields,
    }


MINIMAX = {
    **llama(6144, 9216, 80, 64, 8, 200064),
    "head_dim": 128,
    "num_local_experts": 32,
    "num_experts_per_tok": 2,
    "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 10,
    "postnorm": True,
    "shared_intermediate_size": 0,
    "shared_moe_mode": "sigmoid",
}

OPENELM_1B = {
    "model_type": "openelm",
    "model_dim": 2048,
    "head_dim": 64,
    "num_transformer_layers": 28,
    "vocab_size": 32000,
    "max_context_length": 2048,
    "ffn_dim_divisor": 256,
    "ffn_with_glu": True,
    "normalize_qk_projections": True,
    "share_input_output_layers": True,
    "ffn_multipliers": [
        *(0.5, 0.63, 0.76, 0.89, 1.02, 1.15, 1.28, 1.41, 1.54, 1.67, 1.8, 1.93, 2.06, 2.19, 2.31, 2.44, 2.57, 2.7),
        *(2.83, 2.96, 3.09, 3.22, 3.35, 3.48, 3.61, 3.74, 3.87, 4.0),
    ],
    "num_query_heads": [16] * 3 + [20] * 7 + [24] * 8 + [28] * 6 + [32] * 4,
    "num_kv_heads": [4] * 3 + [5] * 7 + [6] * 8 + [7] * 6 + [8] * 4,
    "torch_dtype": "bfloat16",
}

PUBLISHED: list[tuple[str, dict[str, Any], int]] = [
    ("Qwen-7B", {"model_type": "qwen", "no_bias": True, **llama(4096, 22016, 32, 32, 32, 151936)}, 7721324544),
    ("Qwen-14B", {"model_type": "qwen", "no_bias": True, **llama(5120, 27392, 40, 40, 40, 152064)}, 14167290880),
    ("ChatGLM3-6B", glm(num_layers=28, padded_vocab_size=65024), 6243584032),
    ("GLM-4-9B", glm(num_layers=40, padded_vocab_size=151552), 9399951392),
    (
        "InternLM2-1.8B",
        {"model_type": "internlm2", "bias": False, **llama(2048, 8192, 24, 16, 8, 92544)},
        1889110016,
    ),
    (
        "InternLM2-20B",
        {"model_type": "internlm2", "bias": False, **llama(6144, 16384, 48, 48, 8, 92544)},
        19861149696,
    ),
    ("MiniCPM4-8B", {"model_type": "minicpm", **llama(4096, 16384, 32, 32, 2, 73448)}, 8185253888),
    (
        "MiniCPM4-0.5B",
        {"model_type": "minicpm", **llama(1024, 4096, 24, 16, 2, 73448), "tie_word_embeddings": True},
        433873920,
    ),
    (
        "DeepSeek-MoE-16B",
        {
            "model_type": "deepseek",
            **llama(2048, 10944, 28, 16, 16, 102400),
            "first_k_dense_replace": 1,
            "moe_intermediate_size": 1408,
            "n_routed_experts": 64,
            "n_shared_experts": 2,
            "num_experts_per_tok": 6,
        },
        16375728128,
    ),
    ("Solar Pro Preview", {"model_type": "solar", **llama(5120, 17920, 64, 40, 10, 32128)}, 22140032000),
    (
        "Step-Audio-TTS-3B",
        {
            "model_type": "step1",
            **{k: v for k, v in llama(3072, 8192, 32, 48, 0, 74752).items() if k != "num_key_value_heads"},
            "num_attention_groups": 4,
        },
        3529706496,
    ),
    (
        "Phi-3-small-128k",
        {
            "model_type": "phi3small",
            "hidden_size": 4096,
            "ff_intermediate_size": 14336,
            "num_hidden_layers": 32,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "vocab_size": 100352,
            "torch_dtype": "bfloat16",
        },
        7392272384,
    ),
    (
        "Snowflake Arctic",
        {
            "model_type": "arctic",
            **llama(7168, 4864, 35, 56, 8, 32000),
            "num_local_experts": 128,
            "num_experts_per_tok": 2,
            "moe_layer_frequency": 1,
            "parallel_attn_mlp_res": True,
        },
        478584608768,
    ),
    (
        "Ling-lite",
        {
            **ling(use_qk_norm=False, moe_router_enable_expert_bias=False),
            **llama(2048, 1408, 28, 16, 4, 126464),
            "num_experts": 64,
            "num_experts_per_tok": 6,
            "num_shared_experts": 2,
            "moe_intermediate_size": 1408,
        },
        16801974272,
    ),
    (
        "Ling-mini-2.0",
        {**ling(moe_intermediate_size=512, first_k_dense_replace=1), **llama(2048, 5120, 20, 16, 4, 157184)},
        16255643392,
    ),
    (
        "Ling-flash-2.0",
        {**ling(moe_intermediate_size=1024, first_k_dense_replace=1), **llama(4096, 9216, 32, 32, 4, 157184)},
        102889705216,
    ),
    (
        "Ling-1T",
        {**ling(moe_intermediate_size=2048, first_k_dense_replace=4), **llama(8192, 18432, 80, 64, 8, 157184)},
        999705328640,
    ),
    ("MiniMax-Text-01", {"model_type": "minimax_text_01", **MINIMAX}, 456089655296),
    ("MiniMax-M1", {"model_type": "minimax_m1", **MINIMAX}, 456089655296),
    ("OpenELM-1.1B", OPENELM_1B, 1079891456),
    (
        "Step-3.5-Flash",
        {
            "model_type": "step3p5",
            **{k: v for k, v in llama(4096, 11264, 45, 64, 8, 128896).items() if k != "num_key_value_heads"},
            "num_attention_groups": 8,
            "head_dim": 128,
            "num_nextn_predict_layers": 3,
            "layer_types": (["full_attention"] + ["sliding_attention"] * 3) * 12,
            "attention_other_setting": {"num_attention_heads": 96, "num_attention_groups": 8, "head_dim": 128},
            "sliding_window": 512,
            "moe_layers_enum": ",".join(str(i) for i in range(3, 45)),
            "moe_num_experts": 288,
            "moe_top_k": 8,
            "moe_intermediate_size": 1280,
            "share_expert_dim": 1280,
        },
        199384301376,
    ),
]
"""(model, config, elements of the published file)"""


def read(config: dict[str, Any]) -> ModelSpec:
    return read_config(config, name="x")


def stored(spec: ModelSpec) -> int:
    return sum(row.stored_elements for row in spec.tensor_table())


@pytest.mark.parametrize(("name", "config", "elements"), PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_the_file_holds_as_many_elements_as_the_published_one(name: str, config: dict[str, Any], elements: int) -> None:
    assert stored(read(config)) == elements


def test_every_tensor_of_a_remote_model_has_a_name_of_its_own_dialect() -> None:
    for _, config, _ in PUBLISHED:
        assert all("{" not in row.name.replace("{}", "") and row.name for row in read(config).tensor_table())

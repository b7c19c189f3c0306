"""Models whose classes stand beside their files on the hub: parameters as their published files count them.

Counts are those of the published safetensors headers (as the Apache-2.0 package llmfit 1.1.17 lists them), unless said
otherwise; configs hold of each published config.json what decides sizes (how many experts a token is sent to, windows
and lengths do not, and are examples).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from narrows.models import ModelSpec, read_config
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
            "max_position_embeddings": 131072,
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
        "Hunyuan-A13B",
        {
            "model_type": "hunyuan",
            **llama(4096, 3072, 32, 32, 8, 128167),
            "attention_head_dim": 128,
            "tie_word_embeddings": True,
            "num_experts": 64,
            "moe_topk": [8] * 32,
            "moe_intermediate_size": [3072] * 32,
            "num_shared_expert": [1] * 32,
            "use_mixed_mlp_moe": True,
            "use_qk_norm": True,
            "use_cla": False,
            "cla_share_factor": 2,
        },
        80393183232,
    ),
    (
        "K2-Horizon-7B",
        {"model_type": "k2_horizon", **llama(4096, 12288, 36, 32, 8, 250624), "head_dim": 128, "num_experts": 0},
        8999178240,
    ),
    (
        "K2-Horizon-MoVA-36B",
        {
            "model_type": "k2_horizon",
            **llama(2560, 6144, 48, 32, 8, 250624),
            "head_dim": 128,
            "attention_gate_func": "softplus",
            "num_experts": 100,
            "num_experts_per_tok": 8,
            "num_shared_experts": 1,
            "moe_intermediate_size": 768,
            "moe_gate_bias": True,
            "mlp_only_layers": [0, 1, 2],
            "mova_num_experts": 64,
            "mova_num_experts_per_tok": 4,
        },
        37444792020,
    ),
    (
        "Spark-X2.5-4B",
        {
            "model_type": "spark2_5",
            **llama(2560, 10240, 36, 16, 4, 131072),
            "head_dim": 256,
            "sliding_window": 512,
            "headwise_attn_output_gate": True,
            "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 9,
            "tie_word_embeddings": True,
        },
        4112079360,
    ),
    (
        "Solar-Open2-250B",
        {
            "model_type": "solar_open2",
            **llama(4096, 10240, 48, 64, 8, 196608),
            "head_dim": 128,
            "gqa_layers": list(range(0, 48, 4)),
            "linear_attn_config": {"short_conv_kernel_size": 4, "head_dim": 128, "num_heads": 64, "num_kv_heads": None},
            "n_routed_experts": 320,
            "n_shared_experts": 1,
            "num_experts_per_tok": 8,
            "moe_intermediate_size": 1280,
        },
        250287810304,
    ),
    (
        "Nanbeige4.2-3B",
        {"model_type": "nanbeige", **llama(3072, 10752, 22, 48, 8, 166144), "head_dim": 128, "num_loops": 2},
        4169800704,
    ),
    (
        "Ouro-1.4B",
        {"model_type": "ouro", **llama(2048, 5632, 24, 16, 16, 49152), "head_dim": 128, "total_ut_steps": 4},
        1434652673,
    ),
    (
        "PLaMo 3 610M",
        {
            "model_type": "plamo3",
            **llama(1536, 6144, 16, 16, 1, 107520),
            "head_dim": 128,
            "window_size": 2048,
            "sliding_window": 2048,
            "sliding_window_pattern": 8,
        },
        890344960,
    ),
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


def block(group: int | None, mult: float | None, linear: bool = False) -> dict[str, Any]:
    """One entry of block_configs; None leaves the part out, linear puts one matrix in its place."""
    return {
        "attention": {"n_heads_in_group": group, "no_op": group is None and not linear, "replace_with_linear": linear},
        "ffn": {"ffn_mult": mult, "no_op": mult is None},
    }


def nas(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {
        **llama(256, 512, len(blocks), 4, 0, 1000),
        "model_type": "nemotron-nas",
        "num_key_value_heads": None,
        "intermediate_size": None,
        "block_configs": list(blocks),
    }


def test_a_block_without_attention_keeps_no_keys_and_has_no_norm_for_it() -> None:
    spec = read(nas(block(2, 1.5), block(None, 1.5), block(2, None)))
    whole, bare, headless = (group.layer for group in spec.groups)
    assert len(list(spec.cache_rows())) == 4
    assert bare.mixer.cache() == []
    assert whole.norms.names == ("input_layernorm", "post_attention_layernorm")
    assert bare.norms.names == ("post_attention_layernorm",)
    assert headless.feed_forward is None
    assert headless.norms.names == ("input_layernorm",)


def test_a_block_with_a_matrix_for_attention_has_its_weights_and_no_cache() -> None:
    spec = read(nas(block(None, 1.5, linear=True)))
    names = {row.name for row in spec.tensor_table()}
    assert "model.layers.{}.self_attn.linear_attn.weight" in names
    assert spec.cache_elements(100) == 0


WHOLE = (8, 5.25)
SUPER_49B: list[tuple[int, tuple[int | None, float]]] = [
    *((1, (8, 2.625)), (5, WHOLE), (2, (None, 2.625)), (3, WHOLE), (1, (None, 3.28125)), (30, WHOLE)),
    *((1, (None, 1.3125)), (2, (None, 2.625)), (1, (None, 1.3125)), (1, (None, 5.25)), (1, (None, 1.3125))),
    *((1, (None, 2.625)), (3, (None, 1.3125)), (1, WHOLE), (1, (None, 1.3125)), (2, (None, 1.0)), (1, (None, 1.3125))),
    *((3, (None, 1.0)), (2, (None, 1.3125)), (2, (None, 0.5)), (2, (None, 1.0)), (2, (None, 0.5)), (1, (None, 1.0))),
    *((2, (None, 0.5)), (9, WHOLE)),
]
"""block_configs of Llama 3.3 Nemotron Super 49B: how many blocks in a row, heads per group, ffn_mult."""


def test_nemotron_super_has_as_many_parameters_as_its_published_file_and_keeps_what_its_attentions_keep() -> None:
    blocks = [block(*kind) for count, kind in SUPER_49B for _ in range(count)]
    spec = read({**nas(*blocks), "hidden_size": 8192, "num_attention_heads": 64, "vocab_size": 128256})
    assert spec.unique_parameters() == 49867145216
    with_attention = sum(count for count, (group, _) in SUPER_49B if group)
    assert spec.cache_elements(1) == with_attention * 2 * 8 * 128


def test_a_width_by_ffn_mult_is_two_thirds_of_it_up_to_a_multiple_of_256() -> None:
    # Llama 3.1 70B: ffn_mult 5.25 of 8192 is 28,672
    spec = read({**nas(block(8, 5.25)), "hidden_size": 8192, "num_attention_heads": 64})
    table = {row.name: row.tensor.shape for row in spec.tensor_table()}
    assert table["model.layers.{}.mlp.up_proj.weight"] == (28672, 8192)


def test_deci_layers_have_the_kv_heads_that_their_list_says() -> None:
    config = {
        "model_type": "deci",
        **llama(4096, 14336, 32, 32, 32, 32000),
        "num_key_value_heads_per_layer": [4] * 2 + [2] * 29 + [1],
    }
    spec = read(config)
    # the published DeciLM-7B has 67 KV heads in all, and 7,043,551,232 parameters
    assert sum(config["num_key_value_heads_per_layer"]) == 67
    assert spec.unique_parameters() == 7043551232
    assert spec.cache_elements(1) == 67 * 2 * 128


def test_chatglm_of_the_first_kind_is_read_by_its_own_fields() -> None:
    config = {
        "model_type": "chatglm",
        "hidden_size": 4096,
        "inner_hidden_size": 16384,
        "num_attention_heads": 32,
        "num_layers": 28,
        "position_encoding_2d": True,
        "vocab_size": 130528,
        "max_sequence_length": 2048,
        "torch_dtype": "float16",
    }
    # 6,174,319,488 elements of a published int8 file, less a scale per output row and the rotary buffers
    scales = 28 * (3 * 4096 + 4096 + 16384 + 4096)
    assert read(config).unique_parameters() == 6174319488 - scales - 28 * 32


def test_qwen_1_has_half_of_its_intermediate_size_on_each_side_of_the_gate() -> None:
    spec = read({"model_type": "qwen", **llama(4096, 22016, 32, 32, 32, 151936)})
    shapes = {row.name: row.tensor.shape for row in spec.tensor_table()}
    assert shapes["transformer.h.{}.mlp.w1.weight"] == (11008, 4096)
    assert "transformer.h.{}.attn.c_attn.bias" in shapes
    assert "transformer.h.{}.attn.c_proj.bias" not in shapes


def test_baichuan_13b_names_its_length_in_words_of_its_own() -> None:
    config = {k: v for k, v in llama(5120, 13696, 40, 40, 40, 125696).items() if k != "max_position_embeddings"}
    spec = read({"model_type": "baichuan", **config, "model_max_length": 4096})
    # Baichuan2-13B: 27,793,336,320 bytes of bfloat16 in its index
    assert spec.checkpoint_bytes() == 27793336320
    assert spec.max_length == 4096


def test_mimo_holds_a_prediction_layer_beside_what_is_served() -> None:
    config = {"model_type": "mimo", **llama(4096, 11008, 36, 32, 8, 151680), "num_nextn_predict_layers": 1}
    spec = read({**config, "head_dim": 128, "attention_bias": True})
    assert stored(spec) == 7833409536
    assert spec.unique_parameters() == 7622619136


def test_dbrx_keeps_its_sizes_in_objects() -> None:
    config = {
        "model_type": "dbrx",
        "d_model": 6144,
        "n_heads": 48,
        "n_layers": 40,
        "max_seq_len": 32768,
        "vocab_size": 100352,
        "attn_config": {"kv_n_heads": 8, "clip_qkv": 8, "rope_theta": 500000},
        "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        "torch_dtype": "bfloat16",
    }
    spec, expert = read(config), 3 * 6144 * 10752
    assert spec.unique_parameters() == 131596523520
    assert spec.active_parameters() == 131596523520 - 40 * 12 * expert
    assert spec.max_length == 32768


def test_hunyuan_layers_without_keys_of_their_own_keep_those_of_the_layer_before() -> None:
    config = {
        "model_type": "hunyuan",
        **llama(640, 1024, 4, 8, 2, 1000),
        "num_experts": 4,
        "moe_topk": 1,
        "num_shared_expert": 1,
        "use_mixed_mlp_moe": True,
        "use_qk_norm": True,
    }
    plain, shared = read(config), read({**config, "use_cla": True, "cla_share_factor": 2})
    # two layers of four make no keys and values: two matrices of 2 heads × 80 each
    assert shared.unique_parameters() == plain.unique_parameters() - 2 * 2 * 160 * 640
    assert shared.cache_elements(10) == plain.cache_elements(10) == 4 * 10 * 2 * 2 * 80


OLD_FALCON = {"vocab_size": 65024, "torch_dtype": "bfloat16", "bias": False, "alibi": False}


@pytest.mark.parametrize(
    ("fields", "parameters"),
    [
        # Falcon 40B and 7B as transformers builds them
        ({"model_type": "RefinedWeb", "hidden_size": 8192, "n_head": 128, "n_head_kv": 8, "n_layer": 60}, 41303293952),
        (
            {
                "model_type": "RefinedWebModel",
                "hidden_size": 4544,
                "n_head": 71,
                "n_layer": 32,
                "multi_query": True,
                "parallel_attn": True,
            },
            6921720704,
        ),
    ],
)
def test_falcon_is_read_by_the_name_its_first_files_gave_it(fields: dict[str, Any], parameters: int) -> None:
    assert read({**OLD_FALCON, **fields}).unique_parameters() == parameters


def test_the_published_rows_can_be_placed_on_devices() -> None:
    from narrows.deployment import deploy
    from narrows.hardware import find_accelerator
    from narrows.memory import capacity, shards

    for name, config, _ in PUBLISHED:
        if name.startswith(("Ouro", "Nanbeige")):
            continue  # how engines page layers that run several times is not known
        spec = read(config)
        deployment = deploy(spec, find_accelerator("h200-sxm"), engine="vllm==0.32")
        assert shards(deployment)[0].weights > 0
        capacity(deployment, 2048)


@pytest.mark.parametrize(
    "family", ["baichuan", "qwen", "chatglm", "dbrx", "deci", "openelm", "nemotron-nas", "step3p5"]
)
def test_a_file_without_its_sizes_is_refused_in_words(family: str) -> None:
    with pytest.raises(BadInput, match=r"is missing|must list|is null"):
        read({"model_type": family})


KIMI_K3: dict[str, Any] = {
    "model_type": "kimi_k3",
    "dtype": "bfloat16",
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "kimi_linear",
        "attn_res_block_size": 12,
        "first_k_dense_replace": 1,
        "hidden_act": "situ",
        "hidden_size": 7168,
        "intermediate_size": 33792,
        "kv_lora_rank": 512,
        "latent_moe_use_norm": True,
        "linear_attn_config": {
            "full_attn_layers": [*range(4, 93, 4), 93],
            "head_dim": 128,
            "num_heads": 96,
            "short_conv_kernel_size": 4,
            "use_full_rank_gate": True,
        },
        "max_position_embeddings": 1048576,
        "mla_use_nope": True,
        "mla_use_output_gate": True,
        "moe_intermediate_size": 3072,
        "moe_layer_freq": 1,
        "num_attention_heads": 96,
        "num_experts": 896,
        "num_experts_per_token": 16,
        "num_hidden_layers": 93,
        "num_key_value_heads": 96,
        "num_shared_experts": 2,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "routed_expert_hidden_size": 3584,
        "v_head_dim": 128,
        "vocab_size": 163840,
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "mxfp4-pack-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float"}}},
        },
    },
    "vision_config": {
        "init_pos_emb_height": 64,
        "init_pos_emb_width": 64,
        "merge_kernel_size": [2, 2],
        "mm_projector_type": "patchmergerv2",
        "patch_size": 14,
        "qkv_hidden_size": 1536,
        "text_hidden_size": 7168,
        "vt_hidden_size": 1024,
        "vt_intermediate_size": 4096,
        "vt_num_attention_heads": 12,
        "vt_num_hidden_layers": 27,
    },
}


def test_kimi_k3_has_as_many_elements_as_its_published_file_unpacked() -> None:
    spec = read(KIMI_K3)
    assert sum(row.elements for row in spec.tensor_table()) == 2779931837184


def test_kimi_k3_packs_its_routed_experts_and_nothing_else() -> None:
    packed = {row.name for row in read(KIMI_K3).tensor_table() if len(row.parts) > 1}
    assert packed == {f"language_model.model.layers.{{}}.block_sparse_moe.experts.{{}}.w{i}.weight" for i in (1, 2, 3)}


def test_a_delta_layer_of_kimi_k3_takes_the_bytes_of_its_published_header() -> None:
    spec = read(KIMI_K3)
    layer = next(layer for layer, indices in spec.kinds if 1 in indices)
    # the published header of layer 1: attention, its norm and scores, then the whole layer without routed experts
    rows = [row for row in spec.layer_rows(layer, (1,)) if not row.tensor.role.startswith("experts.")]
    first = ("delta.", "norm.input_layernorm", "branch.attention")
    assert sum(row.stored_bytes for row in rows if row.tensor.role.startswith(first)) == 887843840
    assert sum(row.stored_bytes for row in rows) == 1267744256


def test_every_turn_of_a_looped_layer_keeps_keys_and_values_of_its_own() -> None:
    spec = read({"model_type": "ouro", **llama(64, 96, 3, 4, 4, 100), "total_ut_steps": 4})
    # 3 layers of 4 turns, 4 heads of 16, keys and values
    assert spec.cache_elements(10) == 10 * 3 * 4 * 4 * 16 * 2


OCR_TEXT: dict[str, Any] = {
    "hidden_size": 1280,
    "intermediate_size": 6848,
    "moe_intermediate_size": 896,
    "num_hidden_layers": 12,
    "num_attention_heads": 10,
    "num_key_value_heads": 10,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "use_mla": False,
    "kv_lora_rank": None,
    "q_lora_rank": None,
    "qk_nope_head_dim": 0,
    "qk_rope_head_dim": 0,
    "v_head_dim": 0,
    "vocab_size": 129280,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
DEEPSEEK_OCR: dict[str, Any] = {
    "model_type": "deepseek_vl_v2",
    **OCR_TEXT,
    "language_config": OCR_TEXT,
    "projector_config": {"input_dim": 2048, "n_embed": 1280, "projector_type": "linear"},
    "vision_config": {
        "image_size": 1024,
        "width": {
            "clip-l-14-224": {"heads": 16, "image_size": 224, "layers": 24, "patch_size": 14, "width": 1024},
            "sam_vit_b": {
                "downsample_channels": [512, 1024],
                "global_attn_indexes": [2, 5, 8, 11],
                "heads": 12,
                "layers": 12,
                "width": 768,
            },
        },
    },
}


def test_deepseek_ocr_has_as_many_elements_as_its_published_file() -> None:
    spec = read(DEEPSEEK_OCR)
    assert stored(spec) == 3336106240
    assert not any("not understood" in str(note) for note in spec.assumptions)


def test_other_models_of_the_same_model_type_are_refused() -> None:
    encoder = {"width": {"qwen2-0-5b": {"dim": 896}, "sam_vit_b": {}}}
    with pytest.raises(BadInput, match="narrows reads DeepSeek-VL2, and DeepSeek-OCR"):
        read({**DEEPSEEK_OCR, "vision_config": encoder})


def replaced(config: dict[str, Any], value: Any) -> Iterator[dict[str, Any]]:
    """The config with one field replaced, for every field at any depth."""
    for name, stated in config.items():
        yield {**config, name: value}
        if isinstance(stated, dict):
            yield from ({**config, name: inner} for inner in replaced(stated, value))


HOSTILE: list[Any] = [None, 0, -1, 2**40, 1.5, "x", [], [1, 2], {}, {"a": 1}, True, "9" * 50]
SMALL_ONES: list[dict[str, Any]] = [
    nas(block(2, 1.5)),
    {"model_type": "hunyuan", **llama(64, 96, 2, 4, 2, 100), "num_experts": 2, "use_mixed_mlp_moe": True},
    {"model_type": "mimo_v2", **llama(64, 96, 2, 4, 2, 100), "moe_intermediate_size": 8, "n_routed_experts": 4},
    {"model_type": "telechat", **llama(64, 96, 2, 4, 2, 100)},
    {"model_type": "phi-msft", "n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 100},
    {"model_type": "deci", **llama(64, 96, 2, 4, 2, 100), "num_key_value_heads_per_layer": [2, 1]},
]


def test_any_field_can_hold_anything_without_a_traceback() -> None:
    for config in [*(config for _, config, _ in PUBLISHED), *SMALL_ONES, KIMI_K3, DEEPSEEK_OCR]:
        for value in HOSTILE:
            for changed in replaced(config, value):
                try:
                    spec = read(changed)
                except BadInput as error:
                    assert str(error)
                else:
                    assert spec.unique_parameters() > 0


def test_mimo_v2_5_pro_adds_up_to_its_published_file() -> None:
    hidden, heads, wide, dense, expert = 6144, 128, 128 * 192 + 8 * 192 + 8 * 128, 16384, 2048
    config = {
        "model_type": "mimo_v2",
        **llama(hidden, dense, 70, heads, 8, 152576),
        "head_dim": 192,
        "v_head_dim": 128,
        "swa_num_attention_heads": heads,
        "swa_num_key_value_heads": 8,
        "swa_head_dim": 192,
        "swa_v_head_dim": 128,
        "sliding_window": 128,
        "sliding_window_size": 128,
        "hybrid_layer_pattern": [0] + [1] * 60 + [0] * 9,
        "moe_layer_freq": [0] + [1] * 69,
        "add_swa_attention_sink_bias": True,
        "add_full_attention_sink_bias": False,
        "n_routed_experts": 384,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": expert,
        "attention_projection_layout": "fused_qkv",
    }
    # the published file is FP8 by blocks of 128 (outputs of attention apart; q, k and v fused for 8 ranks: 216 rows of
    # blocks), and holds three prediction layers with windows and dense parts
    block = 128 * 128
    prediction = wide * hidden + heads * 128 * hidden + 3 * hidden * dense + 2 * hidden**2 + 5 * hidden + heads
    scales = 69 * 384 * 3 * hidden * expert // block + 4 * 3 * hidden * dense // block + 73 * 216 * hidden // 128
    assert stored(read(config)) == 1023244718976 - 3 * prediction - scales


def test_towers_of_mimo_v2_that_are_not_read_are_named() -> None:
    config = {"model_type": "mimo_v2", **llama(64, 96, 2, 4, 2, 100), "moe_intermediate_size": 8, "n_routed_experts": 4}
    notes = [str(note) for note in read({**config, "vision_config": {"depth": 2}}).assumptions]
    assert "the encoder of 'vision_config' is not read yet, so that its weights are not counted" in notes


def test_value_experts_of_k2_horizon_keep_what_any_attention_keeps() -> None:
    (config,) = (config for name, config, _ in PUBLISHED if name == "K2-Horizon-MoVA-36B")
    spec = read(config)
    # 192 KiB a token in bfloat16, 48 layers of 8 heads of 128
    assert 2 * spec.cache_elements(1) == 192 * 1024
    expert = 8 * 128 * 2560
    idle = 45 * (60 * expert + 92 * 3 * 2560 * 768)
    assert spec.active_parameters() == spec.unique_parameters() - idle

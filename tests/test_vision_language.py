"""Multimodal configs as the hub spells them: published counts, parts read by their own readers, refusals."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from narrows.models import ModelSpec, read_config
from narrows.models.readers.families import FAMILIES
from narrows.models.readers.towers.table import ENCODERS
from narrows.text import BadInput

_QWEN_25_VISION = {
    "depth": 32,
    "hidden_size": 1280,
    "intermediate_size": 3420,
    "num_heads": 16,
    "in_chans": 3,
    "out_hidden_size": 3584,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "window_size": 112,
}
QWEN_25_VL_7B: dict[str, Any] = {
    "architectures": ["Qwen2_5_VLForConditionalGeneration"],
    "model_type": "qwen2_5_vl",
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "max_position_embeddings": 128000,
    "max_window_layers": 28,
    "sliding_window": 32768,
    "use_sliding_window": False,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vision_config": _QWEN_25_VISION,
}
QWEN_25_VL_3B = {
    **QWEN_25_VL_7B,
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "vision_config": {**_QWEN_25_VISION, "out_hidden_size": 2048},
}
LLAVA_15_7B: dict[str, Any] = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "image_token_index": 32000,
    "projector_hidden_act": "gelu",
    "torch_dtype": "float16",
    "vision_feature_layer": -2,
    "vision_feature_select_strategy": "default",
    "text_config": {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064},
    "vision_config": {
        "model_type": "clip_vision_model",
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "image_size": 336,
        "num_attention_heads": 16,
        "num_hidden_layers": 24,
        "patch_size": 14,
        "projection_dim": 768,
        "vocab_size": 32000,
    },
}
INTERNVL3_8B: dict[str, Any] = {
    "architectures": ["InternVLChatModel"],
    "model_type": "internvl_chat",
    "downsample_ratio": 0.5,
    "torch_dtype": "bfloat16",
    "vision_config": {
        "model_type": "intern_vit_6b",
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "image_size": 448,
        "patch_size": 14,
        "qkv_bias": True,
        "qk_normalization": False,
        "norm_type": "layer_norm",
    },
    "llm_config": {
        "model_type": "qwen2",
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_attention_heads": 28,
        "num_hidden_layers": 28,
        "num_key_value_heads": 4,
        "vocab_size": 151674,
        "tie_word_embeddings": False,
    },
}

_SIGLIP = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "patch_size": 14,
}
PALIGEMMA_3B: dict[str, Any] = {
    "model_type": "paligemma",
    "projection_dim": 2048,
    "vision_config": {**_SIGLIP, "model_type": "siglip_vision_model", "vision_use_head": False, "image_size": 224},
    "text_config": {
        "model_type": "gemma",
        "hidden_size": 2048,
        "intermediate_size": 16384,
        "num_attention_heads": 8,
        "num_hidden_layers": 18,
        "num_key_value_heads": 1,
        "vocab_size": 257216,
    },
}
SMOLVLM: dict[str, Any] = {
    "model_type": "idefics3",
    "scale_factor": 3,
    "tie_word_embeddings": False,
    "vision_config": {**_SIGLIP, "model_type": "idefics3", "image_size": 384},
    "text_config": {
        "model_type": "llama",
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_attention_heads": 32,
        "num_hidden_layers": 24,
        "vocab_size": 49155,
    },
}
IDEFICS2_8B: dict[str, Any] = {
    "model_type": "idefics2",
    "vision_config": {**_SIGLIP, "model_type": "idefics2", "image_size": 980},
    "perceiver_config": {"model_type": "idefics2", "resampler_depth": 3, "resampler_n_latents": 64},
    "text_config": {"model_type": "mistral", "vocab_size": 32003},
}
BLIP2_OPT_2_7B: dict[str, Any] = {
    "model_type": "blip-2",
    "num_query_tokens": 32,
    "vision_config": {},
    "qformer_config": {},
    "text_config": {
        "model_type": "opt",
        "hidden_size": 2560,
        "ffn_dim": 10240,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "word_embed_proj_dim": 2560,
        "vocab_size": 50304,
    },
}
LFM2_VL_450M: dict[str, Any] = {
    "model_type": "lfm2_vl",
    "projector_hidden_size": 2560,
    "vision_config": {"model_type": "siglip2_vision_model", "vision_use_head": False},
    "text_config": {
        "model_type": "lfm2",
        "hidden_size": 1024,
        "block_ff_dim": 6656,
        "num_hidden_layers": 16,
        "num_attention_heads": 16,
        "full_attn_idxs": [2, 5, 8, 10, 12, 14],
        "vocab_size": 65536,
    },
}


def read(config: dict[str, Any]) -> ModelSpec:
    return read_config(config, name="test")


@pytest.mark.parametrize(
    ("config", "published"),
    [
        (QWEN_25_VL_7B, 8_292_166_656),
        (QWEN_25_VL_3B, 3_754_622_976),
        (LLAVA_15_7B, 7_063_427_072),
        (INTERNVL3_8B, 7_944_373_760),
        (PALIGEMMA_3B, 2_923_466_480),
        (SMOLVLM, 2_246_272_880),
        (IDEFICS2_8B, 8_402_768_112),
        (BLIP2_OPT_2_7B, 3_744_761_856),
        (LFM2_VL_450M, 450_822_656),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_the_hub_spelling_gives_the_published_count(config: dict[str, Any], published: int) -> None:
    assert read(config).unique_parameters() == published


def test_a_decoder_at_the_top_and_one_inside_are_the_same_model() -> None:
    inside = {"model_type": "qwen2_5_vl", "torch_dtype": "bfloat16", "vision_config": _QWEN_25_VISION}
    inside["text_config"] = {
        name: value
        for name, value in QWEN_25_VL_7B.items()
        if name not in ("vision_config", "model_type", "architectures", "torch_dtype")
    }
    assert [row.tensor for row in read(inside).tensor_table()] == [
        row.tensor for row in read(QWEN_25_VL_7B).tensor_table()
    ]


def test_a_class_whose_name_has_signs_needs_no_note() -> None:
    assert read(QWEN_25_VL_7B).assumptions == ()


def test_the_files_names_are_those_of_the_hub() -> None:
    names = {row.name for row in read(QWEN_25_VL_7B).tensor_table()}
    assert {"model.embed_tokens.weight", "lm_head.weight", "visual.blocks.{}.attn.qkv.weight"} <= names
    names = {row.name for row in read(LLAVA_15_7B).tensor_table()}
    assert "language_model.model.layers.{}.self_attn.q_proj.weight" in names
    assert "language_model.lm_head.weight" in names
    assert "vision_tower.vision_model.encoder.layers.{}.mlp.fc1.weight" in names


def test_the_decoder_inside_is_the_one_that_the_file_names() -> None:
    mixtral = {"model_type": "mixtral", "num_hidden_layers": 2}
    spec = read({**LLAVA_15_7B, "text_config": mixtral})
    assert spec.active_parameters() < spec.unique_parameters()
    names = {row.name for row in spec.tensor_table()}
    assert "language_model.model.layers.{}.block_sparse_moe.experts.{}.w1.weight" in names


def test_the_tower_is_the_one_that_the_file_names() -> None:
    siglip = {**LLAVA_15_7B["vision_config"], "model_type": "siglip_vision_model", "vision_use_head": False}
    clip, other = read(LLAVA_15_7B), read({**LLAVA_15_7B, "vision_config": siglip})
    # SigLIP's patches have a bias; it has no class token with its position, and no norm before its layers
    assert clip.unique_parameters() - other.unique_parameters() == 1024 + 1024 + 2 * 1024 - 1024


def test_several_feature_layers_widen_the_projector() -> None:
    wider = read({**LLAVA_15_7B, "vision_feature_layer": [-2, -5, -8]})
    assert wider.unique_parameters() - read(LLAVA_15_7B).unique_parameters() == 2 * 1024 * 4096


def test_a_head_that_either_part_ties_is_tied() -> None:
    head = 32064 * 4096
    untied = read(LLAVA_15_7B).unique_parameters()
    text = {**LLAVA_15_7B["text_config"], "tie_word_embeddings": True}
    assert untied - read({**LLAVA_15_7B, "text_config": text}).unique_parameters() == head
    assert untied - read({**LLAVA_15_7B, "tie_word_embeddings": True}).unique_parameters() == head
    # LLaVA-NeXT reads the top alone
    assert not read({**LLAVA_15_7B, "model_type": "llava_next", "text_config": text}).head_tied


def test_quantization_leaves_out_what_its_list_names_by_the_files_names() -> None:
    quantization = {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "ignore": ["re:.*lm_head", "re:vision_tower.*", "language_model.model.layers.0.mlp.down_proj"],
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 8, "type": "float", "strategy": "channel"},
                "input_activations": {"num_bits": 8, "type": "float", "dynamic": True},
            }
        },
    }
    spec = read({**LLAVA_15_7B, "quantization_config": quantization})
    down = [row for row in spec.tensor_table() if row.name.endswith("layers.{}.mlp.down_proj.weight")]
    assert sorted((row.count, row.parts[0].format.name) for row in down) == [(1, "float16"), (31, "float8_e4m3fn")]


def test_layers_that_look_at_a_picture_cache_no_text() -> None:
    spec = read(
        {
            "model_type": "mllama",
            "text_config": {"num_hidden_layers": 10, "cross_attention_layers": [3, 8]},
            "vision_config": {"num_hidden_layers": 2, "num_global_layers": 1},
        }
    )
    assert spec.cache_elements(100) == 8 * 2 * 8 * 128 * 100
    assert not spec.head_tied


def test_a_captioner_keeps_keys_of_every_patch_beside_its_own_tokens() -> None:
    vision = {"num_hidden_layers": 1, "image_size": 384, "patch_size": 16}
    spec = read({"model_type": "blip", "text_config": {"num_hidden_layers": 2}, "vision_config": vision})
    assert spec.cache_elements(10) == 2 * 2 * 768 * (10 + 24 * 24 + 1)


def test_an_encoder_inside_moves_with_its_decoder() -> None:
    text = {"model_type": "t5", "vocab_size": 100, "d_model": 64, "num_layers": 2, "num_heads": 4, "d_kv": 16}
    spec = read(
        {"model_type": "blip-2", "text_config": {**text, "d_ff": 128}, "vision_config": {}, "qformer_config": {}}
    )
    names = {row.name for row in spec.tensor_table() if row.component in ("encoder", "cross-attention")}
    assert "language_model.encoder.block.{}.layer.0.SelfAttention.q.weight" in names
    assert "language_model.decoder.block.{}.layer.1.EncDecAttention.q.weight" in names
    assert all(name.startswith("language_model.") for name in names)
    assert spec.cache_elements(10) == 2 * 2 * 2 * 64 * 10  # its own tokens, and as many of the encoder


def test_one_second_tower_is_another_tower() -> None:
    vision = LLAVA_15_7B["vision_config"]
    spec = read({**LLAVA_15_7B, "model_type": "video_llava", "vision_config": vision})
    first, second = spec.towers[:2]
    assert [tensor for _, _, tensor in first.tensors] == [tensor for _, _, tensor in second.tensors]
    assert {name.split(".")[0] for name, _, _ in first.tensors} == {"image_tower"}
    assert {name.split(".")[0] for name, _, _ in second.tensors} == {"video_tower"}


@pytest.mark.parametrize(
    ("part", "kind", "said"),
    [
        ("text_config", "rwkv7", "text part of this config is 'rwkv7'"),
        ("text_config", "llava", "text_config' must be an object"),
        ("text_config", 7, "text_config.model_type' is 7; it must be a word"),
        ("vision_config", "eva", "vision part of this config is 'eva'"),
        ("vision_config", ["clip"], 'vision_config.model_type\' is ["clip"]; it must be a word'),
    ],
)
def test_a_part_that_is_not_known_is_refused_by_name(part: str, kind: object, said: str) -> None:
    config = copy.deepcopy(LLAVA_15_7B)
    config[part]["model_type"] = kind
    with pytest.raises(BadInput) as refused:
        read(config)
    assert said in str(refused.value)


def test_a_text_part_with_parts_of_its_own_is_refused() -> None:
    config = copy.deepcopy(LLAVA_15_7B)
    config["text_config"]["thinker_config"] = {"model_type": "llama"}
    with pytest.raises(BadInput):
        read(config)


@pytest.mark.parametrize("kind", sorted({family.vision for family in FAMILIES.values()} & set(ENCODERS)))
@pytest.mark.parametrize("value", [0, -1, 2**31, 0.5, True, "x", [], None, [7, 7, 7], {}])
def test_no_value_of_a_towers_field_ends_in_a_traceback(kind: str, value: object) -> None:
    encoder = ENCODERS[kind]
    for name, _ in (encoder.hidden, encoder.layers, encoder.heads, encoder.inner, encoder.patch, encoder.image):
        family = next(name for name, family in FAMILIES.items() if family.vision == kind)
        field = FAMILIES[family].text_field
        config = {"model_type": family, field: {"model_type": "llama"}, "vision_config": {name: value}}
        try:
            read(config).unique_parameters()
        except BadInput as refused:
            assert str(refused)

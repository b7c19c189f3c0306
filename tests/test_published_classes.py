"""Files as the hub holds them that say less, or more, than a language model's: what their published sizes were."""

from __future__ import annotations

from typing import Any

import pytest

from narrows.models import ModelSpec, read_config

_BERT = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "torch_dtype": "float32",
}
_BGE = {**_BERT, "model_type": "bert", "max_position_embeddings": 512, "type_vocab_size": 2, "vocab_size": 30522}
_M3 = {
    **_BERT,
    "model_type": "xlm-roberta",
    "max_position_embeddings": 8194,
    "type_vocab_size": 1,
    "vocab_size": 250002,
}
_MISTRAL_7B = {
    "model_type": "mistral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
    "torch_dtype": "bfloat16",
}
_PIXTRAL = {
    "model_type": "pixtral",
    "hidden_size": 1024,
    "head_dim": 64,
    "image_size": 1540,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "patch_size": 14,
}
MISTRAL_SMALL_31: dict[str, Any] = {
    "architectures": ["Mistral3ForConditionalGeneration"],
    "model_type": "mistral3",
    "multimodal_projector_bias": False,
    "spatial_merge_size": 2,
    "text_config": {
        "model_type": "mistral",
        "head_dim": 128,
        "hidden_size": 5120,
        "intermediate_size": 32768,
        "num_attention_heads": 32,
        "num_hidden_layers": 40,
        "num_key_value_heads": 8,
        "sliding_window": None,
        "vocab_size": 131072,
    },
    "torch_dtype": "bfloat16",
    "transformers_version": "4.50.0.dev0",
    "vision_config": _PIXTRAL,
}
INTERNVL3_8B: dict[str, Any] = {
    "architectures": ["InternVLForConditionalGeneration"],
    "model_type": "internvl",
    "downsample_ratio": 0.5,
    "text_config": {
        "model_type": "qwen2",
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_attention_heads": 28,
        "num_hidden_layers": 28,
        "num_key_value_heads": 4,
        "vocab_size": 151674,
    },
    "torch_dtype": "bfloat16",
    "transformers_version": "4.52.0.dev0",
    "vision_config": {
        "model_type": "internvl_vision",
        "attention_bias": True,
        "hidden_size": 1024,
        "image_size": [448, 448],
        "intermediate_size": 4096,
        "norm_type": "layer_norm",
        "num_attention_heads": 16,
        "num_hidden_layers": 24,
        "patch_size": [14, 14],
        "use_mean_pooling": True,
    },
}


def read(config: dict[str, Any], **changes: Any) -> ModelSpec:
    return read_config({**config, **changes}, name="test")


@pytest.mark.parametrize(("config", "published"), [(MISTRAL_SMALL_31, 24011361280), (INTERNVL3_8B, 7944373760)])
def test_a_file_of_transformers_4_that_does_not_name_tying_is_as_its_text_part_is_by_default(
    config: dict[str, Any], published: int
) -> None:
    assert read(config).unique_parameters() == published
    assert read(config, transformers_version="5.0.0").head_tied
    assert read(config, tie_word_embeddings=True).head_tied
    tied = {**config["text_config"], "tie_word_embeddings": True}
    assert read(config, text_config=tied).head_tied


def test_what_a_flat_file_saved_anew_repeats_at_the_top_is_passed_over() -> None:
    text = {
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152064,
        "use_sliding_window": False,
    }
    # olmOCR 2: Qwen2.5-VL-7B, saved by transformers 4.55
    spec = read(
        {
            **text,
            "architectures": ["Qwen2_5_VLForConditionalGeneration"],
            "model_type": "qwen2_5_vl",
            "sliding_window": 32768,
            "max_window_layers": 28,
            "tie_word_embeddings": False,
            "torch_dtype": "bfloat16",
            "text_config": {**text, "model_type": "qwen2_5_vl_text", "sliding_window": None, "max_window_layers": 28},
            "vision_config": {
                "model_type": "qwen2_5_vl",
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
            },
        }
    )
    assert spec.unique_parameters() == 8292166656
    assert all(row.window is None for _, row in spec.cache_rows())


@pytest.mark.parametrize(
    ("config", "name", "published"),
    [
        (_BGE, "BertModel", 335141888),  # bge-large-en-v1.5
        (_M3, "XLMRobertaModel", 567754752),  # bge-m3
        (_M3, "XLMRobertaForSequenceClassification", 567755777 - 1025),  # bge-reranker-v2-m3, less its one row
        (_MISTRAL_7B, "MistralModel", 7110660096),  # e5-mistral-7b-instruct
        (_MISTRAL_7B, "MistralForSequenceClassification", 7110660096),
    ],
)
def test_a_class_without_a_head_counts_none_and_says_so(config: dict[str, Any], name: str, published: int) -> None:
    spec = read(config, architectures=[name])
    assert spec.unique_parameters() == published
    assert any(str(note).startswith(f"class {name} has ") and "output head" in str(note) for note in spec.assumptions)


def test_a_class_called_model_of_code_beside_the_file_keeps_its_head() -> None:
    glm = {
        "architectures": ["ChatGLMModel"],
        "model_type": "chatglm",
        "add_bias_linear": False,
        "add_qkv_bias": True,
        "ffn_hidden_size": 13696,
        "hidden_size": 4096,
        "kv_channels": 128,
        "multi_query_attention": True,
        "multi_query_group_num": 2,
        "num_attention_heads": 32,
        "num_layers": 28,
        "padded_vocab_size": 65024,
        "rmsnorm": True,
        "seq_length": 8192,
        "torch_dtype": "float16",
        "tie_word_embeddings": False,
    }
    assert read(glm).unique_parameters() == 6243584000  # chatglm3-6b

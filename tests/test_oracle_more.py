"""Families that came later, held against what transformers builds: `python -m conformance FAMILY … --draws 3 --write`.

Encoders, and models that see and hear. Gemma 3n's tower is built by timm; the rows carry the counts.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from conformance.adapter import cached_by_transformers
from narrows.models import ModelSpec, read_config
from narrows.text import BadInput

from .conftest import DATA

ROWS = [json.loads(line) for line in gzip.decompress((DATA / "oracle-more.jsonl.gz").read_bytes()).splitlines()]
MORE = frozenset(row["family"] for row in ROWS)


def ids(row: dict[str, Any]) -> str:
    return f"{row['family']}-{row['draw']}"


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_parameters_and_what_is_kept_are_those_of_the_built_model(row: dict[str, Any]) -> None:
    spec = read_config(row["config"], name=row["family"])
    assert spec.unique_parameters() == row["parameters"]
    if row["active"]:
        assert spec.active_parameters() == row["active"]
    for length, elements in row["cache"].items():
        assert cached_by_transformers(spec, int(length), int(length)) == elements


BERT: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["BertForMaskedLM"],
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "vocab_size": 30528,
    "max_position_embeddings": 8192,
    "type_vocab_size": 2,
    "torch_dtype": "float32",
}


def counted(**fields: Any) -> int:
    return read_config({**BERT, **fields}, name="bert").unique_parameters()


@pytest.mark.parametrize("kind", ["rotary", "alibi"])
def test_positions_that_are_rotated_or_weigh_distance_have_no_table(kind: str) -> None:
    assert counted() - counted(position_embedding_type=kind) == 8192 * 768


def test_positions_of_an_unknown_kind_are_refused() -> None:
    with pytest.raises(BadInput, match="relative_key"):
        counted(position_embedding_type="relative_key")


def test_jinas_gated_feed_forward_has_a_third_matrix_and_no_bias_before_the_gate() -> None:
    assert counted(feed_forward_type="geglu") - counted() == 12 * (3072 * 768 - 3072)


def test_low_rank_changes_are_counted_for_every_task() -> None:
    rank, tasks = 4, ["one", "two"]
    matrices = [(2304, 768), (768, 768), (3072, 768), (768, 3072)]
    inside = 12 * sum(rank * (out + inner) for out, inner in matrices)
    tables = rank * (30528 + 768) + rank * (2 + 768)
    assert counted(lora_adaptations=tasks, lora_rank=rank) - counted() == 2 * (inside + tables)


def read(**fields: Any) -> ModelSpec:
    base = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 100}
    return read_config({**base, "intermediate_size": 128, "torch_dtype": "bfloat16", **fields}, name="made")


def test_modernberts_first_layer_has_no_norm_before_its_attention_and_nothing_is_kept() -> None:
    spec = read(model_type="modernbert", max_position_embeddings=512)
    assert [layer.norms.names for layer in spec.each_layer][:2] == [("mlp_norm",), ("attn_norm", "mlp_norm")]
    assert spec.cache_elements(512) == 0


def test_every_second_layer_of_nomics_newer_encoder_has_experts() -> None:
    biases = dict.fromkeys(("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"), True)
    spec = read(
        model_type="nomic_bert",
        n_embd=64,
        n_inner=128,
        activation_function="gelu",
        num_experts=8,
        moe_top_k=2,
        moe_every_n_layers=2,
        **biases,
    )
    assert [type(layer.feed_forward).__name__ for layer in spec.each_layer] == ["Dense", "MixtureOfExperts"] * 2
    assert spec.unique_parameters() - spec.active_parameters() == 2 * 6 * 2 * 64 * 128


ERNIE = {
    "model_type": "ernie4_5_moe",
    "num_key_value_heads": 2,
    "moe_num_experts": 4,
    "moe_k": 2,
    "moe_intermediate_size": 32,
    "moe_num_shared_experts": 1,
    "max_position_embeddings": 512,
}


def test_ernies_prediction_layer_is_stored_and_no_part_of_the_model() -> None:
    plain, predicting = read(**ERNIE), read(**ERNIE, num_nextn_predict_layers=1)
    assert predicting.unique_parameters() == plain.unique_parameters()
    # attention with two KV heads of four, a dense part, a projection of twice the width, four norms
    layer = (2 + 1) * 64 * 64 + 3 * 64 * 128 + 64 * 128 + 4 * 64
    assert predicting.checkpoint_bytes() - plain.checkpoint_bytes() == 2 * layer


def listed(modules: dict[str, dict[str, Any]]) -> ModelSpec:
    quantization = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": modules}
    return read(model_type="llama", max_position_embeddings=512, quantization_config=quantization)


def told(spec: ModelSpec) -> list[str]:
    return [str(text) for text in spec.assumptions if "has not by that name" in str(text)]


def test_modules_that_a_list_names_otherwise_than_the_model_are_told() -> None:
    own = {f"model.layers.{i}.mlp.{name}_proj": {"quant_algo": "FP8"} for i in range(4) for name in ("gate", "up")}
    assert told(listed(own)) == []
    other = {f"model.layers.{i}.feed_forward.w1": {"quant_algo": "FP8"} for i in range(4)}
    assert len(told(listed({**own, **other}))) == 1
    assert "model.layers.0.feed_forward.w1" in told(listed({**own, **other}))[0]


def test_minimax_m3_is_quantized_as_its_file_lists_by_its_own_names() -> None:
    config = {
        "model_type": "minimax_m3_vl",
        "text_config": {
            "model_type": "minimax_m3_vl_text",
            "hidden_size": 64,
            "intermediate_size": 32,
            "dense_intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "vocab_size": 100,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "mlp_layer_types": ["sparse", "sparse"],
            "layer_types": ["full_attention", "full_attention"],
        },
        "vision_config": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64},
        "dtype": "bfloat16",
    }
    experts = {
        f"language_model.model.layers.{i}.block_sparse_moe.experts.{n}.w{w}": {"quant_algo": "NVFP4"}
        for i in range(2)
        for n in range(2)
        for w in (1, 2, 3)
    }
    quantization = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": experts}
    plain = read_config(config, name="plain")
    mixed = read_config({**config, "quantization_config": quantization}, name="mixed")
    # 4 bits and a byte for 16 of them, from 16 bits; and two scales of 4 bytes for each matrix
    matrix = 64 * 32
    assert plain.checkpoint_bytes() - mixed.checkpoint_bytes() == 12 * (matrix * 2 - matrix // 2 - matrix // 16 - 8)
    assert told(mixed) == []


STEP3: dict[str, Any] = {
    "model_type": "step3_vl",
    "torch_dtype": "bfloat16",
    "text_config": {
        "model_type": "step3_text",
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "num_attention_heads": 64,
        "num_attention_groups": 1,
        "num_hidden_layers": 61,
        "max_seq_len": 65536,
        "vocab_size": 128815,
        "moe_num_experts": 48,
        "moe_top_k": 3,
        "moe_intermediate_size": 5120,
        "share_expert_dim": 5120,
        "share_q_dim": 2048,
        "head_dim": 256,
        "moe_layers_enum": ",".join(str(i) for i in range(4, 60)),
    },
    "vision_config": {"hidden_size": 1792, "num_hidden_layers": 63, "intermediate_size": 15360, "image_size": 728},
}


def test_step3_has_the_parameters_of_its_published_file_and_keeps_one_head_of_keys_and_values() -> None:
    spec = read_config(STEP3, name="step3")
    # the total that the published files' headers count
    assert spec.unique_parameters() == 320_969_912_832
    assert spec.cache_elements(1) == 61 * 2 * 256


def test_qwen4s_tables_have_prime_numbers_of_rows_that_no_two_heads_share() -> None:
    config = next(row["config"] for row in ROWS if row["family"] == "qwen4_exp_text" and not row["draw"])
    made = {**config, "ngram_vocab_size_base": 100, "heads_per_ngram": 2, "ple_layer_ids": [1, 3]}
    tables = [
        tensor.shape[0]
        for layer in read_config(made, name="qwen4").each_layer
        for tensor in layer.tensors()
        if tensor.role == "ngram.table"
    ]
    # two orders of n-grams with two heads each: 101, 103, 107, 109, then 113, 127, 131, 137; padded to 128
    assert tables == [512, 512]


def test_a_table_of_n_grams_beside_attention_is_refused() -> None:
    config = next(row["config"] for row in ROWS if row["family"] == "qwen4_exp_text" and not row["draw"])
    with pytest.raises(BadInput, match="ple_layer_ids"):
        read_config({**config, "ple_layer_ids": [4]}, name="qwen4")

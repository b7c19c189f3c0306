"""What stands in real config files beside the sizes: missing or foreign model_types, overrides for single layers."""

from __future__ import annotations

from typing import Any

import pytest

from narrows.models import ModelSpec, read_config
from narrows.text import BadInput

SMALL: dict[str, Any] = {
    "torch_dtype": "bfloat16",
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}


def read(**fields: Any) -> ModelSpec:
    return read_config({**SMALL, **fields}, name="x")


def said(spec: ModelSpec) -> str:
    return "\n".join(str(note) for note in spec.assumptions)


def test_a_class_tells_the_family_where_model_type_is_missing() -> None:
    spec = read(architectures=["LlamaForCausalLM"])
    assert spec.groups == read(model_type="llama").groups
    assert "names no 'model_type'; read as llama, as its class LlamaForCausalLM says" in said(spec)


def test_a_class_tells_the_family_where_model_type_is_not_known() -> None:
    spec = read(model_type="my_llama", architectures=["Qwen3ForCausalLM"])
    assert spec.family == "qwen3"
    assert "model_type 'my_llama' is not known; read as qwen3" in said(spec)


def test_a_class_tells_nothing_where_its_code_stands_beside_the_file() -> None:
    with pytest.raises(BadInput, match="rwkv5"):
        read(
            model_type="rwkv5", architectures=["LlamaForCausalLM"], auto_map={"AutoModel": "modeling.LlamaForCausalLM"}
        )


@pytest.mark.parametrize("architectures", [None, [], ["Llama"], ["LlamaModel"], ["NoneSuchForCausalLM"]])
def test_without_a_telling_class_a_missing_model_type_is_refused(architectures: Any) -> None:
    with pytest.raises(BadInput, match="names no 'model_type'"):
        read(architectures=architectures)


def test_a_known_model_type_counts_for_more_than_the_class() -> None:
    assert read(model_type="llama", architectures=["Qwen3ForCausalLM"]).family == "llama"


def test_overrides_of_a_layer_change_that_layer_alone() -> None:
    spec = read(model_type="llama", per_layer_config={"01": {"intermediate_size": 32}, "3": {"num_key_value_heads": 1}})
    plain = read(model_type="llama")
    assert [group.first for group in spec.groups] == [0, 1, 2, 3]
    assert spec.unique_parameters() == plain.unique_parameters() - 3 * 64 * (96 - 32) - 2 * 16 * 64
    assert spec.cache_elements(10) == 10 * 2 * 16 * (3 * 2 + 1)


def test_overrides_that_say_what_the_file_says_anyway_change_nothing() -> None:
    spec = read(model_type="llama", per_layer_config={"0": {"intermediate_size": 96, "skip": []}, "1": {}})
    assert spec.groups == read(model_type="llama").groups


def test_overrides_inside_a_text_config_count_too() -> None:
    text = {
        **SMALL,
        "linear_attn_config": {"full_attn_layers": [4], "head_dim": 16, "num_heads": 4},
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "num_experts": 4,
        "num_experts_per_token": 2,
        "moe_intermediate_size": 8,
    }
    plain = read_config({"model_type": "kimi_k3", "text_config": text}, name="x")
    changed = {**text, "per_layer_config": {"2": {"moe_intermediate_size": 16}}}
    spec = read_config({"model_type": "kimi_k3", "text_config": changed}, name="x")
    # four routed experts and a shared one of three matrices
    assert spec.unique_parameters() == plain.unique_parameters() + 5 * 3 * 64 * 8
    assert "per_layer_config" not in said(spec)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ([1], "must be an object of fields"),
        ({"4": {"intermediate_size": 32}}, "one of the 4 layers"),
        ({"-1": {"intermediate_size": 32}}, "one of the 4 layers"),
        ({"x": {"intermediate_size": 32}}, "one of the 4 layers"),
        ({"1": 5}, "one of the 4 layers"),
        ({"1": {"skip": ["mlp"]}}, "leaves parts of a layer out"),
        ({"1": {"no_such_field": 3}}, "does not belong to the layers"),
        ({"1": {"vocab_size": 32}}, "changes more than its layer"),
        ({"1": {"num_hidden_layers": 3}}, "changes more than its layer"),
        ({"1": {"intermediate_size": -3}}, "must be between"),
    ],
)
def test_overrides_that_make_no_sense_are_refused(overrides: Any, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        read(model_type="llama", per_layer_config=overrides)


def test_overrides_that_differ_from_layer_to_layer_without_end_are_refused() -> None:
    many = {str(i): {"intermediate_size": i + 1} for i in range(1000)}
    with pytest.raises(BadInput, match="more kinds of layers"):
        read(model_type="llama", num_hidden_layers=1000, per_layer_config=many)

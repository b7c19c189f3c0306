"""Each quantization method is read as its tools write it: which modules, in which form, and what is said of it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from narrows.models import ModelSpec, read_config
from narrows.models.tensors import TensorRow
from narrows.text import BadInput

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 4,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "torch_dtype": "bfloat16",
}
MOE: dict[str, Any] = {
    **LLAMA,
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "head_dim": 128,
    "moe_intermediate_size": 768,
    "num_experts": 8,
    "num_experts_per_tok": 2,
}
VISION = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 2, "patch_size": 14}
BITS = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel"}


def read(quantization: Any, base: dict[str, Any] = LLAMA) -> ModelSpec:
    return read_config({**base, "quantization_config": quantization}, name="x")


def rows(spec: ModelSpec, role: str) -> list[TensorRow]:
    return [row for row in spec.tensor_table() if row.tensor.role == role]


def bits(spec: ModelSpec, role: str) -> float:
    """Stored bits per weight of all tensors of a role, rounded."""
    found = rows(spec, role)
    return round(8 * sum(row.stored_bytes for row in found) / sum(row.elements for row in found), 2)


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}


def test_gptq_dynamic_rules_leave_modules_out_and_give_others_more_bits() -> None:
    spec = read({**GPTQ, "dynamic": {"-:.*gate_proj": {}, r"+:.*\.0\..*up_proj": {"bits": 8, "group_size": 32}}})
    assert bits(spec, "mlp.gate") == 16
    assert [row.count for row in rows(spec, "mlp.up")] == [1, 3]
    assert bits(spec, "mlp.up") == pytest.approx((8.75 + 3 * 4.16) / 4, abs=0.01)
    assert bits(spec, "mlp.down") == 4.16


def test_gptq_quantizes_the_head_only_if_it_says_so() -> None:
    assert bits(read(GPTQ), "head") == 16
    assert bits(read({**GPTQ, "lm_head": True}), "head") == 4.16


def test_gptq_can_name_the_modules_inside_a_block() -> None:
    spec = read({**GPTQ, "modules_in_block_to_quantize": [["self_attn.q_proj", "self_attn.k_proj"], ["mlp.up_proj"]]})
    assert [bits(spec, role) for role in ("attention.q", "mlp.up", "attention.v", "mlp.down")] == [4.16, 4.16, 16, 16]


@pytest.mark.parametrize("said", [{"checkpoint_format": "marlin"}, {"is_marlin_format": True}])
def test_gptq_repacked_for_marlin_has_neither_zero_points_nor_index(said: dict[str, Any]) -> None:
    assert [part.suffix for part in rows(read({**GPTQ, **said}), "mlp.up")[0].parts] == ["B", "s"]
    assert bits(read({**GPTQ, **said}), "mlp.up") == 4.12


def test_autoround_settings_of_single_layers() -> None:
    names = {"model.layers.1.mlp.up_proj": {"bits": 16}, ".*down_proj": {"bits": 8}, "lm_head": {"bits": 4}}
    q = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True, "extra_config": names}
    spec = read({**q, "packing_format": "auto_round:auto_awq"})
    assert bits(spec, "mlp.up") == pytest.approx((3 * 4.16 + 16) / 4, abs=0.01)
    assert (bits(spec, "mlp.down"), bits(spec, "head")) == (8.19, 4.16)


def test_bitsandbytes_leaves_out_exactly_the_modules_listed() -> None:
    q = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    spec = read({**q, "llm_int8_skip_modules": ["model.layers.3", "mlp.down_proj"]})
    assert bits(read(q), "head") == 16
    assert bits(spec, "head") == 4.5  # no longer left out by itself
    assert bits(spec, "mlp.up") == pytest.approx((3 * 4.5 + 16) / 4, abs=0.01)
    assert bits(spec, "mlp.down") == 16


def test_bitsandbytes_quantizes_towers_and_mlx_does_not() -> None:
    base = {"model_type": "mistral3", "text_config": {**LLAMA, "model_type": "mistral"}, "vision_config": VISION}
    made = {
        name: read_config({**base, "quantization_config": q}, name="x").tensor_table()
        for name, q in (
            ("bnb", {"quant_method": "bitsandbytes", "load_in_8bit": True}),
            ("mlx", {"bits": 4, "group_size": 64}),
        )
    }
    projection = {
        name: next(r for r in table if r.name.endswith("attention.q_proj.weight")).parts[0].format.name
        for name, table in made.items()
    }
    assert projection == {"bnb": "int8", "mlx": "bfloat16"}


def test_mlx_quantizes_embedding_head_and_router_with_bits_of_their_own() -> None:
    q = {"bits": 4, "group_size": 64, "lm_head": {"bits": 8, "group_size": 32}}
    q |= {f"model.layers.{i}.mlp.gate": {"bits": 8, "group_size": 64} for i in range(4)}
    q |= {
        "model.layers.0.mlp.switch_mlp.up_proj": {"bits": 6, "group_size": 64},
        "model.layers.1.self_attn.q_proj": False,
    }
    spec = read_config({**MOE, "quantization": q}, name="x")
    assert [bits(spec, role) for role in ("embedding", "head", "router")] == [4.5, 9, 8.5]
    assert bits(spec, "experts.up") == (3 * 4.5 + 6.5) / 4
    assert bits(spec, "attention.q") == pytest.approx((3 * 4.5 + 16) / 4, abs=0.01)


@pytest.mark.parametrize(("mode", "expected"), [("mxfp4", 4.25), ("mxfp8", 8.25), ("nvfp4", 4.5)])
def test_mlx_modes_have_a_byte_per_group_and_no_offsets(mode: str, expected: float) -> None:
    fields = {"mxfp4": (4, 32), "mxfp8": (8, 32), "nvfp4": (4, 16)}[mode]
    q = {"bits": fields[0], "group_size": fields[1], "mode": mode}
    assert bits(read(q), "mlp.up") == expected


def test_compressed_tensors_prefers_names_to_expressions_and_these_to_classes() -> None:
    groups = {
        "a": {"targets": ["Linear"], "weights": BITS},
        "b": {"targets": ["re:.*self_attn.*"], "weights": FP8},
        "c": {
            "targets": ["model.layers.0.self_attn.q_proj"],
            "format": "int-quantized",
            "weights": {**FP8, "type": "int"},
        },
    }
    q = {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": groups}
    spec = read({**q, "ignore": ["lm_head", "re:.*down_proj$"]})
    assert [row.parts[0].format.name for row in rows(spec, "attention.q")] == ["int8", "float8_e4m3fn"]
    assert [bits(spec, role) for role in ("mlp.up", "mlp.down", "head", "attention.v")] == [4.13, 16, 16, 8]


def test_compressed_tensors_whose_weights_are_stored_whole_are_refused() -> None:
    q = {"quant_method": "compressed-tensors", "format": "dense", "config_groups": {"a": {"weights": FP8}}}
    with pytest.raises(BadInput, match="format"):
        read(q)


def test_compressed_tensors_of_some_modules_leaves_the_others() -> None:
    group = {"targets": ["re:.*mlp.*"], "format": "nvfp4-pack-quantized"}
    weights = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
    q = {"quant_method": "compressed-tensors", "config_groups": {"a": {**group, "weights": weights}}}
    spec = read(q)
    assert [bits(spec, role) for role in ("mlp.up", "attention.q", "head")] == [4.5, 16, 16]


@pytest.mark.parametrize(
    ("layout", "weights", "expected"),
    [
        ("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}, 8),
        ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "tensor"}, 8),
        ("mxfp4-pack-quantized", {"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}, 4.25),
        ("marlin-24", BITS, 3.13),  # half of 4 bits, a bit that tells which, a scale
        ("pack-quantized", {**BITS, "symmetric": False}, 4.16),
    ],
)
def test_compressed_tensors_layouts(layout: str, weights: dict[str, Any], expected: float) -> None:
    q = {"quant_method": "compressed-tensors", "format": layout, "config_groups": {"a": {"weights": weights}}}
    assert bits(read(q), "mlp.up") == expected


def test_compressed_tensors_sparse_by_bitmask_keeps_half_and_a_bit_each() -> None:
    sparse = {"format": "sparse-24-bitmask", "targets": ["Linear"]}
    q = {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": FP8}}, "sparsity_config": sparse}
    assert bits(read(q), "mlp.up") == 5


def test_an_older_compression_config_is_read_as_a_quantization_config() -> None:
    q = {"config_groups": {"a": {"weights": FP8}}, "ignore": ["lm_head"]}
    spec = read_config({**LLAMA, "compression_config": {"quantization_config": q}}, name="x")
    assert spec.checkpoint_bytes() == read({**q, "quant_method": "compressed-tensors"}).checkpoint_bytes()


def test_a_quantization_of_the_text_part_alone_is_read() -> None:
    text = {**LLAMA, "model_type": "mistral"}
    q = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    inside = {"model_type": "mistral3", "text_config": {**text, "quantization_config": q}, "vision_config": VISION}
    assert bits(read_config(inside, name="x"), "mlp.up") == 8


def test_modelopt_mixed_precision_by_layer_and_by_expert() -> None:
    layers: dict[str, Any] = {
        f"model.layers.{i}.self_attn.{k}_proj": {"quant_algo": "FP8"} for i in range(4) for k in "qkvo"
    }
    layers |= {
        f"model.layers.{i}.mlp.experts.{e}.{k}_proj": {"quant_algo": "W4A16_NVFP4", "group_size": 16}
        for i in range(4)
        for e in range(6)
        for k in ("gate", "up", "down")
    }
    spec = read({"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}, MOE)
    plain = read_config(MOE, name="x")
    assert bits(spec, "attention.q") == 8
    assert [(row.tensor.copies, row.count) for row in rows(spec, "experts.up")] == [(6, 4), (2, 4)]
    assert bits(spec, "experts.up") == pytest.approx((6 * 4.5 + 2 * 16) / 8, abs=0.01)
    assert spec.unique_parameters() == plain.unique_parameters()
    assert spec.active_parameters() == plain.active_parameters()


def test_single_experts_left_out_are_counted_one_by_one() -> None:
    q = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    left = read({**q, "modules_to_not_convert": ["model.layers.2.mlp.experts.5"]}, MOE)
    one_expert = 3 * 2048 * 768
    assert left.checkpoint_bytes() - read(q, MOE).checkpoint_bytes() == one_expert - 3 * 16 * 6 * 2


def test_single_experts_of_a_file_that_fuses_them_are_refused() -> None:
    base = {"model_type": "gpt_oss", "num_local_experts": 4, "hidden_size": 256, "intermediate_size": 256}
    base |= {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1000}
    q = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.0.mlp.experts.1.gate_up_proj"]}
    with pytest.raises(BadInput, match="single experts"):
        read_config({**base, "quantization_config": q}, name="x").checkpoint_bytes()


def test_quark_by_pattern_with_a_kv_cache_of_its_own() -> None:
    fp4 = {"weight": {"dtype": "fp4", "qscheme": "per_group", "group_size": 32}, "input_tensors": {"is_dynamic": True}}
    fp8 = {"weight": {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}, "output_tensors": {"dtype": "fp8_e4m3"}}
    q = {"quant_method": "quark", "global_quant_config": fp4, "layer_quant_config": {"*k_proj": fp8, "*v_proj": fp8}}
    spec = read({**q, "exclude": ["lm_head", "*down_proj"], "export": {"kv_cache_group": ["*k_proj", "*v_proj"]}})
    assert [bits(spec, role) for role in ("mlp.up", "attention.k", "mlp.down", "head")] == [4.25, 8, 16, 16]
    assert spec.kv_format().name == "float8_e4m3fn"


@pytest.mark.parametrize(("method", "more"), [("exl2", 0), ("exl3", 16 * (1 / 4096 + 1 / 14336))])
def test_exllama_files_are_taken_from_their_bits_per_weight_and_that_is_said(method: str, more: float) -> None:
    spec = read({"quant_method": method, "bits": 4.25, "head_bits": 6, "version": "0.2"})
    assert bits(spec, "mlp.up") == round(4.25 + more, 2)
    assert bits(spec, "head") == pytest.approx(6, abs=0.01)
    assert any("bits per weight that the file states" in str(said) for said in spec.assumptions)


def test_torchao_by_class_and_by_module() -> None:
    int4 = {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 128}}
    int8 = {"_type": "Int8WeightOnlyConfig", "_data": {}}
    table = {"_default": int4, "model.layers.0.mlp.up_proj": None, "model.layers.1.mlp.up_proj": int8}
    by_module = {"_type": "ModuleFqnToConfig", "_data": {"module_fqn_to_config": table}}
    assert bits(read({"quant_method": "torchao", "quant_type": {"default": int4}}), "mlp.up") == 4.25
    spec = read({"quant_method": "torchao", "quant_type": {"default": by_module}})
    assert bits(spec, "mlp.up") == pytest.approx((2 * 4.25 + 16 + 8) / 4, abs=0.01)
    old = {"quant_method": "torchao", "quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 64}}
    assert bits(read(old), "mlp.up") == 4.5


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 4, "group_size": 64}}}, 4.5),
        ({"quant_method": "aqlm", "in_group_size": 8, "num_codebooks": 1, "nbits_per_codebook": 16}, 2.15),
        ({"quant_method": "higgs", "bits": 4, "group_size": 256}, 4.06),
        ({"quant_method": "eetq"}, 8),
        ({"quant_method": "bitnet"}, 2),
        ({"quant_method": "fp_quant", "forward_dtype": "mxfp4"}, 4.25),
        ({"quant_method": "fbgemm_fp8"}, 8.01),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": 128}, 4.25),
        ({"quant_method": "modelopt", "quant_algo": "MXFP8"}, 8.25),
        ({"quant_method": "metal", "bits": 4, "group_size": 64}, 4.5),
    ],
    ids=lambda value: json.dumps(value)[:60],
)
def test_other_methods_take_their_bits(quantization: dict[str, Any], expected: float) -> None:
    assert bits(read(quantization), "mlp.up") == expected


@pytest.mark.parametrize("method", ["vptq", "spqr", "quanto", "sinq", "gemma", "wizardry"])
def test_a_method_narrows_does_not_read_is_refused_with_those_it_reads(method: str) -> None:
    with pytest.raises(BadInput, match=r"bitsandbytes.*Use the unquantized config"):
        read({"quant_method": method})


def test_names_with_and_without_the_words_around_a_decoder_are_the_same() -> None:
    for name in ("model.layers.1.mlp", "language_model.model.layers.1.mlp", "model.language_model.layers.1.mlp"):
        spec = read({"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": [name]})
        assert [row.count for row in rows(spec, "mlp.up")] == [3, 1]


def test_a_list_of_every_expert_s_weights_takes_less_than_a_second() -> None:
    base = {**MOE, "num_hidden_layers": 60, "num_experts": 256}
    names = [
        f"model.layers.{i}.mlp.experts.{e}.{k}_proj" for i in range(60) for e in range(256) for k in ("up", "down")
    ]
    begin = time.process_time()
    spec = read({"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": names[::2]}, base)
    assert len(rows(spec, "experts.up")) == 1
    assert time.process_time() - begin < 2  # a quarter of it on an idle machine


@pytest.mark.parametrize("entry", ["re:vision_tower.*", "re:model.vision_tower.*", "re:.*vision_tower.*"])
def test_an_expression_meets_a_tower_whatever_stands_before_its_name(entry: str) -> None:
    q = {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": FP8}}, "ignore": [entry]}
    text = {**LLAMA, "model_type": "mistral"}
    base = {"model_type": "mistral3", "text_config": text, "vision_config": VISION, "quantization_config": q}
    table = read_config(base, name="x").tensor_table()
    assert {row.parts[0].format.name for row in table if "vision_tower" in row.name} == {"bfloat16"}


def test_layers_of_a_tower_can_be_left_out_one_by_one() -> None:
    skip = ["lm_head", "vision_tower.transformer.layers.1"]
    q = {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": skip}
    text = {**LLAMA, "model_type": "mistral"}
    base = {"model_type": "mistral3", "text_config": text, "vision_config": VISION, "quantization_config": q}
    table = read_config(base, name="x").tensor_table()
    found = [(r.count, r.parts[0].format.name) for r in table if r.name.endswith("layers.{}.attention.q_proj.weight")]
    assert sorted(found) == [(1, "bfloat16"), (1, "int8")]


def test_experts_in_fp4_are_told_beside_the_quantization() -> None:
    """DeepSeek V4: FP8 with a byte per block of scale, experts in pairs with a byte per 32 of a row."""
    q = {"quant_method": "fp8", "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}
    spec = read_config({**MOE, "expert_dtype": "fp4", "quantization_config": q}, name="x")
    assert (bits(spec, "experts.up"), bits(spec, "attention.q")) == (4.25, 8)
    assert {part.format.bits for part in rows(spec, "attention.q")[0].parts} == {8}

"""Formats have their exact bits; quantized checkpoints have the sizes their publishers' files have."""

from __future__ import annotations

import pytest

from narrows.models import load_model, read_config
from narrows.precision import Exclusions, format_of
from narrows.precision.floats import Fp8Block, Mxfp4, Nvfp4
from narrows.precision.integers import Awq, Gptq
from narrows.text import BadInput


@pytest.mark.parametrize(
    ("name", "bytes_of_7b"),
    [("fp32", 28e9), ("float16", 14e9), ("torch.bfloat16", 14e9), ("fp8", 7e9), ("int8", 7e9), ("int4", 3.5e9)],
)
def test_seven_billion_parameters_take_the_bytes_of_their_format(name: str, bytes_of_7b: float) -> None:
    assert format_of(name).bytes_for(7_000_000_000) == bytes_of_7b


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="fp8_e5m2"):
        format_of("fp7")


def stored(scheme: object, out: int, inner: int) -> dict[str, int]:
    return {part.suffix: part.bytes for part in scheme.stored(out, inner, format_of("bf16"))}  # type: ignore[attr-defined]


def test_fp8_blocks_round_up_at_the_edges() -> None:
    assert stored(Fp8Block(128, 128), 576, 7168) == {"weight": 576 * 7168, "weight_scale_inv": 5 * 56 * 4}


def test_gptq_packs_along_the_input_and_keeps_an_index() -> None:
    assert stored(Gptq(4, 128), 4096, 11008) == {
        "qweight": 11008 * 4096 // 2,
        "qzeros": 86 * 4096 // 2,
        "scales": 86 * 4096 * 2,
        "g_idx": 11008 * 4,
    }


def test_awq_packs_along_the_output_and_keeps_none() -> None:
    assert stored(Awq(4, 128), 4096, 11008) == {
        "qweight": 11008 * 4096 // 2,
        "qzeros": 86 * 4096 // 2,
        "scales": 86 * 4096 * 2,
    }


def test_mxfp4_costs_four_and_a_quarter_bits() -> None:
    assert sum(stored(Mxfp4(), 5760, 2880).values()) * 8 == 5760 * 2880 * 4.25


def test_nvfp4_costs_four_and_a_half_bits_and_two_scalars() -> None:
    assert sum(stored(Nvfp4(), 4096, 4096).values()) * 8 == 4096 * 4096 * 4.5 + 64


LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("model", "elements"),
    [
        # elements of all stored tensors, as the hub counts them from the safetensors headers
        ("deepseek-ai/DeepSeek-V3", 684_531_386_000),
        ("Qwen/Qwen3-30B-A3B-FP8", 30_533_947_392),
        ("Qwen/Qwen3-32B-FP8", 32_764_027_904),
    ],
)
def test_stored_elements_equal_the_published_headers(model: str, elements: int) -> None:
    assert sum(row.stored_elements for row in load_model(model).tensor_table()) == elements


@pytest.mark.parametrize(("model", "elements"), [("gpt-oss-20b", 21_511_953_984), ("gpt-oss-120b", 120_412_337_472)])
def test_mxfp4_elements_equal_the_published_count(model: str, elements: int) -> None:
    """The hub counts each packed byte as two elements, and each scale as one."""
    total = 0
    for row in load_model(model).tensor_table():
        for part in row.parts:
            total += part.elements * row.tensor.copies * row.count * (2 if part.suffix == "blocks" else 1)
    assert total == elements


@pytest.mark.parametrize(
    ("model", "file_bytes"),
    [
        # size of the published .safetensors file, header included
        ("TheBloke/Wizard-Vicuna-30B-Uncensored-GPTQ", 16_940_128_464),
        ("TheBloke/Genz-70b-GPTQ", 26_774_982_616),
    ],
)
def test_gptq_checkpoints_are_within_a_thousandth_of_their_files(model: str, file_bytes: int) -> None:
    assert load_model(model).checkpoint_bytes() == pytest.approx(file_bytes, rel=1e-3)


def test_packed_integers_are_not_sixteen_bit_parameters() -> None:
    packed = {**LLAMA, "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}}
    spec = read_config(packed, name="packed")
    assert spec.unique_parameters() == read_config(LLAMA, name="plain").unique_parameters()
    embedding_and_head = 2 * 2 * 128256 * 4096
    linear = spec.unique_parameters() - 2 * 128256 * 4096
    # int4 plus a 16-bit scale and a 4-bit zero per 128 weights
    assert spec.checkpoint_bytes() - embedding_and_head == pytest.approx(linear * (4 + 20 / 128) / 8, rel=2e-3)


def test_a_kv_scheme_of_the_checkpoint_decides_the_kv_precision() -> None:
    weights = {"num_bits": 8, "type": "float", "strategy": "channel"}
    q = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": weights}},
        "kv_cache_scheme": {"num_bits": 8, "type": "float"},
        "ignore": ["lm_head"],
    }
    spec = read_config({**LLAMA, "quantization_config": q}, name="fp8")
    assert spec.kv_format().name == "float8_e4m3fn"
    assert spec.kv_bytes_per_token(0) == 2 * 32 * 8 * 128


def test_exclusions_match_modules_prefixes_globs_and_bare_names() -> None:
    covered = Exclusions(("lm_head", "model.layers.0.mlp", "model.layers.*.self_attn", "re:.*gate$", "visual"))
    assert covered.cover("lm_head")
    assert covered.cover("model.layers.0.mlp.down_proj")
    assert covered.cover("model.layers.17.self_attn.q_proj")
    assert covered.cover("model.layers.3.mlp.gate")
    assert covered.cover("visual.blocks.0.attn.qkv")
    assert not covered.cover("model.layers.0.mlp_extra.down_proj")
    assert not covered.cover("model.layers.3.mlp.gate_proj")


FOREVER = (
    "(a+)+$",
    "((a)+.)+X",
    "(a|[a-z])+X",
    "(?:a?.){28}X",
    "(a|a)(a|a)(a|a)*X",
    "(?x)(a # )\n+.)+X",
    "a*" * 9,
    "(",
)


@pytest.mark.parametrize("entry", [*("re:" + one for one in FOREVER), "re:" + "x" * 1000, "*" * 12 + "z"])
def test_exclusions_that_could_match_forever_are_refused(entry: str) -> None:
    with pytest.raises(BadInput, match="does not evaluate"):
        Exclusions((entry,)).cover("a" * 60)


def test_alternatives_that_meet_the_same_letters_count_as_often_as_they_are() -> None:
    with pytest.raises(BadInput, match="too many expressions"):
        Exclusions(("re:" + "(.|.)" * 28 + "X",)).cover("a" * 60)
    assert Exclusions((r"re:.*\.(0|1|10|11|12)\.(?:self_attn|mlp)\.(q|k|v|gate|up)_proj",)).cover(
        "layers.11.mlp.up_proj"
    )
    assert Exclusions((r"re:(?:(?!visual|audio).)*gate$",)).cover("layers.0.mlp.gate")


@pytest.mark.parametrize(
    "quantization",
    [
        {},
        [],
        "gptq",
        {"quant_method": "bitsandbytes"},
        {"quant_method": 4},
        {"quant_method": "gptq"},
        {"quant_method": "gptq", "bits": 5},
        {"quant_method": "awq", "bits": -4},
        {"quant_method": "fp8", "weight_block_size": [0, 128]},
        {"quant_method": "fp8", "weight_block_size": 128},
        {"quant_method": "fp8", "ignored_layers": [1, 2]},
        {"quant_method": "compressed-tensors"},
        {"quant_method": "compressed-tensors", "config_groups": {"a": {}, "b": {}}},
        {"quant_method": "compressed-tensors", "config_groups": {"a": None}},
        {"quant_method": "compressed-tensors", "config_groups": {"a": 3}},
        {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 2}}}},
        {"quant_method": "modelopt", "quant_algo": "W8A8_SQ_PER_CHANNEL"},
        {"quant_method": "modelopt"},
    ],
)
def test_a_quantization_narrows_does_not_know_is_refused(quantization: object) -> None:
    with pytest.raises(BadInput):
        read_config({**LLAMA, "quantization_config": quantization}, name="q").checkpoint_bytes()

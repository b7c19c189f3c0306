"""A quantization_config that cannot be read is refused; one of some modules only is counted as such."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from narrows.answers.models import model
from narrows.models import read_config
from narrows.text import BadInput

from .bad_input import MOST_SECONDS, bounded
from .conftest import LLAMA


def quantized(**fields: Any) -> dict[str, Any]:
    return {**LLAMA, "quantization_config": fields}


def compressed(weights: Any, **fields: Any) -> dict[str, Any]:
    group = {"targets": ["Linear"], "weights": weights}
    return quantized(quant_method="compressed-tensors", **{"config_groups": {"group_0": group}, **fields})


INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
BLOCK = {"num_bits": 8, "type": "float", "strategy": "block"}


@pytest.mark.parametrize(
    "config",
    [
        {**LLAMA, "quantization_config": []},
        {**LLAMA, "quantization_config": "fp8"},
        {**LLAMA, "quantization_config": 8},
        quantized(),
        quantized(quant_method=None),
        quantized(quant_method=["fp8"]),
        quantized(quant_method="bitsandbytes", load_in_4bit="yes"),
        quantized(quant_method="bitsandbytes", load_in_4bit=True, bnb_4bit_quant_type="int4"),
        quantized(quant_method="gptq"),
        quantized(quant_method="gptq", bits="4"),
        quantized(quant_method="gptq", bits=5),
        quantized(quant_method="gptq", bits=4, group_size=-2),
        quantized(quant_method="gptq", bits=4, group_size="128"),
        quantized(quant_method="awq", bits=4, modules_to_not_convert="lm_head"),
        quantized(quant_method="awq", bits=4, modules_to_not_convert=[None]),
        quantized(quant_method="fp8", weight_block_size=[128]),
        quantized(quant_method="fp8", weight_block_size=[0, 128]),
        quantized(quant_method="fp8", weight_block_size=[True, 128]),
        quantized(quant_method="fp8", weight_block_size=128),
        quantized(quant_method="modelopt"),
        quantized(quant_method="modelopt", quant_algo="W8A8_SQ_PER_CHANNEL"),
        quantized(quant_method="modelopt", quant_algo=["FP8"]),
        quantized(quant_method="modelopt", quant_algo="NVFP4", group_size=0),
        quantized(quant_method="modelopt", quant_algo="FP8", kv_cache_quant_algo="NVFP4"),
        quantized(quant_method="modelopt", quant_algo="FP8", kv_cache_quant_algo=["FP8"]),
        quantized(quant_method="compressed-tensors"),
        quantized(quant_method="compressed-tensors", config_groups=[]),
        quantized(quant_method="compressed-tensors", config_groups={}),
        quantized(quant_method="compressed-tensors", config_groups={"a": 1}),
        quantized(quant_method="compressed-tensors", config_groups={"a": {}, "b": {}}),
        compressed(None),
        compressed({}),
        compressed({**INT4, "num_bits": 3}, format="pack-quantized"),
        compressed({**INT4, "num_bits": 2}, format="marlin-24"),
        compressed({**INT4, "group_size": "128"}, format="pack-quantized"),
        compressed(INT4, format="pack-quantized", kv_cache_scheme={"num_bits": 4}),
        compressed(INT4, format="pack-quantized", kv_cache_scheme=8),
        compressed(BLOCK),
        compressed({**BLOCK, "block_structure": ["a", 128]}),
        compressed({**BLOCK, "block_structure": [None, 128]}),
        compressed({**BLOCK, "block_structure": [0, 128]}),
        compressed({**BLOCK, "block_structure": [-128, 128]}),
        compressed({**BLOCK, "block_structure": [1.5, 128]}),
    ],
    ids=lambda config: json.dumps(config["quantization_config"])[:200],
)
def test_a_quantization_that_cannot_be_read_is_refused(config: dict[str, Any]) -> None:
    told = ""
    with pytest.raises(BadInput) as error:
        told = str(read_config(config, name="x").checkpoint_bytes())
    assert str(error.value).isprintable(), told


PLAIN_BYTES = 2 * (2 * 32000 * 4096 + 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 65 * 4096)
# what a weight of 4 bits saves beside BF16: GPTQ keeps a scale of 16 bits and a zero of 4 per 128, and the group of
# each of the 4,096 inputs (11,008 of a down projection) in 4 bytes; the other a scale per 128 and its shape in 16 bytes
GPTQ_SAVES, PACKED_SAVES = 2 - (4 + 20 / 128) / 8, 2 - (4 + 16 / 128) / 8
ATTENTION, MLP, HEAD = 32 * 4 * 4096**2, 32 * 3 * 4096 * 11008, 32000 * 4096
OF_ATTENTION, OF_MLP, OF_HEAD = 32 * 4 * 4 * 4096, 32 * 4 * (2 * 4096 + 11008), 4 * 4096


@pytest.mark.parametrize(
    ("config", "saved"),
    [
        (
            quantized(quant_method="gptq", bits=4, group_size=128, dynamic={"-:.*mlp.*": {}}),
            ATTENTION * GPTQ_SAVES - OF_ATTENTION,
        ),
        (
            quantized(quant_method="gptq", bits=4, group_size=128, lm_head=True),
            (ATTENTION + MLP + HEAD) * GPTQ_SAVES - OF_ATTENTION - OF_MLP - OF_HEAD,
        ),
        (
            quantized(quant_method="gptq", bits=4, group_size=128, modules_in_block_to_quantize=[["self_attn.q_proj"]]),
            (ATTENTION * GPTQ_SAVES - OF_ATTENTION) / 4,
        ),
        (
            quantized(
                quant_method="compressed-tensors",
                format="pack-quantized",
                config_groups={"group_0": {"targets": ["re:.*self_attn.*"], "weights": INT4}},
            ),
            ATTENTION * PACKED_SAVES - 32 * 4 * 16,
        ),
    ],
    ids=["gptq dynamic", "gptq lm_head", "gptq modules", "compressed-tensors targets"],
)
def test_a_quantization_of_some_modules_only_saves_the_bytes_of_those(config: dict[str, Any], saved: float) -> None:
    assert read_config(LLAMA, name="x").checkpoint_bytes() == PLAIN_BYTES
    assert read_config(config, name="x").checkpoint_bytes() == PLAIN_BYTES - saved


SLOW = {
    "repetitions": "re:(.+)(.+)(.+)(.+)x",
    "nested repetitions": "re:(a+)+$",
    "optional parts": "re:" + "(a?m?o?d?e?l?.?)" * 14 + "ZZ",
    "alternations": "re:" + "(?:m|mo|o|od|d|e|el|l|.)" * 24 + "ZZ",
    "counted alternations": "re:(.|.){200}ZZ",
    "stars": "*a" * 200 + "ZZ",
    "broken": "re:(",
}


@pytest.mark.parametrize("entry", SLOW.values(), ids=SLOW)
def test_a_pattern_from_a_file_cannot_keep_narrows_busy(entry: str, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(quantized(quant_method="awq", bits=4, modules_to_not_convert=[entry])))
    done = bounded("models", str(file), seconds=5)
    assert done.returncode in (0, 2)
    assert b"Traceback" not in done.stderr


def test_many_exclusions_take_little_time(tmp_path: Path) -> None:
    config = quantized(quant_method="awq", bits=4, modules_to_not_convert=[f"*.{i}.*" for i in range(20_000)])
    begin = time.process_time()
    with suppress(BadInput):
        model(read_config(config, name="x"))
    assert time.process_time() - begin < 5 * MOST_SECONDS


EXPERTS: dict[str, Any] = {
    "model_type": "mixtral",
    "vocab_size": 1000,
    "hidden_size": 512,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "torch_dtype": "bfloat16",
}


def stored_with(config: dict[str, Any], *excluded: str) -> int:
    scheme = {"quant_method": "awq", "bits": 4, "modules_to_not_convert": list(excluded)}
    return read_config({**config, "quantization_config": scheme}, name="x").checkpoint_bytes()


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        ("mlp.down_proj", "re:.*mlp.down_proj"),
        ("self_attn.q_proj", "re:.*self_attn.q_proj"),
        ("model.layers.3.", "model.layers.3"),
        ("model.layers.3.mlp", "re:model.layers.3.mlp.*"),
    ],
)
def test_an_exclusion_that_names_the_end_or_the_begin_of_a_module_covers_it(part: str, whole: str) -> None:
    """transformers leaves a module out where the entry matches its beginning or is its end."""
    assert stored_with(LLAMA, part) == stored_with(LLAMA, whole) > stored_with(LLAMA)


@pytest.mark.parametrize("expert", [0, 5])
def test_an_exclusion_of_one_expert_does_not_cover_all_nor_none(expert: int) -> None:
    name = "model.layers.0.block_sparse_moe.experts"
    with suppress(BadInput):
        each = (stored_with(EXPERTS, name) - stored_with(EXPERTS)) // 8
        assert stored_with(EXPERTS, f"{name}.{expert}") == stored_with(EXPERTS) + each > stored_with(EXPERTS)


def test_a_data_type_under_either_name_is_found() -> None:
    for changes in ({"dtype": None, "torch_dtype": "bfloat16"}, {"dtype": "bfloat16", "torch_dtype": None}):
        assert read_config({**LLAMA, **changes}, name="x").precision.dtype.name == "bfloat16"

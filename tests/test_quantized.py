"""Quantized checkpoints have the size that is published, from the config alone."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.memory.shard import shards
from narrows.models import ModelSpec, load_model, read_config
from narrows.models.catalogue import catalogue_entry
from narrows.text import BadInput

with gzip.open(Path(__file__).parent / "data" / "quantized.jsonl.gz", "rt", encoding="utf-8") as _file:
    ROWS: list[dict[str, Any]] = [json.loads(line) for line in _file]

_BESIDE_INTEGERS = {"qzeros", "scales", "g_idx"}


def counted(spec: ModelSpec, how: str) -> int:
    """What a publisher's total counts, by its own convention (`scripts/import_quantized.py`)."""
    if how == "bytes":
        return spec.checkpoint_bytes()
    total = 0
    for row in spec.tensor_table():
        for part in row.parts:
            elements = part.elements * row.tensor.copies * row.count
            if how == "packed bytes twice" and part.format.name == "uint8" and part.suffix != "scales":
                elements *= 2
            if how == "gptq" and part.suffix == "qweight":
                elements = elements * 32 // spec.precision.scheme.bits  # type: ignore[attr-defined]
            if how != "gptq" or part.suffix not in _BESIDE_INTEGERS:
                total += elements
    return total


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["model"])
def test_a_quantized_checkpoint_has_its_published_size_within_half_a_percent(row: dict[str, Any]) -> None:
    spec = read_config(row["config"], name=row["model"])
    found = counted(spec, row["counts"]) + 2 * row["beside_elements"]
    # elements of everything that is not packed are exact (scalars may be left out); biases of zeros are not told
    exact = row["counts"] == "elements" or spec.precision.scheme.label.startswith(("bnb", "mlx", "mxfp4"))
    assert found == pytest.approx(row["known"], rel=1e-6 if exact else 5e-3)


def row_of(model: str) -> dict[str, Any]:
    return next(row for row in ROWS if row["model"] == model)


def assumptions(model: str) -> str:
    return " ".join(map(str, read_config(row_of(model)["config"], name=model).assumptions))


def test_what_a_config_cannot_tell_of_an_old_gptq_file_is_said() -> None:
    assert "which tool wrote it" in assumptions("TheBloke/wizard-mega-13B-GPTQ")
    assert "which tool wrote it" not in assumptions("TheBloke/Genz-70b-GPTQ")


def test_a_tied_head_that_the_tool_stores_again_is_said_and_not_served() -> None:
    model = "RedHatAI/Llama-3.2-1B-Instruct-FP8-dynamic"
    assert "twice" in assumptions(model)
    spec = read_config(row_of(model)["config"], name=model)
    assert [tower.served for tower in spec.towers] == [False]
    assert spec.unique_parameters() == 1_235_814_400


def test_a_name_that_tells_of_a_quantization_the_config_does_not_know_is_said() -> None:
    """TheBloke/wizard-mega-13B-GPTQ without the quantize_config.json beside its config.json."""
    config = {k: v for k, v in row_of("TheBloke/wizard-mega-13B-GPTQ")["config"].items() if k != "quantization_config"}
    for name, said in (
        ("TheBloke/wizard-mega-13B-GPTQ", True),
        ("x-4bit", True),
        ("google/gemma-qat-int4-unquantized", 0),
    ):
        spec = read_config(config, name=name)
        assert any("name says" in str(one) for one in spec.assumptions) == bool(said)


def on(model: str, **options: Any) -> Any:
    return deploy(load_model(model), find_accelerator("b200"), max_length=4096, **options)


def test_a_split_that_cuts_through_blocks_of_experts_is_said() -> None:
    """Qwen3-235B-A22B-FP8 on 8 ranks: 1536 / 8 = 192 is not divisible by weight quantization block_n = 128."""
    model = "Qwen/Qwen3-235B-A22B-FP8"
    assert any("192 values" in str(said) for said in on(model, tensor_parallel=8).assumptions)
    assert not any("values of an expert" in str(said) for said in on(model, tensor_parallel=4).assumptions)


def test_a_split_that_cuts_through_a_group_is_refused_with_one_that_works() -> None:
    """Qwen pads its GPTQ files from 29568 to 29696 for this: 29568 / 8 = 3696 is not divisible by 128."""
    padded = load_model("Qwen/Qwen2.5-72B-Instruct-GPTQ-Int4")
    deploy(padded, find_accelerator("b200"), max_length=4096, tensor_parallel=8)
    q = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False}
    plain = {**catalogue_entry("Qwen/Qwen2.5-72B-Instruct").config, "quantization_config": q}
    with pytest.raises(BadInput, match=r"3,696 values of 'mlp.down'.*--tp 1\b"):
        deploy(read_config(plain, name="x"), find_accelerator("b200"), max_length=4096, tensor_parallel=8)


def test_ranks_cannot_share_what_bitsandbytes_has_quantized_but_stages_can() -> None:
    """vLLM: Prequant BitsAndBytes models with tensor parallelism is not supported."""
    row = row_of("Llama-2-13B-Computer-Engineering")
    spec = read_config(row["config"], name="x")
    with pytest.raises(BadInput, match="use --pp"):
        deploy(spec, find_accelerator("l40s"), tensor_parallel=2)
    deploy(spec, find_accelerator("l40s"), pipeline_parallel=2)


def test_double_quantization_is_undone_while_loading() -> None:
    row = row_of("Llama-2-13B-Computer-Engineering")
    made = deploy(read_config(row["config"], name="x"), find_accelerator("l40s"))
    assert any("undone" in str(said) for said in made.assumptions)
    linear = 13_015_864_320 - 2 * 163_840_000 - 414_720
    assert made.model.checkpoint_bytes() - row["known"] == pytest.approx(linear / 64 * (4 - 1 - 4 / 256), rel=0.01)


def test_a_checkpoint_that_vllm_does_not_load_is_said() -> None:
    row = row_of("mlx Qwen3-14B-4bit")
    made = deploy(read_config(row["config"], name="x"), find_accelerator("l40s"))
    assert any("does not load checkpoints quantized by mlx" in str(said) for said in made.assumptions)


@pytest.mark.parametrize(
    ("method", "bits"),
    [
        ("fp8", 8.0),
        ("fp8_per_block", 8 + 32 / 128**2),
        ("mxfp8", 8.25),
        ("mxfp4", 4.25),
        ("bitsandbytes", 4.5),  # double quantization is undone: a float32 maximum per 64 weights
    ],
)
def test_weights_made_on_loading_take_the_bits_of_their_scheme(method: str, bits: float) -> None:
    plain, made = (shards(on("meta-llama/Llama-3.1-8B", quantization=q))[0].weights for q in (None, method))
    linear = 32 * (4096 * (4096 * 2 + 1024 * 2) + 3 * 4096 * 14336)
    assert plain - made == pytest.approx(linear * (16 - bits) / 8, rel=1e-3)


def test_experts_alone_are_quantized_where_the_method_says_so() -> None:
    made = on("Qwen/Qwen3-30B-A3B", quantization="experts_int8")
    kinds = {row.tensor.role: row.parts[0].format.name for row in made.model.tensor_table()}
    assert kinds["experts.up"] == "int8"
    assert kinds["attention.q"] == "bfloat16"
    with pytest.raises(BadInput, match="experts alone"):
        on("meta-llama/Llama-3.1-8B", quantization="experts_int8")


@pytest.mark.parametrize(
    ("model", "method", "reason"),
    [
        ("meta-llama/Llama-3.1-8B", "awq", "not quantized"),
        ("Qwen/Qwen3-32B-AWQ", "gptq", "stored as awq"),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "fp8", "stored as modelopt"),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "fp8", "stored as compressed-tensors"),
    ],
)
def test_a_method_that_the_engine_refuses_is_refused(model: str, method: str, reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        on(model, quantization=method)


@pytest.mark.parametrize(
    ("model", "method"),
    [
        ("Qwen/Qwen3-32B-AWQ", "awq_marlin"),
        ("TheBloke/Llama-2-13B-chat-GPTQ", "gptq_marlin"),
        ("Qwen/Qwen3-32B-FP8", "fp8"),
        ("nvidia/DeepSeek-V3.1-NVFP4", "modelopt_fp4"),
    ],
)
def test_the_checkpoint_s_own_method_changes_nothing(model: str, method: str) -> None:
    assert on(model, quantization=method).model == on(model).model

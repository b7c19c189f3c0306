"""Which kernels of their own a step has beside products and attention, and how far factors of steps hold for each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from narrows.deployment import Deployment, deploy
from narrows.hardware import find_accelerator
from narrows.models import load_model, read_config
from narrows.models.catalogue import catalogue_entry
from narrows.roofline.cost import Costs
from narrows.roofline.engine_overhead import few
from narrows.step import Batch, Collective, Elementwise, Gemm, Operator, operators_of

H100 = find_accelerator("h100-sxm")
STATIC = {"quant_method": "modelopt", "quant_algo": "FP8"}
DYNAMIC = {"quant_method": "fp8", "activation_scheme": "dynamic"}


def deployed(model: str, quantization: dict[str, Any] | None = None, **options: Any) -> Deployment:
    config = dict(catalogue_entry(model).config)
    spec = load_model(model)
    if quantization:
        spec = read_config(config | {"quantization_config": quantization}, name=model, as_usual=False)
    return deploy(spec, H100, max_length=4096, **options)


def names(deployment: Deployment) -> dict[str, int]:
    return {one.name: one.count for one in operators_of(deployment, Batch.decode(8, 1024))}


@pytest.mark.parametrize(
    ("quantization", "engine", "eager", "apart"),
    [
        (STATIC, "vllm", False, False),
        (DYNAMIC, "vllm", False, True),
        (STATIC, "vllm==0.6.4", False, True),
        (STATIC, "vllm", True, True),
        (STATIC, "sglang", False, True),
    ],
)
def test_inputs_of_known_scale_come_quantized_where_the_engine_compiles_its_steps(
    quantization: dict[str, Any], engine: str, eager: bool, apart: bool
) -> None:
    deployment = deployed("meta-llama/Llama-3.1-8B", quantization, engine=engine, enforce_eager=eager)
    product = next(o for o in operators_of(deployment, Batch.prefill(2048)) if o.name == "mlp.gate_up")
    assert isinstance(product.shape, Gemm) and product.shape.activation_bits == 8
    assert product.shape.ready is not apart
    assert ("mlp.gate_up.quantize" in names(deployment)) is apart


def test_a_product_whose_input_comes_quantized_takes_no_time_for_that() -> None:
    costs = Costs(deployed("meta-llama/Llama-3.1-8B", STATIC), bare=True)

    def seconds(ready: bool, bits: int = 8) -> float:
        shape = Gemm(2048, 4096, 4096, 1, float(bits), bits, ready)
        return float(costs(Operator("mlp.up", shape, 1, "fp8" if bits == 8 else "bf16", 2 * 2048 * 4096**2)).time)

    # 2,048 × 4,096 elements are read in 16 bits and written in 8: 25 MB, some 10 µs
    assert 7e-6 < seconds(False) - seconds(True) < 25e-6
    assert seconds(False, 16) == seconds(True, 16)


@pytest.mark.parametrize(
    ("parallel", "new", "together"), [(True, False, True), (False, True, True), (False, False, False)]
)
def test_ranks_add_up_falcons_parallel_blocks_in_one_sum(parallel: bool, new: bool, together: bool) -> None:
    config = {
        "model_type": "falcon",
        "hidden_size": 8192,
        "num_attention_heads": 128,
        "num_hidden_layers": 60,
        "num_kv_heads": 8,
        "vocab_size": 65024,
        "new_decoder_architecture": new,
        "parallel_attn": parallel,
    }
    made = names(deploy(read_config(config, name="falcon"), H100, tensor_parallel=2, max_length=2048))
    assert made["mlp.all_reduce"] == 60
    assert made.get("attention.all_reduce", 0) == (0 if together else 60)


def test_norms_of_heads_and_latents_are_kernels_of_their_own() -> None:
    qwen, llama, deepseek = (
        names(deployed(model)) for model in ("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3.2")
    )
    assert qwen["attention.query.norm"] == qwen["attention.key.norm"] == qwen["attention.rope"]
    assert not any(name.startswith("attention.") and name.endswith(".norm") for name in llama)
    beside = ("mla.query.norm", "mla.latent.norm", "mla.index.norm", "mla.index.rope", "mla.index.choose")
    assert {deepseek[name] for name in beside} == {deepseek["mla.rope"]}


def test_a_factor_is_half_that_of_many_rows_at_the_ridge_point() -> None:
    def product(m: Any) -> Any:
        weights = 2 * 4096 * 4096
        return few(Operator("up", Gemm(m, 4096, 4096), 1, "bf16", 2 * m * 4096 * 4096, weights, 0, 0), H100)

    ridge = H100.peak("bf16") / H100.memory_bandwidth
    # two FLOPs for each weight of two bytes and each row
    assert product(int(ridge)) == pytest.approx(0.5, abs=0.01)
    assert product(1) > 0.99
    assert product(100 * int(ridge)) < 0.02
    assert product(np.array([1, int(ridge)])) == pytest.approx([product(1), product(int(ridge))])


def test_of_what_does_no_arithmetic_l2_decides_and_sums_over_ranks_keep_their_factor() -> None:
    size = H100.l2_bytes
    assert size
    assert few(Operator("norm", Elementwise(1, 1), 1, "bf16", 0, 0, size // 2, size // 2), H100) == pytest.approx(0.5)
    assert few(Operator("sum", Collective("all_reduce", 8, 2**30), 1, "bf16", 0), H100) == 1

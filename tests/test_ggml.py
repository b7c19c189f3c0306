"""Engines for one user: few rows are multiplied as vectors, many in integers where the device has them."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from narrows.calibration.laws import laws
from narrows.deployment import Deployment, deploy
from narrows.hardware import find_accelerator
from narrows.models import load_model
from narrows.roofline.cost import Costs
from narrows.roofline.engine_overhead import engine_law
from narrows.roofline.estimate import estimate
from narrows.roofline.gemm import VECTOR_ROWS, gemm_time
from narrows.roofline.ggml import in_integers, peak_of
from narrows.step import Batch, Experts, Gemm, Operator, plan_of


def llama(device: str, model: str = "llama-2-7b", quantization: str = "Q4_0") -> Deployment:
    found = load_model(model)
    return deploy(found, find_accelerator(device), engine="llama.cpp", quantization=quantization, max_length=4096)


def product(deployment: Deployment, rows: int) -> Operator:
    operators = plan_of(deployment).operators(Batch.prefill(rows))
    return next(one for one in operators if one.name == "mlp.gate_up")


def test_few_rows_cost_the_arithmetic_of_their_flops_and_no_tiles() -> None:
    deployment = llama("rtx-3060-12gb")
    costs, device = Costs(deployment), deployment.accelerator
    for rows in (1, VECTOR_ROWS):
        one = product(deployment, rows)
        law = costs.law_of(one)[1]
        vectors, tiles = (gemm_time(one, device, law, by_vectors=by) for by in (True, False))
        assert vectors.compute == pytest.approx(one.flops / (law.values["peak"] * device.peak(one.precision)))
        assert vectors.compute < tiles.compute / 2


def test_columns_of_rows_give_what_numbers_give() -> None:
    deployment = llama("rtx-4090")
    rows = np.array([1, 8, 9, 64, 512])
    one = product(deployment, 1)
    costs = Costs(deployment)
    shape = one.shape
    assert isinstance(shape, Gemm)
    wide = structs.replace(
        one, shape=structs.replace(shape, m=rows), flops=2 * rows * shape.k * shape.n, reads=0, writes=0
    )
    alone = [
        costs(structs.replace(one, shape=structs.replace(shape, m=int(m)), flops=int(2 * m * shape.k * shape.n),
                              reads=0, writes=0)).time
        for m in rows
    ]  # fmt: skip
    assert costs(wide).time == pytest.approx(alone)


def test_weights_of_few_bits_are_multiplied_in_integers_from_turing_on() -> None:
    one = product(llama("rtx-4090"), 512)
    ada, volta, metal = (find_accelerator(name) for name in ("rtx-4090", "v100-sxm2-32gb", "apple-m2-ultra"))
    assert in_integers(ada) and not in_integers(volta) and not in_integers(metal)
    assert peak_of(one, ada) == ada.int8
    whole = product(llama("rtx-4090", quantization="F16"), 512)
    assert peak_of(whole, ada) == ada.peak(whole.precision)


@pytest.mark.parametrize(
    ("device", "milliseconds"),
    # ggml-org/llama.cpp#15013 and #4167: Llama 2 7B, Q4_0, one sequence
    [("rtx-4090", 5.37), ("rtx-3090", 6.32), ("apple-m2-ultra", 10.61), ("apple-m4-max-40", 12.04), ("apple-m2", 45.6)],
)
def test_decode_of_one_sequence_is_as_scoreboards_say(device: str, milliseconds: float) -> None:
    found = estimate(llama(device), Batch.decode(1, 64))
    assert found.time * 1e3 == pytest.approx(milliseconds, rel=0.1)
    assert found.low * 1e3 <= milliseconds <= found.high * 1e3


def test_experts_of_many_rows_reach_less_of_the_device_than_one_product_does() -> None:
    """gpt-oss-20b on a DGX Spark: 4,096 tokens in 1.17 s, half as fast as its FLOPs in one product were."""
    deployment = llama("gb10-dgx-spark", "openai/gpt-oss-20b", "MXFP4_MOE")
    costs = Costs(deployment)
    routed = next(o for o in plan_of(deployment).operators(Batch.prefill(2048)) if isinstance(o.shape, Experts))
    reached = routed.flops / costs(routed).time
    dense = product(llama("gb10-dgx-spark"), 2048)
    assert reached < 0.7 * dense.flops / costs(dense).time
    assert estimate(deployment, Batch.prefill(2048)).time == pytest.approx(1.166 / 2, rel=0.25)


def test_laws_are_by_class_of_devices_and_the_spark_keeps_its_own() -> None:
    assert engine_law(llama("rtx-3090")).device == "nvidia GDDR"
    assert engine_law(llama("apple-m4")).device == "apple"
    assert engine_law(llama("gb10-dgx-spark")).device == "any"
    assert engine_law(llama("apple-m3-ultra", "openai/gpt-oss-20b", "MXFP4_MOE")).n == 0
    assert all(row.source for row in laws("ggml-steps"))


def test_experts_of_four_bits_run_by_marlin_before_hopper() -> None:
    def basis(device: str) -> str:
        model = load_model("openai/gpt-oss-120b")
        deployment = deploy(model, find_accelerator(device), tensor_parallel=2, max_length=4096)
        one = next(o for o in plan_of(deployment).operators(Batch.decode(1, 100)) if isinstance(o.shape, Experts))
        return Costs(deployment).law_of(one)[1].basis

    assert basis("a100-sxm-80gb").startswith("assumed: Marlin")
    assert "marlin" in basis("l40s")
    assert "arlin" not in basis("h100-sxm")

"""Steps without CUDA graphs: the host's launches decide where they take longer than the device."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from narrows.accuracy.launches import eager_facts, launch_law, launches_of, seconds_by_source
from narrows.accuracy.serving_cases import device, parts_of, serving_cases
from narrows.accuracy.serving_fit import left_out
from narrows.accuracy.serving_work import launched_eagerly
from narrows.answers.roofline import roofline
from narrows.calibration.laws import laws
from narrows.deployment import Deployment, deploy
from narrows.hardware import find_accelerator
from narrows.models import load_model
from narrows.roofline.estimate import estimate
from narrows.roofline.step_time import StepTime
from narrows.step import Batch, Chunk, plan_of

EACH = laws("launches")[0].values["each"]


def llama(engine: str = "vllm", device: str = "h100-sxm", **options: object) -> Deployment:
    return deploy(load_model("llama-3-8b"), find_accelerator(device), engine=engine, max_length=8192, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_eager_step_of_a_small_batch_takes_as_long_as_its_launches(engine: str) -> None:
    batch = Batch.decode(1, 128)
    eager, graph = estimate(llama(engine, enforce_eager=True), batch), estimate(llama(engine), batch)
    operators = sum(one.count for one in plan_of(llama(engine)).operators(batch))
    assert operators == 32 * 9 + 4
    assert eager.launched == operators
    assert eager.time == pytest.approx(operators * EACH)
    assert eager.bound == "overhead"
    assert eager.shares["overhead"] == pytest.approx(eager.time)
    assert graph.launched == 0
    assert graph.time < eager.time
    assert eager.low < eager.time < eager.high


def test_an_eager_step_of_many_sequences_takes_as_long_as_the_device() -> None:
    batch = Batch.decode(128, 4000)
    eager, graph = estimate(llama(enforce_eager=True), batch), estimate(llama(), batch)
    assert eager.time == graph.time
    assert eager.bound == graph.bound == "memory bandwidth"


def test_more_ranks_do_not_shorten_what_the_host_launches() -> None:
    model, batch = load_model("llama-3.1-70b"), Batch.decode(1, 1000)
    two, eight = (
        deploy(model, find_accelerator("h100-sxm"), tensor_parallel=ranks, max_length=4096, enforce_eager=True)
        for ranks in (2, 8)
    )
    assert estimate(eight, batch).time == estimate(two, batch).time


def test_batches_beyond_the_largest_graph_are_launched_one_by_one() -> None:
    small = deploy(load_model("qwen3-0.6b"), find_accelerator("b200-sxm"), max_length=64, max_num_seqs=2048)
    older = msgspec.structs.replace(small, engine=llama("vllm==0.6.0").engine)
    above = estimate(older, Batch.decode(257, 16))
    assert above.launched > 0
    assert above.time == pytest.approx(above.launched * EACH)
    assert estimate(older, Batch.decode(256, 16)).launched == 0


def test_what_is_compiled_has_few_launches_beyond_the_largest_graph_too() -> None:
    small = deploy(load_model("qwen3-0.6b"), find_accelerator("b200-sxm"), max_length=64, max_num_seqs=2048)
    assert estimate(small, Batch.decode(513, 16)).launched == 0


def test_other_vendors_have_no_graphs_of_that_kind() -> None:
    gaudi = deploy(load_model("qwen3-0.6b"), find_accelerator("gaudi3"), engine="vllm==0.6.0", max_length=64)
    assert estimate(gaudi, Batch.decode(257, 16)).launched == 0


def test_llama_cpp_and_processors_hide_their_launches() -> None:
    step = Batch.decode(1, 128)
    assert estimate(llama("llama.cpp", quantization="Q4_0"), step).launched == 0


@pytest.mark.parametrize("options", [{"enforce_eager": True}, {"max_num_seqs": 1024}])
def test_the_compiled_step_waits_for_launches_as_the_full_roofline_does(options: dict[str, object]) -> None:
    deployment = llama("vllm", "b200-sxm", **options)
    fast = StepTime.of(deployment)
    batches, contexts = np.array([1, 7, 64, 512, 600, 1000]), np.array([10, 4000, 100, 30, 200, 1])
    full = [estimate(deployment, Batch.decode(int(b), int(c))).time for b, c in zip(batches, contexts, strict=True)]
    assert fast.decode(batches, contexts) == pytest.approx(full, rel=1e-9)
    mixed = Batch((Chunk(3, 1, 500), Chunk(1, 40, 0)))
    assert fast.step(mixed) == pytest.approx(estimate(deployment, mixed).time, rel=1e-9)
    assert fast.line(1).at(1000) == pytest.approx(fast.step(Batch.decode(1, 1000)), rel=1e-2)


def test_the_answer_tells_what_the_host_launches_where_it_ends_and_what_graphs_would_bring() -> None:
    found = roofline("llama-3-8b", "h100-sxm", batch=1, context=500, enforce_eager=True)
    assert found.phases.decode.bound == "overhead"
    assert sum("without CUDA graphs the host launches the 292 kernels" in str(one) for one in found.assumptions) == 1
    turn = next(one for one in found.turning_points if one.name == "decode_launches")
    assert turn.value is not None and turn.value > 1
    before = roofline("llama-3-8b", "h100-sxm", batch=turn.value - 1, context=500, enforce_eager=True)
    after = roofline("llama-3-8b", "h100-sxm", batch=turn.value, context=500, enforce_eager=True)
    assert before.phases.decode.bound == "overhead" != after.phases.decode.bound
    graphs = next(one for one in found.prescriptions if one.name == "graphs")
    plain = roofline("llama-3-8b", "h100-sxm", batch=1, context=500)
    assert graphs.after == pytest.approx(plain.phases.decode.time.value)
    assert not any("CUDA graph" in str(one) for one in plain.assumptions)


def test_the_time_of_a_launch_is_what_its_sources_say() -> None:
    """292 operators of Llama 3 8B in 8.23 ms, 112 and one head of GPT-2 in 4.8: some 30 to 43 µs; hosts differ by 3."""
    first = next(fact for fact in eager_facts() if fact.eager == 0.00823)
    assert launches_of(first) == 292
    found = launch_law()
    assert found == laws("launches")[0], "run scripts/fit_launches.py"
    assert found.n == len(seconds_by_source()) >= 7
    assert all(found.low - 0.01 <= each / EACH <= found.high + 0.01 for each in seconds_by_source().values())
    assert all(fact.source.startswith("https://") for fact in eager_facts())


def test_servers_before_graphs_are_predicted_by_their_launches() -> None:
    """70B in AWQ took 47, 47 and 57 ms on 2, 4 and 8 A100s: not the device's work, which is shared out, decides."""
    cases = serving_cases()
    rows = [one for one in cases.one_user if launched_eagerly(one.record)]
    parts = parts_of(cases, fit_only=False)
    times, levels = left_out(rows, parts, device)
    errors = np.abs(times / np.array([one.measured for one in rows]) - 1)
    assert len(rows) == 16
    assert set(levels) == {"engine"}
    assert np.median(errors) < 0.22
    assert all(law.engine != "vllm" or law.model for law in laws("steps"))

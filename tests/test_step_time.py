from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from narrows.deployment import deploy
from narrows.hardware import accelerators, find_accelerator
from narrows.models import load_model
from narrows.models.catalogue import catalogue
from narrows.roofline.estimate import Estimator, estimate
from narrows.roofline.step_time import StepTime
from narrows.step import Batch, Chunk
from narrows.text import BadInput

# dense, windows, chunked windows, MLA and sparse MLA, MoE, hybrids, on devices of several classes
DEPLOYMENTS = (
    ("llama-2-7b", "l40s", 1, 1),
    ("llama-3.1-70b", "h100-sxm", 4, 1),
    ("llama-3.1-70b", "a100-sxm-80gb", 2, 2),
    ("gemma-3-27b", "h100-sxm", 1, 1),
    ("gpt-oss-20b", "rtx-5090", 1, 1),
    ("llama-4-scout", "b200-sxm", 4, 1),
    ("deepseek-v3", "h200-sxm", 8, 1),
    ("qwen3-30b-a3b", "mi300x", 2, 1),
    ("qwen3-next-80b-a3b", "h200-sxm", 2, 1),
    ("nemotron-h", "a100-sxm-80gb", 1, 1),
)
ONE_OF = st.sampled_from(DEPLOYMENTS)
chunks = st.builds(
    Chunk,
    count=st.integers(1, 300),
    new=st.one_of(st.just(1), st.integers(1, 3000)),
    past=st.one_of(st.just(0), st.integers(0, 30000)),
    sampled=st.booleans(),
)
batches = st.lists(chunks, min_size=1, max_size=5).map(lambda found: Batch(tuple(found)))


@cache
def compiled(name: str, device: str, tensor_parallel: int, pipeline_parallel: int) -> StepTime:
    return StepTime.of(
        deploy(
            load_model(name),
            find_accelerator(device),
            tensor_parallel=tensor_parallel,
            pipeline_parallel=pipeline_parallel,
        )
    )


@settings(max_examples=150, deadline=None)
@given(ONE_OF, batches)
def test_a_compiled_step_is_within_a_hundredth_of_the_full_roofline(
    key: tuple[str, str, int, int], batch: Batch
) -> None:
    found = compiled(*key)
    assert found.step(batch) == pytest.approx(estimate(found.deployment, batch).time, rel=1e-2)


@settings(max_examples=80, deadline=None)
@given(ONE_OF, st.integers(1, 512), st.floats(0, 1))
def test_a_line_is_within_a_hundredth_of_the_full_roofline(
    key: tuple[str, str, int, int], batch: int, at: float
) -> None:
    found = compiled(*key)
    context = round(at**3 * found.deployment.max_length)
    full = estimate(found.deployment, Batch.decode(batch, context)).time
    assert found.line(batch).at(context) == pytest.approx(full, rel=1e-2)


@settings(max_examples=40, deadline=None)
@given(ONE_OF, st.integers(1, 256), st.integers(0, 9000), st.integers(1, 300))
def test_a_run_of_steps_is_the_sum_of_its_steps(
    key: tuple[str, str, int, int], batch: int, context: int, steps: int
) -> None:
    found = compiled(*key)
    one_by_one = sum(found.decode(batch, context + i) for i in range(steps))
    assert found.line(batch).run(context, steps) == pytest.approx(one_by_one, rel=1e-2)


@pytest.mark.parametrize("key", DEPLOYMENTS)
def test_arrays_of_points_give_what_single_points_give(key: tuple[str, str, int, int]) -> None:
    found = compiled(*key)
    random = np.random.default_rng(1)
    batch, context = random.integers(1, 600, 40), random.integers(0, 40000, 40)
    many = found.decode(batch, context)
    ones = [found.decode(int(b), int(c)) for b, c in zip(batch, context, strict=True)]
    np.testing.assert_allclose(many, ones, rtol=1e-6)
    np.testing.assert_allclose(found.decode(batch[:, None], context[None, :5]).shape, (40, 5))


MODELS = tuple(entry.id for entry in catalogue())
DEVICES = tuple(device.id for device in accelerators() if not device.is_cpu)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(MODELS), st.sampled_from(DEVICES), st.sampled_from([1, 2, 4, 8]), batches, st.integers(0, 4000))
def test_any_deployment_compiles_to_the_full_roofline(
    model: str, device: str, tensor_parallel: int, batch: Batch, context: int
) -> None:
    try:
        deployment = deploy(
            load_model(model), find_accelerator(device), tensor_parallel=tensor_parallel, max_length=4096
        )
        full = Estimator(deployment)
        time = full.estimate(batch).time
    except BadInput:  # the model is not cut so, or nothing joins such devices
        assume(False)
    found = StepTime.of(deployment)
    assert found.step(batch) == pytest.approx(time, rel=1e-2)
    decode = full.estimate(Batch.decode(24, context)).time
    assert found.decode(np.array([24, 5]), np.array([context, 9]))[0] == pytest.approx(decode, rel=1e-2)
    assert found.line(24).at(context) == pytest.approx(decode, rel=1e-2)


def test_an_encoder_runs_where_a_sequence_begins_and_only_there() -> None:
    found = compiled("whisper-large-v3", "h100-sxm", 1, 1)
    begun, goes_on = found.step(Batch.decode(24, 0)), found.step(Batch.decode(24, 1))
    assert begun > 5 * goes_on
    assert found.decode(24, np.array([0, 1])) == pytest.approx([begun, goes_on], rel=1e-6)
    assert found.line(24).at(0) == pytest.approx(begun, rel=1e-2)
    assert found.line(24).at(1) == pytest.approx(goes_on, rel=1e-2)


def test_total_context_is_shared_out_over_the_sequences_to_the_token() -> None:
    found = compiled("gemma-3-27b", "h100-sxm", 1, 1)
    prompt = Chunk(1, 512, 0)
    assert found.mixed(3, 3001, (prompt,)) == found.step(Batch((prompt, Chunk(1, 1, 1001), Chunk(2, 1, 1000))))
    assert found.mixed(0, 0, (prompt,)) == found.step(Batch((prompt,)))


def test_sequences_on_both_sides_of_a_window_need_chunks_of_their_own() -> None:
    found = compiled("gemma-3-27b", "h100-sxm", 1, 1)
    apart = found.step(Batch((Chunk(128, 1, 40), Chunk(128, 1, 8000))))
    alike = found.mixed(256, 128 * 8040)
    assert apart < 0.97 * alike


def test_windows_and_chunks_of_a_model_are_its_breakpoints() -> None:
    assert compiled("gemma-3-27b", "h100-sxm", 1, 1).breakpoints.windows == (1024,)
    assert compiled("llama-4-scout", "b200-sxm", 4, 1).breakpoints.chunks == (8192,)
    assert compiled("llama-2-7b", "l40s", 1, 1).breakpoints == ((), ())


def test_a_step_beyond_the_tables_is_still_the_full_roofline() -> None:
    found = compiled("llama-2-7b", "l40s", 1, 1)
    batch = Batch.prefill(4096, 16)
    assert found.step(batch) == pytest.approx(estimate(found.deployment, batch).time, rel=1e-9)

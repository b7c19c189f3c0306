"""Steps of servers, prompts and engines for one user, against what was measured."""

from __future__ import annotations

from functools import cache

import pytest

np = pytest.importorskip("numpy")

from narrows.accuracy.gemm import OURS, PLAIN, OperatorScores  # noqa: E402
from narrows.accuracy.serving import ONE_USER, PROMPT, THREE, THREE_SCALED, TPOT, law_for, serving_scores  # noqa: E402
from narrows.accuracy.serving_cases import parts_of, serving_cases, shipped  # noqa: E402
from narrows.accuracy.serving_fit import BELIEVED, SPREAD, model_key, solve, version_key  # noqa: E402
from narrows.accuracy.serving_records import ServingRecord, serving_records  # noqa: E402
from narrows.accuracy.serving_rules import AHEAD, SERVERS, alone, speculating, unsteady  # noqa: E402
from narrows.calibration.laws import laws  # noqa: E402
from narrows.deployment import deploy  # noqa: E402
from narrows.hardware import find_accelerator  # noqa: E402
from narrows.models import load_model  # noqa: E402
from narrows.models.experts import has_experts  # noqa: E402
from narrows.roofline.engine_overhead import NAMES, engine_law, exposed, shape_of, stored_as  # noqa: E402
from narrows.roofline.estimate import estimate  # noqa: E402
from narrows.step import Batch  # noqa: E402


@cache
def boards() -> tuple[OperatorScores, ...]:
    return serving_scores()


def found(protocol: str, quantity: str, group: str, method: str = OURS) -> tuple[float, float, int]:
    one = next(
        score
        for board in boards()
        if board.protocol == protocol
        for score in board.scores
        if (score.quantity, score.group, score.method) == (quantity, group, method)
    )
    return one.median, one.p90, one.n


# --- the bar --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "quantity", "group", "median", "p90"),
    [
        ("test split", TPOT, "dense models", 0.05, 0.18),
        ("test split", TPOT, "mixtures of experts", 0.10, 0.25),
        ("leave one device out", TPOT, "dense models", 0.12, 0.28),
        ("leave one device out", TPOT, "mixtures of experts", 0.12, 0.30),
        ("leave one model out", TPOT, "dense models", 0.12, 0.30),
        ("leave one model out", TPOT, "mixtures of experts", 0.13, 0.31),
        ("leave one device out", PROMPT, "all devices", 0.13, 0.36),
        ("leave one model out", PROMPT, "all devices", 0.12, 0.35),
    ],
)
def test_steps_of_servers_and_prompts_are_as_right_as_said(
    protocol: str, quantity: str, group: str, median: float, p90: float
) -> None:
    middle, high, n = found(protocol, quantity, group)
    assert n >= 60
    assert middle <= median
    assert high <= p90


def test_baselines_are_beaten_by_far() -> None:
    for group in ("dense models", "mixtures of experts"):
        ours = found("test split", TPOT, group)
        assert ours[0] < found("test split", TPOT, group, PLAIN)[0] / 4
        assert ours[0] < found("test split", TPOT, group, THREE)[0] / 2
        assert ours[1] < found("test split", TPOT, group, THREE_SCALED)[1]


def test_intervals_of_servers_hold_what_they_promise_and_their_width_is_told() -> None:
    many = [one for board in boards() for one in board.intervals if one.n >= 100]
    assert len(many) >= 8
    assert all(0.7 <= one.coverage <= 0.9 and one.mean_width < 1.1 for one in many)


def test_every_measurement_is_scored_or_left_out_with_a_reason() -> None:
    cases = serving_cases()
    scored = [*cases.servers, *cases.prompts, *cases.one_user, *cases.beside]
    left = [record for one in cases.left for record in one.records]
    ids = [one.record.id for one in scored] + [one for one in left if not one.endswith(" rows")]
    known = {record.id for record in serving_records()}
    assert known - set(ids) <= {r.id for r in serving_records() if r.table in ("vllm-bench", "llama.cpp")}
    assert len(ids) == len(set(ids))
    assert all(str(one.reason) for one in cases.left)
    assert all(record.license for record in serving_records())


# --- honesty --------------------------------------------------------------------------------------------------------


def test_laws_of_steps_are_those_fitted_on_rows_that_are_not_scored() -> None:
    again = {(law.operator, law.device, law.engine, law.model, law.precision, law.version): law for law in shipped()}
    kept = {(law.operator, law.device, law.engine, law.model, law.precision, law.version): law for law in laws("steps")}
    assert set(again) == set(kept)
    for key, law in kept.items():
        assert law.n == again[key].n
        assert law.low == pytest.approx(again[key].low, abs=0.02)
        for name in NAMES:
            near = pytest.approx(again[key].values[name], rel=0.02, abs=0.02 * SPREAD[name])
            assert law.values[name] == near, "run scripts/fit_serving.py"
    assert all(one.record.split == "fit" for one in parts_of(serving_cases()).servers)


def test_a_measurement_that_a_test_file_states_too_teaches_nothing() -> None:
    times = {(r.tpot, r.ttft, r.device, r.prompt, r.output) for r in serving_records() if r.split == "test"}
    fit = [r for r in serving_records() if r.split == "fit"]
    assert not [r for r in fit if (r.tpot, r.ttft, r.device, r.prompt, r.output) in times]
    assert sum(r.copies > 1 for r in serving_records()) > 500


def record(**fields: object) -> ServingRecord:
    given: dict[str, object] = {
        "table": "silicon", "id": "a", "source": "", "license": "", "engine": "vllm", "version": "1",
        "device": "h100-sxm", "model": "Qwen/Qwen3-32B bf16", "precision": "bf16",
        "tensor_parallel": 1, "prompt": 1024, "output": 128,
        "concurrency": 4.0, "servers": 1.0, "run": "2026-01-01", "tpot": 0.01,
    }  # fmt: skip
    return ServingRecord(**{**given, **fields})  # type: ignore[arg-type]


def test_a_run_that_is_faster_at_five_settings_speculates() -> None:
    slow = [record(prompt=n, tpot=0.010) for n in range(5)]
    fast = [record(prompt=n, tpot=0.006, run="2026-01-02") for n in range(5)]
    assert {run[5] for run in speculating([*slow, *fast])} == {"2026-01-02"}
    assert not speculating([*slow, *fast[:4]])
    near = [record(prompt=n, tpot=0.008, run="2026-01-02") for n in range(5)]
    assert not speculating([*slow, *near])
    assert "0.7" in str(AHEAD)


def test_steps_that_shorten_as_requests_grow_are_unsteady() -> None:
    up = [record(concurrency=float(2**n), tpot=0.01 * (n + 1)) for n in range(4)]
    assert not unsteady(up)
    down = [record(concurrency=float(2**n), tpot=time) for n, time in enumerate((0.01, 0.005, 0.01, 0.005))]
    assert len(unsteady(down)) == 1


def test_servers_that_are_not_counted_are_left_out() -> None:
    assert alone(record(servers=None)) is SERVERS
    assert alone(record()) is None
    assert alone(record(speculates=True)) is not None
    assert alone(record(tensor_parallel=16)) is not None


# --- the fit --------------------------------------------------------------------------------------------------------


def test_the_fit_finds_values_again_and_keeps_beliefs_that_rows_say_nothing_of() -> None:
    rng = np.random.default_rng(1)
    terms = rng.uniform(0.1, 1.0, (200, 3))
    terms[:, 2] = 0.0
    measured = terms @ np.array([2.0, 0.5, 7.0])
    value = solve(terms, measured, np.array([1.0, 1.0, 3.0]), np.array([1.0, 1.0, 1.0]), 1e-6)
    assert value == pytest.approx([2.0, 0.5, 3.0], rel=1e-3)


def test_a_tenth_of_wild_rows_moves_the_fit_little() -> None:
    rng = np.random.default_rng(2)
    terms = rng.uniform(0.1, 1.0, (200, 2))
    measured = terms @ np.array([1.0, 1.0])
    measured[:20] *= 5
    value = solve(terms, measured, np.ones(2), np.ones(2), 1e-6)
    assert value == pytest.approx([1.0, 1.0], rel=0.1)


def test_no_value_is_negative() -> None:
    assert all(value >= 0 for law in laws("steps") for value in law.values.values())
    assert set(BELIEVED) == set(SPREAD) == set(NAMES)
    assert all(law.n > 0 and law.source and law.basis and law.low < 1 < law.high for law in laws("steps"))


# --- what a law of steps holds for ------------------------------------------------------------------------------------


def test_a_model_that_was_measured_has_its_own_law_and_another_falls_back() -> None:
    own = next(
        one
        for one in serving_cases().servers
        if one.record.model.startswith("Qwen/Qwen3-32B bf16")
        and (one.record.device, one.record.engine) == ("h100-sxm", "vllm")
    )
    law = law_for(own, laws("steps"))
    assert law.model == own.shape == "64x5120"
    other = deploy(load_model("gemma-3-27b-it"), find_accelerator("h100-sxm"), max_length=4096)
    assert engine_law(other).model == ""
    assert engine_law(other).device == "nvidia HBM"
    far = deploy(load_model("llama-2-7b"), find_accelerator("mi300x"), max_length=4096)
    assert engine_law(far).device == "any"
    assert model_key(own) != version_key(own)


def test_shapes_and_storage_tell_checkpoints_apart() -> None:
    deepseek, llama = load_model("deepseek-ai/DeepSeek-R1"), load_model("llama-3.1-70b")
    assert shape_of(deepseek) == "61x7168x256"
    assert shape_of(llama) == "80x8192"
    assert (stored_as(deepseek), stored_as(llama)) == ("fp8", "16")
    assert has_experts(deepseek)
    assert not has_experts(llama)


def test_a_step_says_which_law_of_whole_steps_holds_and_takes_its_interval() -> None:
    deployment = deploy(load_model("llama-3.1-8b"), find_accelerator("h100-sxm"), max_length=4096)
    law = engine_law(deployment)
    step = estimate(deployment, Batch.decode(8, 1024))
    assert step.basis == law.basis
    assert (step.low, step.high) == pytest.approx((law.low * step.time, law.high * step.time))
    assert step.time == pytest.approx(sum(one.time * one.operator.count for one in step.operators) + step.overhead)


def test_decode_hides_all_launches_and_long_prompts_hide_most() -> None:
    assert exposed(Batch.decode(8, 1024)) == 0
    assert exposed(Batch.prefill(128)) > 0.9
    assert exposed(Batch.prefill(4096)) < 0.02


def test_one_user_is_told_engine_by_engine_and_few_rows_claim_nothing() -> None:
    groups = {s.group: s for b in boards() for s in b.scores if s.quantity == ONE_USER and s.method == OURS}
    assert {"gpt-fast", "mlc-llm", "llama.cpp", "mlx-lm", "exllamav2"} <= set(groups)
    assert groups["gpt-fast"].claims
    assert not groups["mlx-lm"].claims

"""`measure model`: recorded operators, predictions from the machine's own measurement, and verdicts by growth."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from narrows.answers.measure_model import ModelMeasured, measure_model
from narrows.calibration.curve import Curve, along
from narrows.hardware.this_machine import keep, machine
from narrows.measure.as_device import as_machine
from narrows.measure.decoder import Point, Run, settings_of
from narrows.measure.kernels import Kernel
from narrows.measure.predict import NEEDED, Machine, Predicted, measured_here, predicted, seconds_of
from narrows.measure.recorder import Call, call_of
from narrows.measure.timing import Sample
from narrows.measure.verdicts import agrees, growths, observed, turning_rows
from narrows.quantity import Quantity
from narrows.report import charts
from narrows.report.measure_model_chart import decoder_chart
from narrows.report.render import answer_text
from narrows.text import BadInput

from .test_measure import BANDWIDTH, PEAK, Fake, measured, probed

# What is recorded


class Tensor:
    """As much of a tensor as is recorded."""

    _next = 0

    def __init__(self, *shape: int, dtype: str = "float32", storage: int | None = None) -> None:
        Tensor._next += 1
        self.shape, self.dtype, self.storage = shape, f"torch.{dtype}", storage or Tensor._next

    def numel(self) -> int:
        total = 1
        for size in self.shape:
            total *= size
        return total

    def dim(self) -> int:
        return len(self.shape)

    def element_size(self) -> int:
        return {"torch.float32": 4, "torch.bfloat16": 2, "torch.int64": 8}[self.dtype]

    def untyped_storage(self) -> Any:
        return SimpleNamespace(data_ptr=lambda: self.storage)


def call(name: str, inputs: list[Tensor], *outputs: Tensor, mutable: bool = False, **settings: Any) -> Call:
    func = SimpleNamespace(__name__=f"{name}.default", _schema=SimpleNamespace(is_mutable=mutable))
    return call_of(func, inputs, list(outputs), settings)


def test_a_linear_layer_is_a_product_of_all_its_rows() -> None:
    found = call("linear", [Tensor(2, 8, 64), Tensor(32, 64), Tensor(32)], Tensor(2, 8, 32, dtype="bfloat16"))
    assert (found.sort, found.m, found.k, found.n, found.precision) == ("product", 16, 64, 32, "bf16")
    assert found.flops == 2 * 16 * 64 * 32


@pytest.mark.parametrize(
    ("name", "inputs", "out", "shape"),
    [
        ("mm", [Tensor(4, 8), Tensor(8, 3)], Tensor(4, 3), (4, 8, 3, 1)),
        ("addmm", [Tensor(3), Tensor(4, 8), Tensor(8, 3)], Tensor(4, 3), (4, 8, 3, 1)),
        ("bmm", [Tensor(5, 4, 8), Tensor(5, 8, 3)], Tensor(5, 4, 3), (4, 8, 3, 5)),
    ],
)
def test_products_of_every_kind_have_the_same_shape(
    name: str, inputs: list[Tensor], out: Tensor, shape: tuple[int, ...]
) -> None:
    found = call(name, inputs, out)
    assert (found.m, found.k, found.n, found.copies) == shape


def test_causal_attention_is_half_of_the_pairs_and_decode_sees_all_keys() -> None:
    q, k = Tensor(2, 16, 100, 64), Tensor(2, 4, 100, 64)
    name = "scaled_dot_product_attention"
    causal = call(name, [q, k, k], Tensor(2, 16, 100, 64), is_causal=True)
    assert causal.work == 2 * 16 * 64 * (100 * 100 + 100) // 2
    one = call(name, [Tensor(2, 16, 1, 64), k, k], Tensor(2, 16, 1, 64))
    assert (one.work, one.queries, one.group) == (2 * 16 * 64 * 100, 1, 4)


def test_what_shares_memory_is_a_view_unless_it_is_written_in_place() -> None:
    x = Tensor(4, 8)
    view = Tensor(8, 4, storage=x.storage)
    assert call("transpose", [x], view).sort == "view"
    assert call("to", [x], x).sort == "view"
    added = call("add_", [x, Tensor(4, 8)], x, mutable=True)
    assert (added.sort, added.bytes) == ("elementwise", 3 * 4 * 32)


def test_gathers_count_the_rows_they_take_and_not_the_table() -> None:
    found = call("embedding", [Tensor(100_000, 64), Tensor(2, 1, dtype="int64")], Tensor(2, 1, 64))
    assert (found.sort, found.bytes) == ("copy", 2 * 2 * 64 * 4)
    grown = call("cat", [Tensor(1, 2, 100, 64), Tensor(1, 2, 1, 64)], Tensor(1, 2, 101, 64))
    assert grown.bytes == 2 * 2 * 101 * 64 * 4


def test_a_reduction_works_on_what_it_reads_and_costly_functions_are_told_apart() -> None:
    assert call("mean", [Tensor(8, 1000)], Tensor(8, 1)).elements == 8000
    assert call("silu", [Tensor(8, 10)], Tensor(8, 10)).sort == "activation"
    assert call("mul", [Tensor(8, 10), Tensor(8, 10)], Tensor(8, 10)).sort == "elementwise"


# What it is predicted to take

CURVE = Curve(((1024, ((1, 1e-4 / 1024), (8, 1e-4 / 1024), (64, 8e-4 / 1024))),), 1.0, 1.0)
KERNELS: dict[tuple[str, str], dict[str, float]] = {
    ("eager", ""): {"seconds": 5e-6},
    ("concatenate", "fp32"): {"1000": 2e-6, "1000000": 2e-3},
    ("multiply", "fp32"): {"1000": 1e-6, "1000000": 1e-3},
    ("silu", "fp32"): {"1000": 4e-6, "1000000": 4e-3},
    ("attention.decode.own", "fp32"): {"1000": 1e-5, "100000": 1e-3},
    ("attention.decode.shared", "fp32"): {"1000": 5e-6, "100000": 5e-4},
    ("attention.prefill", "fp32"): {"1000": 2e-6, "100000": 2e-4},
}
MACHINE = Machine({"fp32": CURVE}, KERNELS, {"fp32": 200e9}, 20e9, True)
PRODUCT = Call("linear", "product", "fp32", m=8, k=1024, n=1024)


def test_every_operator_goes_by_what_was_measured_of_its_kind() -> None:
    assert seconds_of(PRODUCT, MACHINE) == pytest.approx(1e-4)
    assert seconds_of(Call("bmm", "product", "fp32", m=8, k=1024, n=1024, copies=3), MACHINE) == pytest.approx(3e-4)
    assert seconds_of(Call("mul", "elementwise", "fp32", elements=1000), MACHINE) == pytest.approx(1e-6)
    assert seconds_of(Call("silu", "activation", "fp32", elements=1000), MACHINE) == pytest.approx(4e-6)
    assert seconds_of(Call("sdpa", "attention", "fp32", work=1000, queries=1), MACHINE) == pytest.approx(1e-5)
    assert seconds_of(Call("sdpa", "attention", "fp32", work=1000, queries=9), MACHINE) == pytest.approx(2e-6)
    shared = Call("sdpa", "attention", "fp32", work=1000, queries=1, group=8)
    assert seconds_of(shared, MACHINE) == pytest.approx(5e-6)
    assert seconds_of(Call("cat", "copy", "fp32", elements=100_000), MACHINE) == pytest.approx(2e-4)
    assert seconds_of(Call("view", "view", "fp32"), MACHINE) == 0


def test_what_was_not_measured_is_refused() -> None:
    with pytest.raises(BadInput, match="fp16 were not measured"):
        seconds_of(Call("linear", "product", "fp16", m=1, k=8, n=8), MACHINE)


def test_a_processor_issues_and_works_one_after_the_other_and_a_device_at_once() -> None:
    calls = {PRODUCT: 10, Call("view", "view", "fp32"): 90}
    here = predicted(calls, MACHINE, 10 * 4 * 1024**2)
    assert here.host == pytest.approx(5e-4) and here.products == pytest.approx(1e-3)
    assert here.time == pytest.approx(1.5e-3)
    device = Machine({"fp32": CURVE}, KERNELS, {"fp32": 200e9}, 20e9, False)
    assert predicted(calls, device, 0).time == pytest.approx(1e-3)


def test_the_verdict_is_that_of_arithmetic_traffic_or_issuing() -> None:
    weights = 10 * 4 * 1024**2
    few = predicted({Call("linear", "product", "fp32", m=1, k=1024, n=1024): 10}, MACHINE, weights)
    many = predicted({Call("linear", "product", "fp32", m=640, k=1024, n=1024): 10}, MACHINE, weights)
    assert (few.bound, many.bound) == ("memory bandwidth", "compute")
    assert few.separation == pytest.approx(20, rel=0.01)  # ridge 10 FLOP/B, intensity 1/2
    idle = predicted({Call("view", "view", "fp32"): 1000, PRODUCT: 1}, MACHINE, weights)
    assert idle.bound == "overhead"


def test_sizes_between_those_measured_follow_a_power_law_and_larger_ones_the_work() -> None:
    times = {"1000": 1e-6, "100000": 1e-4}
    assert along(times, 10_000) == pytest.approx(1e-5)
    assert along(times, 10) == pytest.approx(1e-6)
    assert along(times, 10**6) == pytest.approx(1e-3)
    assert along({"1000": 1e9, "100000": 1e10}, 10**9, rate=True) == pytest.approx(1e10)


# What a time says by itself


def test_flat_in_the_batch_is_memory_bound_and_linear_is_compute_bound() -> None:
    times = {1: 1.0, 2: 1.0, 4: 1.02, 8: 1.1, 16: 1.9, 32: 3.8, 64: 7.6}
    growth = growths(times)
    work = Predicted(1, 1, 0, 0, 0, 0, 0, 0, "compute", 10)
    seen = {rows: observed(growth[rows], times[rows], work, 1, 1).bound for rows in times}
    assert seen == {
        1: "memory bandwidth",
        2: "memory bandwidth",
        4: "memory bandwidth",
        8: None,
        16: "compute",
        32: "compute",
        64: "compute",
    }
    turning = turning_rows(times)
    assert turning is not None and 8 <= turning <= 16


@pytest.mark.parametrize(("flops", "size", "bound"), [(80, 10, "compute"), (10, 80, "memory bandwidth"), (9, 9, None)])
def test_where_growth_says_nothing_the_share_that_is_reached_decides(flops: int, size: int, bound: str | None) -> None:
    work = Predicted(1, 1, 0, 0, 0, 0, flops, size, "compute", 10)
    assert observed(None, 1.0, work, 100, 100).bound == bound


def test_a_verdict_is_right_wrong_or_not_clear() -> None:
    def verdict(bound: Any, separation: float, seen: Any) -> bool | None:
        work = Predicted(1, 1, 0, 0, 0, 0, 1, 1, bound, separation)
        return agrees(work, observed(seen, 1.0, work, 1e9, 1e9))

    assert verdict("memory bandwidth", 9, 0.1) is True
    assert verdict("overhead", 9, 0.1) is True
    assert verdict("compute", 9, 0.1) is False
    assert verdict("compute", 9, 1.0) is True
    assert verdict("compute", 1.5, 0.1) is None
    assert verdict("compute", 9, 0.5) is None


def test_a_time_that_never_turns_has_no_turning_point() -> None:
    assert turning_rows({1: 1.0, 2: 1.0, 4: 1.0, 8: 1.0}) is None
    assert turning_rows({1: 1.0}) is None


# The whole, with a decoder whose times are those of the fake machine


class Pretending:
    """A decoder of one layer, ten products of [m, 1024] × [1024, 1024] each step."""

    name, random, weight_bytes = "transformers 0", True, 40 * 1024**2
    parameters = applied = 10 * 1024**2

    def __init__(self, source: str, precision: str, device: str, slower: float = 1.0) -> None:
        self.precision, self.slower, self.library = precision, slower, Fake()

    def run(self, point: Point) -> Run:
        rows = point.batch * (point.length if point.phase == "prefill" else 1)
        width = {"fp32": 4, "bf16": 2}[self.precision]
        peak = {"fp32": PEAK, "bf16": 2 * PEAK}[self.precision]
        time = 10 * max(2 * rows * 1024**2 / peak, width * 1024**2 / BANDWIDTH) * self.slower
        calls = Counter({Call("linear", "product", self.precision, m=rows, k=1024, n=1024): 10})
        return Run(calls, Sample(time, time * 0.99, time * 1.01, 5))


def kept(eager: bool = True) -> None:
    """A machine as the fake library is, with the kernels that torch would add."""
    measured()
    found = probed(budget=60)
    second = Quantity(1e-7, "s", "measured")
    kernels = tuple(Kernel(name, "", 60, second) for name in NEEDED if eager or name != "eager")
    keep(as_machine(msgspec.structs.replace(found, kernels=kernels), None, "2026-11-29"))


def modelled(**settings: Any) -> ModelMeasured:
    kept()
    return measure_model("m", building=settings.pop("building", Pretending), **settings)


def test_a_decoder_that_does_as_the_machine_says_is_predicted_and_its_turning_batch_found() -> None:
    answer = modelled()
    assert len(answer.points) >= 20 and answer.agrees
    assert answer.median_error < 0.05
    assert answer.verdicts == answer.right > 5
    turn = {one.precision: one for one in answer.turning}["fp32"]
    assert turn.measured is not None and 4 < turn.measured < 20  # ridge 5 FLOP/B: batch 10
    assert turn.predicted == pytest.approx(turn.measured, rel=0.2)
    assert machine() is not None


def test_a_decoder_that_takes_twice_as_long_does_not_agree() -> None:
    answer = modelled(building=lambda s, p, d: Pretending(s, p, d, slower=2.0))
    assert not answer.agrees and answer.median_error == pytest.approx(0.5, abs=0.05)


def test_the_answer_is_a_report_json_and_a_chart(tmp_path: Path) -> None:
    answer = modelled(precision=["fp32"])
    text = answer_text(answer)
    assert "clear verdicts right" in text and "memory-bandwidth-bound" in text
    again = json.loads(answer.to_json())
    assert again["points"][0]["measured"]["kind"] == "measured"
    assert again["points"][0]["predicted"]["kind"] == "predicted"
    charts.save(decoder_chart(answer), tmp_path / "decoder.svg")
    assert "predicted seconds" in (tmp_path / "decoder.svg").read_text()


def test_points_that_take_too_long_are_left_out_and_named() -> None:
    answer = modelled(precision=["fp32"], prompt=[32, 2**20], seconds=60)
    assert "prefill of 1 × 1,048,576 tokens at fp32 was left out" in str(answer)


def test_what_a_model_cannot_do_is_told_and_the_rest_is_run() -> None:
    class Small(Pretending):
        def run(self, point: Point) -> Run:
            if point.phase == "decode":
                raise BadInput("this decoder keeps a cache of its own kind; only its prefill can be measured")
            return super().run(point)

    answer = modelled(building=Small)
    assert {one.phase for one in answer.points} == {"prefill"}
    assert "only its prefill" in str(answer)


def test_a_decoder_that_cannot_be_run_at_all_is_refused_with_the_reason() -> None:
    class Broken(Pretending):
        def run(self, point: Point) -> Run:
            raise BadInput("transformers cannot run this decoder: {reason}", reason="sizes differ")

    with pytest.raises(BadInput, match="sizes differ"):
        modelled(building=Broken)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"precision": ["fp64"]}, "not measured at fp64"),
        ({"batch": [0]}, "--batch"),
        ({"context": [2**40]}, "--context"),
    ],
)
def test_bad_input_is_refused(settings: dict[str, Any], message: str) -> None:
    kept()
    with pytest.raises(BadInput, match=message):
        measure_model("m", building=Pretending, **settings)


def test_without_a_measured_machine_the_sentence_says_what_to_run() -> None:
    with pytest.raises(BadInput, match="run 'narrows measure machine'"):
        measure_model("m", building=Pretending)
    kept(eager=False)
    with pytest.raises(BadInput, match="measured without eager"):
        measured_here()


def test_a_config_that_is_none_is_refused(tmp_path: Path) -> None:
    for name, text in (("a.json", "{"), ("b.json", "[1]"), ("c.json", "{}")):
        (tmp_path / name).write_text(text)
        with pytest.raises(BadInput, match="config"):
            settings_of(str(tmp_path / name))
    with pytest.raises(BadInput, match="No such file"):
        settings_of(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    assert settings_of(str(tmp_path)) == ({"model_type": "llama"}, False)
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert settings_of(str(tmp_path))[1] is True


def test_without_torch_the_command_says_what_to_install(
    narrows: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    done = narrows("measure", "model", str(tmp_path), NARROWS_MACHINE=str(tmp_path / "none.json"))
    assert done.returncode == 2 and "run 'narrows measure machine' first" in done.stderr


# With torch and transformers, wherever they are installed

TINY = {
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def test_a_decoder_is_built_run_and_recorded(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    from narrows.measure.decoder import Decoder

    (tmp_path / "config.json").write_text(json.dumps({**TINY, "tie_word_embeddings": True}))
    decoder = Decoder(str(tmp_path), "bf16", "cpu")
    assert decoder.random and decoder.parameters == 512 * 64 + 2 * (64 * (64 + 32 + 32 + 64) + 3 * 64 * 128 + 128) + 64
    assert decoder.weight_bytes == 2 * decoder.parameters
    prefill = decoder.run(Point("prefill", 1, 24), budget=0.0, least=1)
    products = {(one.m, one.k, one.n) for one in prefill.calls if one.sort == "product"}
    assert {(24, 64, 64), (24, 64, 32), (24, 64, 128), (24, 128, 64), (1, 64, 512)} == products
    decode = decoder.run(Point("decode", 3, 40), budget=0.0, least=1)
    assert {one.work for one in decode.calls if one.sort == "attention"} == {3 * 4 * 41 * 16}
    copied = [one for one in decode.calls if one.name == "cat" and one.elements == 3 * 2 * 41 * 16]
    assert copied, "the cache is copied whole for every token"
    with torch.inference_mode():
        logits = decoder._forward(decoder._ids(1, 8), None).logits
    assert torch.isfinite(logits).all()


def test_kernels_of_torch_are_measured_on_the_processor() -> None:
    pytest.importorskip("torch")
    import time

    from narrows.measure.kernels import kernels
    from narrows.measure.timing import Pace
    from narrows.measure.torch_library import Torch

    found = kernels(Torch("cpu"), ["fp32"], Pace(time.perf_counter, 2), 2**30)
    assert {one.operation for one in found} >= {"eager", "multiply", "silu"}
    assert all(one.time.value > 0 for one in found)


STATES: dict[str, dict[str, Any]] = {
    "mamba": {"num_hidden_layers": 2, "state_size": 16},
    "lfm2": {**TINY, "layer_types": ["conv", "full_attention"]},
    "qwen3_next": {
        **TINY, "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
        "linear_value_head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 32, "layer_types": ["linear_attention", "full_attention"],
    },
    "mistral": {**TINY, "sliding_window": 32},
}  # fmt: skip


@pytest.mark.parametrize("family", sorted(STATES))
def test_decoders_with_states_windows_and_experts_decode_from_a_cache(family: str, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    from narrows.measure.decoder import Decoder

    (tmp_path / "config.json").write_text(
        json.dumps({"vocab_size": 512, "hidden_size": 64, **STATES[family], "model_type": family})
    )
    decoder = Decoder(str(tmp_path), "fp32", "cpu")
    many = sum(decoder.run(Point("prefill", 1, 16), budget=0.0, least=1).calls.values())
    decode = decoder.run(Point("decode", 2, 64), budget=0.0, least=1)
    keys = {one.work // (2 * 4 * 16) for one in decode.calls if one.sort == "attention"}
    assert keys == {"mamba": set(), "mistral": {32}}.get(family, {65})
    if family == "mamba":
        assert sum(decode.calls.values()) < many / 2, "one token from a state, not token after token"


def test_of_experts_only_those_that_tokens_were_sent_to_are_read(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("torch")
    from narrows.measure.decoder import Decoder

    config = {**TINY, "model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    (tmp_path / "config.json").write_text(json.dumps(config))
    decoder = Decoder(str(tmp_path), "fp32", "cpu")
    experts = 2 * 8 * 3 * 64 * 128
    assert decoder.applied == decoder.parameters - experts * 6 // 8
    assert decoder.weight_bytes == 4 * (decoder.parameters - experts - 512 * 64)
    calls = decoder.run(Point("decode", 1, 8), budget=0.0, least=1).calls
    grouped = {(one.m, one.copies, one.bytes) for one in calls if one.name == "_grouped_mm"}
    assert grouped == {(1, 2, 2 * 4 * 64 * 128), (1, 2, 2 * 4 * 64 * 256)}

"""The laws of attention, experts and scans: what physics says of them, and how far they are off."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.accuracy.attention import attention_scores
from narrows.accuracy.attention_rows import attention_rows, operator_of
from narrows.accuracy.experts import experts_scores
from narrows.accuracy.experts_rows import experts_rows, picked, sizes_of
from narrows.accuracy.gemm import OURS, PLAIN, OperatorScores
from narrows.calibration.laws import laws
from narrows.hardware import Accelerator, accelerators, find_accelerator
from narrows.roofline.attention import attention_law, attention_time
from narrows.roofline.devices import device_keys
from narrows.roofline.experts import experts_law, experts_time, rows_of
from narrows.roofline.scan import scan_law, scan_time
from narrows.roofline.timed import Parts
from narrows.step import AttentionShape, Experts, Gemm, Operator, Scan

H100 = find_accelerator("h100-sxm")
L40S = find_accelerator("l40s")
MEASURED = [find_accelerator(name) for name in ("a100-sxm-80gb", "h100-sxm", "l40s", "b200-sxm")]
UNSEEN = find_accelerator("rtx-pro-6000-blackwell-server")

counts = st.integers(0, 10).map(lambda power: 2**power)
contexts = st.integers(0, 17).map(lambda power: 2**power)
groups = st.sampled_from([(1, 1), (32, 32), (32, 8), (64, 8), (64, 1)])


def attention(
    phase: str, sequences: Any, tokens: Any, heads: int = 32, kv_heads: int = 8, cache: str = "bf16"
) -> Operator:
    sizes = {"sequences": sequences, "tokens": tokens, "heads": heads, "kv_heads": kv_heads}
    return operator_of(phase, sizes, "bf16", cache)


def latent(sequences: int, context: int) -> Operator:
    """Absorbed MLA of DeepSeek-V3: 128 heads on one latent of 512 + 64."""
    keys = sequences * context
    shape = AttentionShape("decode", sequences, sequences, keys, keys, 128, 1, 576, 512, latent=True)
    return Operator("attention.core", shape, 1, "bf16", 2 * keys * 128 * (576 + 512), kv_reads=keys * 576 * 2)


def mixture(tokens: Any, touched: Any, load: Any = 1.0, experts: int = 128, width: int = 1536) -> Operator:
    """Experts of Qwen3-235B in bf16."""
    shape = Experts(tokens, 4096, width, experts, 128, 8, touched, load=load)
    return Operator("experts", shape, 1, "bf16", 0)


def timed(device: Accelerator, operator: Operator, cold: bool = True, engine: str = "") -> Parts:
    of = attention_law, attention_time
    if isinstance(operator.shape, Experts):
        of = experts_law, experts_time
    law_of, time_of = of
    return time_of(operator, device, law_of(operator, device_keys(device), engine), cold)


@given(counts, contexts, groups, st.sampled_from(["bf16", "fp8"]), st.sampled_from(["", "tensorrt-llm"]))
def test_decode_attention_is_never_faster_than_memory_brings_its_cache(
    sequences: int, context: int, heads: tuple[int, int], cache: str, engine: str
) -> None:
    operator = attention("decode", sequences, context, *heads, cache)
    for device in (*MEASURED, UNSEEN):
        assert timed(device, operator, engine=engine).time > operator.kv_reads / device.memory_bandwidth


@given(counts, contexts, groups, st.sampled_from(["bf16", "fp8"]))
def test_prefill_attention_is_never_faster_than_the_peak(
    sequences: int, prompt: int, heads: tuple[int, int], cache: str
) -> None:
    operator = attention("prefill", sequences, prompt, *heads, cache)
    for device in (*MEASURED, UNSEEN):
        assert timed(device, operator).time > operator.flops / device.peak("bf16")


@given(counts, contexts, groups, st.sampled_from(["decode", "prefill"]), st.sampled_from(["sequences", "tokens"]))
def test_attention_over_more_takes_no_less(
    sequences: int, tokens: int, heads: tuple[int, int], phase: str, axis: str
) -> None:
    small = {"sequences": sequences, "tokens": tokens}
    large = small | {axis: 2 * small[axis]}
    for device in MEASURED:
        first = timed(device, attention(phase, small["sequences"], small["tokens"], *heads)).time
        second = timed(device, attention(phase, large["sequences"], large["tokens"], *heads)).time
        assert second >= first * (1 - 1e-6)


def test_a_call_of_attention_costs_some_microseconds_however_small() -> None:
    for device in MEASURED:
        assert 2e-6 < timed(device, attention("decode", 1, 16)).time < 30e-6


def test_a_batch_of_long_contexts_reaches_most_of_the_bandwidth_and_a_short_context_little() -> None:
    def share(sequences: int, context: int) -> float:
        operator = attention("decode", sequences, context)
        return operator.kv_reads / H100.memory_bandwidth / timed(H100, operator).time

    assert share(64, 16384) > 0.8
    assert share(1, 1024) < 0.1


def test_long_prompts_reach_about_half_of_the_peak_and_short_ones_a_tenth() -> None:
    def share(prompt: int) -> float:
        operator = attention("prefill", 1, prompt)
        return operator.flops / H100.peak("bf16") / timed(H100, operator).time

    assert 0.45 < share(16384) < 0.75
    assert share(256) < 0.1


def test_a_cache_that_fits_in_l2_is_found_there_by_a_benchmark_and_not_by_a_step() -> None:
    small, large = attention("decode", 8, 2048), attention("decode", 64, 65536)
    assert timed(L40S, small, cold=True).time > 1.3 * timed(L40S, small, cold=False).time
    assert timed(L40S, large, cold=True).time == pytest.approx(timed(L40S, large, cold=False).time, rel=1e-3)


def test_absorbed_mla_takes_less_than_its_heads_would_with_keys_of_their_own() -> None:
    one, many = latent(64, 8192), attention("decode", 64, 8192, 128, 128)
    assert timed(H100, one).time < 0.2 * timed(H100, many).time
    assert timed(H100, one).time > one.flops / H100.peak("bf16")
    assert timed(H100, one).time > one.kv_reads / H100.memory_bandwidth
    assumed = attention_law(one, device_keys(H100))
    assert assumed.n == 0 and assumed.high / assumed.low >= 4


def test_columns_give_what_numbers_give() -> None:
    shapes = [(1, 128), (17, 5000), (256, 1024), (1024, 8)]
    columns = [np.array(column, dtype=float) for column in zip(*shapes, strict=True)]
    for device in (H100, L40S, find_accelerator("mi300x")):
        for phase in ("decode", "prefill"):
            one = [timed(device, attention(phase, *shape), cold=False) for shape in shapes]
            found = timed(device, attention(phase, columns[0], columns[1]), cold=False)
            for number, part in enumerate(Parts._fields):
                assert np.broadcast_to(found[number], 4).tolist() == pytest.approx([getattr(o, part) for o in one])
        one = [timed(device, mixture(*shape), cold=False) for shape in shapes]
        found = timed(device, mixture(columns[0], columns[1]), cold=False)
        for number, part in enumerate(Parts._fields):
            assert np.broadcast_to(found[number], 4).tolist() == pytest.approx([getattr(o, part) for o in one])


def test_every_accelerator_has_a_law_and_what_nobody_measured_is_assumed_and_wide() -> None:
    scan = Operator("scan", Scan(4096, 1, 1 << 20), 1, "bf16", 10**9, kv_reads=1 << 21)
    for device in accelerators():
        if device.bf16 is None:
            continue
        keys = device_keys(device)
        for operator in (
            attention("decode", 8, 4096),
            attention("prefill", 1, 4096),
            latent(8, 4096),
            mixture(64, 100.0),
        ):
            assert timed(device, operator).time > 0
            found = (experts_law if isinstance(operator.shape, Experts) else attention_law)(operator, keys)
            if device.vendor != "nvidia":
                assert (found.n, found.device) == (0, "any")
                assert found.high / found.low > 5
        assert scan_law(scan, keys).n == 0
        assert scan_time(scan, device, scan_law(scan, keys)).time > scan.bytes / device.memory_bandwidth


def test_intervals_are_wider_where_the_device_was_not_measured() -> None:
    for name, wanted in (("attention", "decode.shared"), ("attention", "prefill"), ("experts", "experts")):
        rows = [law for law in laws(name) if law.operator == wanted and not law.engine and law.precision == "bf16"]
        width = {law.device: law.high / law.low for law in rows}
        assert width["h100-sxm"] < width["Hopper HBM"] < width["any"]


@given(st.integers(0, 14).map(lambda power: 2**power), st.integers(1, 128))
def test_experts_are_never_faster_than_memory_brings_the_weights_of_the_touched(tokens: int, touched: int) -> None:
    for device in (*MEASURED, UNSEEN):
        operator = mixture(tokens, float(touched))
        weights = touched * 3 * 4096 * 1536 * 2
        assert timed(device, operator).time > weights / device.memory_bandwidth
        assert timed(device, operator).time > 2 * tokens * 8 * 3 * 4096 * 1536 / device.peak("bf16")


def test_a_rank_with_twice_the_rows_takes_longer_and_one_with_half_the_experts_less() -> None:
    even, loaded = mixture(16384, 32.0, 1.0, 32), mixture(16384, 32.0, 2.0, 32)
    assert rows_of(loaded.shape) == 2 * rows_of(even.shape) == 2 * 16384 * 8 / 4  # type: ignore[arg-type]
    assert timed(H100, loaded).time > 1.4 * timed(H100, even).time
    assert timed(H100, mixture(64, 32.0, 1.0, 32)).time < 0.4 * timed(H100, mixture(64, 128.0)).time


def test_a_shape_of_another_kind_is_refused() -> None:
    product = Operator("mlp.up", Gemm(1, 8, 8), 1, "bf16", 128)
    for law_of in (attention_law, experts_law):
        with pytest.raises(TypeError, match="is no"):
            law_of(product, device_keys(H100))


def test_laws_rest_on_no_row_that_is_scored() -> None:
    for name in ("attention", "experts"):
        named = {law.device for law in laws(name)}
        assert UNSEEN.id not in named
        assert {f"without {device.id}" for device in MEASURED} <= named


def test_which_experts_a_benchmark_touches_adds_up() -> None:
    for rows in experts_rows():
        sizes = sizes_of(picked(rows, slice(None)).operator)
        assert (sizes["touched"] <= sizes["experts"]).all()
        computed = rows_of(rows.operator.shape)  # type: ignore[arg-type]
        assert (computed <= sizes["tokens"] * np.minimum(sizes["top_k"], sizes["experts"]) * 1.01).all()
        assert (sizes["touched"] <= computed * 1.01 + 0.05).all()


def test_tables_faster_than_memory_are_not_believed() -> None:
    named = {(rows.device.id, rows.engine, rows.kind) for rows in attention_rows() if rows.impossible}
    assert named == {("a100-sxm-80gb", "tensorrt-llm", "decode.shared")}


@pytest.fixture(scope="module")
def attention_board() -> dict[str, OperatorScores]:
    return {board.protocol: board for board in attention_scores()}


def errors(board: OperatorScores, group: str, method: str = OURS) -> tuple[float, float]:
    return next((row.median, row.p90) for row in board.scores if (row.group, row.method) == (group, method))


def test_attention_of_a_device_that_no_law_saw_is_off_by_less_than_a_seventh(
    attention_board: dict[str, OperatorScores],
) -> None:
    median, p90 = errors(attention_board["test split"], "attention (all)")
    assert median < 0.13 and p90 < 0.35
    plain = errors(attention_board["test split"], "attention (all)", PLAIN)
    assert plain[0] > 2 * median and plain[1] > 2 * p90


def test_attention_of_fitted_devices_is_off_by_a_twentieth(attention_board: dict[str, OperatorScores]) -> None:
    median, p90 = errors(attention_board["fitted rows"], "attention (all)")
    assert median < 0.06 and p90 < 0.2


def test_experts_are_off_by_less_than_half_of_what_the_plain_roofline_is() -> None:
    for board in experts_scores():
        median, p90 = errors(board, "experts (all)")
        plain = errors(board, "experts (all)", PLAIN)
        assert median < 0.6 * plain[0] and p90 < plain[1]


def test_laws_load_no_numpy() -> None:
    code = (
        "import sys; from narrows.roofline import attention, experts, scan;"
        "from narrows.accuracy import attention, experts;"
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

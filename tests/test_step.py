"""Operators of a step: shapes, FLOPs and bytes by kind; what is read and what is not; laws that every model obeys."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from narrows.deployment import Deployment, deploy
from narrows.hardware import find_accelerator
from narrows.memory.shard import shards
from narrows.models import ModelSpec, load_model, read_config
from narrows.models.catalogue import catalogue
from narrows.step import (
    AttentionShape,
    Batch,
    Chunk,
    Collective,
    Elementwise,
    Experts,
    Gemm,
    Operator,
    Scan,
    operators_of,
    plan_of,
    resident,
)
from narrows.step.kernels import touched
from narrows.step.load import MOST_DRAFTED, Load, Sight
from narrows.step.textbook import DecodeAttention, PrefillAttention
from narrows.text import BadInput

from .conftest import DATA

LLAMA, DEEPSEEK = "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3"
ORACLE = [json.loads(line) for line in gzip.decompress((DATA / "oracle.jsonl.gz").read_bytes()).splitlines()]


def deployed(model: str | ModelSpec, gpu: str = "h100-sxm", tp: int = 1, **options: Any) -> Deployment:
    spec = load_model(model) if isinstance(model, str) else model
    return deploy(spec, find_accelerator(gpu), tensor_parallel=tp, max_length=65536, **options)


def by_name(operators: tuple[Operator, ...]) -> dict[str, Operator]:
    """Operators of a model whose layers are all alike in one phase."""
    found = {operator.name: operator for operator in operators}
    assert len(found) == len(operators)
    return found


def total(operators: tuple[Operator, ...], field: str) -> int:
    return sum(operator.count * getattr(operator, field) for operator in operators)


# --- one dense model, by hand


def test_a_decode_step_of_llama_has_fused_products_of_its_published_sizes() -> None:
    found = by_name(operators_of(deployed(LLAMA), Batch.decode(16, 4096)))
    shapes = {
        name: (o.count, o.shape.m, o.shape.k, o.shape.n) for name, o in found.items() if isinstance(o.shape, Gemm)
    }
    assert shapes == {
        "attention.qkv": (32, 16, 4096, 6144),
        "attention.o": (32, 16, 4096, 4096),
        "mlp.gate_up": (32, 16, 4096, 28672),
        "mlp.down": (32, 16, 14336, 4096),
        "head": (1, 16, 4096, 128256),
    }
    assert found["mlp.gate_up"].weights == 2 * 4096 * 28672
    assert found["mlp.gate_up"].flops == 2 * 16 * 4096 * 28672
    assert (found["mlp.gate_up"].reads, found["mlp.gate_up"].writes) == (2 * 16 * 4096, 2 * 16 * 28672)
    assert found["norm"].count == 65


def test_decode_attention_is_the_textbooks() -> None:
    core = by_name(operators_of(deployed(LLAMA), Batch.decode(16, 4095)))["attention.core"]
    book = DecodeAttention(16, 4096, 32, 8, 128)
    assert core.flops == book.flops
    assert core.bytes == book.bytes
    assert core.shape == AttentionShape("decode", 16, 16, 16 * 4096, 16 * 4096, 32, 8, 128, 128)


def test_prefill_attention_is_the_textbooks_with_a_causal_mask_and_naive_attention_moves_its_scores() -> None:
    deployment, tokens = deployed(LLAMA), 2048
    fused = by_name(operators_of(deployment, Batch.prefill(tokens)))["attention.core"]
    naive = by_name(operators_of(deployment, Batch.prefill(tokens), naive=True))["attention.core"]
    book = PrefillAttention(tokens, 32, 8, 128)
    assert fused.flops * 2 * tokens == book.flops * (tokens + 1)
    assert fused.bytes == book.bytes
    assert naive.flops == fused.flops
    assert naive.bytes - fused.bytes == 4 * 2 * 32 * tokens * (tokens + 1) // 2


def test_new_tokens_are_written_to_the_cache_once_and_cached_ones_read_once() -> None:
    model = load_model(LLAMA)
    operators = operators_of(deployed(model), Batch.decode(16, 4096))
    assert total(operators, "kv_writes") == 16 * model.kv_bytes_per_token(4096)
    assert total(operators, "kv_reads") == 16 * model.kv_bytes_per_sequence(4097)


def test_only_sampled_rows_go_through_the_head() -> None:
    deployment = deployed(LLAMA)
    cut = operators_of(deployment, Batch((Chunk(1, 512, 0, sampled=False), Chunk(3, 1, 100))))
    assert by_name(tuple(o for o in cut if o.name == "head"))["head"].shape.m == 3  # type: ignore[union-attr]
    assert "head" not in {o.name for o in operators_of(deployment, Batch((Chunk(1, 512, 0, sampled=False),)))}


# --- what keys a query sees


def seen_by_hand(sight: Sight, new: int, past: int) -> tuple[set[int], int]:
    """(keys that any query sees, pairs), one query after another."""
    keys, pairs = set[int](), 0
    for position in range(past, past + new):
        visible = range(position + 1)
        if sight.chunked:
            visible = range(position - position % sight.window, position + 1)
        elif sight.window:
            visible = range(max(0, position + 1 - sight.window), position + 1)
        keys |= set(visible)
        pairs += len(visible)
    return keys, pairs


SIZES = st.integers(1, 60)


@given(st.integers(0, 20), st.booleans(), SIZES, st.integers(0, 80))
def test_keys_and_pairs_are_those_counted_one_by_one(window: int, chunked: bool, new: int, past: int) -> None:
    sight = Sight(window, chunked and window > 0)
    seen = Load(Batch((Chunk(1, new, past),))).seen(
        "decode" if new == 1 or (past and new <= MOST_DRAFTED) else "prefill", sight
    )
    keys, pairs = seen_by_hand(sight, new, past)
    assert seen is not None
    assert (seen.keys, seen.pairs) == (len(keys), pairs)


@given(st.integers(2, 9), st.integers(0, 5), SIZES, st.integers(0, 80))
def test_entries_in_sight_are_those_complete_at_the_query_and_at_most_the_picked_ones(
    every: int, top: int, new: int, past: int
) -> None:
    seen = Load(Batch((Chunk(1, 100 + new, past),))).seen("prefill", Sight(every=every, top=top))
    by_hand = [(position + 1) // every for position in range(past, past + 100 + new)]
    assert seen is not None
    assert seen.pairs == sum(min(n, top) if top else n for n in by_hand)


def pairs_of(load: Load, sight: Sight) -> int:
    found = (load.seen("prefill", sight), load.seen("decode", sight))
    return sum(seen.pairs for seen in found if seen is not None)


@given(st.integers(1, 40), st.lists(st.integers(1, 50), min_size=1, max_size=6))
def test_a_prompt_in_pieces_computes_the_pairs_of_the_whole_prompt(window: int, pieces: list[int]) -> None:
    past, pairs = 0, 0
    for piece in pieces:
        pairs += pairs_of(Load(Batch((Chunk(1, piece, past),))), Sight(window))
        past += piece
    assert pairs == pairs_of(Load(Batch((Chunk(1, sum(pieces), 0),))), Sight(window))


def test_windowed_layers_read_no_more_than_their_window() -> None:
    operators = operators_of(deployed("google/gemma-3-12b-it"), Batch.decode(2, 30000))
    cores = [o for o in operators if o.name == "attention.core"]
    assert {(o.count, o.shape.keys) for o in cores} == {(40, 2 * 1024), (8, 2 * 30001)}  # type: ignore[union-attr]


# --- latent attention


def test_latent_attention_makes_keys_for_prompts_and_multiplies_queries_in_decodes() -> None:
    deployment = deployed(DEEPSEEK, tp=8)
    prompt = by_name(operators_of(deployment, Batch((Chunk(1, 512, 1024),))))
    decode = by_name(operators_of(deployment, Batch.decode(4, 1023)))
    up = prompt["mla.kv_up"].shape
    assert isinstance(up, Gemm)
    assert (up.m, up.k, up.n) == (1536, 512, 16 * 256)
    assert "mla.absorb_k" not in prompt
    assert "mla.kv_up" not in decode
    core = decode["mla.core"]
    assert core.shape == AttentionShape("decode", 4, 4, 4096, 4096, 16, 1, 576, 512, 16, latent=True)
    assert core.kv_reads == 4096 * 576 * 2
    assert decode["mla.absorb_k"].shape == Gemm(4, 128, 512, 16)
    assert decode["mla.absorb_v"].shape == Gemm(4, 512, 128, 16)
    absorbed = decode["mla.absorb_k"].flops + decode["mla.absorb_v"].flops
    assert absorbed == 2 * 4 * 512 * 16 * 256


def test_an_indexer_scores_every_key_and_attention_reads_those_it_picks() -> None:
    decode = by_name(operators_of(deployed("deepseek-ai/DeepSeek-V3.2", tp=8), Batch.decode(1, 20000)))
    assert decode["mla.index"].shape.pairs == 20001  # type: ignore[union-attr]
    assert decode["mla.core"].shape.pairs == 2048  # type: ignore[union-attr]


# --- experts


@given(st.integers(1, 4096), st.integers(1, 8))
def test_expected_experts_lie_between_those_of_one_token_and_all(tokens: int, top_k: int) -> None:
    found = touched(64, 64, top_k, tokens)
    assert top_k * (1 - 1e-12) <= found <= 64
    assert found <= tokens * top_k * (1 + 1e-12)


def test_experts_weigh_as_much_as_are_touched() -> None:
    deployment = deployed("Qwen/Qwen3-30B-A3B")
    one = by_name(operators_of(deployment, Batch.decode(1, 100)))["experts"]
    many = by_name(operators_of(deployment, Batch.decode(4096, 100)))["experts"]
    each = 3 * 2048 * 768 * 2
    assert one.weights == 8 * each
    assert many.weights == pytest.approx(128 * each, rel=1e-6)
    assert one.flops == 2 * 8 * 3 * 2048 * 768
    assert isinstance(one.shape, Experts)
    assert (one.shape.experts, one.shape.all_experts, one.shape.top_k) == (128, 128, 8)


def test_experts_shared_out_by_expert_or_by_width_weigh_the_same_and_share_their_work() -> None:
    model, batch = load_model("Qwen/Qwen3-30B-A3B"), Batch.prefill(4096)
    whole = by_name(operators_of(deployed(model), batch))["experts"]
    width = by_name(operators_of(deployed(model, tp=4), batch))["experts"]
    apart = by_name(operators_of(deployed(model, tp=4, expert_parallel=4), batch))["experts"]
    assert isinstance(width.shape, Experts)
    assert isinstance(apart.shape, Experts)
    assert (width.shape.experts, width.shape.intermediate) == (128, 192)
    assert (apart.shape.experts, apart.shape.intermediate) == (32, 768)
    for part in (width, apart):
        assert part.flops * 4 == whole.flops
        assert part.weights * 4 == pytest.approx(whole.weights, rel=1e-6)


def test_replicas_of_attention_bring_all_their_tokens_to_the_experts() -> None:
    model = load_model("Qwen/Qwen3-30B-A3B")
    deployment = deployed(model, expert_parallel=8, attention_data_parallel=8)
    assert deployment.count == 8
    found = by_name(operators_of(deployment, Batch.decode(16, 1000)))
    assert found["experts"].shape.tokens == 128  # type: ignore[union-attr]
    assert found["attention.qkv"].shape.m == 16  # type: ignore[union-attr]
    assert found["experts.dispatch"].shape == Collective("all_gather", 8, 16 * 2048 * 2)
    assert found["experts.combine"].shape == Collective("reduce_scatter", 8, 128 * 2048 * 2)


def test_beyond_as_many_replicas_as_a_token_has_experts_copies_go_to_the_ranks_that_hold_them() -> None:
    model = load_model("Qwen/Qwen3-30B-A3B")
    deployment = deployed(model, expert_parallel=32, attention_data_parallel=32)
    found = by_name(operators_of(deployment, Batch.decode(16, 1000)))
    copies = 32 * (1 - (31 / 32) ** 8)
    assert 7 < copies < 8
    back = found["experts.combine"].shape
    assert isinstance(back, Collective)
    assert (back.op, back.ranks) == ("all_to_all", 32)
    assert back.message == 16 * round(copies * 2048 * 2)
    assert found["experts.dispatch"].shape == back  # weights in 16 bits are multiplied in 16 bits


def test_copies_of_tokens_travel_in_the_precision_in_which_they_are_multiplied() -> None:
    deployment = deployed("deepseek-ai/DeepSeek-V3", "h200-sxm", expert_parallel=32, attention_data_parallel=32)
    found = {o.name: o.shape for o in operators_of(deployment, Batch.decode(64, 1000))}
    sent, back = found["experts.dispatch"], found["experts.combine"]
    assert isinstance(sent, Collective)
    assert isinstance(back, Collective)
    assert back.message == pytest.approx(2 * sent.message, rel=1e-4)


def test_a_norm_over_all_heads_adds_up_squares_over_ranks_and_one_per_head_does_not() -> None:
    across = operators_of(deployed("MiniMaxAI/MiniMax-M2.7", tp=8), Batch.decode(16, 100))
    found = next(o for o in across if o.name == "attention.norm_all_reduce")
    assert (found.count, found.shape) == (62, Collective("all_reduce", 8, 16 * 8))
    for model, tp in (("MiniMaxAI/MiniMax-M2.7", 1), ("Qwen/Qwen3-30B-A3B", 4)):
        operators = operators_of(deployed(model, "b200-sxm", tp), Batch.decode(16, 100))
        assert "attention.norm_all_reduce" not in {o.name for o in operators}


def test_experts_that_are_not_there_cannot_be_shared_out() -> None:
    with pytest.raises(BadInput, match="has no experts"):
        deployed(LLAMA, attention_data_parallel=2)
    with pytest.raises(BadInput, match="cannot be shared out"):
        deployed("Qwen/Qwen3-30B-A3B", tp=4, expert_parallel=3)


# --- ranks that talk


def test_tensor_parallel_ranks_add_up_twice_per_layer() -> None:
    found = by_name(operators_of(deployed(LLAMA, tp=4), Batch.decode(16, 100)))
    sums = {name: (o.count, o.shape) for name, o in found.items() if isinstance(o.shape, Collective)}
    each = Collective("all_reduce", 4, 16 * 4096 * 2)
    assert sums.pop("head.all_gather") == (1, Collective("all_gather", 4, 16 * 128256 // 4 * 2))
    assert sums == {"attention.all_reduce": (32, each), "mlp.all_reduce": (32, each), "embedding.all_reduce": (1, each)}
    alone = operators_of(deployed(LLAMA), Batch.decode(16, 100))
    assert not any(isinstance(o.shape, Collective) for o in alone)


def test_stages_send_to_the_next_and_together_run_the_whole_model() -> None:
    whole = operators_of(deployed(LLAMA), Batch.prefill(100))
    staged = operators_of(deployed(LLAMA, pipeline_parallel=4), Batch.prefill(100))
    sends = [o for o in staged if o.name == "pipeline.send"]
    assert [(o.count, o.shape) for o in sends] == [(3, Collective("send", 2, 100 * 4096 * 2 * 2))]
    assert tuple(o for o in staged if o.name != "pipeline.send") == whole


def test_ranks_of_a_stage_send_a_part_each_that_is_gathered_behind_the_border() -> None:
    staged = operators_of(deployed(LLAMA, tp=4, pipeline_parallel=4), Batch.prefill(100))
    message = 100 * 4096 * 2 * 2 // 4
    found = [(o.count, o.shape) for o in staged if o.name.startswith("pipeline.")]
    # two stages of four fill a machine of eight: the second border lies between machines
    assert found == [
        (2, Collective("send", 2, message)),
        (3, Collective("all_gather", 4, message)),
        (1, Collective("send", 2, message, span=9)),
    ]


# --- precision


@pytest.mark.parametrize(
    ("model", "gpu", "precision", "activation_bits", "weight_bits"),
    [
        ("Qwen/Qwen3-32B-FP8", "h100-sxm", "fp8", 8, 8.002),
        ("Qwen/Qwen3-32B-FP8", "a100-sxm-80gb", "bf16", 16, 8.002),
        (LLAMA, "h100-sxm", "bf16", 16, 16),
        (LLAMA, "t4", "fp16", 16, 16),
    ],
)
def test_arithmetic_follows_the_scheme_and_the_device(
    model: str, gpu: str, precision: str, activation_bits: int, weight_bits: float
) -> None:
    found = {o.name: o for o in operators_of(deployed(model, gpu), Batch.decode(1, 100))}
    product = found["mlp.gate_up"]
    assert isinstance(product.shape, Gemm)
    assert product.precision == precision
    assert product.shape.activation_bits == activation_bits
    assert product.shape.weight_bits == pytest.approx(weight_bits, rel=1e-3)
    assert ("mlp.gate_up.quantize" in found) == (activation_bits < 16)


@pytest.mark.parametrize(
    ("method", "gpu", "precision", "activation_bits"),
    [
        ("fp8", "h100-sxm", "fp8", 8),
        ("fp8", "a10", "bf16", 16),
        ("bitsandbytes", "h100-sxm", "bf16", 16),
        ("mxfp8", "h100-sxm", "bf16", 16),
        ("mxfp8", "b200", "fp8", 8),
    ],
)
def test_arithmetic_of_weights_quantized_while_they_load(
    method: str, gpu: str, precision: str, activation_bits: int
) -> None:
    deployment = deployed(LLAMA, gpu, quantization=method)
    product = {o.name: o for o in operators_of(deployment, Batch.decode(1, 100))}["mlp.down"]
    assert (product.precision, product.shape.activation_bits) == (precision, activation_bits)  # type: ignore[union-attr]


def group(bits: int, kind: str, inputs: bool) -> dict[str, Any]:
    """A `quantization_config` of compressed-tensors with one scale per channel."""
    weights = {"num_bits": bits, "type": kind, "strategy": "channel", "symmetric": True}
    both = {"weights": weights, "targets": ["Linear"], "input_activations": {"num_bits": 8} if inputs else None}
    layout = "int-quantized" if bits == 8 else "pack-quantized"
    return {"quant_method": "compressed-tensors", "format": layout, "config_groups": {"group_0": both}}


@pytest.mark.parametrize(
    ("quantization", "gpu", "precision", "activation_bits", "weight_bits"),
    [
        (group(8, "int", inputs=True), "a100-sxm-80gb", "int8", 8, 8),
        (group(8, "int", inputs=True), "m3-max", "fp16", 16, 8),
        (group(4, "int", inputs=False), "h100-sxm", "bf16", 16, 4),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "h100-sxm", "bf16", 16, 4.16),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "t4", "fp16", 16, 4.16),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "b200", "fp4", 4, 4.5),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "h100-sxm", "bf16", 16, 4.5),
    ],
)
def test_arithmetic_of_quantized_checkpoints(
    quantization: dict[str, Any], gpu: str, precision: str, activation_bits: int, weight_bits: float
) -> None:
    model = read_config(catalogue_config(LLAMA) | {"quantization_config": quantization}, name="quantized")
    product = {o.name: o for o in operators_of(deployed(model, gpu), Batch.decode(1, 100))}["mlp.down"]
    assert isinstance(product.shape, Gemm)
    assert (product.precision, product.shape.activation_bits) == (precision, activation_bits)
    assert product.shape.weight_bits == pytest.approx(weight_bits, rel=0.01)
    assert 8 * product.weights == pytest.approx(product.shape.weight_bits * 4096 * 14336, rel=1e-12)


@pytest.mark.parametrize(("gpu", "precision", "activation_bits"), [("b200", "fp8", 8), ("h100-sxm", "bf16", 16)])
def test_mxfp4_experts_meet_eight_bit_activations_where_a_device_has_fp4_units(
    gpu: str, precision: str, activation_bits: int
) -> None:
    found = {o.name: o for o in operators_of(deployed("openai/gpt-oss-20b", gpu), Batch.decode(1, 100))}["experts"]
    assert isinstance(found.shape, Experts)
    assert (found.precision, found.shape.activation_bits, found.shape.weight_bits) == (precision, activation_bits, 4.25)


def test_an_eight_bit_cache_halves_what_attention_reads() -> None:
    usual = by_name(operators_of(deployed(LLAMA), Batch.decode(8, 1000)))["attention.core"]
    half = by_name(operators_of(deployed(LLAMA, kv_cache_dtype="fp8"), Batch.decode(8, 1000)))["attention.core"]
    assert (half.kv_reads * 2, half.precision) == (usual.kv_reads, "fp8")
    old = by_name(operators_of(deployed(LLAMA, "a10", kv_cache_dtype="fp8"), Batch.decode(8, 1000)))["attention.core"]
    assert (old.kv_reads, old.precision) == (half.kv_reads, "bf16")


# --- other mixers


def test_recurrences_read_and_write_their_state_once_per_sequence() -> None:
    model = load_model("Qwen/Qwen3-Next-80B-A3B-Instruct")
    operators = operators_of(deployed(model), Batch.decode(4, 1000))
    scans = [o for o in operators if isinstance(o.shape, Scan)]
    assert sum(o.count * o.state_reads for o in scans) == 4 * model.state_bytes_per_sequence()
    longer = operators_of(deployed(model), Batch.decode(4, 9000))
    assert [o for o in longer if isinstance(o.shape, Scan)] == scans


def test_an_encoder_and_projections_of_its_output_run_once_before_the_first_token() -> None:
    row = next(r for r in ORACLE if "WhisperForConditionalGeneration" in r["config"].get("architectures", ()))
    deployment = deploy(read_config(row["config"], name="whisper"), find_accelerator("h100-sxm"))
    first = {o.name for o in operators_of(deployment, Batch.prefill(16))}
    later = {o.name for o in operators_of(deployment, Batch.decode(1, 16))}
    assert {"cross.kv", "encoder.core", "encoder.attention.qkv"} <= first
    assert first - later == {name for name in first if name.startswith("encoder.")} | {"cross.kv", "cross.cache"}
    cross = [o for o in operators_of(deployment, Batch.decode(2, 16)) if o.name == "cross.core"]
    assert [o.shape.keys for o in cross] == [2 * 1500]  # type: ignore[union-attr]


def test_layers_that_run_for_pictures_are_left_unread_by_a_text() -> None:
    row = next(r for r in ORACLE if r["config"]["model_type"] == "mllama_text_model")
    deployment = deploy(read_config(row["config"], name="mllama"), find_accelerator("h100-sxm"), max_length=64)
    _, unread = resident(deployment, Batch.decode(1, 16))
    assert unread["layers that run for pictures"] > 0
    assert not any(o.name.startswith("cross.") for o in operators_of(deployment, Batch.prefill(16)))


def test_looped_layers_apply_their_weights_again_and_hold_them_once() -> None:
    row = next(r for r in ORACLE if r["config"]["model_type"] == "hrm_text")
    deployment = deploy(read_config(row["config"], name="hrm"), find_accelerator("h100-sxm"), max_length=64)
    operators, (streamed, _) = operators_of(deployment, Batch.decode(1, 16)), resident(deployment, Batch.decode(1, 16))
    assert total(operators, "weights") > streamed


class Unknown(msgspec.Struct, frozen=True):
    """A mixer that no rule speaks of."""

    hidden: int = 64

    def tensors(self) -> list[Any]:
        return []

    def cache(self) -> list[Any]:
        return []

    def state(self) -> list[Any]:
        return []


def test_a_mixer_without_a_rule_is_refused() -> None:
    deployment = deployed(LLAMA)
    group = deployment.model.groups[0]
    layer = msgspec.structs.replace(group.layer, mixer=Unknown())
    groups = (msgspec.structs.replace(group, layer=layer),)
    model = msgspec.structs.replace(deployment.model, groups=groups)
    with pytest.raises(BadInput, match="no rule yet"):
        plan_of(msgspec.structs.replace(deployment, model=model))


# --- laws for every model


EVERY: list[tuple[str, dict[str, Any]]] = [
    *((entry.id, entry.config) for entry in catalogue()),
    *((f"{row['set']}-{row['key']}-{row['seed']}", row["config"]) for row in ORACLE),
]
BATCHES = (Batch.prefill(40, 2), Batch.decode(3, 20), Batch((Chunk(1, 40, 0, sampled=False), Chunk(2, 1, 7))))


def deployable(config: dict[str, Any], name: str, tp: int) -> Deployment | None:
    """None where it cannot be cut so, or keeps nothing of its tokens."""
    try:
        return deploy(read_config(config, name=name), find_accelerator("b200"), tensor_parallel=tp, max_length=64)
    except BadInput:
        return None


@pytest.mark.parametrize("tp", [1, 2])
@pytest.mark.parametrize(("name", "config"), EVERY, ids=[name for name, _ in EVERY])
def test_resident_bytes_are_those_read_and_those_named(name: str, config: dict[str, Any], tp: int) -> None:
    deployment = deployable(config, name, tp)
    if deployment is None:
        return
    plan = plan_of(deployment)
    for batch in BATCHES:
        streamed, unread = plan.resident(batch)
        assert streamed + sum(unread.values()) == shards(deployment)[0].weights
        assert all(size > 0 for size in unread.values())


@pytest.mark.parametrize(
    "options", [{"pipeline_parallel": 4}, {"tp": 4, "pipeline_parallel": 2}, {"engine": "llama.cpp"}]
)
def test_resident_bytes_of_every_stage_are_those_read_and_those_named(options: dict[str, Any]) -> None:
    deployment = deployed(LLAMA, **options)
    for stage, shard in enumerate(shards(deployment)):
        streamed, unread = resident(deployment, Batch.decode(4, 100), stage)
        assert streamed + sum(unread.values()) == shard.weights


@pytest.mark.parametrize("sharing", [(4, 4, 1), (1, 8, 8), (2, 4, 4), (1, 1, 8)])
def test_ranks_that_share_experts_keep_what_they_read_and_leave(sharing: tuple[int, int, int]) -> None:
    tp, expert_parallel, replicas = sharing
    deployment = deployed(
        "Qwen/Qwen3-30B-A3B", tp=tp, expert_parallel=expert_parallel, attention_data_parallel=replicas
    )
    streamed, unread = resident(deployment, Batch.decode(4, 100))
    assert streamed + sum(unread.values()) == shards(deployment)[0].weights
    experts = 48 * 128 * 3 * 2048 * 768 * 2
    read = sum(o.weights * o.count for o in operators_of(deployment, Batch.decode(4, 100)) if o.name == "experts")
    assert unread["idle experts"] + read == experts // (tp * replicas)


AGAIN = ("dory", "hrm_text", "inkling2_loop_text", "inkling2_loop", "zamba", "zamba2")
"""Families whose layers run with the same weights several times."""


@pytest.mark.parametrize(("name", "config"), EVERY, ids=[name for name, _ in EVERY])
def test_operators_of_a_decode_read_each_streamed_byte_once(name: str, config: dict[str, Any]) -> None:
    """But for weights of layers that run again, and latent projections, of which a decode reads an unpacked copy."""
    deployment = deployable(config, name, 1)
    if deployment is None or config["model_type"] in AGAIN:
        return
    plan, batch = plan_of(deployment), Batch.decode(3, 20)
    streamed, unread = plan.resident(batch)
    copies = sum(o.count * o.weights for o in plan.operators(batch) if o.name in ("mla.absorb_k", "mla.absorb_v")) * (
        "projections that only prefill uses" in unread
    )
    assert total(plan.operators(batch), "weights") - copies == streamed


def applied_elements(model: ModelSpec) -> int:
    """Elements of all matrices that one token of a decode goes through, by the tensor table alone."""
    found = 0
    for layer, indices in model.kinds:
        turns = getattr(layer.mixer, "loops", 1)
        for tensor in layer.applied():
            if tensor.use in ("linear", "plain"):
                # every head multiplies Inkling's table of relative positions
                times = turns * (layer.mixer.attention.heads if tensor.role == "attention.relative_table" else 1)  # type: ignore[union-attr]
                # of the adapters of a shared block each layer runs its own
                copies = tensor.copies if tensor.active is None else 1
                found += tensor.active_elements // copies * len(indices) * times
    head = 0
    for _, tensor in model.outer_tensors():
        if tensor.use in ("linear", "plain") and not tensor.role.startswith(("pooler", "embedding.encoder")):
            found += tensor.elements
            head += tensor.role == "head"
    if model.head_tied and not head:
        found += sum(tensor.elements for _, tensor in model.outer_tensors() if tensor.role == "embedding")
    return found


@pytest.mark.parametrize(("tied", "attention", "flops"), [(True, False, 524288), (False, True, 2097152)])
def test_a_layer_runs_its_own_adapter_of_a_shared_block(tied: bool, attention: bool, flops: int) -> None:
    """torch counts as many FLOPs more of 16 tokens where the adapters' rank is 24 in place of 8 (Zamba2ForCausalLM)."""
    steps = []
    for rank in (8, 24):
        config = {
            "architectures": ["Zamba2ForCausalLM"],
            "model_type": "zamba2",
            "vocab_size": 128,
            "hidden_size": 64,
            "num_hidden_layers": 8,
            "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid", "mamba", "hybrid", "hybrid", "mamba"],
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "n_mamba_heads": 4,
            "mamba_d_state": 16,
            "intermediate_size": 96,
            "adapter_rank": rank,
            "num_mem_blocks": 2,
            "use_shared_attention_adapter": attention,
            "tie_word_embeddings": tied,
            "max_position_embeddings": 4096,
        }
        deployment = deployed(read_config(config, name="zamba2"))
        streamed, unread = resident(deployment, Batch.prefill(16))
        assert streamed + sum(unread.values()) == shards(deployment)[0].weights
        steps.append(plan_of(deployment).operators(Batch.prefill(16)))
        read = {o.name: o.count * o.weights for o in steps[-1] if o.name.startswith("adapter.mlp")}
        assert sum(read.values()) == 4 * 2 * rank * (64 + 192)
    few, many = (total(step, "flops") for step in steps)
    assert many - few == flops


OTHERWISE = {
    "xlnet": "projects the tokens it remembers anew",
    "longcat_flash": "some of the chosen experts do nothing",
    "mllama": "layers for pictures",
    "mllama_text_model": "layers for pictures",
}
"""Families where a decode of one token does not apply every matrix once, with the reason."""


@pytest.mark.parametrize(("name", "config"), EVERY, ids=[name for name, _ in EVERY])
def test_flops_of_a_token_are_twice_the_matrices_it_goes_through_and_no_tensor_is_dropped(
    name: str, config: dict[str, Any]
) -> None:
    deployment = deployable(config, name, 1)
    if deployment is None or config["model_type"] in OTHERWISE:
        return
    model = deployment.model
    crossed = [layer for layer, _ in model.kinds if any(t.role.startswith("cross.") for t in layer.applied())]
    if crossed:
        return  # projections of an encoder's output do not run in a decode: compared with torch's count instead
    operators = operators_of(deployment, Batch.decode(1, 20))
    found = sum(o.count * o.flops for o in operators if isinstance(o.shape, Gemm | Experts))
    assert found == 2 * applied_elements(model)


# --- laws of scaling


MODELS = (LLAMA, DEEPSEEK, "google/gemma-3-12b-it", "Qwen/Qwen3-30B-A3B", "openai/gpt-oss-20b")


@pytest.mark.parametrize("name", MODELS)
def test_a_rank_never_reads_more_with_more_ranks(name: str) -> None:
    model, batch = load_model(name), Batch.decode(8, 1000)
    found = [operators_of(deployed(model, tp=tp), batch) for tp in (1, 2, 4, 8)]
    for field in ("weights", "kv_reads", "flops"):
        sums = [total(operators, field) for operators in found]
        assert sums == sorted(sums, reverse=True)


@given(st.sampled_from(MODELS), st.integers(1, 64), st.integers(1, 4000), st.integers(2, 5))
def test_cache_traffic_and_attention_grow_with_the_batch_and_weights_do_not(
    name: str, batch: int, context: int, times: int
) -> None:
    plan = _plan(name)
    one, many = plan.operators(Batch.decode(batch, context)), plan.operators(Batch.decode(times * batch, context))
    for field in ("kv_reads", "kv_writes"):
        assert total(many, field) == times * total(one, field)
    dense = [tuple(o for o in found if not isinstance(o.shape, Experts)) for found in (one, many)]
    assert total(dense[0], "weights") == total(dense[1], "weights")


def _plan(name: str) -> Any:
    return plan_of(deployed(name)) if name not in _PLANS else _PLANS[name]


_PLANS = {name: plan_of(deployed(name)) for name in MODELS}


@given(st.integers(1, 40), st.integers(1, 40))
def test_operators_are_additive_over_layers(first: int, second: int) -> None:
    def of(layers: int) -> Counter[str]:
        config = catalogue_config(LLAMA) | {"num_hidden_layers": layers}
        operators = operators_of(deployed(read_config(config, name="some")), Batch.prefill(64))
        return Counter({field: total(operators, field) for field in ("flops", "weights", "kv_reads", "writes")})

    assert of(first) + of(second) == of(first + second) + of(1) + of(1) - of(2)


def catalogue_config(name: str) -> dict[str, Any]:
    return next(entry.config for entry in catalogue() if entry.id == name)


def test_a_batch_of_arrays_has_the_figures_of_each_of_its_members() -> None:
    numpy = pytest.importorskip("numpy")
    sizes, contexts = numpy.array([1, 7, 64]), numpy.array([10, 5000, 900])
    for name in MODELS:
        plan = _PLANS[name]
        together = plan.operators(Batch.decode(sizes, contexts))
        for i in range(3):
            alone = plan.operators(Batch.decode(int(sizes[i]), int(contexts[i])))
            assert [o.name for o in alone] == [o.name for o in together]
            for one, all_of_them in zip(alone, together, strict=True):
                for field in (
                    "flops",
                    "weights",
                    "reads",
                    "writes",
                    "kv_reads",
                    "kv_writes",
                    "state_reads",
                    "state_writes",
                ):
                    figure = getattr(all_of_them, field)
                    assert getattr(one, field) == (figure if isinstance(figure, int) else figure[i])


def test_elementwise_operators_count_no_flops() -> None:
    operators = operators_of(deployed(DEEPSEEK, tp=8), Batch.decode(1, 100))
    assert not any(o.flops for o in operators if isinstance(o.shape, Elementwise | Collective))

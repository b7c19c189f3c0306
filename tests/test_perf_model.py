"""FLOPs and weight bytes of a step equal vLLM's own breakdown (`ModelMetrics`), to the integer.

Where vLLM's model speaks of something else, the test says by what factor and why. Two differences hold everywhere:
vLLM counts prefill attention without the causal mask, and latent attention as if decode made keys and values anew.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest

from narrows.deployment import Deployment, deploy
from narrows.hardware import find_accelerator
from narrows.models import read_config
from narrows.models.mixers import LatentAttention
from narrows.step import AttentionShape, Batch, Gemm, Operator, plan_of
from narrows.step.kernels import AttentionKernel

from .conftest import DATA

ROWS = [json.loads(line) for line in gzip.decompress((DATA / "perf-model.jsonl.gz").read_bytes()).splitlines()]
TOKENS = {
    "prefill_1x1024": (1, 1024),
    "prefill_1x8192": (1, 8192),
    "decode_1x1024": (1, 1024),
    "decode_32x1024": (32, 1024),
    "decode_32x8192": (32, 8192),
}
"""Sequences and length; vLLM counts the new token of a decode among the length."""

PARTS = {
    "attn.qkv_proj": ("attention.qkv",),
    "attn.out_proj": ("attention.o",),
    "ffn.dense_ffn": ("mlp.gate_up", "mlp.down"),
    "ffn.routed_ffn": ("experts",),
    "ffn.shared_ffn": ("shared.gate_up", "shared.down"),
    "unembed.unembed": ("head",),
    "mla_attn.q_proj": ("mla.q",),
    "mla_attn.q_a_proj + kv_a_proj": ("mla.qkv_down", "mla.kv_down"),
    "mla_attn.q_b_proj": ("mla.q_up",),
    "mla_attn.kv_b_proj": ("mla.kv_up", "mla.absorb_k", "mla.absorb_v"),
    "mla_attn.out_proj": ("mla.o",),
}

_ATTENTION = ("attn.qkv_proj", "attn.out_proj", "attn.attention")
REASONS: dict[str, tuple[Fraction, dict[str, Fraction], str]] = {
    "Qwen--Qwen3-Next-80B-A3B": (
        Fraction(12, 48),
        {"attn.qkv_proj": Fraction(12, 48) * Fraction(2 * 16 + 2 * 2, 16 + 2 * 2)},
        "12 of 48 layers are attention, and its queries come with a gate as wide, which vLLM leaves out",
    ),
    "Qwen--Qwen3.5-27B": (
        Fraction(16, 64),
        {"attn.qkv_proj": Fraction(16, 64) * Fraction(2 * 24 + 2 * 4, 24 + 2 * 4)},
        "16 of 64 layers are attention, and its queries come with a gate as wide, which vLLM leaves out",
    ),
    "ai21labs--Jamba-v0.1": (
        Fraction(4, 32),
        {"ffn.routed_ffn": Fraction(16, 32)},
        "4 of 32 layers are attention, and every other layer has experts; vLLM takes all layers for both",
    ),
    "ibm-granite--granite-4.0-h-small": (Fraction(4, 40), {}, "4 of 40 layers are attention"),
    "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": (
        Fraction(6, 52),
        {
            "ffn.routed_ffn": Fraction(23, 52) * Fraction(2, 3),
            "ffn.shared_ffn": Fraction(23, 52) * Fraction(2, 3) * Fraction(3712, 1856),
        },
        "6 of 52 layers are attention; 23 have experts, of two matrices each where vLLM takes three; the shared one is "
        "twice as wide as the others",
    ),
    "tiiuae--falcon-7b": (
        Fraction(1),
        {"ffn.dense_ffn": Fraction(2, 3)},
        "the feed-forward part has two matrices, where vLLM takes three",
    ),
    "zai-org--GLM-4.5-Air": (
        Fraction(1),
        {"ffn.routed_ffn": Fraction(45, 46), "ffn.shared_ffn": Fraction(45, 46)},
        "the first layer is dense, and vLLM takes its experts for real",
    ),
    "meta-llama--Llama-4-Maverick-17B-128E-Instruct": (
        Fraction(1),
        {"ffn.dense_ffn": Fraction(2)},
        "dense layers are twice as wide as an expert (intermediate_size_mlp), which vLLM takes them for",
    ),
}
"""Model → factor of its attention, factors of other parts, reason. narrows' figure is vLLM's times the factor."""


def factor(row: dict[str, Any], part: str) -> Fraction:
    attention, others, _ = REASONS.get(row["name"], (Fraction(1), {}, ""))
    if part == "attn.qkv_proj" and row["name"] == "Qwen--Qwen3-Next-80B-A3B" and row["tp"] == 8:
        # 2 of 16 query heads, their gates, and one of 2 KV heads, which 8 ranks keep four times over
        return attention * Fraction(2 * 2 + 2, 2 + 2)
    if part in others:
        return others[part]
    return attention if part in _ATTENTION else Fraction(1)


def deployment_of(row: dict[str, Any]) -> Deployment:
    model = read_config(row["config"], name=row["name"])
    return deploy(model, find_accelerator("h100-sxm"), tensor_parallel=row["tp"], max_length=16384)


def batch_of(step: str) -> Batch:
    sequences, length = TOKENS[step]
    return Batch.prefill(length, sequences) if step.startswith("prefill") else Batch.decode(sequences, length - 1)


def stated(flops: dict[str, int]) -> dict[str, int]:
    """vLLM's parts, those together that narrows runs as one."""
    merged = {key: size for key, size in flops.items() if not key.endswith(("_a_proj", "attn_qk", "attn_av"))}
    if "mla_attn.kv_a_proj" in flops:
        merged["mla_attn.q_a_proj + kv_a_proj"] = flops["mla_attn.kv_a_proj"] + flops.get("mla_attn.q_a_proj", 0)
    return merged


def ids(row: dict[str, Any]) -> str:
    return f"{row['folder']}-{row['name']}"


def test_the_breakdown_has_dense_windowed_latent_and_hybrid_models_with_and_without_experts() -> None:
    families = {row["config"]["model_type"] for row in ROWS}
    assert families >= {
        "llama",
        "gemma3_text",
        "gpt_oss",
        "deepseek_v3",
        "jamba",
        "qwen3_next",
        "mixtral",
        "llama4_text",
    }
    assert len(ROWS) >= 100
    assert {row["name"] for row in ROWS} >= set(REASONS)


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_flops_of_every_product_are_those_of_the_engine(row: dict[str, Any]) -> None:
    plan = plan_of(deployment_of(row))
    for step, figures in row["steps"].items():
        found = Counter[str]()
        for operator in plan.operators(batch_of(step)):
            found[operator.name] += operator.count * operator.flops
        for part, flops in stated(figures["flops"]).items():
            mine = sum(found[name] for name in PARTS[part])
            assert mine == flops * factor(row, part), (step, part)


def unmasked(operator: Operator, kernel: AttentionKernel, length: int) -> int:
    """FLOPs of one as vLLM counts them: every query of a prefill against every key, or against a window of them.

    Latent attention as heads with keys and values of their own.
    """
    shape = operator.shape
    assert isinstance(shape, AttentionShape)
    pairs = shape.queries * min(length, kernel.sight.window or length)
    if shape.phase == "decode":
        assert kernel.sight.top or shape.pairs == pairs
    return operator.count * 2 * pairs * shape.heads


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_flops_of_attention_are_those_of_the_engine_without_the_mask(row: dict[str, Any]) -> None:
    deployment = deployment_of(row)
    plan = plan_of(deployment)
    mixer = deployment.model.groups[-1].layer.mixer
    for step, figures in row["steps"].items():
        found, length = 0, TOKENS[step][1]
        for kernel, operator in zip(
            [k for k, _ in plan.kernels if isinstance(k, AttentionKernel) and step.startswith(k.phase)],
            [o for o in plan.operators(batch_of(step)) if isinstance(o.shape, AttentionShape)],
            strict=True,
        ):
            if not kernel.name.endswith(".core"):
                continue
            widths = kernel.key_dim + kernel.value_dim
            if isinstance(mixer, LatentAttention):
                widths = mixer.nope + mixer.rope + mixer.value
            found += unmasked(operator, kernel, length) * widths
        parts = [size for key, size in figures["flops"].items() if key.endswith(("attn_qk", "attn_av"))]
        if not parts:
            # of DeepSeek-V4 and of models without attention vLLM says nothing
            assert deployment.model.family in SILENT
            continue
        sums = sum(parts)
        assert found == sums * factor(row, "attn.attention"), step


SILENT = ("deepseek_v4", "mamba", "mamba2")

WEIGHTS = {
    "attn.qkv_weight": "attn.qkv_proj",
    "attn.out_weight": "attn.out_proj",
    "unembed.weight": "unembed.unembed",
    "mla_attn.out_weight": "mla_attn.out_proj",
}


@pytest.mark.parametrize("row", ROWS, ids=ids)
def test_weight_bytes_are_those_of_the_engine(row: dict[str, Any]) -> None:
    """In 16 bits, as the breakdown was made; biases are narrows' own."""
    plan = plan_of(deployment_of(row))
    for step, figures in row["steps"].items():
        found = Counter[str]()
        for operator in plan.operators(batch_of(step)):
            shape = operator.shape
            if isinstance(shape, Gemm):
                found[operator.name] += operator.count * shape.k * shape.n * shape.copies * 2
        for key, part in WEIGHTS.items():
            if key in figures["weights"]:
                mine = sum(found[name] for name in PARTS[part])
                assert mine == figures["weights"][key] * factor(row, part), (step, key)

"""What an answer of `roofline` prints, held against arithmetic from the config alone, which shares no code with it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest

from narrows.answers.roofline import roofline
from narrows.hardware import find_accelerator
from narrows.models.catalogue import catalogue

CONFIGS = {entry.id: entry.config for entry in catalogue()}


class Run(NamedTuple):
    """So many sequences that each run new tokens after past ones; head: whether the last goes through it."""

    sequences: int
    new: int
    past: int
    head: bool = True


class Work(NamedTuple):
    """Of one rank: FLOPs, bytes of matrices (of experts as many as uniform routing touches), of KV read and written."""

    flops: int
    matrices: float
    cache: float


def pairs(new: int, past: int, window: int | None) -> int:
    """Queries times the keys that each sees."""
    if window is None:
        return new * past + new * (new + 1) // 2

    def up_to(n: int) -> int:
        return min(n, window) * (min(n, window) + 1) // 2 + max(0, n - window) * window

    return up_to(past + new) - up_to(past)


def attention(c: dict[str, Any], run: Run, layer: int, tp: int, kv_bits: int, bits: float, decode: bool) -> Work:
    """Projections and scores of one layer with grouped queries and perhaps a window, or with a latent."""
    hidden, heads = c["hidden_size"], c["num_attention_heads"] // tp
    tokens, everything = run.sequences * run.new, run.sequences * (run.past + run.new)
    if "kv_lora_rank" in c:
        rank, nope, rope = c["kv_lora_rank"], c["qk_nope_head_dim"], c["qk_rope_head_dim"]
        value, low = c["v_head_dim"], c.get("q_lora_rank")
        queries = hidden * low + low * heads * (nope + rope) if low else hidden * heads * (nope + rope)
        plain = queries + hidden * (rank + rope) + heads * value * hidden
        up = heads * (nope + value) * rank
        seen = run.sequences * pairs(run.new, run.past, None)
        written = tokens * (rank + rope) * kv_bits / 8
        if decode:
            flops = 2 * tokens * (plain + up) + 2 * seen * heads * (2 * rank + rope)
            read = everything * (rank + rope) * kv_bits / 8
            return Work(flops, plain * bits / 8 + up * 2, read + written)
        flops = 2 * tokens * plain + 2 * everything * up + 2 * seen * heads * (nope + rope + value)
        return Work(flops, (plain + up) * bits / 8, written)
    dim = c.get("head_dim") or hidden // c["num_attention_heads"]
    shared = max(1, c["num_key_value_heads"] // tp)
    window = c["sliding_window"] if c["model_type"] == "gemma3_text" and (layer + 1) % 6 else None
    matrices = 2 * hidden * heads * dim + 2 * hidden * shared * dim
    flops = 2 * tokens * matrices + 4 * run.sequences * pairs(run.new, run.past, window) * heads * dim
    kept = run.past + run.new if window is None else min(run.past, window - 1) + run.new
    return Work(flops, matrices * bits / 8, (run.sequences * kept + tokens) * 2 * shared * dim * kv_bits / 8)


def feed_forward(c: dict[str, Any], tokens: int, layer: int, tp: int, ep: int, bits: float) -> Work:
    """Three matrices, of experts those that tokens come to: E · (1 − (1 − k/E)^T)."""
    hidden, experts = c["hidden_size"], c.get("num_experts") or c.get("num_local_experts") or c.get("n_routed_experts")
    if not experts or layer < c.get("first_k_dense_replace", 0):
        matrices = 3 * hidden * c["intermediate_size"] // tp
        return Work(2 * tokens * matrices, matrices * bits / 8, 0)
    top, here = c["num_experts_per_tok"], experts // ep
    wide = c.get("moe_intermediate_size") or c["intermediate_size"]
    each = 3 * hidden * wide * ep // tp
    always = 3 * hidden * wide * (c.get("n_shared_experts") or 0) // tp
    flops = 2 * tokens * (hidden * experts + always) + 2 * each * (tokens * top * here) // experts
    used = here * (1 - (1 - top / experts) ** tokens)
    return Work(flops, hidden * experts * 2 + always * bits / 8 + used * each * bits / 8, 0)


def by_hand(c: dict[str, Any], runs: list[Run], decode: bool, tp: int, ep: int, bits: float, kv_bits: int) -> Work:
    found = [
        part
        for run in runs
        for layer in range(c["num_hidden_layers"])
        for part in (
            attention(c, run, layer, tp, kv_bits, bits, decode),
            feed_forward(c, run.sequences * run.new, layer, tp, ep, bits),
        )
    ]
    head = c["hidden_size"] * c["vocab_size"] // tp
    found += [Work(2 * run.sequences * head, head * 2, 0) for run in runs if run.head]
    return Work(*(sum(figures) for figures in zip(*found, strict=True)))


GEMMA = {"vocab_size": 262208, "sliding_window": 1024}
"""What transformers' Gemma3TextConfig says where the file is silent."""


@pytest.mark.parametrize(
    ("model", "gpu", "options", "stored"),
    [
        ("meta-llama/Llama-3.1-8B", "l4", {}, {}),
        ("meta-llama/Llama-3.1-70B", "mi300x", {"tp": 2}, {}),
        ("meta-llama/Llama-3.1-70B", "a100-sxm-80gb", {"tp": 8, "kv_cache_dtype": "fp8"}, {"kv_bits": 8}),
        ("google/gemma-3-27b-it", "h100-sxm", {}, {}),
        ("mistralai/Mixtral-8x7B-v0.1", "h200-sxm", {}, {}),
        ("Qwen/Qwen3-30B-A3B", "h100-sxm", {"tp": 4}, {}),
        ("Qwen/Qwen3-30B-A3B", "h100-sxm", {"tp": 4, "ep": 4}, {}),
        ("deepseek-ai/DeepSeek-V2-Lite", "l40s", {}, {}),
        ("deepseek-ai/DeepSeek-V3", "h200-sxm", {"tp": 8}, {"bits": 8 + 32 / 128**2}),
        ("Qwen/Qwen3-32B-FP8", "rtx-4090", {}, {"bits": 8 + 16 / 128**2}),
        ("Qwen/Qwen3-4B-AWQ", "tpu-v6e", {}, {"bits": 4 + 20 / 128}),
    ],
)
def test_figures_are_those_of_the_config(model: str, gpu: str, options: dict[str, Any], stored: dict[str, Any]) -> None:
    prompt, batch, context, step = 3000, 12, 2500, 2048
    answer = roofline(model, gpu, prompt=prompt, batch=batch, context=context, max_num_batched_tokens=step, **options)
    config = CONFIGS[model]
    config = GEMMA | config["text_config"] if "text_config" in config else config
    how = {
        "tp": options.get("tp", 1),
        "ep": options.get("ep", 1),
        "bits": stored.get("bits", 16),
        "kv_bits": stored.get("kv_bits", 16),
    }
    pieces = [Run(1, step, 0, head=False), Run(1, prompt - step, step)]
    device = find_accelerator(gpu)
    for phase, runs in ((answer.phases.prefill, pieces), (answer.phases.decode, [Run(batch, 1, context)])):
        work = by_hand(config, runs, phase.name == "decode", **how)
        assert phase.flops == work.flops
        assert phase.traffic["kv_cache"] == work.cache
        # norms, biases and gates are what matrices leave out
        assert 0 <= phase.traffic["weights"] / work.matrices - 1 < 2e-4
        assert phase.intensity == pytest.approx(phase.flops / phase.bytes)
        assert phase.ridge == pytest.approx(device.peak(phase.precision) / device.memory_bandwidth)
        assert phase.tokens_per_second.value == pytest.approx(phase.tokens / phase.time.value)
        assert phase.time.low is not None
        assert phase.time.low * 1.0001 > (work.matrices + work.cache) / device.memory_bandwidth


@pytest.mark.parametrize("gpu", ["a10", "l4", "b200-sxm", "rtx-4090", "tpu-v5p", "gaudi3", "t4", "strix-halo-395"])
@pytest.mark.parametrize("model", ["qwen2.5-7b", "gpt-oss-20b", "jamba-v0.1", "Qwen/Qwen3-4B-AWQ"])
def test_nothing_runs_faster_than_the_device(model: str, gpu: str) -> None:
    memory = {"memory": 96 * 2**30} if gpu == "strix-halo-395" else {}
    answer, device = roofline(model, gpu, prompt=1000, batch=5, context=777, **memory), find_accelerator(gpu)  # type: ignore[arg-type]
    for phase in (answer.phases.prefill, answer.phases.decode):
        rows = [row for row in answer.operators if row.phase == phase.name]
        kept = phase.traffic["weights"] + phase.traffic["kv_cache"] + phase.traffic["state"]
        compute = sum(row.flops / device.peak(row.precision) for row in rows if row.flops)
        assert phase.time.low is not None
        assert phase.time.low * (1 + 1e-9) >= max(kept / device.memory_bandwidth, compute)
        assert all(row.attained <= device.peak(row.precision) * (1 + 1e-9) for row in rows if row.flops)
        assert all(math.isfinite(row.time.value) and row.time.value >= 0 for row in rows)

"""FLOPs of a whole prompt equal what torch counts while transformers runs small random models, to the integer.

`python -m conformance.flops` counted them, with eager attention: every query against every key, masked or not, and
every token through the head. Families left out there have their reason in `conformance/flops.py`.
"""

from __future__ import annotations

import gzip
import json
from typing import Any

import msgspec
import pytest

from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.models import ModelSpec, load_model, read_config
from narrows.models.mixers import LatentAttention
from narrows.step import Batch, plan_of
from narrows.step.kernels import AttentionKernel, ChosenMatMul, ExpertsKernel, MatMul
from narrows.step.load import Load

from .conftest import DATA


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress((DATA / name).read_bytes()).splitlines()]


CONFIGS = {
    (row["set"], row["key"], row["seed"], row["total_params"]): row["config"] for row in lines("oracle.jsonl.gz")
}
ROWS = lines("flops.jsonl.gz")
ANYWHERE = deploy(load_model("Qwen/Qwen3-0.6B"), find_accelerator("b200"))
TOKENS = 16


def flops(spec: ModelSpec) -> int:
    """Of 16 tokens that see each other, all of them through the head; latent attention with keys for every head."""
    plan = plan_of(msgspec.structs.replace(ANYWHERE, model=spec))
    latent = [layer.mixer for layer, _ in spec.kinds if isinstance(layer.mixer, LatentAttention)]
    plain = {(one.kv_rank + one.rope, one.kv_rank): one.nope + one.rope + one.value for one in latent}
    load, total = Load(Batch.prefill(TOKENS)), 0
    for kernel, count in plan.kernels:
        if isinstance(kernel, AttentionKernel) and kernel.phase == "prefill":
            widths = kernel.key_dim + kernel.value_dim
            if kernel.name == "mla.core" and kernel.latent:
                widths = plain[kernel.key_dim, kernel.value_dim]
            total += count * 2 * TOKENS * (TOKENS // kernel.sight.every) * kernel.heads * widths
        elif isinstance(kernel, MatMul | ChosenMatMul | ExpertsKernel):
            operator = kernel.operator(load, count)
            if operator is not None:
                sampled = isinstance(kernel, MatMul) and kernel.rows == "sampled"
                total += (TOKENS if sampled else 1) * count * operator.flops
    return total


def test_torch_counted_most_families() -> None:
    assert len({row["key"] for row in ROWS}) >= 130


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['key']}-{row['seed']}")
def test_flops_are_those_that_torch_counts(row: dict[str, Any]) -> None:
    config = CONFIGS[row["set"], row["key"], row["seed"], row["total_params"]]
    assert flops(read_config(config, name=row["key"])) == row["flops"]

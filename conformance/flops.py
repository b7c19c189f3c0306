"""FLOPs of a forward pass: what torch counts while transformers' model runs, and what narrows says of the same pass.

    python -m conformance.flops

transformers' eager attention multiplies every query with every key, masked or not, and puts every token through the
head; so narrows' operators are asked for the same: pairs without mask or window, and the head for all tokens. The
command counts the small random models of tests/data/oracle.jsonl.gz and writes tests/data/flops.jsonl.gz.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel

from conformance.reference import LARGEST_RUN, _inputs, built, classes_of
from narrows.deployment import Deployment, deploy
from narrows.hardware import find_accelerator
from narrows.models import ModelSpec, load_model
from narrows.models.mixers import LatentAttention
from narrows.step import Batch, plan_of
from narrows.step.kernels import AttentionKernel, ChosenMatMul, ExpertsKernel, MatMul
from narrows.step.load import Load

LENGTH = 16
"""Tokens of the pass."""

_NOT_WEIGHTS = ("rotary", "rope", "pos_emb")
"""Classes whose products make angles of positions, which engines look up."""

CHUNKED = "transformers computes the recurrence in chunks, by products; narrows counts it token by token"
STATE = "transformers reads the state out by products; narrows counts them as a part of the recurrence"
EXCEPTIONS = {
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe"), CHUNKED),
    **dict.fromkeys(("olmo_hybrid", "bailing_hybrid", "kimi_linear", "minimax", "lara_mini", "minicpmv4_6"), CHUNKED),
    **dict.fromkeys(("qwen4_exp", "qwen4_exp_text", "minicpmv4_7", "minicpm_ocr"), CHUNKED),
    **dict.fromkeys(("mamba2", "bamba", "falcon_h1", "granitemoehybrid", "nemotron_h", "zamba2", "xlstm"), CHUNKED),
    "longcat_flash": "how many of the chosen experts do nothing depends on the tokens",
    "cpmant": "learned tokens go before every prompt and through all layers",
    "prophetnet": "every layer runs once for each of the tokens that are predicted at once",
    "mamba": STATE,
    "falcon_mamba": STATE,
    "diffllama": "transformers computes the scores twice, once for each half of the values",
    "llama4_text": "transformers runs every expert on every token",
    "llama4": "transformers runs every expert on every token",
    "phimoe": "the class picks two experts, whatever the configuration says",
    "zaya": "transformers projects the value of a token before the first one too",
    "inkling2_loop_text": "products over the residual streams of earlier blocks are not counted",
    "inkling2_loop": "products over the residual streams of earlier blocks are not counted",
    "gemma3n_text": "AltUp mixes its streams by products, and asks its router twice; narrows counts the router once",
    "deepseek_v4": "hyper-connections mix the residual streams by products, which narrows does not count",
    "led": "the prompt is padded to the window",
    "xlnet": "positions ahead of a token are projected and compared too; narrows counts those behind it",
}
"""Families whose counts are not of the same thing, with the reason."""


def counted(model: PreTrainedModel, inputs: dict[str, torch.Tensor]) -> int:
    """2 × multiply-adds of all products of one pass, less those of rotary tables and of depthwise convolutions."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**inputs)
    found = counter.get_flop_counts()
    everything = found["Global"]
    total = sum(size for kind, size in everything.items() if kind != torch.ops.aten.convolution)
    for name, module in model.named_modules():
        own = found.get(f"{type(model).__name__}.{name}", {})
        if isinstance(module, nn.Conv1d | nn.Conv2d) and module.weight.shape[1] > 1:
            total += own.get(torch.ops.aten.convolution, 0)
        if any(word in type(module).__name__.lower() for word in _NOT_WEIGHTS) and not any(module.parameters()):
            total -= sum(own.values())
    return total


@cache
def _anywhere() -> Deployment:
    return deploy(load_model("Qwen/Qwen3-0.6B"), find_accelerator("b200"))


def stated(spec: ModelSpec, length: int = LENGTH) -> int:
    """The same by narrows' operators."""
    # what an engine refuses to serve (encoders that keep nothing) has a cost all the same
    deployment = msgspec.structs.replace(_anywhere(), model=spec)
    load, total = Load(Batch.prefill(length)), 0
    latent = [layer.mixer for layer, _ in spec.kinds if isinstance(layer.mixer, LatentAttention)]
    plain = {(one.kv_rank + one.rope, one.kv_rank): one.nope + one.rope + one.value for one in latent}
    for kernel, count in plan_of(deployment).kernels:
        if isinstance(kernel, AttentionKernel):
            if kernel.phase != "prefill":
                continue
            widths = kernel.key_dim + kernel.value_dim
            if kernel.name == "mla.core" and kernel.latent:
                # transformers makes keys and values of every head where engines multiply queries instead
                widths = plain[kernel.key_dim, kernel.value_dim]
            keys = length // kernel.sight.every
            total += count * 2 * length * keys * kernel.heads * widths
        elif isinstance(kernel, MatMul | ChosenMatMul | ExpertsKernel):
            operator = kernel.operator(load, count)
            if operator is not None:
                times = length if getattr(kernel, "rows", "") == "sampled" else 1
                total += times * count * operator.flops
    return total


def flops_of(model: type[PreTrainedModel], config: PreTrainedConfig) -> int | None:
    """What torch counts of `LENGTH` tokens; None where the model is too large or cannot be run on a text."""
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    if sum(one.numel() for one in built(model, config, "meta").parameters()) > LARGEST_RUN:
        return None
    made = built(model, config, "cpu").float()
    try:
        return counted(made, _inputs(made, config, LENGTH))
    except Exception:  # a class may need an image or a sound
        return None


def _row(row: dict[str, Any]) -> int | None:
    family = row["config"]["model_type"]
    plain = {name: value for name, value in row["config"].items() if name not in ("model_type", "architectures")}
    names = row["config"].get("architectures") or [""]
    classes = [one for one in classes_of(family) if one.__name__ == names[0]] or classes_of(family)
    try:
        return flops_of(classes[0], CONFIG_MAPPING[family](**plain))
    except Exception:  # whatever transformers raises of a configuration
        return None


def main() -> None:
    """Count and write."""
    data = Path(__file__).resolve().parent.parent / "tests" / "data"
    rows = [json.loads(line) for line in gzip.decompress((data / "oracle.jsonl.gz").read_bytes()).splitlines()]
    kept = []
    for row in rows:
        if row["set"].endswith("default") or row["config"]["model_type"] in EXCEPTIONS:
            continue
        begin = time.perf_counter()
        found = _row(row)
        if found is not None:
            kept.append({**{name: row[name] for name in ("set", "key", "seed", "total_params")}, "flops": found})
        print(row["key"], row["seed"], found, f"{time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)
    from scripts.packed import write_packed

    write_packed(data / "flops.jsonl.gz", kept)


if __name__ == "__main__":
    main()

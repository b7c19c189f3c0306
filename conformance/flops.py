"""FLOPs of a forward pass: what torch counts while transformers' model runs, and what narrows says of the same pass.

transformers' eager attention multiplies every query with every key, masked or not, and puts every token through the
head; so narrows' operators are asked for the same: pairs without mask or window, and the head for all tokens.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import PreTrainedConfig, PreTrainedModel

from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.models import ModelSpec
from narrows.step import Batch, plan_of
from narrows.step.kernels import AttentionKernel, ChosenMatMul, ExpertsKernel, MatMul
from narrows.step.load import Load

_NOT_WEIGHTS = ("rotary", "rope", "pos_emb")
"""Modules whose products make angles or positions, which no engine computes as a product."""


def counted(model: PreTrainedModel, inputs: dict[str, torch.Tensor]) -> int:
    """2 × multiply-adds of all products of one pass, less those of rotary tables and of depthwise convolutions."""
    beside = 0

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**inputs)
    found = counter.get_flop_counts()
    names = {f"{type(model).__name__}.{name}": module for name, module in model.named_modules() if name}
    for name, module in names.items():
        depthwise = isinstance(module, nn.Conv1d) and module.groups > 1
        angles = any(word in type(module).__name__.lower() for word in _NOT_WEIGHTS)
        if (depthwise or angles) and name in found:
            beside += sum(found[name].values())
    return sum(found["Global"].values()) - beside


def stated(spec: ModelSpec, length: int) -> int:
    """The same by narrows' operators."""
    deployment = deploy(spec, find_accelerator("b200"), max_length=max(length, 64))
    load, total = Load(Batch.prefill(length)), 0
    for kernel, count in plan_of(deployment).kernels:
        if isinstance(kernel, AttentionKernel):
            if kernel.phase == "prefill" and not kernel.latent:
                total += count * 2 * length * length * kernel.heads * (kernel.key_dim + kernel.value_dim)
        elif isinstance(kernel, MatMul | ChosenMatMul | ExpertsKernel):
            operator = kernel.operator(load, count)
            if operator is not None:
                times = length if getattr(kernel, "rows", "") == "sampled" else 1
                total += times * count * operator.flops
    return total

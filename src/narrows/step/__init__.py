"""One step of an engine: a deployment and a batch become operators with shapes, FLOPs and bytes."""

from __future__ import annotations

from narrows.step.batch import Batch, Chunk
from narrows.step.flow import Flow, flows
from narrows.step.operators import AttentionShape, Collective, Elementwise, Experts, Gemm, Operator, Scan, Shape
from narrows.step.plan import Plan, operators_of, plan_of, resident

__all__ = [
    "AttentionShape",
    "Batch",
    "Chunk",
    "Collective",
    "Elementwise",
    "Experts",
    "Flow",
    "Gemm",
    "Operator",
    "Plan",
    "Scan",
    "Shape",
    "flows",
    "operators_of",
    "plan_of",
    "resident",
]

"""One step of an engine: a deployment and a batch become operators with shapes, FLOPs and bytes.

Everything is loaded when first asked for: what memory asks of a layer's kernels needs no plan of a whole step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from narrows.step.batch import Batch as Batch
    from narrows.step.batch import Chunk as Chunk
    from narrows.step.flow import Flow as Flow
    from narrows.step.flow import flows as flows
    from narrows.step.operators import AttentionShape as AttentionShape
    from narrows.step.operators import Collective as Collective
    from narrows.step.operators import Elementwise as Elementwise
    from narrows.step.operators import Experts as Experts
    from narrows.step.operators import Gemm as Gemm
    from narrows.step.operators import Operator as Operator
    from narrows.step.operators import Scan as Scan
    from narrows.step.operators import Shape as Shape
    from narrows.step.plan import Plan as Plan
    from narrows.step.plan import operators_of as operators_of
    from narrows.step.plan import plan_of as plan_of
    from narrows.step.plan import resident as resident

_FROM = {
    "batch": ("Batch", "Chunk"),
    "flow": ("Flow", "flows"),
    "operators": (
        "AttentionShape",
        "Collective",
        "Elementwise",
        "Experts",
        "Gemm",
        "Operator",
        "Scan",
        "Shape",
    ),
    "plan": ("Plan", "operators_of", "plan_of", "resident"),
}

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


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for module, names in _FROM.items():
        if name in names:
            return getattr(import_module(f"narrows.step.{module}"), name)
    raise AttributeError(f"module 'narrows.step' has no attribute '{name}'")

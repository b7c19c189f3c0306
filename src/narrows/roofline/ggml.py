"""What llama.cpp's own kernels reach with many rows, where its law is known: products of weights that it unpacks.

    compute = 2 · (rows + unpacked) · k · n ÷ (share × peak)

Weights of few bits are multiplied in 8-bit integers on NVIDIA's tensor cores from compute capability 7.5 on (mmq.cuh),
elsewhere in 16-bit floats, as Metal, Vulkan and ROCm do all products. Each tile of weights is unpacked before it is
multiplied, which takes as long as `unpacked` rows more; of experts, once for every expert that is touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from narrows.calibration.laws import Law
from narrows.hardware import Accelerator
from narrows.step import Experts, Gemm, Operator

ENGINE = "llama.cpp"


def in_integers(device: Accelerator) -> bool:
    """Whether weights of few bits are multiplied in 8-bit integers there."""
    capability = device.capability
    return device.vendor == "nvidia" and capability is not None and bool(device.int8) and capability >= (7, 5)


def peak_of(operator: Operator, device: Accelerator) -> float:
    """FLOP/s of the arithmetic that llama.cpp does an operator in. Raises BadInput where none is known."""
    shape = operator.shape
    narrow = isinstance(shape, Gemm | Experts) and shape.weight_bits < 16
    own = device.peak(operator.precision)
    return max(own, device.int8 or own) if narrow and in_integers(device) else own


def rows_of(operator: Operator) -> Any:
    """Rows of a product, or tokens of experts; 0 of other operators."""
    shape = operator.shape
    return shape.m if isinstance(shape, Gemm) else shape.tokens if isinstance(shape, Experts) else 0


def with_kernels(
    found: Law, operator: Operator, device: Accelerator, keys: tuple[str, ...], kernels: Sequence[Law]
) -> Law:
    """The law of an operator with what llama.cpp's kernels reach there; as it is where nothing is known of that.

    keys: `device_keys` of the device, the most special first. kernels: the laws of ggml.jsonl, or those on trial.
    """
    shape: Any = operator.shape
    kind = "experts" if isinstance(shape, Experts) else "products"
    if device.vendor == "nvidia" and (shape.weight_bits >= 16 or not in_integers(device)):
        return found
    rows = [row for row in kernels if row.operator == kind and row.device in keys]
    if not rows:
        return found
    own = min(rows, key=lambda row: keys.index(row.device))
    share = own.values["share"] * peak_of(operator, device) / device.peak(operator.precision)
    return structs.replace(
        own, values={**found.values, "share": share, "unpacked": own.values["unpacked"]}, precision=found.precision
    )

"""How long the routed experts of a layer take as one fused operator.

    t = launch + sorting + (tc^p + tm^p)^(1/p) + ta

tm: weights of the experts that are touched ÷ the share of bandwidth reached. tc: FLOPs ÷ the share of peak reached,
where each touched expert's rows are filled up to tiles (`tile` rows more each), narrow experts fall short
(`narrow`) and few tiles do not fill the device. ta: hidden states and what is between the products, which these
kernels write out; rows of experts on other ranks pass through some of them too (`elsewhere`).

Which kernel an engine takes depends on the device and the precision; the laws hold for the one that vLLM takes:
Triton for bf16 on Ampere, Ada and Hopper, and for fp8 on Ada; CUTLASS (FlashInfer) for fp8 on Hopper and for bf16, fp8
and fp4 on Blackwell with GDDR; TensorRT-LLM's on Blackwell with HBM; Marlin or Triton where weights of 4 bits meet
activations of 16. Plain arithmetic, so that numpy arrays may stand in the shape's fields; numpy is not imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from narrows.calibration.laws import Law, law
from narrows.deployment import Deployment
from narrows.hardware import Accelerator
from narrows.roofline.arithmetic import joined, larger, resident_share
from narrows.roofline.devices import architecture, memory_family
from narrows.roofline.gemm import VECTOR_ROWS
from narrows.roofline.timed import Parts
from narrows.step import Experts, Operator

ACTIVATION_BYTES = 2
"""Hidden states are 16 bits wide between the products."""
DEEP_GEMM = ("Hopper", "Blackwell")
"""Architectures that DeepGEMM is made for, where they have HBM."""
TILE_ELEMENTS = 128 * 128
"""Outputs that a multiprocessor computes at a time."""


def experts_law(operator: Operator, devices: Sequence[str], engine: str = "") -> Law:
    """The law of an experts operator by the precision of its weights and activations.

    devices: `device_keys` of the device. Raises TypeError where the shape is not experts'.
    """
    return law("experts", "experts", devices, format_of(_shape(operator)), engine)


BLOCK_BITS = 8 + 32 / 128**2
"""Bits of an FP8 weight with 4 bytes of scale per block of 128 × 128."""
NEAR = 1e-3
"""One scale per tensor makes less than this (and is rounded), one per column 0.004 to 0.03: four bytes per 1,024 to
8,192 inputs."""
FINE_BITS = 8.1
"""From here on scales are finer than a column's: MXFP8 has 8.25."""
MARLIN_BELOW = (9, 0)
"""Compute capability below which engines run experts with weights of few bits by Marlin (vLLM's `select_mxfp4_moe`,
`CompressedTensorsWNA16MarlinMoEMethod`)."""
MARLIN = "nvidia GDDR"
"""Where Marlin was measured, and stands for its class."""


def marlin_law(found: Law, operator: Operator, device: Accelerator) -> Law:
    """Marlin's law where that is the kernel and none was measured on this class of devices; else the law as found."""
    older = device.capability is not None and device.capability < MARLIN_BELOW
    if format_of(_shape(operator)) != "w4a16" or not older or found.device not in ("nvidia", "any"):
        return found
    measured = law("experts", "experts", (MARLIN,), "w4a16")
    return structs.replace(
        measured, device="nvidia", n=0, basis=f"assumed: Marlin, as on devices with GDDR ({measured.basis})"
    )


def format_of(shape: Experts) -> str:
    """What the kernel multiplies: `bf16`, `fp8` (a scale per column or tensor, also weights of fewer bits that meet
    activations of 8), `fp8 blocks`, `fp4`, or `w4a16` (weights of few bits, activations of 16).
    """
    if shape.activation_bits >= 16:
        return "bf16" if shape.weight_bits >= 16 else "w4a16"
    if shape.activation_bits >= 8:
        blocks = abs(shape.weight_bits - BLOCK_BITS) < NEAR or shape.weight_bits > FINE_BITS
        return "fp8 blocks" if blocks else "fp8"
    return "fp4"


def experts_time(
    operator: Operator,
    device: Accelerator,
    law: Law,
    cold: bool = True,
    padded: int = 0,
    by_vectors: bool = False,
) -> Parts:
    """Seconds of the routed experts of one layer on one rank (`operator.shape`, an Experts) on a device.

    law: of `experts_law`. cold: weights come from device memory, as in a step, where every layer has its own;
    benchmarks find few weights in L2 again (cold=False). padded: rows that every expert of the rank is filled up to,
    touched or not (of `padding`); 0: only touched experts cost anything. by_vectors: the engine has kernels for up to
    VECTOR_ROWS tokens that fill no tiles. Fields of the shape may be numpy arrays.
    Raises BadInput where the device states no peak for the precision; TypeError where the shape is not experts'.
    """
    shape, value = _shape(operator), law.values
    rows = rows_of(shape)
    size = shape.matrices * shape.hidden * shape.intermediate
    read = shape.experts if padded else shape.touched
    weights = read * size * (shape.weight_bits / 8)
    memory = weights / (value["bandwidth"] * device.memory_bandwidth)
    if not cold and device.l2_bytes and device.sm_count:
        held = resident_share(weights, value["resident"] * device.l2_bytes, value["resident_sharpness"])
        memory = memory * (1 - held) + held * weights / (value["resident_rate"] * device.sm_count)
    filled = rows + shape.touched * value["tile"]
    if padded:
        # on average half of an expert's last block stays empty
        filled = larger(rows + shape.experts * padded / 2, shape.experts * padded * 1.0)
    compute = 2.0 * filled * size / (value["peak"] * device.peak(operator.precision))
    compute = compute * (1 + value["narrow"] / shape.intermediate)
    if device.sm_count and not device.is_cpu:
        compute = compute * (1 + value["wave"] * device.sm_count * TILE_ELEMENTS / (filled * shape.hidden))
    if by_vectors:
        if "unpacked" in value:
            filled = rows + shape.touched * value["unpacked"]
            compute = 2.0 * filled * size / (value["share"] * device.peak(operator.precision))
        alone = operator.flops / (value["peak"] * device.peak(operator.precision))
        compute = compute + (shape.tokens <= VECTOR_ROWS) * (alone - compute)
    elsewhere = larger(shape.tokens * shape.top_k - rows, 0.0)
    passing = rows + elsewhere * value["elsewhere"]
    activations = shape.tokens * shape.hidden + passing * (shape.matrices * shape.intermediate + 2 * shape.hidden)
    around = activations * ACTIVATION_BYTES / (value["activation_bandwidth"] * device.memory_bandwidth)
    overhead = value["launch"] + value["sorting"] * shape.all_experts
    time = overhead + joined(value["sharpness"], compute, memory) + around
    return Parts(time, compute, memory + around, overhead)


MOST_TRITON = 512
"""Width of gate and up together up to which vLLM leaves experts to Triton (`_valid_deep_gemm`)."""
TRITON_RANKS = 8
"""Ranks from which on it does so too, from 0.12 on (vllm-project/vllm#29346)."""


def padding(deployment: Deployment, shape: Experts) -> int:
    """Rows that each expert of a rank is filled up to by the kernel that the engine takes; 0: none without rows."""
    padded = deployment.engine.experts_padded_to
    if not padded or format_of(shape) != "fp8 blocks":
        return 0
    if deployment.tensor_parallel >= TRITON_RANKS and not deployment.engine.version.startswith("0.11"):
        return 0
    newest = memory_family(deployment.accelerator) == "HBM" and architecture(deployment.accelerator) in DEEP_GEMM
    return padded if newest and (shape.matrices - 1) * shape.intermediate > MOST_TRITON else 0


def rows_of(shape: Experts) -> Any:
    """Rows that the experts of this rank compute: an even share of tokens × top_k, times how loaded the rank is."""
    return shape.tokens * shape.top_k * shape.experts / shape.all_experts * shape.load


def _shape(operator: Operator) -> Experts:
    if not isinstance(operator.shape, Experts):
        raise TypeError(f"{operator.name} is no experts")
    return operator.shape

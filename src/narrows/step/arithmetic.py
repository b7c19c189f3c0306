"""In which precision a device multiplies weights that are stored so: by scheme × device.

Engines run the cheapest arithmetic that the device has a unit for where activations can be quantized on the way in,
and otherwise unpack the weights and multiply in the served format (weight-only kernels such as Marlin).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from narrows.hardware import Accelerator
from narrows.precision import UNQUANTIZED, Format, Scheme

_FP8_ATTENTION = (9, 10)
"""Major compute capabilities whose attention kernels multiply an FP8 cache as it is (FlashAttention 3, TRT-LLM's)."""


class Arithmetic(NamedTuple):
    """precision: a name that `Accelerator.peak` knows. activation_bits: of the inputs as they are multiplied.

    scale_known: the checkpoint has the scale of the inputs, so that whatever writes them can write them quantized.
    """

    precision: str
    activation_bits: int
    scale_known: bool = False


def plain(device: Accelerator, dtype: Format) -> Arithmetic:
    """Of unquantized weights. A device without bfloat16 runs them in float16, or else in what it has."""
    wanted = {"float32": ("fp32",), "float16": ("fp16", "bf16", "fp32")}.get(dtype.name, ("bf16", "fp16", "fp32"))
    known = device.precisions
    found = next((name for name in wanted if name in known), known[0] if known else wanted[0])
    return Arithmetic(found, 32 if found == "fp32" else 16)


@cache
def of_scheme(scheme: Scheme, device: Accelerator, dtype: Format) -> Arithmetic:
    """Of the weights of one linear layer.

    FP8 weights run with FP8 activations where the device has FP8 units. MXFP8 needs units that scale by block, which
    come with FP4 ones. NVFP4 has FP4 activations where the file has a scale for them. MXFP4 weights (gpt-oss) meet
    MXFP8 activations where the device has FP4 units, as servers are run there (TensorRT-LLM's default, an option of
    vLLM: on B200 gpt-oss decodes more than twice as fast as its 16-bit kernels would let it), and 16-bit ones
    elsewhere. 8-bit integers run as such (W8A8). Everything else is unpacked: GPTQ, AWQ, bitsandbytes, GGUF, codebooks.
    """
    base = plain(device, dtype)
    if scheme is UNQUANTIZED:
        return base
    from narrows.precision.bitsandbytes import Bnb8
    from narrows.precision.floats import Fp8Block, Fp8Scaled, Microscaled, Mxfp4, Nvfp4
    from narrows.precision.integers import Int8Scaled, Sparse24

    if isinstance(scheme, Sparse24):
        return of_scheme(scheme.dense, device, dtype)
    known = device.precisions
    if isinstance(scheme, Fp8Block | Fp8Scaled) and "fp8" in known:
        return Arithmetic("fp8", 8, isinstance(scheme, Fp8Scaled) and scheme.static_input)
    if isinstance(scheme, Microscaled) and scheme.bits == 8 and "fp8" in known and "fp4" in known:
        return Arithmetic("fp8", 8)
    if isinstance(scheme, Mxfp4) and "fp8" in known and "fp4" in known:
        return Arithmetic("fp8", 8)
    if isinstance(scheme, Nvfp4) and scheme.input_scale and "fp4" in known:
        return Arithmetic("fp4", 4, True)
    if isinstance(scheme, Int8Scaled | Bnb8) and "int8" in known:
        return Arithmetic("int8", 8, isinstance(scheme, Int8Scaled) and scheme.static_input)
    return base


def of_attention(device: Accelerator, dtype: Format, kv: Format) -> Arithmetic:
    """Of scores and of the weighted sum of values: an 8-bit cache is multiplied as such by some kernels only."""
    known = device.capability is not None and device.capability[0] in _FP8_ATTENTION
    if kv.bits == 8 and "fp8" in device.precisions and known:
        return Arithmetic("fp8", 8)
    return plain(device, dtype)

"""Deployments that nobody asked for yet: the same model with weights in another format, or on another device."""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.deployment import Deployment, deploy, whole_blocks
from narrows.hardware import Accelerator, precision_name
from narrows.models import ModelSpec
from narrows.precision import UNQUANTIZED, Scheme
from narrows.text import BadInput, Text

WIDE = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
"""Precisions of unquantized weights → the names that `deploy` takes."""
_FILES = {"fp16": "F16", "bf16": "BF16", "fp32": "F32", "int8": "Q8_0", "int4": "Q4_K_M"}
"""The same and narrower ones → file types of llama.cpp."""
QUANTIZED = ("fp8", "int8", "fp4", "int4")
"""Precisions that weights are quantized to: FP8 with a scale per tensor, INT8 per channel, NVFP4, AWQ by 128."""


def _scheme(precision: str) -> tuple[Scheme, str]:
    """How the usual checkpoint of a precision stores its weights, and its `quant_method`."""
    if precision in ("fp8", "fp4"):
        from narrows.precision.floats import Fp8Scaled, Nvfp4

        return (Fp8Scaled(), "fp8") if precision == "fp8" else (Nvfp4(), "modelopt")
    from narrows.precision.integers import Awq, Int8Scaled

    return (Awq(4, 128), "awq") if precision == "int4" else (Int8Scaled(), "compressed-tensors")


def weights_in(precision: str, engine: str) -> str:
    """The name of a format that an engine can keep weights in. Raises BadInput, which names those."""
    llama = engine.partition("=")[0].strip().lower() == "llama.cpp"
    known = tuple(_FILES) if llama else (*WIDE, *QUANTIZED)
    try:
        name = precision_name(precision)
    except BadInput:
        name = precision
    if name in known:
        return name
    shown = ", ".join(known)
    if llama:
        raise BadInput(
            "--precision is {value}, and llama.cpp has no such file type; use one of: {known}",
            value=name[:40],
            known=shown,
        )
    raise BadInput(
        "--precision is {value}, in which no engine keeps weights; use one of: {known}", value=name[:40], known=shown
    )


def with_weights(model: ModelSpec, options: dict[str, Any], precision: str) -> tuple[ModelSpec, dict[str, Any]]:
    """Model and options of `deploy` for weights in `precision`. Raises BadInput where the checkpoint has its own."""
    engine = str(options.get("engine", "vllm"))
    name = weights_in(precision, engine)
    quantized = model.precision.scheme is not UNQUANTIZED or options.get("quantization") is not None
    if quantized:
        raise BadInput(
            "--precision is {value}, and the weights are quantized already ({own}); leave it out, or give the "
            "unquantized model",
            value=name,
            own=options.get("quantization") or model.precision.label,
        )
    if engine.partition("=")[0].strip().lower() == "llama.cpp":
        return model, {**options, "quantization": _FILES[name]}
    if name in WIDE:
        told = options.get("dtype", "auto")
        if told != "auto" and precision_name(told) != name:
            raise BadInput("--precision is {value} and --dtype {dtype}; give one of them", value=name, dtype=told[:40])
        return model, {**options, "dtype": WIDE[name]}
    scheme, method = _scheme(name)
    stored = msgspec.structs.replace(model.precision, scheme=scheme, method=method)
    # what the files hold is not what such a checkpoint would
    return msgspec.structs.replace(model, precision=stored, measured=None, stored=None), options


def deployed(model: ModelSpec, device: Accelerator, options: dict[str, Any]) -> Deployment:
    """The deployment; with the other 16-bit format, and saying so, where the device has no peak for the model's.

    Raises BadInput where it has neither.
    """
    one = whole_blocks(deploy(model, device, **options))
    own = precision_name(one.dtype.name)
    if own in device.precisions:
        return one
    other = {"bf16": "fp16", "fp16": "bf16"}.get(own, "fp32")
    if other not in device.precisions:
        device.peak(own)  # says what is known of it
    changed = deploy(model, device, **{**options, "dtype": WIDE[other]})
    note = Text("no {own} peak is known for {gpu}: it runs in {other}", own=own, gpu=device.name, other=other)
    return msgspec.structs.replace(changed, assumptions=(*changed.assumptions, note))

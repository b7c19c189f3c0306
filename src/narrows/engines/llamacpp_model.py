"""A model as llama.cpp runs it: a GGUF file, a KV cache of GGML types."""

from __future__ import annotations

from narrows.engines.llamacpp import llama_facts
from narrows.models.mixers import Attention, Parallel
from narrows.models.named import stored_by_name
from narrows.models.spec import ModelSpec
from narrows.precision import FORMATS, Format, format_of
from narrows.precision.floats import Mxfp4
from narrows.precision.ggml import file_types, ggml_types
from narrows.precision.per_tensor import PerTensor
from narrows.text import BadInput, Text


def as_gguf(model: ModelSpec, assumptions: list[Text]) -> ModelSpec:
    """The model as a GGUF file: as it is, or as llama.cpp's converter makes it by itself: in 16 bits, but experts that
    are stored in MXFP4 stay so (ggml-org/gpt-oss-20b-GGUF, file type MXFP4_MOE).
    """
    if isinstance(model.precision.scheme, PerTensor):
        return model
    kind = "BF16" if model.precision.dtype.name == "bfloat16" else "F16"
    if isinstance(model.precision.scheme, Mxfp4):
        kind = "MXFP4_MOE"
    assumptions.append(
        Text(
            "llama.cpp runs GGUF files: the model is taken as one of the type {kind}; name another with --quantization",
            kind=kind,
        )
    )
    return stored_by_name(model, file_types()[kind])


def only_layers_are_split(tensor_parallel: int) -> None:
    """Refuse tensor parallelism: llama.cpp gives each device layers of its own."""
    if tensor_parallel != 1:
        raise BadInput(
            "--tp is {tp}, and llama.cpp gives each device whole layers (--split-mode layer); use --pp for the number "
            "of devices",
            tp=tensor_parallel,
        )


def cache_types(model: ModelSpec, keys: str, values: str | None, assumptions: list[Text]) -> tuple[Format, Format]:
    """Formats of keys and values, from names of GGML types (`q8_0`) or of number formats. Raises BadInput."""
    found = (_cache_type(keys), _cache_type(keys if values is None else values))
    for kind in found:
        block = getattr(kind, "block", 1)
        for layer, _ in model.kinds:
            mixer = layer.mixer.attention if isinstance(layer.mixer, Parallel) else layer.mixer
            if isinstance(mixer, Attention) and mixer.head_dim % block:
                raise BadInput(
                    "a KV cache in {kind} keeps {block} values together, and a head has {width}; llama.cpp refuses it: "
                    "use f16",
                    kind=kind.name,
                    block=block,
                    width=mixer.head_dim,
                )
    if getattr(found[1], "block", 1) > 1:
        assumptions.append(Text("values in fewer than 16 bits need flash attention (-fa on)"))
    return found


def _cache_type(name: str) -> Format:
    if name == "auto":
        return FORMATS["float16"]
    known = llama_facts().cache_types.value
    kind = name.strip().upper()
    if kind in known:
        return FORMATS["float16"] if kind == "F16" else ggml_types()[kind]
    try:
        plain = format_of(name)
    except BadInput:
        plain = None
    if plain is not None and plain.name in ("float32", "float16", "bfloat16"):
        return plain
    raise BadInput(
        "llama.cpp keeps no KV cache in {value}; its types are: {known}",
        value=name[:40],
        known=", ".join(one.lower() for one in known),
    )

"""A model as it is stored under a name that a user gives, whatever its own checkpoint is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.models.spec import ModelSpec
from narrows.precision.named import named_scheme
from narrows.precision.per_tensor import PerTensor
from narrows.text import BadInput

if TYPE_CHECKING:
    from narrows.precision.ggml import FileType


def stored_as_named(spec: ModelSpec, name: str) -> ModelSpec:
    """The model as a file type of llama.cpp stores it. Raises BadInput for a name that is none."""
    named = named_scheme(name)
    if named is None:
        from narrows.precision.ggml import file_types

        raise BadInput(
            "--quantization is {value}, which is no file type of llama.cpp; these are: {known}",
            value=name[:40],
            known=", ".join(file_types()),
        )
    return stored_by_name(spec, named)


def stored_by_name(spec: ModelSpec, named: FileType) -> ModelSpec:
    """The model as this file type stores it; itself where it is a GGUF file of this type already.

    Raises BadInput where it is a GGUF file of another type.
    """
    own = spec.precision.scheme
    if isinstance(own, PerTensor):
        if own.kind == named.name:
            return spec
        raise BadInput(
            "--quantization is {value}, and the model is a GGUF file of the type {own}; leave it out, or give the "
            "original model's config",
            value=named.name,
            own=own.kind,
        )
    from narrows.models.stored.gguf_stored import quantized

    return quantized(spec, named)

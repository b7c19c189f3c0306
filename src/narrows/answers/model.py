"""The facts about a model at one length: what `models` shows and every other answer carries."""

from __future__ import annotations

import msgspec

from narrows.models import ModelSpec
from narrows.models.tensors import Stored
from narrows.precision import Format


class ModelFacts(msgspec.Struct, frozen=True):
    """Logical sizes: a window keeps min(length, window) tokens, state is as the reference implementation keeps it.

    cache_elements, kv_bytes_per_sequence: one sequence of `length` tokens, all layers. kv_bytes_per_token: what the
    next token adds at that length (0 beyond every window). Sizes in bytes. stored: what the files hold, where their
    headers were read; checkpoint_bytes is exactly that then.
    """

    name: str
    architecture: str
    family: str
    dtype: str
    quantization: str
    layers: int
    length: int
    kv_cache_dtype: str
    unique_parameters: int
    active_parameters: int
    checkpoint_bytes: int
    cache_elements: int
    state_elements: int
    kv_bytes_per_token: int
    kv_bytes_per_sequence: int
    state_bytes_per_sequence: int
    stored: Stored | None = None


def model_facts(model: ModelSpec, length: int, kv: Format | None = None) -> ModelFacts:
    """The facts at `length` tokens, with the KV cache in `kv` (None: what a server chooses by itself)."""
    kv = kv or model.kv_format()
    return ModelFacts(
        name=model.name,
        architecture=model.architecture,
        family=model.family,
        dtype=model.precision.dtype.name,
        quantization=model.precision.label,
        layers=model.layers,
        length=length,
        kv_cache_dtype=kv.name,
        unique_parameters=model.unique_parameters(),
        active_parameters=model.active_parameters(),
        checkpoint_bytes=model.checkpoint_bytes(),
        cache_elements=model.cache_elements(length),
        state_elements=model.state_elements(),
        kv_bytes_per_token=model.kv_bytes_per_token(length, kv),
        kv_bytes_per_sequence=model.kv_bytes_per_sequence(length, kv),
        state_bytes_per_sequence=model.state_bytes_per_sequence(),
        stored=model.stored,
    )

"""`models`: which models are known, and what one is made of."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from narrows import __version__
from narrows.answers.base import Answer, Printed, command_line
from narrows.answers.model import ModelFacts, model_facts
from narrows.answers.pasted import refuse_command
from narrows.answers.structure import CacheTerm, Component, LayerKind, cache_law, components, layer_kinds
from narrows.deployment import whole
from narrows.models import ModelSpec, load_model
from narrows.models.catalogue import catalogue
from narrows.models.config import catalogued
from narrows.models.named import stored_as_named
from narrows.precision import format_of
from narrows.text import Text


class Listed(msgspec.Struct, frozen=True):
    """One line of the catalogue. kv_bytes_per_token: of a token that every layer keeps."""

    name: str
    family: str
    unique_parameters: int
    active_parameters: int
    checkpoint_bytes: int
    dtype: str
    quantization: str
    layers: int
    max_length: int
    kv_bytes_per_token: int
    state_bytes_per_sequence: int


class ModelList(Answer, frozen=True, kw_only=True):
    """The answer of `models` without a name."""

    schema: str = "narrows.models/1"
    models: tuple[Listed, ...]


class ModelDetail(ModelFacts, Printed, frozen=True, kw_only=True):
    """The answer of `models MODEL`: the facts at one length, the layers, the components.

    It has the fields of `Answer` beside the facts, which stand at the top level of its JSON.
    """

    schema: str = "narrows.model/1"
    narrows_version: str = __version__
    command: str
    assumptions: tuple[Text, ...] = ()
    sources: tuple[str, ...] = ()
    vocab: int
    hidden: int
    max_length: int
    head_tied: bool
    layer_kinds: tuple[LayerKind, ...]
    components: tuple[Component, ...]
    cache_law: tuple[CacheTerm, ...]


def models(text: str = "") -> ModelList:
    """The catalogue, or the part of it whose names hold every word of `text`."""
    words = text.lower().split()
    found = []
    for entry in catalogue():
        if all(word in entry.id.lower() for word in words):
            spec = catalogued(entry)
            found.append(
                Listed(
                    spec.name,
                    spec.family,
                    spec.unique_parameters(),
                    spec.active_parameters(),
                    spec.checkpoint_bytes(),
                    spec.precision.dtype.name,
                    spec.precision.label,
                    spec.layers,
                    spec.max_length,
                    spec.kv_bytes_per_token(0),
                    spec.state_bytes_per_sequence(),
                )
            )
    return ModelList(command=command_line("models", find=text), models=tuple(found))


def model(
    source: str | ModelSpec,
    *,
    length: int | None = None,
    kv_cache_dtype: str = "auto",
    assume: str | None = None,
    quantization: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ModelDetail:
    """One model at `length` tokens (None: its own limit, 4096 where it names none). Raises BadInput.

    quantization: a file type of llama.cpp (`Q4_K_M`), as which the model is taken to be stored. progress: told
    (headers read, headers in all) while files are read.
    """
    if isinstance(source, str):
        refuse_command(source, "models")
    spec = source if isinstance(source, ModelSpec) else load_model(source, assume=assume, progress=progress)
    if quantization is not None:
        spec = stored_as_named(spec, quantization)
    length = (spec.max_length or 4096) if length is None else whole("--length", length)
    kv = None if kv_cache_dtype == "auto" else format_of(kv_cache_dtype)
    facts = model_facts(spec, length, kv)
    return ModelDetail(
        **{name: getattr(facts, name) for name in facts.__struct_fields__},
        command=command_line(
            "models",
            source if isinstance(source, str) else spec.name,
            length=length,
            kv_cache_dtype=kv_cache_dtype if kv_cache_dtype != "auto" else None,
            assume=assume,
            quantization=quantization,
        ),
        assumptions=(*spec.assumptions, *_beyond(spec, length)),
        sources=(spec.source,) if spec.source else (),
        vocab=spec.vocab,
        hidden=spec.hidden,
        max_length=spec.max_length,
        head_tied=spec.head_tied,
        layer_kinds=layer_kinds(spec),
        components=components(spec),
        cache_law=cache_law(spec, kv or spec.kv_format()),
    )


def _beyond(spec: ModelSpec, length: int) -> tuple[Text, ...]:
    if not spec.max_length or length <= spec.max_length:
        return ()
    return (Text("{length} tokens is beyond the model's own limit of {limit}", length=length, limit=spec.max_length),)

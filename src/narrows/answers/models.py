"""`models`: which models are known, and what one is made of."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from narrows import __version__
from narrows.answers.base import Answer, Printed, command_line
from narrows.answers.model import ModelFacts, model_facts
from narrows.answers.parts import rarer_feed_forward, rarer_mixer
from narrows.deployment import whole
from narrows.models import ModelSpec, load_model
from narrows.models.catalogue import catalogue
from narrows.models.config import catalogued
from narrows.models.feedforward import Dense, FeedForward, MixtureOfExperts
from narrows.models.mixers import (
    Attention,
    CompressedAttention,
    GatedDeltaNet,
    KimiDelta,
    LatentAttention,
    Lightning,
    Looped,
    Mamba,
    Mamba2,
    Mixer,
    NoMixer,
    Parallel,
    ShortConvolution,
)
from narrows.models.named import stored_as_named
from narrows.models.tensors import CacheRow
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


class LayerKind(msgspec.Struct, frozen=True):
    """Equal layers, wherever they stand: how many, which, what they are made of."""

    count: int
    first: tuple[int, ...]
    mixer: Text
    feed_forward: Text
    parameters: int
    kv_elements_per_token: int
    window: int | None
    state_elements: int


class Component(msgspec.Struct, frozen=True):
    """What one component of the model holds: parameters, and bytes in the checkpoint by stored format."""

    name: str
    parameters: int
    stored_bytes: int
    formats: dict[str, int]


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
) -> ModelDetail:
    """One model at `length` tokens (None: its own limit, 4096 where it names none). Raises BadInput.

    quantization: a file type of llama.cpp (`Q4_K_M`), as which the model is taken to be stored.
    """
    spec = source if isinstance(source, ModelSpec) else load_model(source, assume=assume)
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
        layer_kinds=_kinds(spec),
        components=_components(spec),
    )


def _beyond(spec: ModelSpec, length: int) -> tuple[Text, ...]:
    if not spec.max_length or length <= spec.max_length:
        return ()
    return (Text("{length} tokens is beyond the model's own limit of {limit}", length=length, limit=spec.max_length),)


def _kinds(spec: ModelSpec) -> tuple[LayerKind, ...]:
    # layers that differ in whose weights they run with look the same here
    found: dict[LayerKind, list[int]] = {}
    for layer, indices in spec.kinds:
        rows = layer.mixer.cache()
        alike = LayerKind(
            0,
            (),
            _mixer(layer.mixer),
            _feed_forward(layer.feed_forward),
            sum(t.elements for t in layer.tensors() if t.use != "buffer"),
            sum(row.elements_per_token // row.every for row in rows if not _passing(row) and row.fixed is None),
            rows[0].window if rows and all(row.every == 1 for row in rows) else None,
            sum(row.elements for row in layer.mixer.state()),
        )
        found.setdefault(alike, []).extend(indices)
    return tuple(
        msgspec.structs.replace(alike, count=len(indices), first=_runs(sorted(indices)))
        for alike, indices in found.items()
    )


def _runs(indices: list[int]) -> tuple[int, ...]:
    """Where runs of such layers begin: the first few."""
    return tuple(i for n, i in enumerate(indices) if n == 0 or indices[n - 1] != i - 1)[:6]


def _passing(row: CacheRow) -> bool:
    """Whether a row holds only what is on its way to become a compressed entry."""
    return row.waiting or (row.every > 1 and row.window is not None)


def _mixer(mixer: Mixer) -> Text:
    if isinstance(mixer, Attention):
        kind = "MHA" if mixer.heads == mixer.kv_heads else "MQA" if mixer.kv_heads == 1 else "GQA"
        shape = {"kind": kind, "heads": mixer.heads, "kv": mixer.kv_heads, "width": mixer.head_dim}
        if mixer.window is None:
            return Text("{kind}, {heads} heads, {kv} KV heads of {width}", **shape)
        return Text("{kind}, {heads} heads, {kv} KV heads of {width}, window {window}", **shape, window=mixer.window)
    if isinstance(mixer, LatentAttention):
        shape = {"heads": mixer.heads, "latent": mixer.kv_rank, "rope": mixer.rope}
        if mixer.window is not None:
            return Text(
                "MLA, {heads} heads, latent {latent} + rotary key {rope}, window {window}", **shape, window=mixer.window
            )
        if not mixer.index_heads:
            return Text("MLA, {heads} heads, latent {latent} + rotary key {rope}", **shape)
        return Text(
            "MLA, {heads} heads, latent {latent} + rotary key {rope} + index key {index}",
            **shape,
            index=mixer.index_dim,
        )
    if isinstance(mixer, Parallel):
        return Text(
            "{heads} heads, {kv} KV heads of {width}, beside Mamba-2 with {mamba} heads of {inner} × state {state}",
            heads=mixer.attention.heads,
            kv=mixer.attention.kv_heads,
            width=mixer.attention.head_dim,
            mamba=mixer.recurrent.heads,
            inner=mixer.recurrent.head_dim,
            state=mixer.recurrent.state_size,
        )
    if isinstance(mixer, Looped):
        return Text("{attention}, run {loops} times per token", attention=_mixer(mixer.attention), loops=mixer.loops)
    if isinstance(mixer, CompressedAttention):
        return _compressed(mixer)
    return rarer_mixer(mixer, _mixer) or _recurrent(mixer)


def _compressed(mixer: CompressedAttention) -> Text:
    shape = {"heads": mixer.heads, "width": mixer.head_dim, "window": mixer.window}
    if not mixer.rate:
        return Text("{heads} heads on one shared key and value of {width}, window {window}", **shape)
    if not mixer.overlap:
        return Text(
            "{heads} heads on one shared key and value of {width}, window {window} and an entry per {rate} tokens",
            **shape,
            rate=mixer.rate,
        )
    return Text(
        "{heads} heads on one shared key and value of {width}, window {window} and an entry per {rate} tokens, "
        "picked by an indexer of {index}",
        **shape,
        rate=mixer.rate,
        index=mixer.index_dim,
    )


def _recurrent(mixer: Mixer) -> Text:
    """Mixers without a cache that grows."""
    if isinstance(mixer, GatedDeltaNet):
        return Text(
            "gated delta net, {heads} value heads of {key} × {value}",
            heads=mixer.value_heads,
            key=mixer.key_dim,
            value=mixer.value_dim,
        )
    if isinstance(mixer, KimiDelta):
        return Text("Kimi delta attention, {heads} heads of {width} × {width}", heads=mixer.heads, width=mixer.head_dim)
    if isinstance(mixer, Lightning):
        return Text("lightning attention, {heads} heads of {width} × {width}", heads=mixer.heads, width=mixer.head_dim)
    if isinstance(mixer, ShortConvolution):
        return Text("convolution over {tokens} tokens, {channels} channels", tokens=mixer.conv, channels=mixer.hidden)
    if isinstance(mixer, Mamba2):
        return Text(
            "Mamba-2, {heads} heads of {width} × state {state}",
            heads=mixer.heads,
            width=mixer.head_dim,
            state=mixer.state_size,
        )
    if isinstance(mixer, Mamba):
        return Text("Mamba, {inner} channels × state {state}", inner=mixer.inner, state=mixer.state_size)
    assert isinstance(mixer, NoMixer)
    return Text("none")


def _feed_forward(part: FeedForward | None) -> Text:
    if part is None:
        return Text("none")
    if isinstance(part, Dense):
        return Text("dense, width {width}", width=part.intermediate)
    if not isinstance(part, MixtureOfExperts):
        return rarer_feed_forward(part, _feed_forward) or Text("none")
    if part.shared:
        return Text(
            "{experts} experts of width {width}, {top} per token, and a shared one of {shared}",
            experts=part.experts,
            width=part.intermediate,
            top=part.top_k,
            shared=part.shared,
        )
    return Text(
        "{experts} experts of width {width}, {top} per token",
        experts=part.experts,
        width=part.intermediate,
        top=part.top_k,
    )


def _components(spec: ModelSpec) -> tuple[Component, ...]:
    parameters: dict[str, int] = defaultdict(int)
    formats: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in spec.tensor_table():
        parameters[row.component] += row.elements if row.tensor.use != "buffer" else 0
        for part in row.parts:
            formats[row.component][part.format.name] += part.bytes * row.tensor.copies * row.count
    return tuple(
        Component(name, parameters[name], sum(formats[name].values()), dict(formats[name])) for name in parameters
    )

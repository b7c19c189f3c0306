"""The structure of a model as `models MODEL` shows it: layers by kind, components, and the law of its cache."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from narrows.answers.parts import rarer_feed_forward, rarer_mixer
from narrows.models import ModelSpec
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
from narrows.models.tensors import CacheRow, TensorRow
from narrows.precision import Format
from narrows.text import Text


class Component(msgspec.Struct, frozen=True):
    """What one component of the model holds: parameters, and bytes in the checkpoint by stored format."""

    name: str
    parameters: int
    stored_bytes: int
    formats: dict[str, int]


class LayerKind(msgspec.Struct, frozen=True):
    """Equal layers, wherever they stand: how many, which, what they are made of. components: of all of them."""

    count: int
    first: tuple[int, ...]
    mixer: Text
    feed_forward: Text
    parameters: int
    kv_elements_per_token: int
    window: int | None
    state_elements: int
    components: tuple[Component, ...] = ()


class CacheTerm(msgspec.Struct, frozen=True):
    """A part of what a sequence of T tokens caches: `bytes` for each of min(T, window) tokens, in `layers` layers.

    every: tokens that become one kept entry (a window is of entries then). waiting: kept are those that are not yet
    enough for an entry. encoder: the tokens are the encoder's, taken to be as many, or always `fixed`.
    """

    layers: int
    bytes: int
    window: int | None
    every: int
    waiting: bool
    encoder: bool
    fixed: int | None

    def tokens(self, length: int) -> int:
        """Tokens (or entries) that are kept of `length`."""
        if self.fixed is not None:
            return self.fixed
        kept = length % self.every if self.waiting else length // self.every
        return kept if self.window is None else min(kept, self.window)


def layer_kinds(spec: ModelSpec) -> tuple[LayerKind, ...]:
    """The layers by what they are made of; those that differ in whose weights they run with look the same here."""
    found: dict[LayerKind, list[int]] = {}
    rows_of: dict[LayerKind, list[TensorRow]] = defaultdict(list)
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
        rows_of[alike] += spec.layer_rows(layer, indices)
    return tuple(
        msgspec.structs.replace(
            alike, count=len(indices), first=_runs(sorted(indices)), components=_summed(rows_of[alike])
        )
        for alike, indices in found.items()
    )


def _summed(rows: Iterable[TensorRow]) -> tuple[Component, ...]:
    """Parameters and stored bytes of rows by component."""
    parameters: dict[str, int] = defaultdict(int)
    formats: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows:
        parameters[row.component] += row.elements if row.tensor.use != "buffer" else 0
        for part in row.parts:
            formats[row.component][part.format.name] += part.bytes * row.tensor.copies * row.count
    return tuple(
        Component(name, parameters[name], sum(formats[name].values()), dict(formats[name])) for name in parameters
    )


def cache_law(spec: ModelSpec, kv: Format) -> tuple[CacheTerm, ...]:
    """Terms whose sum, with the constant state, is what one sequence keeps."""
    found: dict[tuple[Any, ...], tuple[int, int]] = {}
    for layer, indices in spec.kinds:
        each: dict[tuple[Any, ...], int] = defaultdict(int)
        for row in layer.mixer.cache():
            each[row.window, row.every, row.waiting, row.encoder, row.fixed] += row.elements_per_token
        for key, elements in each.items():
            layers, total = found.get(key, (0, 0))
            found[key] = (layers + len(indices), total + elements * len(indices))
    return tuple(CacheTerm(layers, kv.bytes_for(elements), *key) for key, (layers, elements) in found.items())


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


def components(spec: ModelSpec) -> tuple[Component, ...]:
    """What the model consists of; where files were read, with what they hold."""
    found = {one.name: one for one in _summed(spec.tensor_table())}
    if spec.stored is None:
        return tuple(found.values())
    held: dict[str, dict[str, int]] = {name: {} for name in found}
    held |= {one.name: dict(one.formats) for one in spec.stored.components}
    if spec.stored.unattributed_bytes:
        held["names of no known part"] = {"": spec.stored.unattributed_bytes}
    return tuple(
        Component(name, found[name].parameters if name in found else 0, sum(of.values()), of)
        for name, of in held.items()
    )

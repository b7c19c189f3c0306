"""What the rarer parts of a layer are called: mixers made of others, recurrences, feed-forwards of several kinds."""

from __future__ import annotations

from collections.abc import Callable

from narrows.models.feedforward import Beside, ChannelMix, FeedForward
from narrows.models.mixers import (
    Chain,
    CompressedConvolution,
    ConvolvedAttention,
    CrossAttention,
    GatedRecurrence,
    IndexedAttention,
    MatrixMemory,
    Mixer,
    MixtureOfAttention,
    RememberingAttention,
    Rwkv4,
    Uncached,
)
from narrows.text import Text


def rarer_mixer(mixer: Mixer, usual: Callable[[Mixer], Text]) -> Text | None:
    """The name of a mixer of these kinds, else None. usual: names those it is made of."""
    if isinstance(mixer, Chain):
        found = usual(mixer.parts[0])
        for part in mixer.parts[1:]:
            found = Text("{first}; then {second}", first=found, second=usual(part))
        return found
    if isinstance(mixer, ConvolvedAttention):
        return Text("{attention}, convolved over {tokens} tokens", attention=usual(mixer.attention), tokens=mixer.conv)
    if isinstance(mixer, CompressedConvolution):
        back = mixer.depthwise + mixer.grouped - 1
        return Text("{attention}, convolved over {tokens} tokens", attention=usual(mixer.attention), tokens=back)
    if isinstance(mixer, IndexedAttention):
        return Text("{attention}, index key {index}", attention=usual(mixer.attention), index=mixer.index_dim)
    if isinstance(mixer, Uncached):
        return Text("{attention}, not cached", attention=usual(mixer.attention))
    return _own(mixer)


def _crossed(mixer: CrossAttention) -> Text:
    if not mixer.cached:
        return Text("cross-attention, {heads} heads of {width}", heads=mixer.heads, width=mixer.head_dim)
    shape = {"heads": mixer.heads, "kv": mixer.kv_heads, "width": mixer.head_dim}
    if mixer.tokens is None:
        return Text("cross-attention, {heads} heads, {kv} KV heads of {width}", **shape)
    return Text(
        "cross-attention to {tokens} tokens, {heads} heads, {kv} KV heads of {width}", **shape, tokens=mixer.tokens
    )


def _own(mixer: Mixer) -> Text | None:
    if isinstance(mixer, CrossAttention):
        return _crossed(mixer)
    if isinstance(mixer, MixtureOfAttention):
        return Text(
            "{top} of {experts} attention experts, {kv} KV heads of {width}",
            top=mixer.top_k,
            experts=mixer.experts,
            kv=mixer.kv_heads,
            width=mixer.head_dim,
        )
    if isinstance(mixer, RememberingAttention):
        return Text(
            "relative attention, {heads} heads of {width}, over remembered hidden states",
            heads=mixer.heads,
            width=mixer.head_dim,
        )
    if isinstance(mixer, GatedRecurrence):
        return Text("gated linear recurrence, {channels} channels", channels=mixer.width)
    if isinstance(mixer, Rwkv4):
        return Text("RWKV-4 time mixing, {channels} channels", channels=mixer.width)
    if isinstance(mixer, MatrixMemory):
        return Text(
            "mLSTM, {heads} heads of {key} × {value}", heads=mixer.heads, key=mixer.key_dim, value=mixer.value_dim
        )
    return None


def rarer_feed_forward(part: FeedForward, usual: Callable[[FeedForward | None], Text]) -> Text | None:
    """The name of a feed-forward part of these kinds, else None."""
    if isinstance(part, Beside):
        return Text(
            "{count} dense parts of width {width}, and {experts}",
            count=len(part.dense),
            width=part.dense[0].intermediate,
            experts=usual(part.experts),
        )
    if isinstance(part, ChannelMix):
        return Text("channel mixing, width {width}", width=part.intermediate)
    return None

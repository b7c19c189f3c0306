"""Gemma 4 without towers: patches and audio frames are projected straight into the decoder; and its draft model."""

from __future__ import annotations

import msgspec

from narrows.models.feedforward import Dense
from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.readers.build import outside, text_part, with_defaults
from narrows.models.readers.gemma4 import read_gemma4_text
from narrows.models.readers.towers.parts import Parts
from narrows.models.spec import Layer, ModelSpec, Tower
from narrows.models.tensors import Tensor

_DEFAULTS = {
    "vocab_size": 262144,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 30,
    "num_attention_heads": 8,
    "max_position_embeddings": 262144,
    "sliding_window": 1024,
}
"""transformers' Gemma4UnifiedTextConfig."""


def read_gemma4_unified_text(c: Fields) -> ModelSpec:
    """The decoder: Gemma 4's without inputs per layer and without experts."""
    with_defaults(c, _DEFAULTS)
    c.values = {**c.values, "hidden_size_per_layer_input": 0, "enable_moe_block": False}
    spec = read_gemma4_text(c)
    return msgspec.structs.replace(spec, family="gemma4_unified")


def _vision(c: Fields, hidden: int) -> Tower:
    """Patches: two norms around a projection, a table of positions by row and column, and a projection."""
    patch = c.size("patch_size", default=16) * c.size("pooling_kernel_size", default=3)
    width = c.size("mm_embed_dim", default=3840)
    parts = Parts("model.vision_embedder.")
    parts.add("patch_ln1", 3 * patch * patch, bias=True)
    parts.add("patch_dense", width, 3 * patch * patch, bias=True)
    parts.add("patch_ln2", width, bias=True)
    parts.add("pos_embedding", c.size("mm_posemb_size", default=1120), 2, width, suffix="")
    parts.add("pos_norm", width, bias=True)
    projection = Parts("model.embed_vision.")
    projection.add("embedding_projection", hidden, c.size("output_proj_dims", default=3840))
    return Tower("projector", tuple(parts.found + projection.found))


def _audio(c: Fields, hidden: int) -> Tower:
    parts = Parts("model.embed_audio.")
    parts.add("embedding_projection", hidden, c.size("audio_embed_dim", "hidden_size", default=640))
    return parts.tower("audio projector")


def read_gemma4_unified(c: Fields) -> ModelSpec:
    """With its projections of images and audio, where the file has them."""
    text = text_part(c, tied=True) if c.raw("text_config") is not None else Fields({})
    spec = read_gemma4_unified_text(text)
    c.read |= {name for name in c.values if name.endswith(("_token_id", "_token_index"))}
    towers = []
    if c.raw("vision_config") is not None:
        towers.append(_vision(c.nested("vision_config"), spec.hidden))
    if c.raw("audio_config") is not None:
        towers.append(_audio(c.nested("audio_config"), spec.hidden))
    return msgspec.structs.replace(spec, dialect="gemma4_vl", towers=tuple(towers))


def _reading(layer: Layer, wide: int) -> Layer:
    """A layer that reads keys and values of another model; `wide`: how many times wider its feed-forward gets."""
    assert isinstance(layer.mixer, Attention) and isinstance(layer.feed_forward, Dense)
    part = msgspec.structs.replace(layer.feed_forward, intermediate=wide * layer.feed_forward.intermediate)
    mixer = msgspec.structs.replace(layer.mixer, borrowed=True)
    return msgspec.structs.replace(layer, mixer=mixer, feed_forward=part)


def read_gemma4_unified_assistant(c: Fields) -> ModelSpec:
    """The draft model: every layer reads the target model's keys and values, so that it keeps none of its own."""
    text = text_part(c, tied=True)
    shared = text.maybe_size("num_kv_shared_layers", default=0, least=0)
    layers = text.layers("num_hidden_layers", default=_DEFAULTS["num_hidden_layers"])
    all_of_them = not shared or shared == layers
    if all_of_them:
        text.values = {**text.values, "num_kv_shared_layers": 0}
    spec = read_gemma4_unified_text(text)
    if all_of_them:
        wide = 2 if text.flag("use_double_wide_mlp", False) else 1
        groups = tuple(msgspec.structs.replace(group, layer=_reading(group.layer, wide)) for group in spec.groups)
        spec = msgspec.structs.replace(spec, groups=groups)
    back = c.size("backbone_hidden_size", default=3840)
    after = [Tensor("after.post_projection", (back, spec.hidden), "plain")]
    if c.flag("use_ordered_embeddings", False):
        after.append(Tensor("after.centroids", (c.size("num_centroids", default=2048), spec.hidden), "plain"))
        after.append(Tensor("after.token_ordering", (spec.vocab,), "buffer", format="int64"))
    c.read |= {"num_centroids", "centroid_intermediate_top_k"}
    return msgspec.structs.replace(
        spec,
        extra=outside(before=[Tensor("before.pre_projection", (spec.hidden, 2 * back), "plain")], after=after),
    )

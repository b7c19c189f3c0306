"""Decoders with a vision tower: each part is read by its own reader, and `families` says which."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from narrows.models.dialects_inside import WAYS
from narrows.models.fields import Fields
from narrows.models.readers import inside, reader_of, texts
from narrows.models.readers.build import from_the_top
from narrows.models.readers.families import FAMILIES, Family
from narrows.models.readers.towers import Body, vision
from narrows.models.readers.tying import text_says
from narrows.models.spec import ModelSpec, Tower
from narrows.text import BadInput

PASSED_OVER = frozenset(
    """
    image_seq_length video_seq_length image_grid_pinpoints image_token_index video_token_index vision_feature_layer
    vision_feature_select_strategy projector_hidden_act projector_layernorm_eps spatial_pool_mode spatial_pool_stride
    vision_aspect_ratio use_image_newline_parameter downsample_ratio vocab_size hidden_size pad_token_id
    mm_tokens_per_image boi_token_index eoi_token_index ignore_index num_image_tokens vision_token_id use_cache
    text_config tie_word_embeddings max_dynamic_patch min_dynamic_patch insert_layer_id image_size patch_size
    drop_vision_last_layer downsample_mode visual_indicator_token_ids density_router_threshold
    density_router_loss_weight projection_layer_norm_eps merged_hidden_size merge_kernel_size image_patch_id
    video_temporal_patch_size video_pruning_rate force_image_size select_layer template ps_version system_message
    dynamic_image_size use_thumbnail pad2square use_backbone_lora use_llm_lora llm_config image_fold force_image_size
    """.split()  # noqa: SIM905
)
"""Fields at the top of such files that change no size, or that a decoder or tower has of its own."""


def pass_over(c: Fields) -> None:
    """Count those fields, and the numbers of special tokens, as read."""
    c.read |= PASSED_OVER | {name for name in c.values if name.endswith(("_token_id", "_token_index"))}


def read(c: Fields, model_type: str) -> ModelSpec:
    """Any of them."""
    family = FAMILIES[model_type]
    pass_over(c)
    text = text_of(c, family)
    body = vision(_part(c, family), family.vision, family.at[0])
    towers = [body.parts.tower(), *(_again(body, at) for at in family.at[1:])]
    between = family.project(c, body, text)
    if between.found:
        towers.append(between.tower("projector"))
    return inside_of(family, text, model_type, towers)


def inside_of(family: Family, text: ModelSpec, name: str, towers: Iterable[Tower]) -> ModelSpec:
    """A decoder inside a model of `name`; what stands beside it there (an encoder, say) moves with it."""
    if not family.names:
        return msgspec.structs.replace(text, family=name, towers=(*towers, *text.towers))
    way = WAYS[family.names]
    own = (
        msgspec.structs.replace(tower, tensors=tuple((way(stored), n, t) for stored, n, t in tower.tensors))
        for tower in text.towers
    )
    return msgspec.structs.replace(text, family=name, dialect=f"{family.names}/{text.dialect}", towers=(*towers, *own))


def _part(c: Fields, family: Family) -> Fields:
    """The fields of the tower. Old files call its model type as they call the whole."""
    part = c.nested("vision_config")
    if part.values.get("model_type") == c.values.get("model_type"):
        part.values = {**part.values, "model_type": family.vision}
    return part


def _again(body: Body, prefix: str) -> Tower:
    """A second tower of the same kind."""
    first = body.parts.prefix
    return Tower(
        "second vision tower",
        tuple((prefix + name.removeprefix(first.split(".", 1)[0] + "."), n, t) for name, n, t in body.parts.found),
    )


def text_of(c: Fields, family: Family) -> ModelSpec:
    """The decoder, read by the reader of its own architecture."""
    text = c
    if not (family.flat and c.raw("text_config") is None):
        text = c.nested(family.text_field)
        # a file of the flat kind, saved anew, says of its decoder at the top what the text part says; that one counts
        c.read |= set(text.values)
        from_the_top(c, text)
        text.defaulted = c.defaulted
    kind = text.raw("model_type", default=family.text) if text is not c else family.text
    known = texts.TEXTS.get(kind) if isinstance(kind, str) else None
    reader = _reader(kind if known is None else known.reader) if isinstance(kind, str) else None
    if reader is None or any(isinstance(value, dict) and "model_type" in value for value in _inner(text, c)):
        raise BadInput(
            "the text part of this config is '{kind}', which narrows does not read there", kind=str(kind)[:40]
        )
    if known is not None:
        text.defaulted += [
            text.path + name for name, value in known.defaults.items() if value is not None and name not in text.values
        ]
        text.values = {**known.defaults, **text.values, **known.fixed}
    _tie(c, text, family)
    return reader(text)


def _reader(kind: str) -> Callable[[Fields], ModelSpec] | None:
    return inside.READERS.get(kind) or reader_of(kind)


def _inner(text: Fields, c: Fields) -> list[object]:
    """Values of the text part, where it stands apart."""
    return [] if text is c else list(text.values.values())


def _tie(c: Fields, text: Fields, family: Family) -> None:
    if family.tied == "never":
        text.values = {**text.values, "tie_word_embeddings": False}
    elif family.tied != "text" and not text_says(c):
        top = c.flag("tie_word_embeddings", family.tied_default)
        if family.tied == "both" and text.flag("tie_word_embeddings", family.tied_default) != top:
            raise BadInput(
                "config field '{field}' differs from that of the text part; the file contradicts itself",
                field="tie_word_embeddings",
            )
        if top or family.tied in ("top", "both"):
            text.values = {**text.values, "tie_word_embeddings": top}

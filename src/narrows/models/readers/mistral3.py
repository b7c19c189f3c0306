"""Mistral Small 3.1 and Ministral 3: Mistral's or Ministral 3's decoder with a Pixtral vision tower."""

from __future__ import annotations

import msgspec

from narrows.models.fields import Fields
from narrows.models.readers.build import text_part
from narrows.models.readers.like_llama import read as read_like_llama
from narrows.models.readers.llama import read_mistral
from narrows.models.readers.towers.pixtral import pixtral
from narrows.models.readers.towers.projectors import patch_merger
from narrows.models.spec import ModelSpec
from narrows.text import BadInput


def read_mistral3(c: Fields) -> ModelSpec:
    """The decoder that `text_config` names, and the tower."""
    text = text_part(c, tied=True)
    kind = text.raw("model_type", default="mistral")
    if kind == "mistral":
        if not text.has("sliding_window"):
            text.values = {**text.values, "sliding_window": None}
        spec = read_mistral(text)
    elif kind == "ministral3":
        spec = read_like_llama(text, kind)
    else:
        raise BadInput(
            "the text part of this mistral3 config is '{kind}', which narrows does not read there; it reads mistral "
            "and ministral3",
            kind=str(kind)[:40],
        )
    body = pixtral(c.nested("vision_config"), "vision_tower.")
    towers = (body.parts.tower(), patch_merger(c, body, spec).tower("projector"))
    return msgspec.structs.replace(spec, family="mistral3", dialect="llava", towers=towers)

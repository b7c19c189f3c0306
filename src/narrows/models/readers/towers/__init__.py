"""Vision towers and what leads from them into a decoder. Engines keep them whole on every rank."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.towers.encoder import Body, encode
from narrows.models.readers.towers.extras import EXTRAS
from narrows.models.readers.towers.mllama import mllama
from narrows.models.readers.towers.others import davit, kosmos_2_5, lfm3_vl, molmo2, pix2struct, radio
from narrows.models.readers.towers.pixtral import pixtral
from narrows.models.readers.towers.table import ENCODERS
from narrows.models.readers.unread import unread_tower

_WHOLE = {
    "pixtral": pixtral,
    "mllama_vision_model": mllama,
    "lfm3_vl_vision": lfm3_vl,
    "radio": radio,
    "molmo2_vision": molmo2,
    "florence_vision": davit,
    "pix2struct_vision_model": pix2struct,
    "kosmos_2_5_vision_model": kosmos_2_5,
}
_SHARED = ("clip_vision_model", "siglip_vision_model", "siglip2_vision_model", "pixtral")
"""Towers of their own class; where one is usual, the file says which it is. Others are part of one architecture."""


def vision(c: Fields, usual: str, prefix: str) -> Body:
    """The tower of a `vision_config`: what its model type says where the architecture takes several, else `usual`."""
    kind = (c.raw("model_type") or usual) if usual in _SHARED else usual
    c.read.add("model_type")
    if isinstance(kind, str) and kind in _WHOLE:
        return _WHOLE[kind](c, prefix)
    if not isinstance(kind, str) or kind not in ENCODERS:
        raise unread_tower(kind)
    body = encode(c, ENCODERS[kind], prefix)
    return EXTRAS[kind](c, body) if kind in EXTRAS else body


__all__ = ["Body", "vision"]

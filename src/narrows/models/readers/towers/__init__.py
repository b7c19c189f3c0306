"""Vision towers and what leads from them into a decoder. Engines keep them whole on every rank."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.towers.encoder import Body, encode
from narrows.models.readers.towers.extras import EXTRAS
from narrows.models.readers.towers.pixtral import pixtral
from narrows.models.readers.towers.table import ENCODERS
from narrows.text import BadInput

_WHOLE = {"pixtral": pixtral}


def vision(c: Fields, default: str, prefix: str) -> Body:
    """The tower of a `vision_config`, by its model type (`default`: where it names none)."""
    kind = c.raw("model_type", default=default)
    if isinstance(kind, str) and kind in _WHOLE:
        return _WHOLE[kind](c, prefix)
    if not isinstance(kind, str) or kind not in ENCODERS:
        raise BadInput(
            "the vision part of this config is '{kind}', which narrows does not read yet", kind=str(kind)[:40]
        )
    body = encode(c, ENCODERS[kind], prefix)
    return EXTRAS[kind](c, body) if kind in EXTRAS else body


__all__ = ["Body", "vision"]

"""How the cache of transformers lists what narrows states: the one place that knows its habits."""

from __future__ import annotations

from narrows.models import ModelSpec
from narrows.models.mixers import SHARED
from narrows.models.tensors import CacheRow


def cached_by_transformers(spec: ModelSpec, length: int, encoder_tokens: int | None) -> int:
    """Elements that the cache of transformers lists after a sequence of `length` tokens.

    It keeps W − 1 tokens of a window (the next one completes it), counts constant state, and lists a key that is the
    value as well (DeepSeek-V4) under both names. encoder_tokens: how many tokens the encoder put out, None without one.
    """

    def kept(row: CacheRow) -> int:
        if row.encoder:
            if encoder_tokens is None or row.fixed not in (None, encoder_tokens):
                raise ValueError(f"the encoder puts out {row.fixed}, and transformers was given {encoder_tokens}")
            return encoder_tokens * row.elements_per_token
        sliding = row.window is not None and row.every == 1
        tokens = min(length, row.window - 1) if sliding and row.window else row.tokens(length)
        return tokens * row.elements_per_token * (2 if row.name == SHARED else 1)

    return sum(layers * kept(row) for layers, row in spec.cache_rows()) + spec.state_elements()

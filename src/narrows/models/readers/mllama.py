"""Llama 3.2 Vision: some layers of the decoder look at the picture instead of the text before."""

from __future__ import annotations

import msgspec

from narrows.models.fields import Fields
from narrows.models.readers.build import text_part
from narrows.models.readers.crossed import read_mllama_text_model
from narrows.models.readers.multimodal import PASSED_OVER
from narrows.models.readers.towers import vision
from narrows.models.readers.towers.parts import Parts
from narrows.models.spec import ModelSpec

_DEFAULTS = {
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "max_position_embeddings": 131072,
}


def read_mllama(c: Fields) -> ModelSpec:
    """The decoder, and the tower whose output its cross-attention reads. The head is never tied."""
    text = text_part(c, tied=None)
    text.values = {**_DEFAULTS, **text.values, "tie_word_embeddings": False}
    spec = read_mllama_text_model(text)
    body = vision(c.nested("vision_config"), "mllama_vision_model", "vision_model.")
    parts = Parts("")
    parts.add("multi_modal_projector", spec.hidden, body.width, bias=True)
    c.read |= PASSED_OVER
    return msgspec.structs.replace(
        spec,
        family="mllama",
        dialect="language_model/mllama",
        towers=(body.parts.tower(), parts.tower("projector")),
    )

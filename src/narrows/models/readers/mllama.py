"""Llama 3.2 Vision: some layers of the decoder look at the picture instead of the text before."""

from __future__ import annotations

import msgspec

from narrows.models.fields import Fields
from narrows.models.mixers import CrossAttention, Mixer
from narrows.models.readers.build import PRE_NORMS, attention, dense, model, stack, text_part
from narrows.models.readers.inside import more_rows
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
_LOOKING = frozenset((3, 8, 13, 18, 23, 28, 33, 38))
_PICTURE_ROWS = 8
"""Rows of the embedding for tokens that stand for pictures; the head has none for them."""


def read_mllama(c: Fields) -> ModelSpec:
    """The decoder, and the tower whose output its cross-attention reads. The head is never tied."""
    text = text_part(c, tied=None)
    text.values = {**_DEFAULTS, **text.values, "tie_word_embeddings": False}
    layers = text.layers("num_hidden_layers")
    stated = text.raw("cross_attention_layers")
    looking = _LOOKING if stated is None else text.indices("cross_attention_layers")
    full = attention(text, kv_heads=8)
    cross = CrossAttention(full.hidden, full.heads, full.kv_heads, full.head_dim, full.hidden, qk_norm=True)
    mixers: list[Mixer] = [cross if i in looking else full for i in range(layers)]
    spec = model(text, stack(mixers, [dense(text)] * layers, PRE_NORMS), family="mllama", dialect="mllama")
    body = vision(c.nested("vision_config"), "mllama_vision_model", "vision_model.")
    parts = Parts("")
    parts.add("multi_modal_projector", spec.hidden, body.width, bias=True)
    gates = Parts("language_model.model.layers.{}.cross_attn_")
    for name in ("attn_gate", "mlp_gate"):
        gates.parameter(name, 1, repeats=mixers.count(cross))
    parts.found += gates.found
    c.read |= PASSED_OVER
    return msgspec.structs.replace(
        spec,
        dialect="language_model/mllama",
        towers=(body.parts.tower(), parts.tower("projector"), *more_rows(_PICTURE_ROWS, spec.hidden)),
    )

"""Gemma 3n: alternating updates of four streams, a low-rank branch, inputs per layer, borrowed KV."""

from __future__ import annotations

import msgspec

from narrows.models.feedforward import Dense
from narrows.models.fields import Fields
from narrows.models.readers.build import (
    SANDWICH_NORMS,
    attention,
    full_every,
    grouped,
    model,
    outside,
    text_part,
    windowed,
    with_defaults,
)
from narrows.models.readers.gemma4 import borrowing
from narrows.models.readers.gemma_audio import gemma3n_audio
from narrows.models.readers.towers.mobilenet import mobilenet
from narrows.models.readers.towers.parts import Parts
from narrows.models.spec import Layer, ModelSpec, Norms
from narrows.models.tensors import Tensor

_DEFAULTS = {
    "vocab_size": 262400,
    "hidden_size": 2048,
    "intermediate_size": 16384,
    "num_hidden_layers": 35,
    "num_attention_heads": 8,
    "max_position_embeddings": 32768,
}
"""transformers' Gemma3nTextConfig."""
_NORMS = Norms((*SANDWICH_NORMS.names, "post_per_layer_input_norm"))


def _widths(c: Fields, layers: int) -> list[int]:
    """The feed-forward's width of each layer: one number for all, or one each."""
    name = "intermediate_size"
    stated = c.raw(name)
    if not isinstance(stated, list):
        return [c.size(name)] * layers
    c.check_layers(name, len(stated), layers)
    return [Fields({name: width}, c.path).size(name) for width in stated]


def _streams(hidden: int, inputs: int, rank: int) -> tuple[Tensor, ...]:
    """Tensors of one layer's alternating updates (AltUp) and of its low-rank branch (LAuReL)."""
    return (
        Tensor("altup.scale", (hidden,), "vector"),
        Tensor("altup.correction", (inputs, inputs), "plain"),
        Tensor("altup.prediction", (inputs * inputs, inputs), "plain"),
        Tensor("altup.router", (inputs, hidden), "plain"),
        Tensor("altup.router_norm", (hidden,), "vector"),
        Tensor("laurel.left", (rank, hidden)),
        Tensor("laurel.right", (hidden, rank)),
        Tensor("laurel.norm", (hidden,), "vector"),
    )


def read_gemma3n_text(c: Fields) -> ModelSpec:
    """Gemma 3n E2B and E4B, text only."""
    with_defaults(c, _DEFAULTS)
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    kinds = full_every(c, layers, 5)
    own = attention(c, kv_heads=2, head_dim=256, qk_norm=True, qkv_bias=bias, out_bias=bias)
    mixers = windowed(own, c.size("sliding_window", default=512), kinds)
    hidden, inputs = own.hidden, c.size("altup_num_inputs", default=4, most=1024)
    beside = _streams(hidden, inputs, c.size("laurel_rank", default=64))
    each = c.size("hidden_size_per_layer_input", default=256)
    rows = c.size("vocab_size_per_layer_input", default=262144)
    c.read |= {"altup_active_idx", "altup_coef_clip", "altup_correct_scale", "activation_sparsity_pattern"}
    made = [
        Layer(
            msgspec.structs.replace(mixer, borrowed=borrowed),
            Dense(hidden, width),
            _NORMS,
            hidden,
            each,
            beside,
        )
        for mixer, width, borrowed in zip(mixers, _widths(c, layers), borrowing(c, kinds, default=15), strict=True)
    ]
    streams = range(1, inputs)
    return model(
        c,
        grouped(made),
        family="gemma3n",
        dialect="gemma3n",
        tied=True,
        per_layer=(rows, each),
        extra=outside(
            before=(Tensor("before.altup", (hidden, hidden), "plain") for _ in streams),
            after=(Tensor("after.altup", (hidden, hidden), "plain") for _ in streams),
        ),
    )


def _embedder(name: str, rows: int, width: int, out: int) -> Parts:
    """What leads into the decoder: a table of marks, a norm for them and one for what was seen or heard, a matrix."""
    parts = Parts(f"model.embed_{name}.")
    parts.add("embedding", rows, width)
    parts.add("hard_embedding_norm", width)
    parts.add("soft_embedding_norm", width)
    parts.add("embedding_projection", out, width)
    return parts


def read_gemma3n(c: Fields) -> ModelSpec:
    """Gemma 3n E2B and E4B, with what they see and hear with."""
    text = text_part(c, tied=True) if c.raw("text_config") is not None else Fields({}, "text_config.")
    spec = read_gemma3n_text(text)
    c.read |= {name for name in c.values if name.endswith(("_token_id", "_token_index", "_soft_tokens_per_image"))}
    seen, heard = ((c.nested(name) if c.raw(name) else Fields({})) for name in ("vision_config", "audio_config"))
    body = mobilenet(seen, "model.vision_tower.")
    sight = _embedder(
        "vision",
        seen.size("vocab_size", default=128),
        seen.size("hidden_size", default=2048, least=body.hidden, most=body.hidden),
        spec.hidden,
    )
    audio, width = gemma3n_audio(heard, "model.audio_tower.")
    sound = _embedder("audio", heard.size("vocab_size", default=128), width, spec.hidden)
    towers = (
        body.parts.tower(),
        sight.tower("projector"),
        audio.tower("audio tower"),
        sound.tower("audio projector"),
    )
    return msgspec.structs.replace(spec, dialect="model.language_model/gemma3n", towers=towers)

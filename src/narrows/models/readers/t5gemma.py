"""T5Gemma 1 and 2: Gemma's layers on both sides of an encoder-decoder."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.readers.build import attention, dense, full_every, windowed
from narrows.models.readers.seq2seq_parts import QUIET, crossing, encoder, frame, whole_model
from narrows.models.readers.sound import Gathered
from narrows.models.spec import Layer, ModelSpec, Norms, Tower
from narrows.models.tensors import Tensor

_SELF = ("pre_self_attn_layernorm", "post_self_attn_layernorm")
_CROSS = ("pre_cross_attn_layernorm", "post_cross_attn_layernorm")
_FEED = ("pre_feedforward_layernorm", "post_feedforward_layernorm")


def _attentions(c: Fields, every: int, *, qk_norm: bool) -> list[Attention]:
    """One attention per layer; every `every`-th is full, where the file lists nothing."""
    layers, bias = c.layers("num_hidden_layers", default=26), c.flag("attention_bias", False)
    full = attention(c, kv_heads=4, head_dim=256, qkv_bias=bias, out_bias=bias, qk_norm=qk_norm)
    return windowed(full, c.maybe_size("sliding_window", default=4096), full_every(c, layers, every))


def read_t5gemma(c: Fields) -> ModelSpec:
    """T5Gemma: encoder and decoder have an embedding each, and the head is the decoder's."""
    reading, writing = c.nested("encoder"), c.nested("decoder")
    c.read |= QUIET | {"vocab_size", "classifier_dropout_rate"}
    tied = c.flag("tie_word_embeddings", True)
    vocab, rows = writing.size("vocab_size", default=256000), reading.size("vocab_size", default=256000)
    seen = _attentions(reading, 2, qk_norm=False)
    source = seen[0].hidden
    layers = [
        Layer(
            crossing(own, source),
            dense(writing),
            Norms((*_SELF, *_CROSS, *_FEED)),
            own.hidden,
        )
        for own in _attentions(writing, 2, qk_norm=False)
    ]
    inner = [Layer(own, dense(reading), Norms((*_SELF, *_FEED)), source) for own in seen]
    return whole_model(
        c,
        layers,
        frame(vocab, layers[0].hidden, tied=tied, final_norm=True, bias=False),
        family="t5gemma",
        dialect="t5gemma",
        vocab=vocab,
        tied=tied,
        max_length=writing.size("max_position_embeddings", default=8192),
        towers=(encoder(inner, "t5gemma.encoder", frame(rows, source, tied=True, final_norm=True, bias=False)),),
    )


def read_t5gemma2(c: Fields) -> ModelSpec:
    """T5Gemma 2: one set of projections attends to both sides; the encoder also sees pictures."""
    outer, writing = c.nested("encoder"), c.nested("decoder")
    reading = outer.nested("text_config")
    c.read |= QUIET | {"vocab_size", "classifier_dropout_rate", "image_token_index", "eoi_token_index"}
    tied = c.flag("tie_word_embeddings", True)
    vocab, rows = writing.size("vocab_size", default=262208), reading.size("vocab_size", default=262208)
    pattern = writing.size("sliding_window_pattern", default=6)
    seen = _attentions(reading, reading.size("sliding_window_pattern", default=6), qk_norm=True)
    norms, source = Norms((*_SELF, *_FEED)), seen[0].hidden
    layers = [
        Layer(
            crossing(own, source, merged=True),
            dense(writing),
            norms,
            own.hidden,
        )
        for own in _attentions(writing, pattern, qk_norm=True)
    ]
    inner = [Layer(own, dense(reading), norms, source) for own in seen]
    beyond = ("model.encoder.text_model.embed_tokens.eoi_embedding", 1, Tensor("embedding.end", (source,), "vector"))
    own = frame(rows, source, tied=True, final_norm=True, bias=False)[1 if tied else 0 :]
    end = Tensor("embedding.end", (layers[0].hidden,), "vector")
    return whole_model(
        c,
        layers,
        frame(
            vocab,
            layers[0].hidden,
            tied=tied,
            final_norm=True,
            bias=False,
            more=() if tied else (("embedding", end),),
        ),
        family="t5gemma2",
        dialect="t5gemma2" if tied else "t5gemma2.decoder",
        vocab=vocab,
        tied=tied,
        max_length=writing.size("max_position_embeddings", default=131072),
        towers=(encoder(inner, "t5gemma2.encoder", own, (beyond,)), _siglip(outer.nested("vision_config"), source)),
    )


def _siglip(c: Fields, out: int) -> Tower:
    """SigLIP's vision transformer, its pooling head, and the projection into the encoder."""
    hidden, inner = c.size("hidden_size", default=768), c.size("intermediate_size", default=3072)
    patch, layers = c.size("patch_size", default=16), c.layers("num_hidden_layers", default=12)
    side = c.size("image_size", default=224) // patch
    found = Gathered("model.encoder.vision_tower.")
    found.conv("embeddings.patch_embedding", hidden, c.size("num_channels", default=3), patch, patch)
    found.add("embeddings.position_embedding.weight", Tensor("vision.positions", (side * side, hidden), "table"))
    layer = found.below("encoder.layers.{}.", layers)
    for name in ("layer_norm1", "layer_norm2"):
        layer.norm(name, hidden)
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        layer.conv(f"self_attn.{name}", hidden, hidden)
    head = found.below("head.")
    for where in (layer, *([head] if c.flag("vision_use_head", True) else [])):
        where.conv("mlp.fc1", inner, hidden)
        where.conv("mlp.fc2", hidden, inner)
    found.norm("post_layernorm", hidden)
    if c.flag("vision_use_head", True):
        head.add("probe", Tensor("vision.probe", (1, 1, hidden), "vector"))
        head.add("attention.in_proj_weight", Tensor("vision.in", (3 * hidden, hidden), "plain"))
        head.add("attention.in_proj_bias", Tensor("vision.in.bias", (3 * hidden,), "vector"))
        head.conv("attention.out_proj", hidden, hidden)
        head.norm("layernorm", hidden)
    projector = Gathered("model.encoder.multi_modal_projector.", found=found.found)
    projector.add("mm_input_projection_weight", Tensor("vision.projection", (hidden, out), "plain"))
    projector.add("mm_soft_emb_norm.weight", Tensor("norm.projection", (hidden,), "vector"))
    return Tower("vision tower", tuple(found.found))

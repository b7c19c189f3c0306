"""Evolla: a protein's encoder and resampler, and Llama with adapters that look at them after some layers."""

from __future__ import annotations

import msgspec

from narrows.models.fields import Fields
from narrows.models.readers.build import PRE_NORMS, attention, dense, model, stack, untied
from narrows.models.readers.towers.parts import Parts
from narrows.models.spec import ModelSpec, Tower

_DEFAULTS = {
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 8192,
}


def read_evolla(c: Fields) -> ModelSpec:
    """The decoder with everything beside it."""
    c.values = {**_DEFAULTS, **c.values}
    untied(c)
    layers, bias = c.layers("num_hidden_layers"), c.flag("attention_bias", False)
    mixer = attention(c, kv_heads=8, qkv_bias=bias, out_bias=bias)
    part = dense(c, bias=c.flag("mlp_bias", False))
    spec = model(c, stack([mixer] * layers, [part] * layers, PRE_NORMS), family="evolla")
    p = c.nested("protein_encoder_config")
    encoder = _protein(p)
    wide = p.size("hidden_size", default=1280)
    towers = (encoder, _resampler(c, wide, spec.hidden), _adapters(c, layers, spec.hidden))
    c.read.add("aligner_attention_probs_dropout_prob")
    return msgspec.structs.replace(spec, towers=towers)


def _protein(p: Fields) -> Tower:
    """SaProt: ESM-2's encoder with norms before its parts."""
    hidden, layers = p.size("hidden_size", default=1280), p.layers("num_hidden_layers", default=33)
    inner = p.size("intermediate_size", default=5120)
    p.divide(hidden, p.size("num_attention_heads", default=20), "hidden_size", "num_attention_heads")
    parts = Parts("model.protein_encoder.model.")
    parts.add("embeddings.word_embeddings", p.size("vocab_size", default=446), hidden)
    if p.raw("position_embedding_type", default="rotary") == "absolute":
        parts.add("embeddings.position_embeddings", p.size("max_position_embeddings", default=1026), hidden)
    if p.flag("emb_layer_norm_before", False):
        parts.add("embeddings.layer_norm", hidden, bias=True)
    layer = "encoder.layer.{}."
    for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
        parts.add(layer + name, hidden, hidden, repeats=layers, bias=True)
    for name in ("attention.LayerNorm", "LayerNorm"):
        parts.add(layer + name, hidden, repeats=layers, bias=True)
    parts.add(layer + "intermediate.dense", inner, hidden, repeats=layers, bias=True)
    parts.add(layer + "output.dense", hidden, inner, repeats=layers, bias=True)
    parts.add("encoder.emb_layer_norm_after", hidden, bias=True)
    return parts.tower("protein encoder")


def _resampler(c: Fields, wide: int, hidden: int) -> Tower:
    depth, heads = c.layers("resampler_depth", default=6), c.size("resampler_heads", default=8)
    inner, grow = heads * c.size("resampler_dim_head", default=64), c.size("resampler_ff_mult", default=4, most=4096)
    parts = Parts("model.protein_encoder.sequence_compressor_resampler.")
    parts.parameter("latents", c.size("resampler_num_latents", default=64), wide)
    looking, after = "layers.{}.0.", "layers.{}.1."
    for name in ("norm_media", "norm_latents"):
        parts.add(looking + name, wide, repeats=depth, bias=True)
    parts.add(looking + "to_q", inner, wide, repeats=depth)
    parts.add(looking + "to_kv", 2 * inner, wide, repeats=depth)
    parts.add(looking + "to_out", wide, inner, repeats=depth)
    parts.add(after + "norm", wide, repeats=depth, bias=True)
    parts.add(after + "fc1", grow * wide, wide, repeats=depth)
    parts.add(after + "fc2", wide, grow * wide, repeats=depth)
    parts.add("norm", hidden, bias=True)
    parts.add("protein_projector", hidden, wide, bias=True)
    return parts.tower("resampler")


def _adapters(c: Fields, layers: int, hidden: int) -> Tower:
    """Spread over the layers, one after every so many."""
    every = max(layers // c.size("aligner_num_add_layers", default=8), 1)
    count, grow = layers // every, c.size("aligner_ffn_mult", default=4, most=4096)
    parts = Parts("model.layers.{}.adapter.")
    for name in ("gate_attention", "gate_ffw"):
        parts.parameter(name, 1, repeats=count)
    for name in ("query", "key_protein", "value_protein"):
        parts.add(name, hidden, hidden, repeats=count, bias=True)
    parts.add("attention_norm", hidden, repeats=count)
    parts.add("out_proj", hidden, hidden, repeats=count, bias=c.flag("aligner_enable_bias", True))
    parts.add("ff.norm", hidden, repeats=count, bias=True)
    parts.add("ff.fc1", grow * hidden, hidden, repeats=count)
    parts.add("ff.fc2", hidden, grow * hidden, repeats=count)
    return parts.tower("cross-attention")

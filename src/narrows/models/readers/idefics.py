"""IDEFICS 1: Llama's decoder, with gated layers between its own that look at pictures."""

from __future__ import annotations

import msgspec

from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.readers.build import PRE_NORMS, attention, dense, model, stack
from narrows.models.readers.multimodal import PASSED_OVER
from narrows.models.readers.towers import vision
from narrows.models.readers.towers.parts import Parts
from narrows.models.spec import ModelSpec, Tower

_DEFAULTS = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}


def read_idefics(c: Fields) -> ModelSpec:
    """The decoder; what looks at pictures stands beside it."""
    c.values = {**_DEFAULTS, **{name: value for name, value in c.values.items() if name != "head_dim"}}
    c.values["num_key_value_heads"] = None  # as many as heads
    layers, norms = c.layers("num_hidden_layers"), c.flag("qk_layer_norms", False)
    full, part = attention(c), dense(c)
    spec = model(c, stack([full] * layers, [part] * layers, PRE_NORMS), family="idefics")
    body = vision(c.nested("vision_config"), "idefics_vision", "model.vision_model.")
    every = c.size("cross_layer_interval", default=1)
    towers = [body.parts.tower()]
    if layers // every:
        towers.append(_looking(c, full, part.intermediate, body.hidden, layers // every, norms))
    if c.flag("use_resampler", False):
        towers.append(_resampler(c, body.hidden))
    more = c.size("additional_vocab_size", default=0, least=0)
    if more and not spec.head_tied:
        head = Parts("lm_head.")
        head.add("additional_fc", more, spec.hidden)
        towers.append(head.tower("head"))
    c.read |= PASSED_OVER | {"perceiver_config", "alpha_initializer", "alphas_initializer_range", "dropout"}
    c.read |= {name for name in c.values if name.startswith("freeze_")}
    # rows for pictures, which stand apart in the file
    return msgspec.structs.replace(spec, embedding_rows=spec.vocab + more, towers=(*towers, *spec.towers))


def _looking(c: Fields, full: Attention, inner: int, source: int, count: int, norms: bool) -> Tower:
    """The gated layers: keys and values come from the tower."""
    kind = c.choice("alpha_type", ("float", "vector"), "float")
    parts, hidden = Parts("model.gated_cross_attn_layers.{}."), full.hidden
    for name, inputs in (("q_proj", hidden), ("k_proj", source), ("v_proj", source), ("o_proj", hidden)):
        parts.add(f"cross_attn.{name}", hidden, inputs, repeats=count)
    if norms:
        for name in ("q_layer_norm", "k_layer_norm"):
            parts.add(f"cross_attn.{name}", full.head_dim, repeats=count)
    parts.gated("mlp.", hidden, inner, repeats=count)
    for name in ("input_layernorm", "post_attention_layernorm"):
        parts.add(name, hidden, repeats=count)
    for name in ("alpha_cross_attn", "alpha_dense"):
        parts.parameter(name, hidden if kind == "vector" else 1, repeats=count)
    return parts.tower("cross-attention")


def _resampler(c: Fields, hidden: int) -> Tower:
    """A perceiver as wide as the tower."""
    p = c.nested("perceiver_config")
    depth, heads = p.layers("resampler_depth", default=6), p.size("resampler_n_heads", default=16)
    width = p.size("resampler_head_dim", default=96)
    parts = Parts("model.perceiver_resampler.")
    parts.parameter("latents", p.size("resampler_n_latents", default=64), hidden)
    attention, feed_forward = "blocks.{}.0.", "blocks.{}.1."
    for name in ("context_layer_norm", "latents_layer_norm"):
        parts.add(attention + name, hidden, repeats=depth, bias=True)
    if p.flag("qk_layer_norms_perceiver", False):
        for name in ("q_layer_norm", "k_layer_norm"):
            parts.add(attention + name, width, repeats=depth, bias=True)
    for name in ("q_proj", "k_proj", "v_proj"):
        parts.add(attention + name, heads * width, hidden, repeats=depth)
    parts.add(attention + "output_proj", hidden, heads * width, repeats=depth)
    parts.add(feed_forward + "ln", hidden, repeats=depth, bias=True)
    parts.add(feed_forward + "fc", 4 * hidden, hidden, repeats=depth)
    parts.add(feed_forward + "c_proj", hidden, 4 * hidden, repeats=depth)
    parts.add("layer_norm", hidden, bias=True)
    return parts.tower("resampler")

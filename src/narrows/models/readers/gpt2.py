"""GPT-2: learned positions, LayerNorm with bias, biases everywhere, q, k and v fused, its own field names."""

from __future__ import annotations

from narrows.models.feedforward import Dense
from narrows.models.fields import Fields
from narrows.models.mixers import Attention
from narrows.models.readers.build import model, stack
from narrows.models.spec import ModelSpec, Norms
from narrows.text import BadInput


def read_gpt2(c: Fields) -> ModelSpec:
    """GPT-2 and its relatives; cross-attention is not read."""
    if c.flag("add_cross_attention", False):
        raise BadInput("this gpt2 config adds cross-attention, which narrows does not read yet; use a plain decoder")
    hidden, heads = c.size("n_embd", "hidden_size"), c.size("n_head", "num_attention_heads")
    layers = c.layers("n_layer", "num_hidden_layers")
    positions = c.size("n_positions", "max_position_embeddings", default=1024)
    inner = c.maybe_size("n_inner", default=None) or 4 * hidden
    width = c.divide(hidden, heads, "n_embd", "n_head")
    mixer = Attention(hidden, heads, heads, width, qkv_bias=True, out_bias=True)
    feed_forward = Dense(hidden, inner, gated=False, bias=True)
    groups = stack([mixer] * layers, [feed_forward] * layers, Norms(("ln_1", "ln_2"), bias=True))
    return model(c, groups, family="gpt2", dialect="gpt2", tied=True, positions=positions, final_norm_bias=True)

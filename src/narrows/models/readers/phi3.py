"""Phi-3: Llama's shape with q, k, v and gate, up fused in the file; a window over all layers where the file has one."""

from __future__ import annotations

from narrows.models.fields import Fields
from narrows.models.readers.build import PRE_NORMS, attention, dense, model, stack
from narrows.models.spec import ModelSpec


def read_phi3(c: Fields) -> ModelSpec:
    """Phi-3, 3.5 and 4."""
    layers = c.layers("num_hidden_layers")
    mixer = attention(c, window=c.maybe_size("sliding_window", default=None))
    return model(c, stack([mixer] * layers, [dense(c)] * layers, PRE_NORMS), family="phi3", dialect="phi3")

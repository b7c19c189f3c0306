"""Other spellings of fields that many architectures share: a reader names what its files say instead."""

from __future__ import annotations

from collections.abc import Mapping

from narrows.models.fields import Fields

LAYERS = {
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "hidden_size": ("n_embd", "n_embed", "d_model"),
    "max_position_embeddings": ("n_positions", "seq_length", "max_seq_len", "max_sequence_length", "model_max_length"),
}
"""As GPT-2 and what was made from it spell them."""


def respell(c: Fields, names: Mapping[str, tuple[str, ...]]) -> None:
    """Give fields their usual names, where only another spelling (the first that is present) has a value."""
    found = {}
    for usual, others in names.items():
        c.read.update(others)
        if c.values.get(usual) is None:
            given = next((c.values[other] for other in others if c.values.get(other) is not None), None)
            if given is not None:
                found[usual] = given
    if found:
        c.values = {**c.values, **found}

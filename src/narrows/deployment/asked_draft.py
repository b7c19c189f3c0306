"""What drafts for a model, from what is asked of speculative decoding: its files are read here."""

from __future__ import annotations

from narrows.deployment.types import Draft
from narrows.engines.speculative import WEIGHTLESS, Speculative
from narrows.models import ModelSpec, load_model
from narrows.models.drafts import HEADS, draft_config, prediction_of, read_head
from narrows.text import BadInput, Text

_SEVERAL = 24
"""Tokens that suffix decoding drafts at most by itself (vLLM's suffix_decoding_max_tree_depth)."""


def draft_of(asked: Speculative, target: ModelSpec, *, online: bool = True) -> Draft:
    """The draft for `target`. online: the hub may be asked. Raises BadInput with what to give without its files."""
    if asked.method in WEIGHTLESS:
        return Draft(asked.method, _tokens(asked, _SEVERAL if asked.method == "suffix" else None), asked=asked.asked)
    if asked.method == "mtp" and asked.model is None:
        found = prediction_of(target)
        tokens, notes = _tokens(asked, len(found.layers)), found.notes
        if tokens % len(found.layers):
            notes += (
                Text(
                    "{tokens} tokens are no multiple of the {layers} prediction layers, which vLLM asks for",
                    tokens=tokens,
                    layers=len(found.layers),
                ),
            )
        return Draft("mtp", tokens, None, found.towers, found.layers, found.unquantized, 0, asked.asked, notes)
    if asked.model is None:
        raise BadInput(
            "speculative decoding by '{method}' needs the draft's name or path; give it as the model of the "
            "speculative config",
            method=asked.method,
        )
    if asked.method == "mtp":
        raise BadInput(
            "prediction layers in files of their own ('{name}') are not read yet; leave the model out of the "
            "speculative config to count those of the target's own file",
            name=asked.model[:60],
        )
    said: tuple[Text, ...] = ()
    if asked.method in HEADS:
        own = read_head(draft_config(asked.model, online=online), asked.method, target, asked.model)
        if asked.method != "medusa":
            said = (
                Text(
                    "the draft {name} is taken to hold no embedding of its own, or one like the target's, which is "
                    "then shared",
                    name=asked.model[:100],
                ),
            )
    else:
        own = load_model(asked.model, online=online)
        said = own.assumptions
    ranks = asked.tensor_parallel or 0
    return Draft(asked.method, _tokens(asked, None), own, tensor_parallel=ranks, asked=asked.asked, notes=said)


def _tokens(asked: Speculative, usual: int | None) -> int:
    if asked.tokens is not None:
        return asked.tokens
    if usual is None:
        raise BadInput(
            "the speculative config says not how many tokens are drafted; add num_speculative_tokens, such as 3"
        )
    return usual

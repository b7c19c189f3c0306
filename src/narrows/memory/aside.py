"""What an engine sets memory aside for before it serves, in the words of changes that make it less."""

from __future__ import annotations

from narrows.text import Text

LEAST_STEP = 2048
"""Tokens of a step, below which prefill reads the weights too often for its arithmetic: no smaller step is offered
(assumed; the default of most versions of vLLM on one device)."""


def fewer_sequences(number: int, usual: int) -> Text:
    """What it changes to run `number` sequences at once at most, in place of as many as usual."""
    if number == 1:
        return Text("sets memory aside for one sequence at a time, not {usual}", usual=usual)
    return Text("sets memory aside for {n} sequences at once, not {usual}", n=number, usual=usual)


def smaller_steps(tokens: int, usual: int) -> Text:
    """What steps of at most so many tokens change, in place of as many as usual."""
    return Text("sets memory aside for steps of {n} tokens, not {usual}; prefill takes more", n=tokens, usual=usual)

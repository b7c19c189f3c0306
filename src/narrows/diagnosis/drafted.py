"""What drafted, from how a log prints its speculative config."""

from __future__ import annotations

import re
from typing import Final

from narrows.deployment.types import Draft
from narrows.models import ModelSpec
from narrows.text import BadInput, Text

_FIELD: Final = re.compile(
    r"['\"]?(method|model|num_spec_tokens|num_speculative_tokens)['\"]?\s?[=:]\s?['\"]?([^'\",)}]+)"
)
"""`SpeculativeConfig(method='mtp', model='…', num_spec_tokens=2)`, or the argument's JSON as Python prints it."""


def draft_seen(written: str | None, model: ModelSpec | None, said: list[Text]) -> Draft | None:
    """The draft of a log; where nothing is known of it, that the prediction is without. The hub is not asked."""
    if model is None or written is None or written.strip().lower() == "none":
        return None
    from narrows.deployment.asked_draft import draft_of
    from narrows.engines.speculative import read_speculative

    found = {name: value.strip() for name, value in _FIELD.findall(written[:2000])}
    tokens = found.get("num_spec_tokens") or found.get("num_speculative_tokens") or ""
    method, draft = found.get("method"), found.get("model")
    if method is not None and method.endswith("mtp"):
        # the target's own file is named there too
        draft = None
    config = {
        "method": method,
        "model": draft,
        "num_speculative_tokens": int(tokens) if tokens.isascii() and tokens.isdigit() and len(tokens) < 5 else None,
    }
    try:
        return draft_of(read_speculative({name: one for name, one in config.items() if one}), model, online=False)
    except (BadInput, OSError, ValueError) as error:
        why = error.text if isinstance(error, BadInput) else Text("its files cannot be read")
        said.append(Text("something drafts for the model, and the prediction is without it: {why}", why=why))
        return None

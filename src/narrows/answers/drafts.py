"""What drafts for the model of a question, from its options or those of a pasted command."""

from __future__ import annotations

from typing import Any

from narrows.deployment.types import Draft
from narrows.models import ModelSpec

OLDER = ("speculative_model", "speculative_tokens", "speculative_ranks", "speculative_algorithm")
"""Options of flags that came before --speculative-config, and of SGLang's."""
_STEPS = 5
"""Steps of SGLang by itself for most models (auto_choose_speculative_params, Apache-2.0)."""


def with_draft(options: dict[str, Any], target: ModelSpec) -> Draft | None:
    """The draft for `target` that options of a question or a pasted command ask for; None where they ask for none.

    What asks for it is taken out of `options`. Raises BadInput for what cannot draft, or is not known.
    """
    config = options.pop("speculative_config", None)
    older = {name.removeprefix("speculative_"): options.pop(name, None) for name in OLDER}
    if config is None and older["model"] is None and older["algorithm"] is None:
        return None
    from narrows.deployment.asked_draft import draft_of
    from narrows.engines.speculative import read_speculative

    if older["algorithm"] is not None and older["tokens"] is None:
        older["tokens"] = _STEPS
    return draft_of(read_speculative(config if config is not None else "", **older), target)

"""The family that a class name tells where `model_type` is missing or not known: Qwen3MoeForCausalLM → qwen3_moe."""

from __future__ import annotations

import re
from typing import Any

from narrows.models.readers import FAMILIES

_SUFFIX = re.compile(r"(ForCausalLM|ForConditionalGeneration|LMHeadModel)$")


def family_of_class(architectures: Any) -> str | None:
    """The family whose transformers (or vLLM) class this is, if exactly one is named so."""
    name = architectures[0] if isinstance(architectures, list) and architectures else None
    if not isinstance(name, str) or not _SUFFIX.search(name[:100]):
        return None
    wanted = _bare(_SUFFIX.sub("", name))
    found = [family for family in FAMILIES if _bare(family) == wanted]
    return found[0] if len(found) == 1 else None


def _bare(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()

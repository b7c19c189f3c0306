"""Which part of a multimodal config says whether its head is the embedding."""

from __future__ import annotations

import re

from narrows.models.fields import Fields

_FIELD = "tie_word_embeddings"


def text_says(c: Fields) -> bool:
    """Whether the text part is asked: the top of the file is silent, and it says that transformers 4 wrote it.

    Until transformers 5 the decoder's own config counted, and the top left out what was never read; from 5 on the top
    counts, and is left out where it equals the class's default. So Mistral Small 3.1 (4.50) and InternVL3 (4.52), whose
    files hold a head of their own, name the field nowhere.
    """
    if c.values.get(_FIELD) is not None:
        return False
    written_by = c.values.get("transformers_version")
    major = re.match(r"(\d{1,4})\.", written_by) if isinstance(written_by, str) else None
    return major is not None and int(major[1]) < 5

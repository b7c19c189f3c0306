"""What a rule finds: the cause's id and sentence, and its mends in the order of what they cost."""

from __future__ import annotations

from typing import NamedTuple

from narrows.diagnosis.mends import Mend
from narrows.text import Text


class Found(NamedTuple):
    """A cause with its mends; None stands for a mend that did not hold."""

    id: str
    text: Text
    mends: list[Mend | None]

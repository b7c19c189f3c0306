"""A mend: one change to the command, and what it leads to — by prediction, or by the log's own arithmetic."""

from __future__ import annotations

from typing import Literal

import msgspec

from narrows.text import Text

Basis = Literal["prediction", "log", "none"]


class Mend(msgspec.Struct, frozen=True):
    """One change. command: the whole start command with it. change: the flags alone ("" where no flag changes).

    kv_tokens: tokens of KV cache then, as the engine would state them; None where nothing says. kv_bytes: bytes per
    device. basis: by what it is known to work: the prediction, the log's arithmetic, or nothing but the rule.
    """

    command: str
    change: str
    kv_tokens: int | None
    kv_bytes: int | None
    text: Text
    basis: Basis

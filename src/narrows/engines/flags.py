"""The flags of an engine as data, and which of them a spelling means."""

from __future__ import annotations

import os
from functools import cache
from typing import Literal

import msgspec

from narrows.text import BadInput


class Flag(msgspec.Struct, frozen=True):
    """One flag of an engine, or several that are read alike: spellings, the option it sets, how its value is read.

    option: empty where nothing follows from it here. memory: it changes memory in a way that is not modelled.
    """

    flags: tuple[str, ...]
    option: str
    kind: Literal["text", "count", "tokens", "share", "switch"]
    memory: bool = False


@cache
def flag_table(engine: str) -> dict[str, Flag]:
    """Spelling → flag."""
    path = os.path.join(os.path.dirname(__file__), "data", f"{engine}-flags.jsonl")
    with open(path, "rb") as file:
        rows = msgspec.json.Decoder(Flag).decode_lines(file.read())
    return {spelling: row for row in rows for spelling in row.flags}


def spelling_of(name: str) -> str:
    """`--max_model_len` and `--max-model-len` are the same flag."""
    return "--" + name[2:].replace("_", "-") if name.startswith("--") else name


def meant(engine: str, spelling: str) -> str:
    """The flag whose only beginning this is, as argparse reads it; the spelling itself where it begins none.

    Raises BadInput for a beginning of several, of which one bears on memory: the engine refuses it too. Engines whose
    flags are read by argparse take beginnings (vLLM, SGLang), in all versions.
    """
    table = flag_table(engine)
    if spelling in table or not spelling.startswith("--") or len(spelling) < _SHORTEST:
        return spelling
    found = sorted(one for one in table if one.startswith(spelling))
    rows = {table[one].flags if table[one].option else (one,) for one in found}
    if len(rows) > 1 and any(table[one].option or table[one].memory for one in found):
        # those that set something here come first: among them is the one that somebody asks about
        named, more = _as_many_as_a_line_holds(sorted(found, key=lambda one: (not table[one].option, one)))
        if not more:
            raise BadInput(
                "{flag} in the command is short for {flags}; write the one that is meant",
                flag=spelling[:60],
                flags=named,
            )
        raise BadInput(
            "{flag} in the command is short for {flags} and {more} more; write the one that is meant",
            flag=spelling[:60],
            flags=named,
            more=more,
        )
    return found[0] if len(rows) == 1 else spelling


_SHORTEST = 3
_ROOM = 230
"""Characters of names in a message, which shall stay readable."""


def _as_many_as_a_line_holds(names: list[str]) -> tuple[str, int]:
    """(the first names, how many are left out)."""
    shown = ""
    for count, name in enumerate(names):
        longer = f"{shown}, {name}" if shown else name
        if len(longer) > _ROOM:
            return shown, len(names) - count
        shown = longer
    return shown, 0

"""Regular expressions that come from a file: compiled only where matching a name is bound to end soon."""

from __future__ import annotations

import re
from collections import Counter
from math import comb

from narrows.text import BadInput

_CALL = 300
"""Steps that any match costs at least."""
_NAME = 60
"""A usual module name has about so many characters."""
_SAME = 8
"""And no letter more often than so."""

_PIECES = re.compile(
    r"(?P<letter>\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<open>\((?:\?(?:<?[=!]|[:>]|[aimsu]+\)))?)|(?P<close>\))"
    r"|(?P<repeat>(?:[*+?]|\{\d*,?\d*\})[?+]?)|(?P<other>\|)|.",
    re.DOTALL,
)
_UNREAD = re.compile(r"\\[1-9]|\(\?(?![:=!>]|<[=!]|[aimsu]+\))")
"""References to groups, conditions, comments and flags that change how the rest is read."""
_WILD = re.compile(r"[.\[(^$]|\\[A-Za-z0-9]|$")


def compiled(expression: str, entry: str) -> tuple[re.Pattern[str], int]:
    """The expression of an entry in a config; also the steps it may take on one name at worst.

    Many or nested repetitions, and choices in a part that repeats, could match for hours: they are refused. Raises
    BadInput.
    """
    repeats = len(re.findall(r"[*+{]|(?<![(*+}?])\?", expression))
    if len(expression) <= 300 and repeats <= 4 and expression.count("|") <= 64 and not _UNREAD.search(expression):
        ways = _ways(expression)
        try:
            if ways is not None:
                return re.compile(expression), _CALL + ways * _steps(expression)
        except (re.error, OverflowError, RecursionError):
            pass
    raise BadInput(
        "quantization_config excludes modules by '{entry}', which narrows does not evaluate; name the modules instead",
        entry=entry[:80],
    )


def _steps(expression: str) -> int:
    """Steps of backtracking on a usual name at worst: every way to share its letters out to the repetitions.

    A star before a letter can stop only where that letter stands, and a star at the end need not stop.
    """
    core = re.sub(r"(\.[*+])?(\(\\\.\|\$\)|\$)?$", "", expression)
    repeats = len(re.findall(r"[*+{]|(?<![(*+}?])\?", core))
    stopped = len(re.findall(r"\.[*+]\??(?:\(\?:|\()*(?:[A-Za-z0-9_]|\\[.d])", core))
    ways = _SAME if stopped == repeats else _NAME
    return _NAME * comb(ways, max(repeats - 1, 0)) if repeats else 1


def _ways(expression: str) -> int | None:
    """In how many ways its alternatives can meet the same letters at worst; None where a part with a choice repeats.

    Alternatives that begin with different letters exclude each other.
    """
    ways = 1
    groups: list[tuple[bool, list[str]]] = [(False, [])]
    choices = [False]
    repeatable = False  # what stands before has a choice within
    begins = [0]
    for piece in _PIECES.finditer(expression):
        kind, text, closed = piece.lastgroup, piece.group(), False
        if kind == "open" and not text.endswith(")"):
            groups.append((text in ("(?=", "(?!", "(?<=", "(?<!"), []))
            choices.append(False)
            begins.append(piece.end())
        elif kind == "close" and len(groups) > 1:
            looks, heads = groups.pop()
            ways *= _alike([*heads, expression[begins.pop() : piece.start()]]) if heads else 1
            closed = choices.pop()
            choices[-1] = choices[-1] or (closed and not looks)
        elif kind == "repeat":
            if repeatable and not text.startswith("?"):
                return None
            choices[-1] = True
        elif kind == "other":
            groups[-1][1].append(expression[begins[-1] : piece.start()])
            begins[-1] = piece.end()
            choices[-1] = True
        repeatable = closed
    heads = groups[0][1]
    return ways * (_alike([*heads, expression[begins[0] :]]) if heads else 1)


def _alike(alternatives: list[str]) -> int:
    """How many alternatives may meet the same letter at worst."""
    heads = [re.match(r"\\?.|", one, re.DOTALL) for one in alternatives]
    found = Counter(head.group().lower() for head in heads if head is not None)
    wild = sum(count for head, count in found.items() if _WILD.match(head))
    return wild + max((count for head, count in found.items() if not _WILD.match(head)), default=0)

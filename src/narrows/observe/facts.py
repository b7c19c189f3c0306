"""The vocabulary of engines' logs: which line says what, as data in `vocabulary/*.json`.

A fact is a pattern with fields in it: `Model loading took {weights:GiB} GiB`. `{name:unit}` stands for a value; the
unit says how it is written and what it becomes (bytes, seconds, plain numbers); `{name__2:unit}` is added to it.
Names are fields of `Terms`, `Settings`, `OutOfMemory` (with `oom_`), `Serving` (with `serving_`) or `Observation`;
`seconds` belongs to the step of the timeline that the fact names, `place` is the rank of the process that writes.
Wording that changed is a fact with its versions.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any, Final, Literal

import msgspec

from narrows.units import GB, GIB, KIB, MB, MIB

Mode = Literal["set", "weak", "min", "max", "sum"]


class Fact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One wording. `needle` is a literal that every such line holds: it finds the line, the pattern reads it."""

    name: str
    needle: str
    pattern: str
    source: str
    since: str | None = None
    """The lowest version the wording was seen in; it may be older."""
    until: str | None = None
    """The highest version it was seen in, where a later one words it differently."""
    mode: Mode = "set"
    """A field that was already read: set replaces, weak keeps, min and max compare, sum adds (within one context)."""
    marks: bool = True
    """Whether the line alone tells which engine wrote it."""
    begins: Literal["server", "engine", "context", "draft"] | None = None
    """A start, or within one: another llama.cpp context, SGLang's pools of the draft model after the target's."""
    dump: dict[str, str] | None = None
    """For a dump of arguments (group `dump`): its names → fields of `Settings` or `Observation`."""
    command: bool = False
    """Whether the dump is the user's own arguments: kept whole, so that the command can be given back."""
    weight: int = 0
    """Among dumps that disagree the heavier one wins: resolved configuration over arguments."""
    step: str | None = None
    nested: bool = False
    phase: str | None = None
    """What the engine does after this line."""
    frame: bool = False
    """A frame of a traceback: it places a failure, it is no progress."""
    fails: str | None = None
    """The start failed: at this stage, or with `phase` at the one the log had reached."""
    cause: int = 0
    """How specific the failing line is; the first of the most specific ones is the deciding line."""
    late: bool = False
    """Whether a server that stands can still say it: looked for to the end of the log."""
    ready: bool = False
    stops: bool = False
    """The operator stops the engine: errors after it are no failures."""
    device: bool = False
    """Group `rank` names the device whose bytes these are."""


class Vocabulary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of one engine. The engine `any` holds what several engines print (torch's errors)."""

    engine: str
    facts: tuple[Fact, ...]


class Compiled(msgspec.Struct, frozen=True, eq=False):
    """A fact with its compiled pattern and the unit of each group."""

    engine: str
    fact: Fact
    needle: bytes
    find: re.Pattern[str]
    units: dict[str, str]


_NUMBER: Final = r"-?\d[\d,]{0,20}(?:\.\d{1,12})?"
_WRITTEN: Final = {
    "GiB": _NUMBER,
    "MiB": _NUMBER,
    "B": r"\d{1,20}",
    "size": _NUMBER,
    "int": r"-?\d[\d,]{0,14}",
    "float": _NUMBER,
    "percent": _NUMBER,
    "s": _NUMBER,
    "ms": _NUMBER,
    "clock": r"(?:\d{1,3}:)?\d{1,3}:\d\d",
    "word": r"[^\s,;'\"()]{1,200}",
    "path": r"[^\n'\"]{1,300}?",
    "text": r"[^\n]{1,300}?",
}
_SIZES: Final = {"GiB": GIB, "MiB": MIB, "KiB": KIB, "GB": GB, "MB": MB, "bytes": 1, "byte": 1}
_FIELD: Final = re.compile(r"\{(\w+):(\w+)\}")
FILES: Final = ("any", "vllm", "sglang", "llamacpp", "tensorrt")


@cache
def vocabulary() -> tuple[Compiled, ...]:
    """All facts, compiled."""
    folder = resources.files("narrows.observe") / "vocabulary"
    found: list[Compiled] = []
    for name in FILES:
        words = msgspec.json.decode((folder / f"{name}.json").read_bytes(), type=Vocabulary)
        found += (_compiled(words.engine, fact) for fact in words.facts)
    return tuple(found)


def _compiled(engine: str, fact: Fact) -> Compiled:
    units: dict[str, str] = {}

    def group(match: re.Match[str]) -> str:
        name, unit = match[1], match[2]
        units[name] = unit
        suffix = rf" ?(?P<{name}_unit>GiB|MiB|KiB|GB|MB|bytes?)\b" if unit == "size" else ""
        return f"(?P<{name}>{_WRITTEN[unit]}){suffix}"

    pattern = _FIELD.sub(group, fact.pattern)
    return Compiled(engine, fact, fact.needle.encode(), re.compile(pattern), units)


def values(found: Compiled, match: re.Match[str]) -> dict[str, Any]:
    """The values of a matching line in plain units: bytes as int, seconds and numbers, strings as printed."""
    result: dict[str, Any] = {}
    for name, unit in found.units.items():
        written = match[name]
        if written is not None:
            value = _plain(written, unit, match[f"{name}_unit"] if unit == "size" else "")
            base, _, second = name.partition("__")
            result[base] = result[base] + value if second else value
    return result


def _plain(written: str, unit: str, size: str) -> Any:
    if unit in ("word", "path", "text"):
        return written.strip()
    if unit == "clock":
        seconds = 0
        for part in written.split(":"):
            seconds = seconds * 60 + int(part)
        return float(seconds)
    digits = written.replace(",", "")
    if unit in ("int", "B"):
        return int(digits)
    if unit in ("GiB", "MiB", "size"):
        return round(float(digits) * _SIZES[size or unit])
    return float(digits) * {"percent": 0.01, "ms": 0.001}.get(unit, 1.0)

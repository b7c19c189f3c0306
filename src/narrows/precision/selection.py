"""Which modules a quantization leaves out, or treats otherwise: patterns as checkpoints list them."""

from __future__ import annotations

import re
from functools import cached_property

import msgspec

from narrows.precision.schemes import Scheme
from narrows.text import BadInput

_STEPS = 150_000
"""Steps that matching one name against all expressions may take at worst; configs seen need some hundreds."""
_WRAPPERS = frozenset({"model", "language_model", "text_model"})
"""Words before a decoder's layers that one tool writes and the next leaves out."""


def bare(pieces: list[str]) -> list[str]:
    """A path without the words that stand before a decoder in some files only."""
    begin = 0
    while begin < len(pieces) - 1 and pieces[begin] in _WRAPPERS:
        begin += 1
    return pieces[begin:]


class Patterns(msgspec.Struct, frozen=True, dict=True):
    """Module names as a checkpoint's config lists them, and which of them meets a module first.

    An entry names a module (`model.layers.0.mlp.gate`) or the end of its path (`mlp.gate`) and covers what lies below
    a whole path; `*` matches anything, and `re:` begins a regular expression. An entry without a dot (`lm_head`)
    matches that name anywhere in the path.
    """

    entries: tuple[str, ...] = ()

    @cached_property
    def _compiled(
        self,
    ) -> tuple[dict[str, int], dict[str, int], dict[str, int], dict[str, int], tuple[tuple[int, re.Pattern[str]], ...]]:
        # most configs name modules without expressions, or none at all
        from narrows.precision.expressions import compiled

        literal: dict[str, int] = {}
        tails: dict[str, int] = {}
        single: dict[str, int] = {}
        starts: dict[str, int] = {}
        patterns, steps = [], 0
        for number, entry in enumerate(self.entries):
            plain = entry.rstrip(".")
            if entry.startswith("re:"):
                made, cost = compiled(entry[3:], entry)
            elif "*" not in entry:
                if "." in plain:
                    pieces = plain.split(".")
                    literal.setdefault(".".join(bare(pieces)), number)
                    if pieces[0] not in _WRAPPERS:
                        tails.setdefault(plain, number)
                else:
                    single.setdefault(plain, number)
                continue
            elif entry.index("*") == len(entry) - 1 and "." in entry:
                # the usual form by far: everything that begins so
                starts.setdefault(".".join(bare(entry[:-1].split("."))), number)
                continue
            else:
                made, cost = compiled(re.escape(entry).replace(r"\*", ".*") + r"(\.|$)", entry)
            steps += cost
            if steps > _STEPS:
                raise BadInput(
                    "quantization_config names modules by too many expressions for narrows to evaluate; name the "
                    "modules instead"
                )
            patterns.append((number, made))
        return literal, tails, single, starts, tuple(patterns)

    @cached_property
    def single_expert(self) -> str | None:
        """An entry that may name one expert of several."""
        return next((entry for entry in self.entries if re.search(r"experts\\?\.(\d|\\d|\(|\[)", entry)), None)

    def first(self, module: str) -> int | None:
        """The number of the first entry that meets `module` (e.g. `model.layers.3.self_attn.q_proj`)."""
        literal, tails, single, starts, patterns = self._compiled
        pieces = module.split(".")
        found = []
        if single:
            found += [single[piece] for piece in pieces if piece in single]
        inner = bare(pieces) if literal or starts else pieces
        begins, ends = self._counts
        for count in begins:
            if count <= len(inner) and (path := ".".join(inner[:count])) in literal:
                found.append(literal[path])
        for count in ends:
            if count <= len(pieces) and (path := ".".join(pieces[-count:])) in tails:
                found.append(tails[path])
        if starts:
            name = ".".join(inner)
            found += [starts[name[:end]] for end in self._lengths if name[:end] in starts]
        if patterns:
            decoder = ".".join(bare(pieces))
            # tools differ in the words before a name, and an expression is held to its beginning
            spellings = dict.fromkeys((module, decoder, "model." + decoder))
            if self._any is not None and not any(self._any.match(name) for name in spellings):
                patterns = ()
        for number, pattern in patterns:
            if (not found or number < min(found)) and any(pattern.match(name) for name in spellings):
                found.append(number)
        return min(found, default=None)

    @cached_property
    def _any(self) -> re.Pattern[str] | None:
        """All expressions in one, which tells much sooner that none meets a name."""
        try:
            return re.compile("|".join(f"(?:{pattern.pattern})" for _, pattern in self._compiled[4]))
        except re.error:
            return None

    @cached_property
    def _counts(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """How many pieces the paths and the ends of paths have: no others need be looked up."""
        literal, tails = self._compiled[:2]
        begins, ends = ({path.count(".") + 1 for path in paths} for paths in (literal, tails))
        return tuple(begins), tuple(ends)

    @cached_property
    def _lengths(self) -> tuple[int, ...]:
        return tuple({len(start) for start in self._compiled[3]})


class Exclusions(Patterns, frozen=True, dict=True):
    """The modules a checkpoint leaves unquantized, as its config lists them."""

    def cover(self, module: str) -> bool:
        """Whether `module` is left unquantized."""
        return self.first(module) is not None


class Overrides(msgspec.Struct, frozen=True, dict=True):
    """Schemes of modules that differ from the rest: the first pattern that meets a module decides."""

    patterns: Patterns = Patterns()
    schemes: tuple[Scheme, ...] = ()

    def of(self, module: str) -> Scheme | None:
        """The scheme of `module`, or None where it is as the rest."""
        number = self.patterns.first(module) if self.schemes else None
        return None if number is None else self.schemes[number]


def overrides(rules: list[tuple[str, Scheme]]) -> Overrides:
    """Rules in order: (entry, scheme)."""
    return Overrides(Patterns(tuple(entry for entry, _ in rules)), tuple(scheme for _, scheme in rules))

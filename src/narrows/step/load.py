"""What of a batch the operators ask for: rows, and keys and pairs under each law of sight.

All of it is plain arithmetic without branches on sizes, so that the fields of a batch may be arrays too: a whole
sweep then goes through the same formulas. numpy is not imported here.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from narrows.step.batch import Batch, Chunk
from narrows.step.operators import Phase

MOST_DRAFTED = 8
"""New tokens after cached ones up to which engines run a sequence as a decode: a draft that is verified."""

Rows = Literal["tokens", "sampled", "prefill", "decode", "prefill_keys", "keys", "encoder", "started"]
"""tokens: new ones. sampled: rows of the head. prefill, decode: new tokens of the phase. prefill_keys, keys: cached
and new tokens of prefills, of all. encoder: tokens of the encoders that run. started: sequences that begin."""


class Sight(NamedTuple):
    """Which keys a query sees.

    window: the nearest ones, itself included (0: all); chunked: the window begins anew when it is full. top: at most
    so many, chosen by an indexer (0: all). every: tokens that make one key (a compressed entry). before: learned keys
    that every query sees. both_ways: keys after the query too. encoder: keys are the encoder's; fixed: so many of them
    (0: as many as the sequence has tokens).
    """

    window: int = 0
    chunked: bool = False
    top: int = 0
    every: int = 1
    before: int = 0
    both_ways: bool = False
    encoder: bool = False
    fixed: int = 0


class Seen(NamedTuple):
    """Of one phase: sequences, queries, keys in sight of any query, pairs of both."""

    sequences: Any
    queries: Any
    keys: Any
    pairs: Any


def least(a: Any, b: Any) -> Any:
    """The smaller one, of numbers or arrays of whole numbers."""
    if isinstance(a, int) and isinstance(b, int):
        return a if a < b else b
    return (a + b - abs(a - b)) // 2


def most(a: Any, b: Any) -> Any:
    """The larger one."""
    return a + b - least(a, b)


def _always(condition: Any) -> bool:
    return condition if isinstance(condition, bool) else bool(condition.all())


def phase_of(chunk: Chunk) -> Phase:
    """Decode: one token, or a few after cached ones (a verified draft). What an encoder reads first is a prompt."""
    if _always(chunk.encoder > 0) and started(chunk):
        return "prefill"
    if _always(chunk.new == 1):
        return "decode"
    return "decode" if _always(chunk.new <= MOST_DRAFTED) and _always(chunk.past > 0) else "prefill"


def started(chunk: Chunk) -> bool:
    """Whether these sequences begin, so that what an encoder reads is read now."""
    return _always(chunk.past == 0)


def _sum_up_to(x: Any, limit: int) -> Any:
    """Σ min(i, limit) for i = 1 … x."""
    low = least(x, limit)
    return low * (low + 1) // 2 + limit * (x - low)


def _entries_up_to(x: Any, every: int, top: int) -> Any:
    """Σ min(⌊i / every⌋, top) for i = 1 … x; top 0: no limit."""
    low = least(x, every * top - 1) if top else x
    full = low // every
    found = every * full * (full - 1) // 2 + full * (low - every * full + 1)
    return found + top * (x - low) if top else found


def _chunks_up_to(x: Any, chunk: int) -> Any:
    """Σ (i mod chunk + 1) for i = 0 … x − 1."""
    rest = x % chunk
    return x // chunk * (chunk * (chunk + 1) // 2) + rest * (rest + 1) // 2


def _pairs(sight: Sight, new: Any, past: Any, encoder: Any = 0) -> Any:
    """Pairs of one sequence. Query i of `new` sees min(past + i, limit) keys; encoder: as in `Chunk`."""
    end = past + new
    if sight.both_ways:
        return new * end
    if sight.encoder:
        return new * (sight.fixed or encoder or end)
    if sight.every > 1:
        return _entries_up_to(end, sight.every, sight.top) - _entries_up_to(past, sight.every, sight.top)
    limit = min([n for n in (sight.window, sight.top) if n], default=0)
    if sight.chunked:
        return _chunks_up_to(end, limit) - _chunks_up_to(past, limit)
    beside = new * sight.before
    if not limit:
        return beside + new * past + new * (new + 1) // 2
    return beside + _sum_up_to(end, limit) - _sum_up_to(past, limit)


def _keys(sight: Sight, new: Any, past: Any, encoder: Any = 0) -> Any:
    """Keys that any query of one sequence sees."""
    if sight.encoder:
        return sight.fixed or encoder or past + new
    if sight.every > 1:
        entries = (past + new) // sight.every
        return least(entries, sight.top * new) if sight.top else entries
    if sight.chunked:
        return past % sight.window + new
    if sight.window:
        return least(past, sight.window - 1) + new + sight.before
    if sight.top:
        return least(past + new, sight.top * new)
    return past + new + sight.before


class Load:
    """One batch, as operators see it; sums over equal laws are made once."""

    __slots__ = ("_rows", "_seen", "chunks")

    def __init__(self, batch: Batch) -> None:
        self.chunks = tuple((phase_of(chunk), chunk) for chunk in batch.chunks)
        self._seen: dict[tuple[Phase, Sight], Seen | None] = {}
        self._rows: dict[tuple[Rows, int], Any] = {}

    def rows(self, which: Rows, fixed: int = 0) -> Any:
        """Rows of an operator; fixed: tokens that an encoder always reads."""
        key = (which, fixed)
        if key not in self._rows:
            self._rows[key] = sum(self._of(which, fixed, phase, chunk) for phase, chunk in self.chunks)
        return self._rows[key]

    @staticmethod
    def _of(which: Rows, fixed: int, phase: Phase, chunk: Chunk) -> Any:
        tokens = chunk.count * chunk.new
        if which == "tokens":
            return tokens
        if which == "sampled":
            return chunk.count if chunk.sampled else 0
        if which in ("prefill", "decode"):
            return tokens if phase == which else 0
        if which == "keys":
            return chunk.count * (chunk.past + chunk.new)
        if which == "prefill_keys":
            return chunk.count * (chunk.past + chunk.new) if phase == "prefill" else 0
        if not started(chunk):
            return 0
        return chunk.count if which == "started" else chunk.count * (fixed or chunk.encoder or chunk.new)

    def seen(self, phase: Phase, sight: Sight) -> Seen | None:
        """Of all sequences in a phase; None where there are none."""
        key = (phase, sight)
        if key not in self._seen:
            mine = [chunk for own, chunk in self.chunks if own == phase]
            if sight.encoder and sight.both_ways:
                mine = [Chunk(c.count, sight.fixed or c.encoder or c.new) for c in mine if started(c)]
            self._seen[key] = (
                Seen(
                    sum(chunk.count for chunk in mine),
                    sum(chunk.count * chunk.new for chunk in mine),
                    sum(chunk.count * _keys(sight, chunk.new, chunk.past, chunk.encoder) for chunk in mine),
                    sum(chunk.count * _pairs(sight, chunk.new, chunk.past, chunk.encoder) for chunk in mine),
                )
                if mine
                else None
            )
        return self._seen[key]

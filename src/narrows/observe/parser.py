"""A log, streamed: one Observation per start of an engine, in the order of the file.

Almost every line of a serving log is of no interest. Each block is searched for the needles of the
facts with `bytes.find`; only lines that hold one are decoded and matched.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from narrows.observe.crash_loop import Skim
from narrows.observe.facts import Compiled, vocabulary
from narrows.observe.lines import LONGEST, Block, blocks, clean
from narrows.observe.observation import Observation
from narrows.observe.start import Start
from narrows.text import BadInput

LIMIT: Final = 8 * 2**30
"""Bytes read of one log at most."""
UNKNOWN_AFTER: Final = 128 * 2**20
"""A stream that has not named an engine by then is no engine's log."""
MOST_STARTS: Final = 200
"""Of a crash loop the last starts are kept."""
READ_STARTS: Final = 50
"""After so many the log is a crash loop, and the starts that follow are skimmed."""
MOST_HITS: Final = 4000
"""A message that one start repeats more often is read once per block only, at its last place."""


def observe(stream: BinaryIO, *, limit_bytes: int = LIMIT) -> list[Observation]:
    """Every start in the stream, at least one Observation; the last one is the one of interest.

    Never raises on contents. A stream that holds nothing of an engine gives one Observation with engine None and
    outcome `unknown`. Memory is bounded by the size of a block and the number of starts kept.
    """
    reader = _Reader()
    size = 0
    for block in blocks(stream, limit_bytes):
        size += len(block.data)
        reader.read(block)
        if size > UNKNOWN_AFTER and not reader.known:
            break
    return reader.finish(complete=size < (limit_bytes if reader.known else min(limit_bytes, UNKNOWN_AFTER)))


def observe_path(path: str | Path) -> list[Observation]:
    """`observe` of a file. Raises BadInput if it cannot be read or is empty."""
    try:
        with open(path, "rb") as stream:
            if not stream.peek(1):
                raise BadInput("{path} is empty; give the engine's log from its first line on", path=str(path))
            return observe(stream)
    except OSError as error:
        if str(path).lower().startswith(("http://", "https://")):
            raise BadInput(
                "{path} is an address, and only logs are read; give the file of the engine's log, or pipe it in: "
                "kubectl logs POD | narrows check -",
                path=str(path)[:100],
            ) from None
        raise BadInput(
            "{path} cannot be read ({reason}); give the file of an engine's log, or - for standard input",
            path=str(path),
            reason=error.strerror or "unknown error",
        ) from None


class _Reader:
    """The starts so far and the needles worth searching for now."""

    def __init__(self) -> None:
        self.facts = vocabulary()
        self.sets: dict[tuple[str | None, bool], dict[bytes, tuple[Compiled, ...]]] = {}
        self.done: list[Start] = []
        self.start = Start(1)
        self.dropped = 0
        self.hits: dict[bytes, int] = {}
        self.active: dict[bytes, tuple[Compiled, ...]] = {}
        self.skim: Skim | None = None
        self._choose()

    @property
    def known(self) -> bool:
        """Whether an engine has shown itself."""
        return bool(self.start.engine or self.done)

    def _choose(self) -> bool:
        """Picks the facts for the engine and the phase, by needle; whether there are more than before."""
        settled = self.start.ready and bool(self.start.ledger.ranks) and self.start.phase == "under load"
        mode = (self.start.engine, settled)
        if mode not in self.sets:
            self.sets[mode] = _by_needle(found for found in self.facts if _wanted(found, *mode))
        before, self.active = self.active, self.sets[mode]
        return before is not self.active and not self.active.keys() <= before.keys()

    def read(self, block: Block) -> None:
        """One block: skimmed in a crash loop, else read."""
        if self.skim is None:
            self._read(block)
        elif not self.skim.feed(block):
            self._catch_up()

    def _catch_up(self) -> None:
        """Reads the starts that a crash loop left unread."""
        assert self.skim is not None
        skim, self.skim = self.skim, None
        left = skim.starts()
        if skim.forgotten:
            # of all starts the last ones are kept, without a gap
            self.dropped += len(self.done) + skim.forgotten
            self.done.clear()
        for block in left:
            self._read(block, skimming=False)

    def _read(self, block: Block, *, skimming: bool = True) -> None:
        """Searches a block, and again from where more facts become of interest."""
        data, position, line = block.data, 0, block.first_line
        again = True
        while again:
            again = False
            counted = position
            for begin, (end, needles) in self._candidates(data, position):
                line += data.count(b"\n", counted, begin)
                counted = begin
                needle = self._line(data[begin : min(end, begin + LONGEST)], line, needles)
                if needle and skimming and len(self.done) + self.dropped >= READ_STARTS:
                    # this start is skimmed from its first line on
                    self.start, self.skim = Start(line), Skim(needle)
                    self._choose()
                    self.skim.feed(Block(data[begin:], line))
                    return
                if self._choose():
                    line += data.count(b"\n", begin, end)
                    position, again = end, True
                    break

    def _candidates(self, data: bytes, position: int) -> list[tuple[int, tuple[int, list[bytes]]]]:
        """Begin of each line that holds a needle, its end and its needles."""
        lines: dict[int, tuple[int, list[bytes]]] = {}
        hits = self.hits
        for needle in self.active:
            often = hits.get(needle, 0) >= MOST_HITS
            at = data.rfind(needle, position) if often else data.find(needle, position)
            while at >= 0:
                begin = data.rfind(b"\n", position, at) + 1 or position
                known = lines.get(begin)
                if known is None:
                    known = lines[begin] = (data.find(b"\n", at) + 1 or len(data), [])
                known[1].append(needle)
                at = -1 if often else data.find(needle, known[0])
        return sorted(lines.items())

    def _line(self, raw: bytes, number: int, needles: list[bytes]) -> bytes | None:
        """Reads one line; the needle of a banner that began another start."""
        began = None
        for needle in needles:
            self.hits[needle] = self.hits.get(needle, 0) + 1
        facts = [found for needle in needles for found in self.active.get(needle, ())]
        for line in clean(raw, number):
            for found in facts:
                if found.fact.needle in line.text and (match := found.find.search(line.text)):
                    if found.fact.begins and self.start.begins_anew(found.fact, line):
                        self._next(line.number)
                        began = found.needle if self._delimits(found) else None
                    self.start.take(found, match, line)
        return began

    def _delimits(self, found: Compiled) -> bool:
        """Whether every start so far had this banner once: then it alone tells where one begins."""
        return found.fact.begins == "server" or all(len(one.inits) == 1 for one in self.done)

    def _next(self, line: int) -> None:
        self.done.append(self.start)
        self.dropped += max(0, len(self.done) - MOST_STARTS)
        del self.done[:-MOST_STARTS]
        self.start, self.hits = Start(line), {}

    def finish(self, complete: bool) -> list[Observation]:
        """What all starts said."""
        if self.skim is not None:
            self._catch_up()
        last = self.start.observation(complete)
        return [
            *(one.observation(complete=True) for one in self.done),
            msgspec.structs.replace(last, earlier_starts=self.dropped),
        ]


def _by_needle(facts: Iterable[Compiled]) -> dict[bytes, tuple[Compiled, ...]]:
    by_needle: dict[bytes, tuple[Compiled, ...]] = {}
    for found in facts:
        by_needle[found.needle] = (*by_needle.get(found.needle, ()), found)
    return by_needle


def _wanted(found: Compiled, engine: str | None, settled: bool) -> bool:
    """An engine's own facts once it is known; of a settled server only what can still change."""
    fact = found.fact
    if fact.begins in ("server", "engine"):
        return True
    if engine is not None and found.engine not in ("any", engine):
        return False
    if not settled:
        return True
    return bool(fact.fails or fact.stops or fact.late)

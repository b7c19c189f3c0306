"""A crash loop, skimmed: of starts that follow each other by the hundred, only the last are worth reading.

What begins a start is one needle, the one that began those before. Everything up to its next occurrence is kept as
bytes and forgotten again when enough later starts have followed.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from narrows.observe.lines import Block

KEPT: Final = 201
"""Starts kept unread, which are read when the log ends,"""
MOST_BYTES: Final = 32 * 2**20
"""or fewer, if they are longer than this together."""
LARGEST: Final = 4 * 2**20
"""Bytes of a start that is still skimmed. A longer one has begun to serve, and is read as it comes."""


class Skim:
    """The starts that were not read: how many are forgotten, and the bytes of those that are not."""

    def __init__(self, needle: bytes) -> None:
        self.needle = needle
        self.forgotten = 0
        self._kept: deque[Block] = deque()
        self._pieces: list[bytes] = []
        self._size = 0
        self._held = 0
        self._first_line = 0

    def feed(self, block: Block) -> bool:
        """Takes a block; False once the present start has become too long to skim."""
        data, line, position = block.data, block.first_line, 0
        at = data.find(self.needle)
        while at >= 0:
            begin = data.rfind(b"\n", position, at) + 1 or position
            line += data.count(b"\n", position, begin)
            self._append(data[position:begin])
            self._cut(line)
            end = data.find(b"\n", at) + 1 or len(data)
            self._append(data[begin:end])
            line += data.count(b"\n", begin, end)
            position = end
            at = data.find(self.needle, position)
        self._append(data[position:])
        return self._size <= LARGEST

    def _append(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self._size += len(piece)

    def _cut(self, line: int) -> None:
        """The present start ends before this line."""
        if self._pieces:
            self._kept.append(Block(b"".join(self._pieces), self._first_line))
            self._held += self._size
            while len(self._kept) > KEPT or self._held > MOST_BYTES:
                self._held -= len(self._kept.popleft().data)
                self.forgotten += 1
        self._pieces, self._size, self._first_line = [], 0, line

    def starts(self) -> list[Block]:
        """The bytes of the starts that are left, the present one last."""
        self._cut(0)
        return list(self._kept)

"""A bounded walk through the header of a GGUF file: reads what it is asked for, skips what it is not, keeps nothing.

Every length that the file states is held against the bytes the file has left before anything is read, so that a
header that claims 8 EB of strings costs as little as one that is right.
"""

from __future__ import annotations

import os
from contextlib import suppress
from struct import Struct
from typing import BinaryIO, NoReturn

from narrows.models.paths import short
from narrows.text import BadInput, Text

CHUNK = 2**18
"""Bytes read at once; the only buffer there is."""


class Cursor:
    """A position in a file of `size` bytes. Fixed-size values are little-endian until `big_endian` is set."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self.file = file
        self.path = path
        self.size = os.fstat(file.fileno()).st_size
        self.order = "<"
        self._u32, self._u64 = Struct("<I"), Struct("<Q")
        self._buffer = b""
        self._begin = 0
        self._at = 0

    def big_endian(self) -> None:
        """Read everything from here on the other way round."""
        self.order = ">"
        self._u32, self._u64 = Struct(">I"), Struct(">Q")

    @property
    def offset(self) -> int:
        """Bytes from the beginning of the file."""
        return self._begin + self._at

    @property
    def left(self) -> int:
        """Bytes from here to the end of the file."""
        return self.size - self.offset

    def refuse(self, reason: Text, at: int | None = None) -> NoReturn:
        """One sentence that names the file, the byte and what is wrong there."""
        raise refusal(self.path, self.offset if at is None else at, reason)

    def need(self, count: int, what: Text) -> None:
        """Refuse unless `count` more bytes are in the file; `what` names the thing that should be there."""
        if count > self.left:
            self.refuse(
                Text(
                    "{what} needs {count} bytes, and the file has {left} left; it is incomplete or damaged",
                    what=what,
                    count=count if count < 10**30 else 10**30,
                    left=max(0, self.left),
                )
            )

    def _fill(self, count: int) -> None:
        """Have `count` bytes in the buffer at this position."""
        if len(self._buffer) - self._at >= count:
            return
        offset = self.offset
        self.file.seek(offset)
        self._buffer, self._begin, self._at = self.file.read(max(CHUNK, count)), offset, 0
        if len(self._buffer) < count:
            self.refuse(Text("the file ends while it is read"))

    def take(self, count: int, what: Text) -> bytes:
        """The next `count` bytes."""
        self.need(count, what)
        self._fill(count)
        found = self._buffer[self._at : self._at + count]
        self._at += count
        return found

    def u32(self, what: Text) -> int:
        """A 32-bit count or type."""
        found: int = self._u32.unpack(self.take(4, what))[0]
        return found

    def u64(self, what: Text) -> int:
        """A 64-bit count or length."""
        found: int = self._u64.unpack(self.take(8, what))[0]
        return found

    def skip(self, count: int, what: Text) -> None:
        """Pass over `count` bytes without reading them."""
        self.need(count, what)
        self._at += count
        if self._at > len(self._buffer):
            self._buffer, self._begin, self._at = b"", self._begin + self._at, 0

    def name(self, what: Text, most: int) -> str:
        """A string of at most `most` bytes, which must be UTF-8."""
        at = self.offset
        length = self.u64(what)
        self.need(length, what)
        if length > most:
            self.refuse(Text("{what} is {length} bytes long, more than any real one", what=what, length=length), at)
        raw = self.take(length, what)
        with suppress(UnicodeDecodeError):
            return raw.decode()
        self.refuse(Text("{what} is not UTF-8 text", what=what), at)

    def skip_strings(self, count: int, what: Text) -> None:
        """Pass over `count` strings: a tokenizer has hundreds of thousands, so this loop is as short as can be."""
        unpack = self._u64.unpack_from
        while count:
            self.need(8, what)
            self._fill(8)
            buffer, at = self._buffer, self._at
            last = len(buffer) - 8
            while count and at <= last:
                at += 8 + unpack(buffer, at)[0]
                count -= 1
            # the last string may reach beyond the buffer, or beyond the file
            here, self._at = self._at, min(at, len(buffer))
            if at > len(buffer):
                self._at = here
                self.skip(at - here, what)


def refusal(path: str, offset: int, reason: Text) -> BadInput:
    """The one way a GGUF file is refused."""
    return BadInput(
        "'{path}' is not a GGUF file that narrows can read: at byte {offset}, {reason}",
        path=short(path),
        offset=offset,
        reason=reason,
    )

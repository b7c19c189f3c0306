"""The beginning of a large file over HTTP: a range request, and no more than the header of whatever comes back.

Redirects are followed by hand, so that a token goes to the hub and nowhere else. A server that ignores the range sends
the file from its first byte: the connection is closed when the header is in.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

from narrows.models.hub_guard import NotAHub, TooLarge, origin, refusal_of, transport_error
from narrows.models.hub_refusals import Unreachable
from narrows.models.stored.safetensors import LENGTH, header_length
from narrows.text import Text

MOST_REDIRECTS = 6
MOST_WAIT = 10.0
"""Seconds without a byte before a connection is left."""
_FIRST = 32 * 1024
"""Bytes asked for while nothing tells how long headers are; then a little more than the longest one so far."""


_Chunk = tuple[int | None, bytes, bool]
"""(size of the whole file, bytes of it, whether the server sends no more than was asked for)."""


class Ranges:
    """Requests to one hub within one time limit and one limit of bytes. Used by several threads.

    end: of `time.monotonic`, for everything. most: bytes of all headers together. headers: the client's own, with the
    token if there is one.
    """

    def __init__(self, endpoint: str, headers: dict[str, str], end: float, most: int) -> None:
        from huggingface_hub import get_session

        self.origin = origin(endpoint)
        self.headers = headers
        self.end = end
        self.left = most
        self.longest = 0
        self.lock = threading.Lock()
        self.session = get_session()

    def whole(self, url: str, most: int) -> bytes:
        """A small file or answer. Raises TooLarge beyond `most` bytes."""
        found = bytearray()
        for _, chunk, _ in self._tried(url, None):
            found += chunk
            if len(found) > most:
                raise TooLarge
        return bytes(found)

    def header(self, url: str, file: str) -> tuple[bytes, int | None]:
        """(the header behind its 8 bytes of length, size of the whole file or None) of a safetensors file.

        Raises Refused, Unreachable, NotAHub, TooLarge, or BadInput for a length
        that cannot be.
        """
        found, size, length = bytearray(), None, -1
        asked = self.longest * 9 // 8 + 1024 if self.longest else _FIRST
        while length < 0 or len(found) < LENGTH + length:
            before = len(found)
            for size, chunk, partial in self._tried(url, (before, asked)):
                found += chunk
                if length < 0 and len(found) >= LENGTH:
                    length = header_length(file, size, bytes(found[:LENGTH]))
                    self._take(length)
                # of a range the few bytes left are read: the connection can then serve the next one
                if not partial and 0 <= length <= len(found) - LENGTH:
                    break
            if len(found) == before or length < 0:
                header_length(file, len(found), bytes(found[:LENGTH]))  # too short for any
                break
            asked = LENGTH + length
        return bytes(found[LENGTH : LENGTH + max(length, 0)]), size

    def _take(self, length: int) -> None:
        with self.lock:
            self.left -= length
            self.longest = max(self.longest, min(length, 2**20))
            if self.left < 0:
                raise TooLarge

    def _tried(self, url: str, wanted: tuple[int, int] | None) -> Iterator[_Chunk]:
        """Chunks from the first byte wanted on, each with the size of the whole; a broken connection is tried again."""
        given = 0
        for last in (False, True):
            begin = (wanted[0] if wanted else 0) + given
            if wanted and begin >= wanted[1]:
                return
            try:
                for one in self._chunks(url, (begin, wanted[1]) if wanted else None):
                    given += len(one[1])
                    yield one
                return
            except Exception as error:
                ours = error if isinstance(error, Unreachable) else transport_error(error)
                if ours is None:
                    raise
                if last or time.monotonic() > self.end or (wanted is None and given):
                    raise ours from None

    def _chunks(self, url: str, wanted: tuple[int, int] | None) -> Iterator[_Chunk]:
        asked: dict[str, str] = {} if wanted is None else {"Range": f"bytes={wanted[0]}-{wanted[1] - 1}"}
        for _ in range(MOST_REDIRECTS):
            left = self.end - time.monotonic()
            if left <= 0:
                raise Unreachable(Text("it does not answer in time"))
            own = origin(url) == self.origin
            kept = {name: value for name, value in self.headers.items() if own or name.lower() == "user-agent"}
            with self.session.stream(
                "GET",
                url,
                # compressed, it could be any size
                headers={**kept, **asked, "Accept-Encoding": "identity"},
                timeout=min(left, MOST_WAIT),
                follow_redirects=False,
            ) as response:
                if response.status_code in (301, 302, 303, 307, 308):
                    url = urljoin(url, response.headers.get("Location", ""))
                    if not url.startswith(("http://", "https://")):
                        raise NotAHub
                    continue
                yield from self._body(response, wanted)
                return
        raise Unreachable(Text("it sends in circles"))

    def _body(self, response: Any, wanted: tuple[int, int] | None) -> Iterator[_Chunk]:
        if response.status_code >= 400:
            raise refusal_of(response)
        headers = response.headers
        if (
            "html" in headers.get("Content-Type", "").lower()
            or headers.get("Content-Encoding", "identity") != "identity"
        ):
            raise NotAHub
        size, skip = _extent(response, wanted)
        partial = response.status_code == 206 and wanted is not None
        room = wanted[1] - wanted[0] if partial and wanted else None
        for chunk in response.iter_raw():
            if time.monotonic() > self.end:
                raise Unreachable(Text("it does not answer in time"))
            dropped = min(skip, len(chunk))
            skip -= dropped
            kept = chunk[dropped:] if room is None else chunk[dropped:room]
            if kept:
                yield size, kept, partial
            if room is not None:
                room -= len(kept)
                if len(kept) < len(chunk):
                    return


def _extent(response: Any, wanted: tuple[int, int] | None) -> tuple[int | None, int]:
    """(size of the whole file, bytes of the answer before those wanted)."""
    if wanted is None:
        return None, 0
    if response.status_code == 206:
        unit, _, rest = response.headers.get("Content-Range", "").partition(" ")
        span, _, total = rest.partition("/")
        begin = span.partition("-")[0]
        if unit != "bytes" or not begin.isdecimal() or int(begin) != wanted[0]:
            raise NotAHub
        return (int(total) if total.isdecimal() and len(total) < 20 else None), 0
    length = response.headers.get("Content-Length", "")
    return (int(length) if length.isdecimal() and len(length) < 20 else None), wanted[0]

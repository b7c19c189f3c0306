"""Range requests over HTTP with connections that stay open, one per thread. Only the standard library."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import urlsplit

from narrows.measure.load_ring import EndsEarly, Read

TIMEOUT = 60.0


def connect(url: str) -> tuple[http.client.HTTPConnection, str]:
    """(connection, path with query) of an address."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return kind(parts.hostname or "", parts.port, timeout=TIMEOUT), path


def size_of(url: str) -> int:
    """Bytes of what an address holds, from a request of its first byte. Raises OSError where it serves no ranges."""
    connection, path = connect(url)
    try:
        connection.request("GET", path, headers={"Range": "bytes=0-0"})
        answer = connection.getresponse()
        if answer.status in (301, 302, 303, 307, 308):
            raise OSError(f"the server sends on to {(answer.getheader('Location') or '')[:80]}")
        if answer.status != 206:
            raise OSError(f"the server answers {answer.status} to a request of a range")
        _, _, total = (answer.getheader("Content-Range") or "").rpartition("/")
        if not total.isdecimal():
            raise OSError("the server does not say how many bytes there are")
        return int(total)
    except http.client.HTTPException as error:
        raise OSError(f"{type(error).__name__}: {error}") from None
    finally:
        connection.close()


@contextmanager
def reading(urls: Sequence[str]) -> Iterator[Read]:
    """A `Read` over addresses; each thread has a connection of its own to each host."""
    local = threading.local()
    made: list[http.client.HTTPConnection] = []
    lock = threading.Lock()

    def read(number: int, buffer: memoryview, offset: int) -> int:
        known: dict[int, tuple[http.client.HTTPConnection, str]] = local.__dict__.setdefault("known", {})
        if number not in known:
            known[number] = connect(urls[number])
            with lock:
                made.append(known[number][0])
        connection, path = known[number]
        try:
            connection.request("GET", path, headers={"Range": f"bytes={offset}-{offset + len(buffer) - 1}"})
            answer = connection.getresponse()
            if answer.status != 206:
                answer.read()
                raise EndsEarly(f"the server answers {answer.status} to a request of a range")
            done = 0
            while done < len(buffer):
                got = answer.readinto(buffer[done:])
                if not got:
                    break
                done += got
            answer.read()
            return done
        except http.client.HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from None

    try:
        yield read
    finally:
        for one in made:
            one.close()

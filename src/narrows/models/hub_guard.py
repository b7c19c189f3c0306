"""Keeps the hub's client within bounds during one look-up: time, tries, bytes, and where a token may go.

The client retries for minutes, waits as long as a server says, and writes whatever arrives. Hooks on its session, which
httpx offers for this, say no earlier; they act on the requests of one thread and are taken off afterwards.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from narrows.models.hub_refusals import Refused, Unreachable, reason_of
from narrows.text import Text

MOST_TRIES = 2
"""Requests of one method for one address: `HEAD` to see whether the hub answers and again by the download; `GET` and,
where the connection broke off, once more."""


_BAR = "huggingface_hub.http_get"


class NotAHub(Exception):
    """The answer is none of a hub's."""


class TooLarge(Exception):
    """More bytes than any such file has."""


class Guard:
    """Limits the requests of this thread on the client's session while entered.

    endpoint: the only place a token goes to. seconds: for everything. most: bytes of one file.
    """

    def __init__(self, endpoint: str, seconds: float, most: int) -> None:
        self.origin = origin(endpoint)
        self.end = time.monotonic() + seconds
        self.most = most
        self.tried: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> None:
        from huggingface_hub import constants, get_session
        from huggingface_hub.utils import logging as told
        from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars

        self.thread = threading.get_ident()
        try:
            self.hooks = get_session().event_hooks
        except (ImportError, ValueError):
            # a SOCKS proxy needs a package of its own; an address may be none
            raise Unreachable(Text("the proxy that is set cannot be used")) from None
        self.hooks["request"].append(self._request)
        self.hooks["response"].append(self._response)
        # neither bars nor warnings between narrows' own lines; who set the variable wants them as it says
        self.bars = constants.HF_HUB_DISABLE_PROGRESS_BARS is None and not are_progress_bars_disabled(_BAR)
        self.verbosity = told.get_verbosity()
        if self.bars:
            disable_progress_bars(_BAR)
        told.set_verbosity(logging.CRITICAL)

    def __exit__(self, *_: object) -> None:
        from huggingface_hub.utils import logging as told
        from huggingface_hub.utils.tqdm import enable_progress_bars

        self.hooks["request"].remove(self._request)
        self.hooks["response"].remove(self._response)
        if self.bars:
            enable_progress_bars(_BAR)
        told.set_verbosity(self.verbosity)

    def _request(self, request: Any) -> None:
        """Before a request is sent, also one that a redirect led to."""
        if threading.get_ident() != self.thread:
            return
        left = self.end - time.monotonic()
        if left <= 0:
            raise Unreachable(Text("it does not answer in time"))
        tried = (request.method, str(request.url))
        self.tried[tried] += 1
        if self.tried[tried] > MOST_TRIES:
            raise Unreachable(Text("the connection broke off"))
        waits = request.extensions.get("timeout") or dict.fromkeys(("connect", "read", "write", "pool"))
        request.extensions["timeout"] = {k: left if v is None else min(v, left) for k, v in waits.items()}
        # compressed, it could be any size
        request.headers["Accept-Encoding"] = "identity"
        if origin(str(request.url)) != self.origin:
            for header in ("Authorization", "Cookie"):
                request.headers.pop(header, None)

    def _response(self, response: Any) -> None:
        """When the head of an answer is there, before its body."""
        if threading.get_ident() != self.thread or 300 <= response.status_code < 400:
            return
        head = response.request.method == "HEAD"
        if response.status_code >= 400:
            if head and response.status_code == 404:
                return  # the client notes in its cache that there is no such file
            raise refusal_of(response)
        # the client would fetch it from the Xet store, past these limits; it is offered over HTTP as well
        for header in ("X-Xet-Hash", "X-Xet-Refresh-Route"):
            response.headers.pop(header, None)
        if not head:
            if "html" in response.headers.get("Content-Type", "").lower() or response.headers.get("Content-Encoding"):
                raise NotAHub
            length = response.headers.get("Content-Length", "")
            if length.isdecimal() and int(length) > self.most:
                raise TooLarge
            response.stream = _stream_like(response.stream, self._bounded(response.stream))

    def _bounded(self, stream: Any) -> Iterator[bytes]:
        size = 0
        for chunk in stream:
            size += len(chunk)
            if size > self.most:
                raise TooLarge
            if time.monotonic() > self.end:
                raise Unreachable(Text("it does not answer in time"))
            yield chunk


def refusal_of(response: Any) -> Refused:
    """The refusal in an error response of the client."""
    headers = response.headers
    return Refused(
        response.status_code,
        headers.get("X-Error-Code", ""),
        headers.get("X-Error-Message", ""),
        "Authorization" in response.request.headers,
    )


def transport_error(error: Exception) -> Unreachable | None:
    """The error of the client's transport as ours; None where it is none. The client has httpx or httpx2 beneath."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return Unreachable(reason_of(error)) if kinds & {"HTTPError", "TransportError", "InvalidURL"} else None


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: what a token must not leave."""
    parts = urlsplit(url)
    return parts.scheme, (parts.hostname or "").lower(), parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _stream_like(stream: Any, chunks: Iterator[bytes]) -> Any:
    """A byte stream of `chunks` in the place of `stream`: the client asks for its own type."""
    base = next(kind for kind in type(stream).__mro__ if kind.__name__ == "SyncByteStream")
    return type("Bounded", (base,), {"__iter__": lambda _: chunks, "close": lambda _: stream.close()})()

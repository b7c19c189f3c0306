"""A small server that speaks the hub's protocol on 127.0.0.1, and a client process to ask it.

What a repository answers is set by the test: files with their commit, an error, or a function that misbehaves.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "fedcba9876543210fedcba9876543210fedcba98"

LISTING = ""
"""The "file" that stands for the list of a repository's files."""

Answer = Callable[["Handler", str, str], None]
"""What a repository does with a request: (handler, revision, file)."""


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]


@dataclass
class Hub:
    """A server; `repositories` maps ids to their answers, `requests` is what was asked of it."""

    server: ThreadingHTTPServer
    repositories: dict[str, Answer] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    sent: int = 0
    """Bytes of bodies that went out."""
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def asked(self, repository: str, method: str = "") -> list[Request]:
        """The requests for a repository, or for anything whose path holds this."""
        return [one for one in self.requests if repository in one.path and one.method.startswith(method)]


def started() -> Hub:
    """A new server on a free port, in a thread of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub = Hub(server)
    server.hub = hub  # type: ignore[attr-defined]
    threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True).start()
    return hub


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.hub.connections += 1  # type: ignore[attr-defined]

    def do_GET(self) -> None:
        hub: Hub = self.server.hub  # type: ignore[attr-defined]
        path = unquote(self.path)
        hub.requests.append(Request(self.command, path, {k.lower(): v for k, v in self.headers.items()}))
        if path.startswith("/api/models/"):
            repository, _, revision = path.removeprefix("/api/models/").partition("/revision/")
            file = LISTING
        else:
            repository, _, rest = path.strip("/").partition("/resolve/")
            revision, _, file = rest.rpartition("/")
        answer = hub.repositories.get(repository) or refuse(401, "RepoNotFound", "Invalid username or password.")
        answer(self, revision, file)

    do_HEAD = do_GET  # noqa: N815 - http.server's name

    @property
    def head(self) -> bool:
        return self.command == "HEAD"

    def reply(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if not self.head:
            self.write(body)

    def write(self, body: bytes) -> None:
        hub: Hub = self.server.hub  # type: ignore[attr-defined]
        self.wfile.write(body)
        hub.sent += len(body)

    def hang_up(self) -> None:
        self.close_connection = True
        self.connection.close()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def about(body: bytes, commit: str = COMMIT) -> dict[str, str]:
    """What the hub says of a file beside its bytes."""
    return {"ETag": f'"{hashlib.sha1(body).hexdigest()}"', "X-Repo-Commit": commit}


def files(contents: dict[str, bytes], **revisions: str) -> Answer:
    """A repository with these files. revisions: names of branches or tags → commits; else main, COMMIT."""
    known = {"main": COMMIT, **revisions}

    def answer(self: Handler, revision: str, file: str) -> None:
        commit = known.get(revision) or (revision if revision in known.values() else None)
        if commit is None:
            refuse(404, "RevisionNotFound")(self, revision, file)
        elif file == LISTING:
            self.reply(200, {"Content-Type": "application/json"}, listing(contents, commit))
        elif file not in contents:
            refuse(404, "EntryNotFound", commit=commit)(self, revision, file)
        else:
            self.reply(200, {"Content-Type": "text/plain", **about(contents[file], commit)}, contents[file])

    return answer


def listing(names: Iterable[str], commit: str = COMMIT) -> bytes:
    """The hub's description of a repository, as far as narrows reads it."""
    return json.dumps({"sha": commit, "siblings": [{"rfilename": name} for name in names]}).encode()


@dataclass
class Large:
    """A file of which only the beginning matters: the rest is zeros, as many as the size says."""

    begin: bytes
    size: int

    def cut(self, first: int, end: int) -> bytes:
        end = min(end, self.size)
        return self.begin[first:end] + bytes(max(0, end - max(first, len(self.begin))))


def serve(self: Handler, file: Large, *, ranges: bool = True, chunk: int = 1 << 16) -> None:
    """A large file: the range that was asked for, or all of it from a server that knows no ranges."""
    asked = self.headers.get("Range", "")
    common = {"Content-Type": "application/octet-stream"}
    if ranges and asked.startswith("bytes="):
        first, last = map(int, asked.removeprefix("bytes=").split("-"))
        body = file.cut(first, last + 1)
        where = f"bytes {first}-{first + len(body) - 1}/{file.size}"
        self.reply(206, {**common, "Content-Range": where}, body)
        return
    self.send_response(200)
    self.send_header("Content-Length", str(file.size))
    self.end_headers()
    try:
        for first in range(0, file.size, chunk):
            self.write(file.cut(first, first + chunk))
    except OSError:
        self.close_connection = True


def weights(config: bytes, large: dict[str, Large], answer: Callable[[Handler, Large], None] = serve) -> Answer:
    """A repository with a config and large files. answer: what is done for one of those."""
    plain = files({"config.json": config, **dict.fromkeys(large, b"")})

    def answered(self: Handler, revision: str, file: str) -> None:
        if file in large:
            answer(self, large[file])
        else:
            plain(self, revision, file)

    return answered


def refuse(status: int, code: str = "", message: str = "", commit: str = "", **more: str) -> Answer:
    """A repository that answers with an error only."""

    def answer(self: Handler, revision: str, file: str) -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": message, "X-Repo-Commit": commit, **more}
        self.reply(status, headers, b'{"error": "no"}')

    return answer


WORKER = """
import json, sys, time
from narrows import BadInput, load_model
waits = []
time.sleep = waits.append
for line in sys.stdin:
    asked = json.loads(line)
    waits.clear()
    try:
        spec = load_model(asked.pop("name"), **asked)
        said = {"name": spec.name, "source": spec.source, "assumptions": [str(one) for one in spec.assumptions],
                "parameters": spec.unique_parameters(), "bytes": spec.checkpoint_bytes()}
        if spec.stored is not None:
            said["stored"] = [spec.stored.files, spec.stored.tensors, spec.stored.header_bytes]
    except BadInput as error:
        said = {"error": str(error)}
    if "huggingface_hub" in sys.modules:
        from huggingface_hub import get_session
        hooks = get_session().event_hooks
        assert not any("Guard" in repr(hook) for hook in hooks["request"] + hooks["response"])
    # what the hub's client would have slept between tries counts, but is not waited for
    print(json.dumps({**said, "slept": sum(waits)}), flush=True)
"""


class Client:
    """A process that reads models, one per line asked: the hub's client reads its settings when it is imported."""

    def __init__(self, home: Path, endpoint: str, **environment: str) -> None:
        self.home = home
        kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy") and not k.startswith("HF_")}
        self.environment = {
            **kept,
            "HF_HOME": str(home),
            "HF_ENDPOINT": endpoint,
            **environment,
        }
        home.mkdir(exist_ok=True)
        self.log = home.parent / f"{home.name}-{len(list(home.parent.iterdir()))}.stderr"
        self.process: subprocess.Popen[str] | None = None
        self.prepare = ""
        """Code that the process runs first."""

    def __call__(self, name: str, **arguments: Any) -> dict[str, Any]:
        if self.process is None:
            self.process = subprocess.Popen(
                [sys.executable, "-c", self.prepare + WORKER],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log.open("w"),
                text=True,
                env=self.environment,
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"name": name, **arguments}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.log.read_text()
        said: dict[str, Any] = json.loads(line)
        return said

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.communicate(timeout=20)

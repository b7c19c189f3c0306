"""Loaders in processes of their own: started, made ready, let go together, and ended whatever happens."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from narrows.text import BadInput, Text

WAIT = 900.0
"""Seconds after which a loader is given up: storage that answers no more hangs for ever."""


class Failed(Exception):
    """A loader could not load; the sentence says why."""

    def __init__(self, text: Text) -> None:
        self.text = text
        super().__init__(str(text))


class Crew:
    """As many processes of one loader as there are ranks. Use as a context: they are gone when it ends."""

    def __init__(self, job: dict[str, Any], ranks: int = 1, keep: Sequence[int] = (), wait: float = WAIT) -> None:
        self.wait = wait
        root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        self.processes: list[subprocess.Popen[bytes]] = []
        try:
            for _ in range(ranks):
                self.processes.append(
                    subprocess.Popen(
                        [sys.executable, "-P", "-m", "narrows.measure.load_worker"],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL,
                        bufsize=0,
                        pass_fds=tuple(keep),
                        env={**os.environ, "PYTHONPATH": path},
                    )
                )
            for one in self.processes:
                self._say(one, json.dumps(job))
            for one in self.processes:
                self._ready(one)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End them, at once and by force: they keep nothing that could be damaged."""
        for one in self.processes:
            if one.poll() is None:
                one.kill()
        for one in self.processes:
            one.wait()
            for pipe in (one.stdin, one.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()

    def go(self, clock: Callable[[], float] = time.perf_counter) -> tuple[float, list[dict[str, Any]]]:
        """Let all load; (seconds until the last was done, what each says). Raises Failed."""
        begun = clock()
        for one in self.processes:
            self._say(one, "go")
        found = [self._answer(one) for one in self.processes]
        seconds = clock() - begun
        for said in found:
            if "error" in said:
                raise Failed(_why(said))
        if len(found) == 1:
            seconds = float(found[0]["seconds"])  # without the way to and from the process
        for one in self.processes:
            self._ready(one)
        return seconds, found

    def _say(self, one: subprocess.Popen[bytes], line: str) -> None:
        assert one.stdin is not None
        try:
            one.stdin.write(line.encode() + b"\n")
            one.stdin.flush()
        except BrokenPipeError:
            raise Failed(self._ended(one)) from None

    def _ready(self, one: subprocess.Popen[bytes]) -> None:
        line = self._line(one)
        if line.strip() != b"ready":
            raise Failed(_why(json.loads(line)))

    def _answer(self, one: subprocess.Popen[bytes]) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._line(one))
        return answer

    def _line(self, one: subprocess.Popen[bytes]) -> bytes:
        """The next line that begins a word of ours; libraries may print what they like before it."""
        assert one.stdout is not None
        until = time.monotonic() + self.wait
        while True:
            if not select.select([one.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                raise Failed(Text("it gave no answer for {seconds} seconds", seconds=f"{self.wait:.0f}"))
            line = one.stdout.readline()
            if not line:
                raise Failed(self._ended(one))
            if line.strip() == b"ready" or line.startswith(b"{"):
                return line

    def _ended(self, one: subprocess.Popen[bytes]) -> Text:
        code = one.wait()
        if code == -7:
            return Text("the file became shorter while it was mapped (SIGBUS)")
        if code == -9:
            return Text("the system ended it, most likely for want of memory")
        return Text("it ended by itself with code {code}", code=str(code))


def _why(said: dict[str, Any]) -> Text:
    if said.get("ends_early"):
        return Text("the file became shorter while it was read")
    return Text("{reason}", reason=str(said.get("error", "?")))


def readable(path: str) -> int:
    """A descriptor that reads a file. Raises BadInput."""
    try:
        return os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise BadInput(
            "'{path}' cannot be read: {reason}", path=path[-100:], reason=error.strerror or str(error)
        ) from None

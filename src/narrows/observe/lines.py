"""A byte stream as blocks of whole lines, and a log line without the prefixes that its carriers put before it.

Memory is bounded whatever the stream holds: a line longer than `LONGEST` keeps its beginning only.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple

CHUNK: Final = 1 << 15
LONGEST: Final = 1 << 16
"""Bytes kept of one line. A dump of arguments is about 10 kB."""

_UTF16: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


class Block(NamedTuple):
    """Whole lines as bytes, and the number in the file of the first one."""

    data: bytes
    first_line: int


def blocks(stream: BinaryIO, limit: int) -> Iterator[Block]:
    """Blocks of at most CHUNK + LONGEST bytes that end with a line; the last one may end without its newline."""
    line, tail, cutting = 1, b"", False
    for chunk in _chunks(stream, limit):
        if cutting:
            end = chunk.find(b"\n")
            if end < 0:
                continue
            chunk, cutting = chunk[end:], False
        data = tail + chunk if tail else chunk
        end = data.rfind(b"\n") + 1
        tail = data[end:]
        if end:
            yield Block(data[:end], line)
            line += data.count(b"\n", 0, end)
        if len(tail) > LONGEST:
            yield Block(tail[:LONGEST], line)
            tail, cutting = b"", True
    if tail:
        yield Block(tail, line)


def _chunks(stream: BinaryIO, limit: int) -> Iterator[bytes]:
    """At most `limit` bytes of the stream; UTF-16 (PowerShell's `>`) becomes UTF-8."""
    left = limit
    decoder = None
    first = True
    while left > 0:
        chunk = stream.read(min(CHUNK, left))
        if not chunk:
            return
        left -= len(chunk)
        if first:
            first = False
            name = _UTF16.get(chunk[:2])
            if name:
                decoder = codecs.getincrementaldecoder(name)(errors="replace")
                chunk = chunk[2:]
        if decoder:
            chunk = decoder.decode(chunk).encode("utf-8", "replace")
        yield chunk


_ANSI: Final = re.compile(r"(?:\x1b|#033|\^\[)\[[0-9;?]{0,20}[A-Za-z]")
_MARKS: Final = re.compile(r"\[(?:info|debug|warn|error|log)\] ")
_PREFIXES: Final = re.compile(
    "|".join(
        (
            # docker compose, "vllm-1  | "
            r"[\w.-]{1,80} {0,40}\| ?",
            # Kubernetes and docker --timestamps, "2024-06-28T06:11:52.685300953Z stdout F "
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.,]{0,12}(?:Z|[+-]\d\d:?\d\d)? ?(?:std(?:out|err) [FP] )?",
            # journald and syslog, "Nov 29 18:30:34 host vllm[123]: "
            r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,80} [\w./@-]{1,80}(?:\[\d{1,9}\])?: ",
            # a log router's own mark, "INFO 2025-11-19T20:16:36.09Z [resource.labels.containerName: vllm] "
            r"(?:INFO|WARNING|ERROR) (?=\d{4}-)",
            r"\[resource\.labels\.[^\]]{1,120}\] ",
            r"\[?(?:INFO|WARN|ERROR) {0,3}\] PyProcess - [\w-]{1,80}: ",
            r"vLLM STD(?:OUT|ERR): ",
            # quoted in an issue or a script
            r"[>#] (?=INFO|WARN|ERROR|DEBUG|\()",
            # llama.cpp with timestamps, "0.00.029.844 I "
            r"\d{1,4}\.\d\d\.\d{3}\.\d{3} [IWED] ",
            r"\[TensorRT-LLM\]\[(?:INFO|WARNING|ERROR)\] ",
            r"\[[\d/]{8,10}-[\d:]{8}\] \[TRT-LLM\] (?:\[[A-Z0-9]{1,6}\] ?){1,3}",
            r"[ \t]{1,40}",
        )
    )
)
_PROCESS: Final = re.compile(
    r"\(([A-Za-z]\w{0,40}(?:[- ]\w{1,20}){0,4}?)(?: rank=(\d{1,5}))? pid=(\d{1,9})(?:, ip=[\w.:]{1,45})?\) ?"
)
_RANK: Final = re.compile(r"\[rank(\d{1,5})\]: ?")
_SGLANG: Final = re.compile(r"\[(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)((?: [A-Z_]{2,8}\d{1,4}){0,5})\] ?")
_LEVEL: Final = re.compile(
    r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL) (\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.\d{1,6})? "
    r"(?:\[[^\]\s]{1,200}\]|[\w./]{1,200}:\d{1,6}\]) ?"
)
_OURS: Final = ("VllmWorker", "EngineCore", "APIServer", "ApiServer", "RayWorkerWrapper", "RayWorkerVllm", "Worker_")
_PARTS: Final = re.compile(r"(?:DP|PP|TP)\d{1,4}")


class Line(NamedTuple):
    """One log line without prefixes. `text` keeps its newline if it had one: a value at the end is then whole."""

    number: int
    rank: str | None
    """The process's place as the log names it (`TP1`, `DP0 TP1`, `rank 2`), or None for engine and server."""
    worker: int | None
    """Process id, if the process is a worker: its values are one rank's, not the engine's."""
    vllm: bool
    """Whether the form of the prefix is vLLM's own."""
    stamp: tuple[str, str] | None
    """Date (`MM-DD` or `YYYY-MM-DD`) and time of day, as printed."""
    text: str


def clean(raw: bytes, number: int) -> Iterator[Line]:
    """The log lines inside one line of the file: progress bars split at carriage returns, carriers' prefixes off."""
    text = _ANSI.sub("", raw.decode("utf-8", "replace")).replace("\x00", "")
    if text.startswith(('{"log":"', '{"log": "')):
        text = _docker_json(text)
    for piece in text.replace("\r\n", "\n").split("\r"):
        if len(piece) > 1000 and _MARKS.search(piece):
            for segment in _MARKS.split(piece):
                yield _strip(segment + "\n", number)
        elif piece:
            yield _strip(piece, number)


def _docker_json(text: str) -> str:
    """Docker's json-file driver: the line inside its envelope."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    log = value.get("log") if isinstance(value, dict) else None
    return log if isinstance(log, str) else text


def _strip(text: str, number: int) -> Line:
    rank: str | None = None
    worker: int | None = None
    levelled = False
    vllm = False
    stamp: tuple[str, str] | None = None
    position = 0
    for _ in range(12):
        start = position
        if match := _PROCESS.match(text, position):
            rank = _place(match[1], match[2], rank)
            worker = int(match[3]) if "Worker" in match[1] else None
            vllm = match[1].startswith(_OURS)
        elif match := _RANK.match(text, position):
            rank = rank or f"rank {match[1]}"
        elif match := _SGLANG.match(text, position):
            stamp, rank = (match[1], match[2]), " ".join(_PARTS.findall(match[3])) or rank
        elif match := _LEVEL.match(text, position):
            levelled, stamp, vllm = True, (match[1], match[2]), True
        else:
            match = _PREFIXES.match(text, position)
        if match:
            position = match.end()
        if position == start or levelled:
            break
    return Line(number, rank, worker, vllm, stamp, text[position:])


def _place(name: str, rank: str | None, known: str | None) -> str | None:
    """`Worker_TP1_EP1` → `TP1`; `VllmWorker rank=2`, `VllmWorker-2` → `rank 2`; a nameless worker → what is known."""
    parts = _PARTS.findall(name)
    if parts:
        return " ".join(parts)
    if rank is not None:
        return f"rank {rank}"
    head, _, digits = name.rpartition("-")
    return f"rank {digits}" if head.endswith("Worker") and digits.isdecimal() else known


def printable(text: str, most: int = 300) -> str:
    """One line of printable characters, at most `most`."""
    flat = " ".join(text[: most * 4].split())
    if not flat.isprintable():
        flat = " ".join("".join(c if c.isprintable() else " " for c in flat).split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"

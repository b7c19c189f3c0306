"""Reads a serving log of 500 MB, and one of a crash loop, and prints CPU-seconds and the peak of memory.

    python benchmarks/observe.py [MEGABYTES]

The log is a start-up followed by requests, request dumps, progress bars and periodic reports, as a server writes
them over weeks; then as much of a start that fails again and again; then 1 GB in one line from a generator.
"""

from __future__ import annotations

import io
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

from narrows.observe import observe, observe_path

LOGS = Path(__file__).parent.parent / "tests" / "data" / "logs"
ACCESS = b'INFO:     127.0.0.1:46356 - "POST /v1/completions HTTP/1.1" 200 OK\n'
REQUEST = (
    b"INFO 05-12 02:47:26 [logger.py:39] Received request chatcmpl-5a7407c45c434cb19736bd2776fce860: prompt: 'What "
    b"limits the memory of a server?', params: SamplingParams(n=1, presence_penalty=0.0, frequency_penalty=0.0, "
    b"repetition_penalty=1.0, temperature=0.6, top_p=0.95, top_k=-1, min_p=0.0, seed=None, stop=[], "
    b"ignore_eos=False, max_tokens=128, min_tokens=0), prompt_token_ids: None, lora_request: None.\n"
)
REPORT = (
    b"(APIServer pid=7) INFO 11-29 16:51:38 [loggers.py:335] Engine 000: Avg prompt throughput: 32.5 tokens/s, Avg "
    b"generation throughput: 0.1 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 12.9%, Prefix cache "
    b"hit rate: 0.0%\n"
)


class OneLine(io.RawIOBase):
    """`size` bytes without a newline, made as they are read."""

    def __init__(self, size: int) -> None:
        self.left = size

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        size = min(size, self.left)
        self.left -= size
        return b"x" * size


class Repeated(io.RawIOBase):
    """`data` over and over, as much as `size` bytes."""

    def __init__(self, data: bytes, size: int) -> None:
        self.data, self.left, self.at = data, size, 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes, of one repetition at most."""
        piece = self.data[self.at : self.at + min(size, self.left)]
        self.left -= len(piece)
        self.at = (self.at + len(piece)) % len(self.data)
        return piece


def write(path: str, megabytes: int) -> None:
    """The log."""
    start = (LOGS / "vllm-0.32.0-cpu-default.log").read_bytes()
    block = (ACCESS * 20 + REQUEST * 5) * 10 + REPORT
    with open(path, "wb") as out:
        out.write(start)
        while out.tell() < megabytes * 1_000_000:
            out.write(block)
        out.write(start)


def main() -> None:
    """Makes, reads, prints."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    handle, path = tempfile.mkstemp(suffix=".log")
    os.close(handle)
    try:
        write(path, megabytes)
        before = time.process_time()
        found = observe_path(path)
        seconds = time.process_time() - before
    finally:
        os.unlink(path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{megabytes} MB: {seconds:.2f} CPU-s, peak RSS {peak:.0f} MiB, {len(found)} starts, {found[-1].outcome}")
    before = time.process_time()
    looping = observe(Repeated((LOGS / "vllm-0.32.0-cpu-nofit.log").read_bytes(), megabytes * 1_000_000))  # type: ignore[arg-type]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    starts = looping[-1].earlier_starts + len(looping)
    print(f"{megabytes} MB of a crash loop: {time.process_time() - before:.2f} CPU-s, {peak:.0f} MiB, {starts} starts")
    before = time.process_time()
    garbage = observe(OneLine(10**9))  # type: ignore[arg-type]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"1 GB line: {time.process_time() - before:.2f} CPU-s, peak RSS {peak:.0f} MiB, engine {garbage[-1].engine}")


if __name__ == "__main__":
    main()

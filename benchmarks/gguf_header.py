"""CPU-seconds and memory of reading a large GGUF header, beside an empty interpreter.

    python benchmarks/gguf_header.py [--tensors 1800] [--tokens 150000] [--json]

The file has a tokenizer with that many tokens, scores, types and twice as many merges, that many tensors, and a
sparse tail in place of the weights. Memory is the largest resident set of a new process, less that of one which only
imports the reader.
"""

from __future__ import annotations

import argparse
import json
import resource
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

READ = "import sys; from narrows.models.stored.gguf import read_header; read_header(sys.argv[1])"
IMPORT = "import sys; from narrows.models.stored.gguf import read_header"
MEASURED = "\nimport resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"


def text(value: str) -> bytes:
    """A string as GGUF has it."""
    return struct.pack("<Q", len(value)) + value.encode()


def write(path: Path, tensors: int, tokens: int) -> int:
    """Write the file; its header's size in bytes."""
    pairs = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("tokenizer.ggml.tokens")
        + struct.pack("<IIQ", 9, 8, tokens)
        + b"".join(text(f"token{i}") for i in range(tokens)),
        text("tokenizer.ggml.merges")
        + struct.pack("<IIQ", 9, 8, 2 * tokens)
        + b"".join(text(f"to ken{i}") for i in range(2 * tokens)),
        text("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, tokens) + bytes(4 * tokens),
        text("tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, tokens) + bytes(4 * tokens),
    ]
    size = 4096 * 16 * 144
    rows = [text(f"blk.{i}.ffn_up.weight") + struct.pack("<IQQIQ", 2, 4096, 4096, 12, i * size) for i in range(tensors)]
    header = b"GGUF" + struct.pack("<IQQ", 3, tensors, len(pairs)) + b"".join(pairs) + b"".join(rows)
    with path.open("wb") as file:
        file.write(header)
        file.truncate(-(-len(header) // 32) * 32 + tensors * size)
    return len(header)


def cost(code: str, *arguments: str) -> tuple[float, int]:
    """(CPU-seconds, largest resident set in bytes) of a new process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", code + MEASURED, *arguments]
    peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, int(peak) * 1024


def main() -> None:
    """Print what reading costs beyond importing the reader."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tensors", type=int, default=1800)
    parser.add_argument("--tokens", type=int, default=150_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        size = write(path, options.tensors, options.tokens)
        cost(READ, str(path))
        idle = [min(values) for values in zip(*(cost(IMPORT) for _ in range(5)), strict=True)]
        busy = [min(values) for values in zip(*(cost(READ, str(path)) for _ in range(5)), strict=True)]
    found = {
        "header_bytes": size,
        "cpu_seconds": round(busy[0] - idle[0], 4),
        "resident_bytes": int(busy[1] - idle[1]),
        "import_cpu_seconds": round(idle[0], 4),
    }
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(
        f"header of {size / 1e6:.1f} MB: {found['cpu_seconds']} CPU-s and {found['resident_bytes'] / 1e6:.1f} MB more"
    )
    print(f"than importing the reader ({found['import_cpu_seconds']} CPU-s)")


if __name__ == "__main__":
    main()

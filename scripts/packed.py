"""Writes rows as packed JSON lines, the same bytes at every run."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any


def write_packed(target: Path, rows: list[dict[str, Any]]) -> None:
    """One JSON object per line, keys sorted, without a time in the archive."""
    lines = [json.dumps(row, sort_keys=True, separators=(",", ":")) for row in rows]
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0, filename="") as packed:
        packed.write("\n".join(lines).encode())
    target.write_bytes(buffer.getvalue())
    print(f"{len(rows)} rows, {len(buffer.getvalue())} bytes")

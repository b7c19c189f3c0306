"""The bytes of a config.json, whose writer is not trusted: how many are read, and what they must decode to."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import Any

import msgspec

from narrows.models.paths import short
from narrows.models.quantization import BESIDE, merge_beside
from narrows.text import BadInput

MOST_BYTES = 16 * 2**20
"""The largest config.json seen (a per-tensor quantization list) is 2.7 MB."""


def config_of_stdin() -> dict[str, Any]:
    """The config on standard input. Raises BadInput where there is none, or no object of fields."""
    try:
        if sys.stdin is None:
            raise OSError("it is closed")
        data = sys.stdin.buffer.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadInput("'{path}' cannot be read: {reason}", path="stdin", reason=error.strerror or str(error)) from None
    return _decode(data, "stdin")


def config_at(path: str) -> dict[str, Any]:
    """A config file; if it is named config.json, with what stands beside it."""
    config = _decode(_read(path), path)
    if os.path.basename(path) == "config.json":
        for name in BESIDE:
            beside = os.path.join(os.path.dirname(path), name)
            if os.path.exists(beside):
                config = merge_beside(config, name, _decode(_read(beside), beside))
    return config


def _read(path: str) -> bytes:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise BadInput("'{path}' is not a regular file; give a config.json", path=short(path))
        if status.st_size > MOST_BYTES:
            raise BadInput(
                "'{path}' is {size} MB, more than any config.json (limit {most} MB); give the config, not the weights",
                path=short(path),
                size=status.st_size // 10**6,
                most=MOST_BYTES // 2**20,
            )
        with open(path, "rb") as file:
            return file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise BadInput(
            "'{path}' does not exist; give a config.json, a directory that holds one, or a model of 'narrows models'",
            path=short(path),
        ) from None
    except OSError as error:
        raise BadInput(
            "'{path}' cannot be read: {reason}", path=short(path), reason=error.strerror or str(error)
        ) from None


def _loads(data: bytes) -> Any:
    """JSON, and the Infinity and NaN that Python's json writes into configs (`time_step_limit` of Mamba-2 models)."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        if b"Infinity" not in data and b"NaN" not in data:
            raise
        import json

        with suppress(ValueError):
            return json.loads(data)
        raise


def _decode(data: bytes, path: str) -> dict[str, Any]:
    if len(data) > MOST_BYTES:
        raise BadInput(
            "'{path}' is larger than any config.json (limit {most} MB)", path=short(path), most=MOST_BYTES // 2**20
        )
    try:
        value = _loads(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise BadInput(
            "'{path}' is not valid JSON ({reason}); download it again, or give another file",
            path=short(path),
            reason=str(error)[:120] or "nested too deeply",
        ) from None
    if not isinstance(value, dict):
        raise BadInput(
            "'{path}' holds a JSON {kind}, and a config.json is an object of fields",
            path=short(path),
            kind={list: "list", str: "string", type(None): "null"}.get(type(value), "value"),
        )
    return value

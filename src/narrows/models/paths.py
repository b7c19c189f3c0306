"""Paths that users name: what kind of file is meant, and how a message shows it."""

from __future__ import annotations

import os
from contextlib import suppress

from narrows.text import BadInput, printable


def looks_like_path(source: str) -> bool:
    """Whether the user named a file or a directory, rather than a model. Raises BadInput for a NUL character."""
    if "\0" in source:
        raise BadInput("a model name cannot hold a NUL character")
    return (
        os.path.exists(source) or source.endswith((".json", ".gguf", os.sep)) or source.startswith((".", os.sep, "~"))
    )


def weights_of(path: str) -> str | None:
    """The path, where it is of safetensors files: one of them, their index, or a directory that holds some.

    None where it is not. Raises BadInput for a directory that cannot be read.
    """
    ends = (".safetensors", ".safetensors.index.json")
    try:
        of_weights = (
            any(name.endswith(ends) for name in os.listdir(path)) if os.path.isdir(path) else path.endswith(ends)
        )
    except OSError as error:
        raise BadInput(
            "'{path}' cannot be read: {reason}", path=short(path), reason=error.strerror or str(error)
        ) from None
    return path if of_weights and os.path.exists(path) else None


def gguf_of(path: str) -> str | None:
    """The GGUF file that a path means: itself, or the one model in a directory that holds no other weights."""
    if path.lower().endswith(".gguf") and not os.path.isdir(path):
        return path
    with suppress(OSError):
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return path if file.read(4) == b"GGUF" else None
        if any(name.lower().endswith(".gguf") for name in os.listdir(path)):
            from narrows.models.stored.gguf_model import gguf_in

            return gguf_in(path)
    return None


def short(path: str) -> str:
    """A path as messages show it: printable, its end where it is long."""
    shown = printable(path)
    return shown if len(shown) <= 100 else "…" + shown[-99:]

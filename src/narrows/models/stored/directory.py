"""The checkpoint in a directory as downloaded: chosen by its names, read by its headers."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from narrows.models.stored.choose import MOST_INDEX, SUFFIX, Chosen, choose, is_weights
from narrows.models.stored.inventory import Inventory, Progress, StoredTensor
from narrows.models.stored.safetensors import MOST_TENSORS, read_file
from narrows.text import BadInput, Text, printable

MOST_HEADERS = 250_000_000
"""Bytes of all headers together; those of DeepSeek-V3 have 12 MB."""
MOST_BYTES = 2**60
"""Of a checkpoint. Servers may not tell how large a file is, and a header can say anything."""
_POINTER = b"version https://git-lfs."
"""How a file begins that Git left in the place of the weights."""
_MOST_POINTER = 1024


def read_directory(folder: str, progress: Progress | None = None) -> Inventory | None:
    """What the safetensors files of a directory hold; None where there are none. Raises BadInput.

    With files missing (or Git LFS pointers in their place) there are no tensors: a part says nothing of the whole.
    """
    names = _names(folder)
    here = [name for name in names if not _absent(os.path.join(folder, name))]
    # without an index that can be read, numbers tell the shards
    known = [name for name in names if name.endswith(SUFFIX) or name in here]
    chosen = choose(known, lambda name: _index(os.path.join(folder, name)))
    if chosen is None:
        return None
    missing = sorted({*chosen.missing, *(set(chosen.files) - set(here))})
    if missing:
        return Inventory("safetensors", folder, (), chosen.files, 0, tuple(missing), chosen.left_out)

    def each() -> Iterable[tuple[list[StoredTensor], int]]:
        room = MOST_TENSORS
        for number, name in enumerate(chosen.files, 1):
            tensors, size = read_file(os.path.join(folder, name), name, room)
            room -= len(tensors)
            yield tensors, size
            if progress is not None:
                progress(number, len(chosen.files))

    return gathered(folder, chosen, each())


def read_one(path: str) -> Inventory:
    """What one safetensors file holds that is a checkpoint by itself."""
    name = os.path.basename(path)
    tensors, size = read_file(path, name)
    return Inventory("safetensors", os.path.dirname(path) or ".", tuple(tensors), (name,), size)


def gathered(place: str, chosen: Chosen, files: Iterable[tuple[list[StoredTensor], int]]) -> Inventory:
    """One inventory of a checkpoint's files: (tensors, header bytes) of each, in the order of `chosen.files`.

    Raises BadInput where headers are larger than those of any model.
    """
    found: list[StoredTensor] = []
    seen: set[str] = set()
    read = stored = unnamed = twice = 0
    for tensors, size in files:
        read += size
        stored += sum(tensor.bytes for tensor in tensors)
        if read > MOST_HEADERS or len(found) + len(tensors) > MOST_TENSORS or stored > MOST_BYTES:
            raise BadInput(
                "the headers in '{place}' are larger than those of any model; give its config.json itself to go by "
                "that alone",
                place=printable(place),
            )
        for tensor in tensors:
            if tensor.name in seen:
                twice += 1
                continue
            seen.add(tensor.name)
            found.append(tensor)
    if chosen.named:
        unnamed = sum(1 for name in seen if name not in chosen.named)
    return Inventory(
        "safetensors",
        place,
        tuple(found),
        chosen.files,
        read,
        left_out=chosen.left_out,
        unnamed=unnamed,
        unstored=sum(1 for name in chosen.named if name not in seen),
        twice=twice,
    )


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if is_weights(name)]
    except OSError as error:
        raise BadInput(
            "'{path}' cannot be read: {reason}", path=printable(folder), reason=error.strerror or str(error)
        ) from None


def _absent(path: str) -> bool:
    """Whether a name leads nowhere (a link into a cache that was emptied), or to a pointer of Git LFS."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_POINTER:
            return False
        with open(path, "rb") as file:
            return file.read(len(_POINTER)) == _POINTER
    except FileNotFoundError:
        return True
    except OSError:
        return False  # reading it will say what is wrong


def _index(path: str) -> bytes:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise BadInput("'{path}' is not a regular file; give the directory as downloaded", path=printable(path))
        with open(path, "rb") as file:
            return file.read(MOST_INDEX + 1)
    except OSError as error:
        raise BadInput(
            "'{path}' cannot be read: {reason}", path=printable(path), reason=error.strerror or str(error)
        ) from None


def missing_text(found: Inventory) -> Text:
    """The sentence for files that are not there."""
    shown = ", ".join(found.missing[:4]) + (", …" if len(found.missing) > 4 else "")
    return Text(
        "{missing} of the checkpoint's {files} files are not there ({names}); bytes are computed from the config",
        missing=len(found.missing),
        files=len(found.files),
        names=shown,
    )

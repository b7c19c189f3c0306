"""What is loaded: a checkpoint's files, an address, or a checkpoint made for it that has no name and never stays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from narrows.loading.place import files_of, mount_of
from narrows.measure.load_http import size_of
from narrows.measure.load_process import readable
from narrows.measure.scratch import BLOCK, LEAST, append, room, scratch, told_full, unusable
from narrows.text import BadInput, Text, printable
from narrows.units import GIB, MIB, binary

MOST = 10 * 2**40
MOST_BYTES = 8 * GIB
"""Of a checkpoint in many files, the first of them say as much as all."""
_TENSOR = 32 * MIB
FREE = 256 * MIB
"""What is left on a disk that a checkpoint is made on."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Files to load. paths: as loaders open them; handles: open descriptors of them (none for addresses).

    keep: descriptors that loaders must inherit, since their file has no name. format: `safetensors` or `gguf`.
    filesystem, mount: what it lies on, and the device or server behind that, as the system names them.
    """

    paths: tuple[str, ...]
    sizes: tuple[int, ...]
    handles: tuple[int, ...]
    keep: tuple[int, ...] = ()
    format: str = "safetensors"
    filesystem: str = ""
    mount: str = ""
    http: bool = False
    notes: tuple[Text, ...] = ()

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(self.sizes)


def is_address(path: str) -> bool:
    """Whether it is loaded over HTTP."""
    return path.startswith(("http://", "https://"))


@contextmanager
def given(path: str, most: int = MOST_BYTES) -> Iterator[Source]:
    """A file, a folder (its first files, up to `most` bytes and at least one) or an address. Only read.

    Raises BadInput.
    """
    if is_address(path):
        try:
            size = size_of(path)
        except OSError as error:
            raise BadInput(
                "'{path}' cannot be loaded: {reason}", path=printable(path)[-100:], reason=error.strerror or str(error)
            ) from None
        if not size:
            raise BadInput("'{path}' is empty", path=printable(path)[-100:])
        yield Source(paths=(path,), sizes=(size,), handles=(), http=True)
        return
    files = _files(os.path.expanduser(path))
    handles: list[int] = []
    try:
        for file in files:
            handles.append(readable(file))
        sizes = tuple(os.fstat(handle).st_size for handle in handles)
        kept = [index for index, size in enumerate(sizes) if size]
        if not kept:
            raise BadInput("'{path}' is empty", path=printable(path)[-100:])
        notes = []
        while len(kept) > 1 and sum(sizes[index] for index in kept) > most:
            kept.pop()
        if len(kept) < len([size for size in sizes if size]):
            held = binary(sum(sizes[index] for index in kept))
            notes.append(
                Text(
                    "the first {part} of {files} files are loaded, {size}; more with --most",
                    part=len(kept), files=len(sizes), size=held,
                )
            )  # fmt: skip
        format = "gguf" if files[0].lower().endswith(".gguf") else "safetensors"
        if format == "safetensors":
            for file, size in zip(files, sizes, strict=True):
                _checked(file, size)
        yield Source(
            paths=tuple(files[index] for index in kept),
            sizes=tuple(sizes[index] for index in kept),
            handles=tuple(handles[index] for index in kept),
            format=format,
            filesystem=mount_of(os.path.realpath(files[0]))[0],
            mount=mount_of(os.path.realpath(files[0]))[1],
            notes=tuple(notes),
        )
    finally:
        for handle in handles:
            os.close(handle)


def _files(path: str) -> list[str]:
    try:
        files = [one for one in files_of(path) if one.lower().endswith((".safetensors", ".gguf"))]
    except OSError as error:
        raise BadInput(
            "'{path}' cannot be read: {reason}", path=printable(path)[-100:], reason=error.strerror or str(error)
        ) from None
    if not files:
        raise BadInput(
            "there are no .safetensors or .gguf files in '{path}'; give one, or let one be made: --make 4GiB",
            path=printable(path)[-100:],
        )
    return files


def _checked(path: str, size: int) -> None:
    """A file whose header promises more than there is would end every loader in its own way."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = file.read(length) if length < min(size, 100 * MIB) else b""
    try:
        rows = msgspec.json.decode(header, type=dict[str, dict[str, object]])
        last = max((row["data_offsets"][1] for name, row in rows.items() if name != "__metadata__"), default=0)  # type: ignore[index]
        whole = 8 + length + int(last)
    except (msgspec.DecodeError, KeyError, TypeError, IndexError, ValueError):
        raise BadInput("'{path}' is no safetensors file", path=printable(path)[-100:]) from None
    if whole > size:
        raise BadInput(
            "'{path}' is cut short: its header speaks of {whole}, and there are {size}",
            path=printable(path)[-100:],
            whole=binary(whole),
            size=binary(size),
        )


@contextmanager
def made(folder: str, size: int, told: Callable[[float], None] = lambda share: None) -> Iterator[Source]:
    """A safetensors file of about `size` bytes that do not compress, in `folder`; it has no name and never stays.

    Raises BadInput for a folder that cannot be written, and for one without the room.
    """
    if size < LEAST:
        raise BadInput("--make is {size}; make at least {least}", size=binary(size), least=binary(LEAST, 0))
    free = room(folder, MOST) * 10
    if size + FREE > free:
        raise BadInput(
            "'{folder}' has {free} free; --make {size} wants that and {left} left over: choose --scratch or make less",
            folder=folder,
            free=binary(free),
            size=binary(size),
            left=binary(FREE, 0),
        )
    with scratch(folder) as handle:
        whole = _write(handle, folder, size, told)
        path = f"/proc/self/fd/{handle}"
        named = "" if os.path.exists(path) else _named(handle, folder)
        try:
            yield Source(
                paths=(named or path,),
                sizes=(whole,),
                handles=(handle,),
                keep=() if named else (handle,),
                filesystem=mount_of(os.path.realpath(folder))[0],
                mount=mount_of(os.path.realpath(folder))[1],
            )
        finally:
            if named:
                with suppress(OSError):
                    os.unlink(named)


def _write(handle: int, folder: str, size: int, told: Callable[[float], None]) -> int:
    shapes = [min(_TENSOR, size - begin) // 2 for begin in range(0, size, _TENSOR)]
    rows, begin = {}, 0
    for index, count in enumerate(shapes):
        rows[f"model.layers.{index}.weight"] = {
            "dtype": "F16",
            "shape": [count],
            "data_offsets": [begin, begin + 2 * count],
        }
        begin += 2 * count
    header = msgspec.json.encode(rows)
    header += b" " * (-len(header) % 8)
    whole = 8 + len(header) + begin
    try:
        done = 0
        while done < whole:
            piece = min(LEAST, -(-(whole - done) // BLOCK) * BLOCK)
            wrote = append(handle, done, piece)
            os.fsync(handle)
            done += wrote
            told(min(1.0, done / whole))
            if wrote < piece:
                raise told_full(folder, done, whole)
        os.ftruncate(handle, whole)
        os.pwrite(handle, len(header).to_bytes(8, "little") + header, 0)
        os.fsync(handle)
    except OSError as error:
        raise unusable(folder, error) from None
    return whole


def _named(handle: int, folder: str) -> str:
    """A name for the file where the system cannot open it again without one (no /proc)."""
    import tempfile

    target, name = tempfile.mkstemp(prefix=".narrows-load-", suffix=".safetensors", dir=folder)
    try:
        offset = 0
        while data := os.pread(handle, BLOCK, offset):
            os.pwrite(target, data, offset)
            offset += len(data)
    except BaseException:
        os.unlink(name)
        raise
    finally:
        os.close(target)
    return name

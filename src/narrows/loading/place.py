"""Where a local path lies: its file system, what stands behind it, its size, and how much is in the page cache.

Only looked up: nothing of the files is read, and no page is brought in or thrown out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import msgspec

from narrows.hardware.storage import Storage, find_storage
from narrows.text import BadInput, Text, printable

_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt", ".pth", ".tensors")
_SHARES = {
    "nfs": "nfs",
    "nfs4": "nfs",
    "lustre": "fsx",
    "virtiofs": "virtiofs",
    "9p": "virtiofs",
    "wekafs": "weka",
    "ceph": "shared",
    "beegfs": "shared",
    "gpfs": "shared",
    "cifs": "nfs",
    "smb3": "nfs",
    "tmpfs": "tmpfs",
    "ramfs": "tmpfs",
}
"""File system → storage whose figures stand for it."""
_FUSES = {"gcsfuse": "gcsfuse", "s3fs": "s3fs", "mountpoint-s3": "s3fs", "goofys": "s3fs", "rclone": "s3fs"}


class Place(msgspec.Struct, frozen=True):
    """A local path. bytes: of its files of weights; cached: share of them in the page cache, None where not to be told.

    storage: whose figures stand for it; basis: why. readahead: bytes that the kernel reads ahead there, where it says.
    """

    path: str
    filesystem: str
    device: str
    bytes: int
    cached: float | None
    storage: Storage
    basis: Text
    readahead: int | None = None


def look_up(path: str) -> Place:
    """Where the weights at `path` (a file or directory) lie. Raises BadInput where there are none or they cannot be."""
    try:
        files = files_of(path)
        if not files:
            raise BadInput(
                "there are no weights in '{path}'; give a directory with .safetensors or .gguf files, or one such file",
                path=printable(path)[-100:],
            )
        size = sum(os.stat(file).st_size for file in files)
        at = os.stat(files[0]).st_dev
    except OSError as error:
        raise BadInput(
            "'{path}' cannot be read: {reason}", path=printable(path)[-100:], reason=error.strerror or str(error)
        ) from None
    filesystem, source = mount_of(os.path.realpath(files[0]))
    device = f"{os.major(at)}:{os.minor(at)}"
    storage, basis = _behind(filesystem, source, device)
    return Place(path, filesystem, source, size, _cached(files, size), storage, basis, _readahead(device))


def files_of(path: str) -> list[str]:
    """The files of weights at a path; none where there are none. Raises OSError."""
    if not os.path.isdir(path):
        os.stat(path)
        return [path] if path.lower().endswith(_WEIGHTS) else []
    found = [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.lower().endswith(_WEIGHTS)]
    safe = [name for name in found if name.endswith(".safetensors")]
    # a checkpoint that is there twice is loaded once
    return safe or found


def mount_of(path: str) -> tuple[str, str]:
    """(file system, source) of the mount that holds a path, from /proc/self/mountinfo."""
    best = ("", "", "")
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                before, _, after = line.partition(" - ")
                at = before.split()[4].replace("\\040", " ")
                kind, source = after.split()[:2]
                inside = path == at or path.startswith(at.rstrip("/") + "/")
                if inside and len(at) >= len(best[0]):
                    best = (at, kind, source)
    except (OSError, IndexError, ValueError):
        return ("", "")
    return best[1], best[2]


def _behind(filesystem: str, source: str, device: str) -> tuple[Storage, Text]:
    """The storage whose figures stand for a mount, and why."""
    if filesystem.startswith("nfs") and ".efs." in source:
        return find_storage("efs"), Text("its mount is one of Amazon EFS")
    if filesystem.startswith("nfs") and ".file.core.windows.net" in source:
        return find_storage("azure-files"), Text("its mount is one of Azure Files")
    if filesystem in _SHARES:
        id = _SHARES[filesystem]
        return find_storage(id), Text("its file system is {filesystem}", filesystem=filesystem)
    if filesystem.startswith("fuse"):
        kind = filesystem.partition(".")[2]
        id = next((known for name, known in _FUSES.items() if name in kind or name in source), "gcsfuse")
        return find_storage(id), Text("its file system is {filesystem}", filesystem=filesystem)
    block = _sys(device, "device/model")
    if "Elastic Block Store" in block:
        return find_storage("gp3"), Text("its device is a volume of Amazon EBS, of which type it does not say")
    if "Instance Storage" in block or block.startswith("nvme_card"):
        return find_storage("nvme"), Text("its device is a local NVMe drive of the machine")
    name = os.path.basename(source) or _name(device)
    if name.startswith("nvme"):
        return find_storage("nvme"), Text("its device {name} is an NVMe drive", name=name)
    if name.startswith(("vd", "xvd")) or "Virtual" in block or "PersistentDisk" in block:
        return find_storage("virtual-disk"), Text("its device {name} is a virtual disk", name=name)
    if _sys(device, "queue/rotational") == "1":
        return find_storage("hdd"), Text("its device {name} says that it rotates", name=name)
    if name.startswith("sd"):
        return find_storage("sata-ssd"), Text("its device {name} does not rotate", name=name)
    return find_storage("virtual-disk"), Text("what stands behind its file system cannot be told")


def _name(device: str) -> str:
    try:
        return os.path.basename(os.path.realpath(f"/sys/dev/block/{device}"))
    except OSError:
        return ""


def _sys(device: str, name: str) -> str:
    """A line about a block device, or about the one that a partition is part of."""
    for at in (f"/sys/dev/block/{device}", f"/sys/dev/block/{device}/.."):
        try:
            with open(f"{at}/{name}", encoding="utf-8", errors="replace") as file:
                return file.read().strip()
        except OSError:
            continue
    return ""


def _readahead(device: str) -> int | None:
    try:
        with open(f"/sys/class/bdi/{device}/read_ahead_kb", encoding="ascii") as file:
            return int(file.read()) * 1024
    except (OSError, ValueError):
        return None


def _cached(files: list[str], size: int) -> float | None:
    """Share of the files in the page cache, by mincore; None where the system does not tell."""
    if not sys.platform.startswith("linux") or not size:
        return None
    held = 0
    for file in files:
        # of others' files Linux calls every page resident
        if not (os.access(file, os.W_OK) or os.stat(file).st_uid == os.geteuid()):
            return None
        try:
            held += sum(resident(file))
        except OSError:
            return None
    return min(1.0, held / size)


_PIECE = 2**30
_LOWEST = bytes(value & 1 for value in range(256))
"""The lowest bit of each byte says whether its page is in memory; the others are reserved."""


def resident(path: str) -> Iterator[int]:
    """Bytes of a file in memory, piece by piece. The mapping is only asked about, never touched."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    number = ctypes.c_int
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, number, number, number, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    page = os.sysconf("SC_PAGE_SIZE")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        for start in range(0, size, _PIECE):
            length = min(_PIECE, size - start)
            at = libc.mmap(None, length, 1, 1, descriptor, start)  # PROT_READ, MAP_SHARED
            if at in (None, ctypes.c_void_p(-1).value):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            pages = -(-length // page)
            told = ctypes.create_string_buffer(pages)
            failed = libc.mincore(at, length, told)
            libc.munmap(at, length)
            if failed:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            yield min(length, page * told.raw.translate(_LOWEST).count(1))
    finally:
        os.close(descriptor)

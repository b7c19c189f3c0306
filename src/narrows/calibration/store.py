"""The one store of corrections: what `--calibrate` measured on the user's machines, one JSON object per line.

The file is NARROWS_CALIBRATION, else calibration.jsonl in narrows' folder of the user's configuration. Predictions
read it and say so; `narrows calibration` lists and removes.
"""

from __future__ import annotations

import os
from functools import cache

import msgspec

from narrows.text import BadInput, Text

MOST_BYTES = 4 * 2**20


class Correction(msgspec.Struct, frozen=True):
    """What one start reported against what was predicted for it.

    kv_bytes: bytes per device that were there for KV cache beyond the prediction (negative: fewer). log: where it was
    read; date: when, ISO.
    """

    engine: str
    version: str
    gpu: str
    model: str
    tensor_parallel: int
    kv_bytes: int
    log: str
    date: str


class MeasuredStorage(msgspec.Struct, frozen=True, kw_only=True):
    """What a run of `measure load` found where files lie: bytes/s; `latency` of one page in seconds.

    device, filesystem: of the mount, as the system names them. top: with many reads under way; stream: one reader
    through the page cache. date: when, ISO.
    """

    device: str
    filesystem: str
    top: float
    stream: float
    first_touch: float
    memcpy: float
    latency: float
    date: str


Kept = Correction | MeasuredStorage


class Applied(msgspec.Struct, frozen=True):
    """The correction of one prediction: bytes to add to the predicted KV cache, and from which starts."""

    kv_bytes: int
    basis: Text


def store_path() -> str:
    """Where the corrections are kept."""
    given = os.environ.get("NARROWS_CALIBRATION")
    if given:
        return given
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(home, "narrows", "calibration.jsonl")


def corrections() -> tuple[Correction, ...]:
    """All corrections, the oldest first; none where there is no file. Raises BadInput for a file that is damaged."""
    return tuple(one for one in _kept() if isinstance(one, Correction))


def measured_storages() -> tuple[MeasuredStorage, ...]:
    """All storages that were measured, the oldest first. Raises BadInput for a file that is damaged."""
    return tuple(one for one in _kept() if isinstance(one, MeasuredStorage))


def _kept() -> tuple[Kept, ...]:
    path = store_path()
    try:
        status = os.stat(path)
    except OSError:
        return ()
    if status.st_size > MOST_BYTES:
        raise BadInput("'{path}' is too large for a store of corrections; move it away", path=path)
    return _read(path, status.st_size, status.st_mtime_ns)


@cache
def _read(path: str, size: int, changed: int) -> tuple[Kept, ...]:
    """The file as it was at that size and time."""
    try:
        with open(path, "rb") as file:
            lines = file.read(MOST_BYTES).splitlines()
        return tuple(
            msgspec.json.decode(line, type=MeasuredStorage if b'"filesystem":' in line else Correction)
            for line in lines
            if line.strip()
        )
    except (OSError, msgspec.DecodeError) as error:
        raise BadInput(
            "the store of corrections '{path}' cannot be read ({reason}); mend it or move it away",
            path=path,
            reason=str(error)[:120],
        ) from None


def correction_for(engine: str, version: str, gpu: str, model: str, tensor_parallel: int) -> Applied | None:
    """The correction that holds: of this very deployment, else of device and version, else of the version; or none.

    Where several starts are on record, their median.
    """
    known = [one for one in corrections() if (one.engine, one.version) == (engine, version)]
    exact = [one for one in known if (one.gpu, one.model, one.tensor_parallel) == (gpu, model, tensor_parallel)]
    device = [one for one in known if one.gpu == gpu]
    for found, basis in (
        (exact, Text("corrected by {n} starts of this deployment on record ('narrows calibration')", n=len(exact))),
        (device, Text("corrected by {n} starts of this device and version ('narrows calibration')", n=len(device))),
        (known, Text("corrected by {n} starts of this version ('narrows calibration')", n=len(known))),
    ):
        if found:
            return Applied(_median([one.kv_bytes for one in found]), basis)
    return None


def _median(values: list[int]) -> int:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2


def add(correction: Correction) -> None:
    """Keep a correction; one of the same deployment and log is replaced."""

    def same(one: Correction) -> bool:
        return msgspec.structs.replace(one, kv_bytes=0, date="") == msgspec.structs.replace(
            correction, kv_bytes=0, date=""
        )

    _write([*(one for one in corrections() if not same(one)), correction, *measured_storages()])


def add_storage(found: MeasuredStorage) -> None:
    """Keep what was measured of a storage; what was known of the same is replaced."""
    others = [one for one in measured_storages() if (one.device, one.filesystem) != (found.device, found.filesystem)]
    _write([*corrections(), *others, found])


def remove(number: int) -> Kept:
    """Take the one with this number out: from 1, corrections, then storages. Raises BadInput if there is none."""
    kept: list[Kept] = [*corrections(), *measured_storages()]
    if not 1 <= number <= len(kept):
        raise BadInput("there is no correction {number}; 'narrows calibration' lists them", number=number)
    gone = kept.pop(number - 1)
    _write(kept)
    return gone


def _write(kept: list[Kept]) -> None:
    """Replace the file as a whole, so that an interruption loses nothing."""
    from tempfile import NamedTemporaryFile  # slow to load, and most runs only read

    path = store_path()
    folder = os.path.dirname(path) or "."
    try:
        os.makedirs(folder, exist_ok=True)
        with NamedTemporaryFile("wb", dir=folder, delete=False) as file:
            file.write(b"".join(msgspec.json.encode(one) + b"\n" for one in kept))
        os.replace(file.name, path)
    except OSError as error:
        raise BadInput(
            "the store of corrections '{path}' cannot be written: {reason}",
            path=path,
            reason=error.strerror or str(error),
        ) from None

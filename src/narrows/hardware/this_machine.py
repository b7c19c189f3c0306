"""The machine that narrows itself measured, kept as a device: `--gpu this-machine`.

The file is NARROWS_MACHINE, else this-machine.json in narrows' folder of the user's data (XDG_DATA_HOME). `narrows
measure machine` writes it; everything that takes the name of an accelerator reads it.
"""

from __future__ import annotations

import os
from functools import cache

import msgspec

from narrows.hardware.accelerator import Accelerator
from narrows.text import BadInput

THIS_MACHINE = "this-machine"
MOST_BYTES = 4 * 2**20
_SCHEMA = "narrows.this-machine/1"


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What one measurement of this machine left.

    device: its measured figures as an accelerator whose id is `this-machine`. laws: name of a law (`gemm`, …) → rows
    of `calibration.laws.Law`, kept as JSON since that layer lies below. measured: when, ISO. contended: other work
    ran beside the measurement, and its user kept it all the same. datasheet: id of the catalogue's entry for it, if
    there is one.
    """

    schema: str = _SCHEMA
    device: Accelerator
    laws: dict[str, list[msgspec.Raw]]
    measured: str
    contended: bool
    datasheet: str | None = None


def machine_path() -> str:
    """Where the measured machine is kept."""
    given = os.environ.get("NARROWS_MACHINE")
    if given:
        return given
    home = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(home, "narrows", "this-machine.json")


def machine() -> Machine | None:
    """What was measured last, or None. Raises BadInput for a file that is damaged."""
    path = machine_path()
    try:
        status = os.stat(path)
    except OSError:
        return None
    if status.st_size > MOST_BYTES:
        raise BadInput("'{path}' is too large for a measured machine; move it away", path=path)
    return _read(path, status.st_size, status.st_mtime_ns)


@cache
def _read(path: str, size: int, changed: int) -> Machine:
    """The file as it was at that size and time."""
    try:
        with open(path, "rb") as file:
            found = msgspec.json.decode(file.read(MOST_BYTES), type=Machine)
        if found.schema != _SCHEMA or found.device.id != THIS_MACHINE:
            raise msgspec.ValidationError(f"it is no {_SCHEMA}")
        return found
    except (OSError, msgspec.DecodeError) as error:
        raise BadInput(
            "the measured machine '{path}' cannot be read ({reason}); measure again with 'narrows measure machine' "
            "or move it away",
            path=path,
            reason=str(error)[:120],
        ) from None


def this_machine() -> Accelerator:
    """The device that was measured here. Raises BadInput where nothing was."""
    found = machine()
    if found is None:
        raise BadInput("this machine has not been measured yet: run 'narrows measure machine' first")
    return found.device


def writable(path: str) -> None:
    """Refuse, before minutes of measuring, a place where the result could not be kept. Raises BadInput."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None
    if os.path.isdir(path) or not os.access(path if os.path.exists(path) else folder, os.W_OK):
        raise _unwritable(path, PermissionError(13, os.strerror(13)))


def keep(found: Machine) -> None:
    """Replace the file as a whole, so that an interruption loses nothing. Raises BadInput."""
    from tempfile import mkstemp  # slow to load, and most runs only read

    path = os.path.abspath(machine_path())
    temporary = ""
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle, temporary = mkstemp(dir=os.path.dirname(path), prefix=".this-machine-")
        with open(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
        os.replace(temporary, path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


def _unwritable(path: str, error: OSError) -> BadInput:
    return BadInput(
        "the measured machine '{path}' cannot be written: {reason}", path=path, reason=error.strerror or str(error)
    )

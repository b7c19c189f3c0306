"""The checkpoint of a hub repository at one commit, by the headers of its files: no weight is downloaded.

One request lists the files; one reads each header, eight at a time. What was read is kept in the client's cache for
assets, since a commit never changes.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from narrows.models.hub_guard import NotAHub, TooLarge, transport_error
from narrows.models.hub_refusals import Refused, Unreachable
from narrows.models.stored.choose import MOST_INDEX, SUFFIX, Chosen, are_numbered, choose, is_weights
from narrows.models.stored.directory import MOST_HEADERS, gathered, read_directory
from narrows.models.stored.inventory import Inventory, Progress, StoredTensor
from narrows.models.stored.ranges import Ranges
from narrows.models.stored.safetensors import LENGTH, MOST_TENSORS, parse, refusal
from narrows.text import BadInput, Text

MOST_SECONDS = 45.0
"""For all headers of a repository, whatever the network does."""
_AT_ONCE = 8
_MOST_LISTING = 32 * 2**20
_KEPT = 1
"""Version of what is kept in the cache."""


class _Sibling(msgspec.Struct):
    rfilename: str


class _Listing(msgspec.Struct):
    siblings: list[_Sibling] = []


class _Saved(msgspec.Struct):
    version: int
    found: Inventory | None


def read_hub(
    repository: str, commit: str, snapshot: str, online: bool, progress: Progress | None
) -> tuple[Inventory | None, Text | None]:
    """(what the files of a commit hold, why it is not known). Both None where it holds no safetensors.

    snapshot: the commit's folder in the client's cache; what lies there complete is read there. online: whether the
    hub may be asked. Raises BadInput for headers that are none.
    """
    local = read_directory(snapshot, progress) if any(map(is_weights, _listdir(snapshot))) else None
    if local is not None and not local.missing:
        return msgspec.structs.replace(local, place=repository), None
    kept = _kept_path(repository, commit)
    saved = _load(kept)
    if saved is not None:
        return saved.found, None
    from huggingface_hub import constants

    if not online or constants.HF_HUB_OFFLINE:
        return local, None
    try:
        found = _asked(repository, commit, progress)
    except Refused as error:
        return None, _refused(repository, error)
    except Unreachable as error:
        return None, _unread(repository, error.reason)
    except NotAHub:
        return None, _unread(repository, Text("the answer is none of a hub's"))
    except TooLarge:
        return None, _unread(repository, Text("they are larger than those of any model"))
    _save(kept, _Saved(_KEPT, found))
    return found, None


def _unread(repository: str, reason: Text) -> Text:
    return Text(
        "the headers of the files of '{name}' were not read ({reason}); bytes are computed from the config",
        name=repository,
        reason=reason,
    )


def _refused(repository: str, error: Refused) -> Text:
    gated = error.code == "GatedRepo" or error.status == 403
    if gated and error.authenticated:
        return Text(
            "the files of '{name}' are gated, and your token has no access to them; bytes are computed from the config",
            name=repository,
        )
    if gated:
        return Text(
            "the files of '{name}' are gated: accept the licence on its page and set HF_TOKEN; bytes are computed from "
            "the config",
            name=repository,
        )
    return _unread(repository, Text("HTTP {status}", status=str(error.status)))


def _asked(repository: str, commit: str, progress: Progress | None) -> Inventory | None:
    """List the files, choose, read. Raises Refused, Unreachable, NotAHub, TooLarge or BadInput."""
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    end = time.monotonic() + MOST_SECONDS
    ranges = Ranges(constants.ENDPOINT, build_hf_headers(), end, MOST_HEADERS)

    def url(file: str) -> str:
        return hf_hub_url(repository, file, revision=commit)

    def listed() -> Chosen | None:
        try:
            data = ranges.whole(f"{constants.ENDPOINT}/api/models/{repository}/revision/{commit}", _MOST_LISTING)
            names = [one.rfilename for one in msgspec.json.decode(data, type=_Listing).siblings]
        except (msgspec.DecodeError, RecursionError):
            raise NotAHub from None
        here = [name for name in names if is_weights(name) and "/" not in name]
        # an index can be as large as all headers together; numbers tell the shards without it
        by_numbers = choose([name for name in here if name.endswith(SUFFIX)], lambda _: b"")
        if by_numbers is not None and not by_numbers.missing and are_numbered(by_numbers.files):
            return by_numbers
        return choose(here, lambda index: ranges.whole(url(index), MOST_INDEX))

    chosen = _in_time([listed], end)[0]
    if chosen is None:
        return None
    if chosen.missing:
        return Inventory("safetensors", repository, (), chosen.files, 0, chosen.missing, chosen.left_out)
    jobs = [partial(ranges.header, url(file), f"{repository}/{file}") for file in chosen.files]
    headers = _in_time(jobs, end, progress)

    def each() -> Any:
        room = MOST_TENSORS
        for file, (header, size) in zip(chosen.files, headers, strict=True):
            tensors = _parsed(f"{repository}/{file}", file, header, size, room)
            room -= len(tensors)
            yield tensors, LENGTH + len(header)

    return gathered(repository, chosen, each())


def _parsed(label: str, file: str, header: bytes, size: int | None, room: int) -> list[StoredTensor]:
    if size is not None and LENGTH + len(header) > size:
        raise refusal(label, size, Text("the file ends inside its header"))
    return parse(label, file, header, None if size is None else size - LENGTH - len(header), room)


def _in_time(jobs: Sequence[Callable[[], Any]], end: float, progress: Progress | None = None) -> list[Any]:
    """The results of jobs that wait for a network, a few at a time; the first error ends all.

    In threads that nobody waits for: looking up a host's name, for one, knows no time limit of its own.
    """
    todo: queue.SimpleQueue[int] = queue.SimpleQueue()
    done: queue.SimpleQueue[tuple[int, Any, BaseException | None]] = queue.SimpleQueue()
    stop = threading.Event()
    for number in range(len(jobs)):
        todo.put(number)

    def work() -> None:
        while not stop.is_set():
            try:
                number = todo.get_nowait()
            except queue.Empty:
                return
            try:
                done.put((number, jobs[number](), None))
            except BaseException as error:
                done.put((number, None, error))

    for _ in range(min(_AT_ONCE, len(jobs))):
        threading.Thread(target=work, daemon=True, name="narrows-headers").start()
    results: list[Any] = [None] * len(jobs)
    try:
        for count in range(1, len(jobs) + 1):
            try:
                number, result, error = done.get(timeout=max(0.0, end - time.monotonic()) + 0.5)
            except queue.Empty:
                raise Unreachable(Text("it does not answer in time")) from None
            if error is not None:
                raise _ours(error)
            results[number] = result
            if progress is not None:
                progress(count, len(jobs))
    finally:
        stop.set()
    return results


def _ours(error: BaseException) -> BaseException:
    if isinstance(error, Refused | Unreachable | NotAHub | TooLarge | BadInput) or not isinstance(error, Exception):
        return error
    return transport_error(error) or error


def _listdir(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _kept_path(repository: str, commit: str) -> str:
    """Where the inventory of a commit is kept: the place that the hub's client gives to libraries."""
    from huggingface_hub import constants

    return os.path.join(constants.HF_ASSETS_CACHE, "narrows", "headers", repository.replace("/", "--"), commit)


def _load(path: str) -> _Saved | None:
    """What was kept; None where there is nothing, or nothing of use."""
    try:
        with open(path, "rb") as file:
            data = zlib.decompressobj().decompress(file.read(), 2**28)
        saved = msgspec.msgpack.decode(data, type=_Saved)
    except (OSError, zlib.error, msgspec.DecodeError):
        return None
    return saved if saved.version == _KEPT else None


def _save(path: str, saved: _Saved) -> None:
    """Keep it, if that is possible; another process may do the same at the same time."""
    part = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(part, "wb") as file:
            file.write(zlib.compress(msgspec.msgpack.encode(saved), 1))
        os.replace(part, path)
    except OSError:
        return

"""Configs from the hub: `org/name` or `org/name@revision`, through huggingface_hub, into its usual cache.

HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_OFFLINE and a login by `hf auth login` mean what they mean to that client. It is
imported only when a hub id is looked up.
"""

from __future__ import annotations

import os
import queue
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from narrows.models.config_file import MOST_BYTES
from narrows.models.hub_guard import Guard, NotAHub, TooLarge, refusal_of, transport_error
from narrows.models.hub_refusals import Asked, Refused, Silent, Unreachable, not_a_hub, refused, too_large, unreachable
from narrows.models.quantization import BESIDE
from narrows.text import BadInput, Text

MOST_SECONDS = 9.0
"""For one look-up, whatever the network does."""

_NAME = r"[A-Za-z0-9_](?:[\w.-]*[A-Za-z0-9_])?"
_HUB_ID = re.compile(rf"({_NAME}/{_NAME})(?:@([A-Za-z0-9_][\w./+-]{{0,199}}))?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SAFE = re.compile(r"[\w][\w.:+=-]{0,199}", re.ASCII)
"""A commit or an ETag that can stand for a file's name."""


@dataclass(frozen=True)
class Found:
    """A config.json in the client's cache, with its companions beside it.

    unsure: companions that may be in the repository and are not in the cache.
    """

    path: str
    source: str
    notes: tuple[Text, ...] = ()
    unsure: tuple[str, ...] = ()


def hub_id(name: str) -> tuple[str, str | None] | None:
    """(id, revision) where `name` looks like a hub id: exactly one slash, the hub's characters; else None."""
    found = _HUB_ID.fullmatch(name.strip())
    if found is None:
        return None
    repository, revision = found.groups()
    if len(repository) > 96 or "--" in repository or ".." in repository or repository.endswith(".git"):
        return None
    # a revision becomes a path in the cache
    if revision is not None and (".." in revision or "//" in revision or revision.endswith(("/", "."))):
        return None
    return repository, revision


def find(repository: str, revision: str | None, *, online: bool = True) -> Found | None:
    """The config of a repository at a revision; None where it would have to be asked for and must not be.

    online=False, like HF_HUB_OFFLINE, looks into the cache only. Raises BadInput with what to do.
    """
    try:
        from huggingface_hub import constants, set_client_factory  # noqa: F401 - the latter is new in 1.0
    except ImportError:
        raise Silent(
            "'{name}' would be looked up on the hub, which needs huggingface_hub 1.0 or newer; 'pip install -U "
            "huggingface_hub', or give the model's config.json",
            name=repository,
        ) from None
    asked = Asked(repository, revision, _shown(constants.ENDPOINT))
    if revision is not None and _COMMIT.fullmatch(revision):
        # a commit does not change
        found = _cached(asked)
        if found is not None and not found.unsure:
            return found
    if constants.HF_HUB_OFFLINE:
        return _cached(asked, _silent(asked, Text("HF_HUB_OFFLINE is set")))
    if not online:
        return _cached(asked, Text("'{name}' is taken from the local cache; the hub was not asked", name=asked.label))
    try:
        return _within(MOST_SECONDS, lambda: _download(asked))
    except Refused as error:
        found = None
        if error.passing:
            found = _cached(asked, _silent(asked, Text("it answers with HTTP {status}", status=str(error.status))))
        elif error.access:
            found = _cached(
                asked,
                Text("'{name}' is taken from the local cache; the hub gives no access to it now", name=asked.label),
            )
        if found is None:
            raise refused(error, asked) from None
        return found
    except Unreachable as error:
        found = _cached(asked, _silent(asked, error.reason))
        if found is None:
            raise unreachable(error.reason, asked) from None
        return found


def _silent(asked: Asked, reason: Text) -> Text:
    return Text(
        "'{name}' is taken from the local cache, the hub could not be reached ({reason})",
        name=asked.label,
        reason=reason,
    )


def _download(asked: Asked) -> Found:
    """Ask the hub for the commit, fetch what the cache lacks. Raises Refused, Unreachable or BadInput."""
    from huggingface_hub import constants, get_hf_file_metadata, hf_hub_download, hf_hub_url
    from huggingface_hub.errors import FileMetadataError, HfHubHTTPError, LocalEntryNotFoundError

    name = "config.json"
    try:
        with Guard(constants.ENDPOINT, MOST_SECONDS, MOST_BYTES):
            # first by itself: it fails at once and with the reason, where the download would try for minutes
            address = hf_hub_url(asked.id, name, revision=asked.revision)
            about = get_hf_file_metadata(address, timeout=constants.HF_HUB_ETAG_TIMEOUT)
            commit = about.commit_hash or ""
            if not _SAFE.fullmatch(commit) or not _SAFE.fullmatch(about.etag or ""):
                raise NotAHub
            if about.size is not None and about.size > MOST_BYTES:
                raise TooLarge
            path = _in_cache(asked, name, asked.revision)
            if path is None or _commit_of(path) != commit:
                path = hf_hub_download(asked.id, name, revision=asked.revision)
            for name in BESIDE:
                if _in_cache(asked, name, commit) is None and not _known_absent(asked, name, commit):
                    try:
                        hf_hub_download(asked.id, name, revision=commit)
                    except HfHubHTTPError as error:
                        if error.response.status_code != 404:
                            raise
            return Found(path, _source(asked, path))
    except HfHubHTTPError as error:
        raise refusal_of(error.response) from None
    except NotAHub:
        raise not_a_hub(asked) from None
    except TooLarge:
        raise too_large(asked, name, MOST_BYTES // 2**20) from None
    except LocalEntryNotFoundError as error:
        if isinstance(error.__cause__, FileMetadataError):
            raise not_a_hub(asked) from None
        raise Unreachable(Text("the connection broke off")) from None
    except (BadInput, Refused, Unreachable):
        raise
    except Exception as error:
        ours = transport_error(error)
        if ours is not None:
            raise ours from None
        if isinstance(error, OSError):
            # the client checks the size it was told and says so in an OSError without a number
            if error.errno is None:
                raise Unreachable(Text("the connection broke off")) from None
            raise BadInput(
                "the hub's cache cannot be written: {reason}; set HF_HOME to a folder that can be, or give the model's "
                "config.json",
                reason=error.strerror or type(error).__name__,
            ) from None
        raise


def _within(seconds: float, work: Callable[[], Found]) -> Found:
    """The result of `work`, or Unreachable: looking up a host's name, for one, knows no time limit of its own."""
    done: queue.SimpleQueue[Found | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            done.put(work())
        except BaseException as error:
            done.put(error)

    threading.Thread(target=run, daemon=True, name="narrows-hub").start()
    try:
        result = done.get(timeout=seconds + 0.5)
    except queue.Empty:
        raise Unreachable(Text("it does not answer in time")) from None
    if isinstance(result, BaseException):
        raise result
    return result


def _cached(asked: Asked, note: Text | None = None) -> Found | None:
    """What the client's cache holds of it; the note tells why the hub was not asked."""
    path = _in_cache(asked, "config.json", asked.revision)
    if path is None:
        return None
    commit = _commit_of(path)
    unsure = tuple(
        name for name in BESIDE if _in_cache(asked, name, commit) is None and not _known_absent(asked, name, commit)
    )
    # a commit is the same wherever it comes from
    notes = (note,) if note is not None and asked.revision != commit else ()
    return Found(path, _source(asked, path), notes, unsure)


def _in_cache(asked: Asked, name: str, revision: str | None) -> str | None:
    from huggingface_hub import try_to_load_from_cache

    try:
        found = try_to_load_from_cache(asked.id, name, revision=revision)
    except OSError:
        return None
    return found if isinstance(found, str) else None


def _known_absent(asked: Asked, name: str, commit: str) -> bool:
    """Whether the client noted that the repository has no such file."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(asked.id, name, revision=commit)
    return found is not None and not isinstance(found, str)


def _commit_of(path: str) -> str:
    """The commit of a cached file, the folder it stands in."""
    return os.path.basename(os.path.dirname(path))


def _source(asked: Asked, path: str) -> str:
    return f"{asked.page}/blob/{_commit_of(path)}/config.json"


def _shown(endpoint: str) -> str:
    """An endpoint without what stands before the host: that may be a password."""
    parts = urlsplit(endpoint)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

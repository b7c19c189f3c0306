"""What the hub's refusals and silences mean, as sentences that say what to do. No network, no huggingface_hub here."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

from narrows.text import BadInput, Text


@dataclass(frozen=True)
class Asked:
    """What is looked for: a repository, a revision (None: the main branch), at an endpoint without credentials."""

    id: str
    revision: str | None
    endpoint: str

    @property
    def label(self) -> str:
        """As a user writes it: `org/name` or `org/name@revision`."""
        return self.id if self.revision is None else f"{self.id}@{self.revision}"

    @property
    def page(self) -> str:
        """The address of the repository's page."""
        return f"{self.endpoint}/{self.id}"


class Refused(Exception):
    """The hub answered, with an error. authenticated: whether a token went with the request."""

    def __init__(self, status: int, code: str = "", message: str = "", authenticated: bool = False) -> None:
        super().__init__(status)
        self.status = status
        self.code = code
        self.message = message
        self.authenticated = authenticated

    @property
    def passing(self) -> bool:
        """Whether it may be otherwise in a minute: too many requests, or the hub is down."""
        return self.status in (408, 429) or self.status >= 500

    @property
    def access(self) -> bool:
        """Whether it is about who asks, not about what is there."""
        return self.status in (401, 403) or self.code == "GatedRepo"


class Silent(BadInput):
    """Nothing was learnt from the hub: it could not be asked, or what answers is no hub."""


class Unreachable(Exception):
    """No answer, or none to the end. reason: a phrase that fits into brackets."""

    def __init__(self, reason: Text) -> None:
        super().__init__(str(reason))
        self.reason = reason


def refused(error: Refused, asked: Asked) -> BadInput:
    """The sentence for an error the hub answered with."""
    if error.code == "GatedRepo":
        if error.authenticated:
            return BadInput(
                "'{name}' is gated, and your token has no access to it: accept the licence at {page} (approval can "
                "take time), or download its config.json by hand and give that file",
                name=asked.id,
                page=asked.page,
            )
        return BadInput(
            "'{name}' is gated: accept the licence at {page} and set HF_TOKEN, or download its config.json by hand and "
            "give that file",
            name=asked.id,
            page=asked.page,
        )
    if error.code == "RevisionNotFound":
        return BadInput(
            "'{name}' has no revision '{revision}' at {page}; give a branch, a tag or a commit after the @",
            name=asked.id,
            revision=asked.revision or "main",
            page=asked.page,
        )
    if error.code == "EntryNotFound":
        return BadInput(
            "'{name}' holds no config.json (a repository of GGUF files or of an adapter, perhaps); give the model it "
            "was made from",
            name=asked.label,
        )
    if error.status == 401 and error.authenticated and error.code != "RepoNotFound":
        return BadInput(
            "{endpoint} does not accept your token; renew it ('hf auth login', or HF_TOKEN), or unset it for a public "
            "model",
            endpoint=asked.endpoint,
        )
    if error.status in (401, 404):
        return _no_such_model(error, asked)
    if error.status == 429:
        return BadInput(
            "{endpoint} answers that there were too many requests; wait a few minutes, set HF_TOKEN (its limit is "
            "higher), or download config.json by hand and give that file",
            endpoint=asked.endpoint,
        )
    return BadInput(
        "{endpoint} does not give out '{name}' (HTTP {status}); look at {page}, or download its config.json by hand "
        "and give that file",
        endpoint=asked.endpoint,
        name=asked.id,
        status=str(error.status),
        page=asked.page,
    )


def _no_such_model(error: Refused, asked: Asked) -> BadInput:
    from narrows.models.catalogue import nearest

    near = nearest(asked.id)
    if near and error.authenticated:
        return BadInput(
            "'{name}' is not in the catalogue, and {endpoint} has no such model that your token may see; the nearest "
            "in the catalogue are: {near}. For any other model give its config.json (or a directory that holds it)",
            name=asked.id,
            endpoint=asked.endpoint,
            near=", ".join(near),
        )
    if near:
        return BadInput(
            "'{name}' is not in the catalogue, and {endpoint} has no such public model (a private one needs HF_TOKEN); "
            "the nearest in the catalogue are: {near}. For any other model give its config.json (or a directory that "
            "holds it)",
            name=asked.id,
            endpoint=asked.endpoint,
            near=", ".join(near),
        )
    if error.authenticated:
        return BadInput(
            "'{name}' is not in the catalogue, and {endpoint} has no such model that your token may see; check the "
            "name, or give the model's config.json (or a directory that holds it)",
            name=asked.id,
            endpoint=asked.endpoint,
        )
    return BadInput(
        "'{name}' is not in the catalogue, and {endpoint} has no such public model (a private one needs HF_TOKEN); "
        "check the name, or give the model's config.json (or a directory that holds it)",
        name=asked.id,
        endpoint=asked.endpoint,
    )


def unreachable(reason: Text, asked: Asked) -> Silent:
    """The sentence for a hub that did not answer, with nothing of the model in the local cache."""
    return Silent(
        "'{name}' is neither in the catalogue nor in the local cache, and {endpoint} could not be reached ({reason}); "
        "check the network and HF_ENDPOINT, or give the model's config.json",
        name=asked.label,
        endpoint=asked.endpoint,
        reason=reason,
    )


def not_a_hub(asked: Asked) -> Silent:
    """The sentence for an answer that no hub gives: a proxy's login page, a wrong HF_ENDPOINT."""
    return Silent(
        "{endpoint} answers, but not as a hub does (a proxy's login page, or a wrong HF_ENDPOINT?); mend that, or "
        "download the config.json of '{name}' by hand and give that file",
        endpoint=asked.endpoint,
        name=asked.label,
    )


def too_large(asked: Asked, file: str, most: int) -> BadInput:
    """The sentence for a config beyond every real one, which is not downloaded."""
    return BadInput(
        "the {file} of '{name}' is larger than any (limit {most} MB) and was not downloaded; give the config.json of "
        "the original model",
        file=file,
        name=asked.label,
        most=most,
    )


def reason_of(error: BaseException) -> Text:
    """Why a connection failed. Never the error's own words: those can quote a header, and so a token."""
    for cause in _causes(error):
        kinds = {kind.__name__ for kind in type(cause).__mro__}
        if isinstance(cause, socket.gaierror):
            return Text("its name cannot be resolved")
        if isinstance(cause, ConnectionRefusedError):
            return Text("the connection was refused")
        if isinstance(cause, ssl.SSLError):
            return Text("its certificate is not accepted")
        if isinstance(cause, TimeoutError) or "TimeoutException" in kinds:
            return Text("it does not answer in time")
        if isinstance(cause, ConnectionError) or kinds & {"RemoteProtocolError", "ReadError"}:
            return Text("the connection broke off")
        if kinds & {"ProxyError"}:
            return Text("the proxy lets nothing through")
        if kinds & {"UnsupportedProtocol", "InvalidURL"}:
            return Text("HF_ENDPOINT is not an address such as https://huggingface.co")
    return Text("error {name}", name=type(error).__name__)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error's causes, the first one first, then itself."""
    chain, one = [error], error.__cause__ or error.__context__
    while one is not None and len(chain) < 20:
        chain.append(one)
        one = one.__cause__ or one.__context__
    return reversed(chain)

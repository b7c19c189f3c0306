"""Speculative decoding as it is asked for: vLLM's --speculative-config, or the flags that came before it."""

from __future__ import annotations

from typing import Any

import msgspec

from narrows.text import BadInput

WEIGHTLESS = ("ngram", "ngram_gpu", "suffix")
"""Methods that look tokens up in what was said before: they keep nothing on the device but a few tokens."""
LOOKING_AHEAD = ("eagle", "eagle3", "mtp", "draft_model")
"""Methods whose drafts have keys and values, so that each sequence gets slots for them beforehand (vLLM's scheduler,
Apache-2.0: use_eagle, uses_draft_model)."""
METHODS = (*WEIGHTLESS, *LOOKING_AHEAD, "medusa")
_MOST = 1024


class Speculative(msgspec.Struct, frozen=True):
    """What is asked for. model: of the draft, where it has files of its own. tokens: drafted per step; None: not said.

    tensor_parallel: ranks of the draft; None: the target's. asked: the value of the flag, as it was written.
    """

    method: str
    tokens: int | None
    model: str | None = None
    tensor_parallel: int | None = None
    asked: str = ""


SGLANG_ALGORITHMS = {
    "EAGLE": "eagle",
    "EAGLE3": "eagle3",
    "NEXTN": "mtp",
    "STANDALONE": "draft_model",
    "NGRAM": "ngram",
}
"""SGLang's --speculative-algorithm → methods."""


def read_speculative(
    given: str | dict[str, Any],
    *,
    model: str | None = None,
    tokens: int | None = None,
    ranks: int | None = None,
    algorithm: str | None = None,
) -> Speculative:
    """The value of --speculative-config, a JSON object. model, tokens, ranks: of older flags of their own.
    algorithm: of SGLang, whose EAGLE without a model is by prediction layers.

    A method that is not named follows from the draft's name, as vLLM's SpeculativeConfig (Apache-2.0) has it. Raises
    BadInput for a method whose memory is not known.
    """
    if isinstance(given, dict):
        config, asked = dict(given), msgspec.json.encode(given).decode()
    else:
        asked = given.strip()
        try:
            config = msgspec.json.decode(asked, type=dict[str, Any]) if asked else {}
        except (msgspec.MsgspecError, RecursionError):
            raise BadInput(
                'the speculative config is \'{value}\'; it must be a JSON object such as {{"method": "mtp", '
                '"num_speculative_tokens": 1}}',
                value=asked[:80],
            ) from None
    named = config.get("model", model)
    if named is not None and (not isinstance(named, str) or not named.strip()):
        raise BadInput("'{field}' of the speculative config is no name", field="model")
    if algorithm is not None:
        config["method"] = (
            "mtp" if algorithm == "EAGLE" and named is None else SGLANG_ALGORITHMS.get(algorithm, algorithm)
        )
    method = _method(config.get("method"), named)
    return Speculative(
        method,
        _whole(config.get("num_speculative_tokens", tokens), "num_speculative_tokens"),
        None if method in WEIGHTLESS else named,
        _whole(config.get("draft_tensor_parallel_size", ranks), "draft_tensor_parallel_size"),
        asked,
    )


def _method(stated: Any, model: str | None) -> str:
    if stated is None:
        if model is None:
            raise BadInput("the speculative config names neither a method nor a model")
        low = model.lower()
        if low.strip("[]") == "ngram":
            return "ngram"
        found = {"eagle-": "eagle", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark", "medusa": "medusa"}
        stated = next((method for sign, method in found.items() if sign in low), "draft_model")
    method = str(stated).strip("[]").lower()
    method = "mtp" if method.endswith("mtp") else method
    if method not in METHODS:
        raise BadInput(
            "what speculative decoding by '{method}' keeps on the device is not known; narrows knows {known}. Leave it "
            "out to see the target alone",
            method=method[:40],
            known=", ".join(METHODS),
        )
    return method


def _whole(value: Any, field: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
        raise BadInput(
            "'{field}' of the speculative config is {value}; it must be a whole number from 1 to {most}",
            field=field,
            value=str(value)[:40],
            most=_MOST,
        )
    return value

"""Reads the command that starts an engine, as it is pasted: from a shell, a docker run, a Compose file, a manifest.

Flags and what they mean are data (`data/<engine>-flags.jsonl`); a flag that does not bear on memory is passed over.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal

import msgspec

from narrows.text import BadInput

MOST_CHARACTERS = 200_000
_ENTRY = re.compile(r"(^|/)vllm$")
_MODULE = "vllm.entrypoints.openai.api_server"
_IMAGE = re.compile(r"vllm[\w.-]*(?:/[\w.-]+)?:v?(\d+\.\d+(?:\.\d+)?)")


class Flag(msgspec.Struct, frozen=True):
    """One flag of an engine: its spellings, the option it sets, and how its value is read."""

    flags: tuple[str, ...]
    option: str
    kind: Literal["text", "count", "tokens", "share", "switch"]


class EngineCommand(msgspec.Struct, frozen=True):
    """A start command: engine, version where an image names it, model, options by name, and its words.

    ignored: flags that do not bear on memory. words: the command itself, so that it can be given back corrected.
    """

    engine: str
    version: str | None
    model: str
    options: dict[str, Any]
    ignored: tuple[str, ...]
    words: tuple[str, ...]

    def corrected(self, changes: dict[str, str | None]) -> str:
        """The command with `flag: value` set in place of what stands there; None takes the flag out."""
        flags = flag_table(self.engine)
        kept: list[str] = []
        names = {spelling for flag in changes for spelling in (flags[flag].flags if flag in flags else (flag,))}
        skip = False
        for word in self.words:
            if skip:
                skip = False
                continue
            name, equals, _ = word.partition("=")
            if _spelled(name) in names:
                found = flags.get(_spelled(name))
                skip = not equals and (found is None or found.kind != "switch")
                continue
            kept.append(word)
        for flag, value in changes.items():
            if value is not None:
                kept += [flag, value] if value else [flag]
        return shlex.join(kept)


@cache
def flag_table(engine: str) -> dict[str, Flag]:
    """Spelling → flag."""
    path = os.path.join(os.path.dirname(__file__), "data", f"{engine}-flags.jsonl")
    with open(path, "rb") as file:
        rows = msgspec.json.Decoder(Flag).decode_lines(file.read())
    return {spelling: row for row in rows for spelling in row.flags}


def looks_like_command(text: str) -> bool:
    """Whether the text is a start command or the path of a YAML file, rather than a model."""
    return text.strip().endswith((".yml", ".yaml")) or bool(
        re.search(r"vllm\s+serve\s|vllm[.\w/:-]*\s.*--model", text, re.S)
    )


def read_command(text: str) -> EngineCommand:
    """The start command in `text`, or in the YAML file that it names. Raises BadInput with what is missing."""
    if len(text) > MOST_CHARACTERS:
        raise BadInput(
            "the command is longer than {most} characters; paste the start command only", most=MOST_CHARACTERS
        )
    text = text.strip()
    if text.endswith((".yml", ".yaml")) and "\n" not in text and " " not in text:
        return _from_yaml(text)
    return _from_words(_split(text))


def _from_words(words: list[str], version: str | None = None) -> EngineCommand:
    """Find where the engine's own arguments begin, then read them."""
    begin = None
    for index, word in enumerate(words):
        following = words[index + 1] if index + 1 < len(words) else ""
        if _ENTRY.search(word) and following == "serve":
            begin = index + 2
        elif word == _MODULE or word.endswith("vllm/entrypoints/openai/api_server.py"):
            begin = index + 1
        elif begin is None and (match := _IMAGE.search(word)) and not word.startswith("-"):
            version, begin = match[1], index + 1
    if begin is None:
        raise BadInput(
            "this is not a start command narrows reads; paste one such as: vllm serve MODEL --max-model-len 32768"
        )
    return _arguments(words, begin, version)


def _arguments(words: list[str], begin: int, version: str | None) -> EngineCommand:
    flags, options, ignored, free = flag_table("vllm"), {}, [], []
    index = begin
    while index < len(words):
        word = words[index]
        index += 1
        if word in ("&&", "||", "|", ";", "&") or word.startswith(("2>", ">")):
            break
        if not word.startswith("-"):
            free.append(word)
            continue
        name, equals, value = word.partition("=")
        flag = flags.get(_spelled(name))
        if flag is None:
            ignored.append(name[:60])
            # a flag narrows does not know may have a value, and a value is not the model
            if not equals and index < len(words) and not words[index].startswith("-"):
                index += 1
            continue
        if flag.kind == "switch":
            options[flag.option] = value.lower() not in ("false", "0")
            continue
        if not equals:
            if index >= len(words):
                raise BadInput("{flag} has no value in the command", flag=name)
            value = words[index]
            index += 1
        options[flag.option] = _value(flag, name, value)
    model = options.pop("model", None) or (free[0] if free else None)
    if model is None:
        raise BadInput("the command names no model; it stands after 'vllm serve' or after --model")
    return EngineCommand("vllm", version, str(model), options, tuple(ignored), tuple(words))


def _spelled(name: str) -> str:
    """`--max_model_len` and `--max-model-len` are the same flag."""
    return "--" + name[2:].replace("_", "-") if name.startswith("--") else name


_TOKENS = re.compile(r"(\d+(?:\.\d+)?)([kmgtKMGT])?")
_FACTORS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def _value(flag: Flag, name: str, value: str) -> Any:
    """A flag's value: counts may be written 32k (32,000) or 32K (32,768), as the engine reads them."""
    if flag.kind == "text":
        return value
    if flag.kind == "share":
        try:
            return float(value)
        except ValueError:
            raise BadInput(
                "{flag} is '{value}' in the command; it must be a number", flag=name, value=value[:40]
            ) from None
    if flag.option == "max_len" and value in ("auto", "-1"):
        return "auto"
    match = _TOKENS.fullmatch(value)
    if match is None:
        raise BadInput("{flag} is '{value}' in the command; it must be a whole number", flag=name, value=value[:40])
    return int(float(match[1]) * _FACTORS[match[2]] if match[2] else float(match[1]))


def _from_yaml(path: str) -> EngineCommand:
    """The first container of a Compose file or a Kubernetes manifest whose arguments start the engine."""
    import yaml

    try:
        with open(os.path.expanduser(path), "rb") as file:
            text = file.read(MOST_CHARACTERS + 1)
        if len(text) > MOST_CHARACTERS:
            raise BadInput("'{path}' is too large for a Compose file or a manifest", path=path[-100:])
        documents = list(yaml.safe_load_all(text))
    except OSError as error:
        raise BadInput(
            "'{path}' cannot be read: {reason}", path=path[-100:], reason=error.strerror or str(error)
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise BadInput("'{path}' is not valid YAML ({reason})", path=path[-100:], reason=reason) from None
    problem: BadInput | None = None
    for words, version in _containers(documents, 0):
        try:
            return _from_words(words, version)
        except BadInput as error:
            problem = problem or error
    raise problem or BadInput("'{path}' starts no engine that narrows reads", path=path[-100:])


def _containers(value: Any, depth: int) -> Iterator[tuple[list[str], str | None]]:
    """(words, version) of everything that has an image or a command, wherever it stands in the document."""
    if depth > 30:
        return
    if isinstance(value, list):
        for one in value:
            yield from _containers(one, depth + 1)
    elif isinstance(value, dict):
        image = value.get("image")
        parts = [value[key] for key in ("entrypoint", "command", "args") if key in value]
        if isinstance(image, str) and parts:
            words = _script([word for part in parts for word in _words(part)])
            match = _IMAGE.search(image)
            named = any(_ENTRY.search(word) or word == _MODULE for word in words)
            yield (words if named or "vllm" not in image else [image, *words]), match[1] if match else None
        for one in value.values():
            yield from _containers(one, depth + 1)


def _words(part: Any) -> list[str]:
    """A command as a list of words: a string is split as a shell would."""
    if isinstance(part, str):
        return _split(part)
    return [str(word) for word in part] if isinstance(part, list) else []


def _script(words: list[str]) -> list[str]:
    """What a shell's `-c` runs, in place of the shell."""
    if len(words) >= 2 and words[0].rpartition("/")[2] in ("sh", "bash") and words[1] in ("-c", "-lc"):
        return [word for script in words[2:] for word in _split(script)]
    return words


def _split(text: str) -> list[str]:
    """A command's words, lines that end in a backslash joined."""
    try:
        return shlex.split(re.sub(r"\\\s*\n", " ", text).replace("\n", " "))
    except ValueError as error:
        raise BadInput("the command cannot be read ({reason}); check its quotes", reason=str(error)) from None

"""Reads the command that starts an engine, as it is pasted: from a shell, a docker run, a Compose file, a manifest.

Flags and what they mean are data (`data/<engine>-flags.jsonl`); a flag that does not bear on memory is passed over.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from narrows.engines.beginnings import OTHERS
from narrows.engines.flags import Flag, flag_table, meant, spelling_of
from narrows.text import BadInput

MOST_CHARACTERS = 200_000
_ENTRY = re.compile(r"(^|/)vllm$")
_MODULE = "vllm.entrypoints.openai.api_server"
_IMAGE = re.compile(r"(?:[\w.-]+(?::\d+)?/)*[\w.-]*vllm[\w.-]*(?:/[\w.-]+)*(?::(?P<tag>[\w.-]+))?(?:@sha256:\w+)?")
_TAG = re.compile(r"(?:^v?|vllm[_-]v?)([01]\.\d+(?:\.\d+)?)")
"""The version in an image's tag; a tag such as 25.09 numbers the image, not the engine."""
_SWITCH = re.compile(r"--(no|enable|disable|skip|use|allow|return)-")
"""How the engine spells flags that take no value; the others are in the data."""
_CORE = re.compile(r"(?:^|[=\s])VLLM_USE_V1=[\"']?([01])\b")
_DASHES = ("-", "–", "—", "−")
"""The hyphen of flags, and what text editors make of it."""
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


class Word(NamedTuple):
    """One word of a command: what it says, and how it was written. operator: the shell's, such as `&&`."""

    text: str
    written: str
    operator: bool = False


class EngineCommand(msgspec.Struct, frozen=True):
    """A start command: engine, version where an image names it, model, options by name, and its words.

    ignored: flags that do not bear on memory. unread: those that may, and that narrows does not read. before,
    arguments, after: the command's own words, those in the middle the engine's, so that it can be given back corrected.
    """

    engine: str
    version: str | None
    model: str
    options: dict[str, Any]
    ignored: tuple[str, ...]
    before: tuple[Word, ...]
    arguments: tuple[Word, ...]
    after: tuple[Word, ...]
    unread: tuple[str, ...] = ()

    def corrected(self, changes: dict[str, str | None]) -> str:
        """The command with `flag: value` set in place of what stands there; None takes the flag out.

        Everything but the engine's arguments is given back as it was written: the shell around them is not ours.
        """
        flags = flag_table(self.engine)
        kept: list[str] = []
        names = {spelling for flag in changes for spelling in (flags[flag].flags if flag in flags else (flag,))}
        skip = ""
        for word in self.arguments:
            taken, skip = skip, ""
            if taken == "value" or (taken == "truth" and word.text.lower() in _TRUTHS):
                continue
            name, equals, _ = word.text.partition("=")
            spelled = meant(self.engine, spelling_of(name))
            if spelled not in names:
                kept.append(word.written)
            elif not equals:
                found = flags.get(spelled)
                skip = "truth" if found is not None and found.kind == "switch" else "value"
        for flag, value in changes.items():
            if value is not None:
                kept += [flag, shlex.quote(value)] if value else [flag]
        written = [*(word.written for word in self.before), *kept, *(word.written for word in self.after)]
        return " ".join(filter(None, written)).replace(" \n ", "\n").replace(" ; ", "; ")


def read_command(text: str) -> EngineCommand:
    """The start command in `text`, or in the YAML file that it names. Raises BadInput with what is missing."""
    if len(text) > MOST_CHARACTERS:
        raise BadInput(
            "the command is longer than {most} characters; paste the start command only", most=MOST_CHARACTERS
        )
    text = text.strip()
    if text.endswith((".yml", ".yaml")) and "\n" not in text and " " not in text:
        return _from_yaml(text)
    return _from_words(_script(split_words(text)))


def _from_words(words: list[Word], version: str | None = None) -> EngineCommand:
    """Find where the engine's own arguments begin, then read them."""
    begin, container = None, False
    for index, word in enumerate(words):
        following = words[index + 1].text if index + 1 < len(words) else ""
        if _ENTRY.search(word.text) and following == "serve":
            begin = index + 2
            break
        if word.text == _MODULE or word.text.endswith("vllm/entrypoints/openai/api_server.py"):
            begin = index + 1
            break
        if word.text == "run" and index and words[index - 1].text.rpartition("/")[2] in ("docker", "podman", "nerdctl"):
            container = True
        if begin is None and (found := _image(word.text)) and (container or found[1]):
            version, begin = found[1] or version, index + (2 if following == "serve" else 1)
            shell = _entrypoint(words[:index])
            if shell is not None and (script := _script([shell, *words[index + 1 :]])) != [shell, *words[index + 1 :]]:
                return _from_words(script, version)
    if begin is None:
        other = OTHERS.search(" ".join(word.text for word in words))
        if other is not None:
            raise BadInput(
                "this command starts '{name}', whose flags narrows does not read; give the model by itself: "
                "narrows fit MODEL --gpu GPU --max-len TOKENS",
                name=" ".join(other["name"].split()),
            )
        raise BadInput(
            "this is not a start command narrows reads; paste one such as: vllm serve MODEL --max-model-len 32768"
        )
    end = next((index for index in range(begin, len(words)) if words[index].operator), len(words))
    return _arguments(words[:begin], words[begin:end], words[end:], version)


def _entrypoint(words: list[Word]) -> Word | None:
    """What `docker run --entrypoint` puts in place of the image's own command."""
    for one, two in pairwise([*words, Word("", "")]):
        name, equals, value = one.text.partition("=")
        if name == "--entrypoint":
            return Word(value, value) if equals else two
    return None


def _image(text: str) -> tuple[str, str | None] | None:
    """(image, version in its tag) if the word names a container image of the engine."""
    match = _IMAGE.fullmatch(text)
    if match is None or not ("/" in text or match["tag"]):
        return None
    version = _TAG.search(match["tag"] or "")
    return text, version[1] if version else None


def _arguments(before: list[Word], arguments: list[Word], after: list[Word], version: str | None) -> EngineCommand:
    flags, options = flag_table("vllm"), dict[str, Any]()
    ignored: list[str] = []
    unread: list[str] = []
    free: list[str] = []
    texts = [word.text for word in arguments]
    index = 0
    while index < len(texts):
        word = texts[index]
        index += 1
        if word.startswith(_DASHES[1:]):
            raise BadInput("'{word}' begins with a dash that is no hyphen; write it with -", word=word[:40])
        if not word.startswith("-"):
            free.append(word)
            continue
        name, equals, value = word.partition("=")
        spelled = meant("vllm", spelling_of(name))
        flag = flags.get(spelled)
        opposite = flags.get(spelled.replace("--no-", "--", 1)) if spelled.startswith("--no-") else None
        if opposite is not None and opposite.kind == "switch" and opposite.option:
            options[opposite.option] = False
            continue
        if flag is None or not flag.option:
            (unread if flag is None or flag.memory else ignored).append(name[:60])
        following = texts[index] if index < len(texts) and not equals else ""
        if flag.kind == "switch" if flag is not None else _SWITCH.match(spelled):
            said = _TRUTHS.get((value if equals else following).lower())
            index += not equals and said is not None
            if flag is not None and flag.option:
                options[flag.option] = said is not False
        elif flag is None or not flag.option:
            # a flag narrows does not read may have a value, and a value is not the model
            while following and index < len(texts) and not texts[index].startswith(_DASHES):
                index += 1
                if not free and "model" not in options:
                    break
        else:
            if not equals:
                if index >= len(texts):
                    raise BadInput("{flag} has no value in the command", flag=name)
                value = following
                index += 1
            options[flag.option] = _value(flag, name, value)
    if "model" in options and free and texts[0] == free[0]:
        raise BadInput(
            "the command names two models, {first} and --model {second}; name one",
            first=free[0],
            second=options["model"],
        )
    model = options.pop("model", None) or (free.pop(0) if free else None)
    if model is None:
        raise BadInput("the command names no model; it stands after 'vllm serve' or after --model")
    if any(_ENTRY.search(one.text) and two.text == "serve" for one, two in pairwise(after)):
        raise BadInput("the command starts more than one engine; paste one of them")
    ignored += [word[:60] for word in free]
    options |= _core([*before, *after])
    parts = (tuple(before), tuple(arguments), tuple(after))
    return EngineCommand("vllm", version, str(model), options, tuple(ignored), *parts, tuple(unread))


def _core(words: list[Word]) -> dict[str, Any]:
    """The engine core that the command's environment asks for."""
    for word in words:
        found = _CORE.search(word.text)
        if found is not None:
            return {"engine_core": f"V{found[1]}"}
    return {}


_TOKENS = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)([kmgtKMGT])?")
_FACTORS = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def _value(flag: Flag, name: str, value: str) -> Any:
    """A flag's value: counts may be written 32k (32,000) or 32K (32,768), as the engine reads them."""
    if flag.kind == "text":
        return value
    if flag.kind == "share":
        try:
            share = float(value)
        except ValueError:
            share = -1.0
        if not 0 <= share < 10**6:
            raise BadInput("{flag} is '{value}' in the command; it must be a number", flag=name, value=value[:40])
        return share
    if flag.option == "max_len" and value in ("auto", "-1"):
        return "auto"
    match = _TOKENS.fullmatch(value)
    number = Decimal(match[1]) if match else Decimal(0)
    if match is None or number <= 0 or (not match[2] and number != int(number)):
        raise BadInput(
            "{flag} is '{value}' in the command; it must be a whole number above 0", flag=name, value=value[:40]
        )
    return int(number * _FACTORS[match[2]] if match[2] else number)


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
    found: list[EngineCommand] = []
    for words, version in _containers(documents, 0, set()):
        try:
            found.append(_from_words(words, version))
        except BadInput as error:
            problem = problem or error
    if len(found) > 1:
        models = ", ".join(one.model for one in found)
        raise BadInput(
            "'{path}' starts more than one engine ({models}); paste the start command of one",
            path=path[-100:],
            models=models[:200],
        )
    if found:
        return found[0]
    raise problem or BadInput("'{path}' starts no engine that narrows reads", path=path[-100:])


def _containers(value: Any, depth: int, seen: set[int]) -> Iterator[tuple[list[Word], str | None]]:
    """(words, version) of everything that has an image or a command, wherever it stands in the document."""
    if depth > 30 or (isinstance(value, list | dict) and id(value) in seen):
        # an alias names a part again, and a few of them can name it a billion times
        return
    seen.add(id(value))
    if isinstance(value, list):
        for one in value:
            yield from _containers(one, depth + 1, seen)
    elif isinstance(value, dict):
        image = value.get("image")
        parts = [value[key] for key in ("entrypoint", "command", "args") if key in value]
        if isinstance(image, str) and parts:
            words = _script([word for part in parts for word in _words(part)])
            named = any(_ENTRY.search(word.text) or word.text == _MODULE for word in words)
            found = _image(image)
            # the image starts the engine: its name is no part of the arguments, so nothing of it is given back
            starts = [] if named or "vllm" not in image else [Word("vllm", ""), Word("serve", "")]
            yield [*starts, *words], found[1] if found else None
        for one in value.values():
            yield from _containers(one, depth + 1, seen)


def _words(part: Any) -> list[Word]:
    """A command as a list of words: a string is split as a shell would."""
    if isinstance(part, str):
        return split_words(part)
    return (
        [Word(str(word), quoted_word(str(word))) for word in part if not isinstance(word, list | dict)]
        if isinstance(part, list)
        else []
    )


def quoted_word(word: str) -> str:
    """A word of a list, for a command line: quoted where a shell would read it otherwise, variables left alone."""
    return word if re.fullmatch(r"[\w@%+=:,./~${}()-]+", word) else shlex.quote(word)


def _script(words: list[Word]) -> list[Word]:
    """What a shell's `-c` runs, in place of the shell."""
    texts = [word.text for word in words[:2]]
    if len(texts) == 2 and texts[0].rpartition("/")[2] in ("sh", "bash") and re.fullmatch("-[elux]*c", texts[1]):
        return [word for script in words[2:] for word in split_words(script.text)]
    return words


_PART = (
    r"""(?:[^\s'"\\;&|<>()`$#]|(?<=\S)\#|\\.|'[^']*'|"(?:\\.|[^"\\])*\""""
    r"""|`[^`]*`|\$\([^()]{0,200}\)|\$\{[^}]{0,200}\}|\$)+"""
)
_SHELL = re.compile(
    rf"(?P<comment>\#[^\n]*)|(?P<operator>(?:&>>?|\d?>&|\d?>>?)\s*(?:(?:{_PART}))?|&&|\|\||[;&|()<\n])|(?P<word>{_PART})|\s+",
    re.S,
)


def _lines(text: str) -> str:
    """The text with lines joined that a shell would join, or that were broken before or after a flag."""
    joined = ""
    for line in (line.strip() for line in text.split("\n")):
        if line.startswith("#"):
            continue
        goes_on = line.startswith("-") or re.search(r"(?:^|\s)(?:-[\w-]*|serve)$", joined[-80:])
        if joined.endswith("\\"):
            joined, goes_on = joined[:-1].rstrip(), True
        joined += ("" if not joined else " " if goes_on else "\n") + line if line else ""
    return joined.removesuffix("\\")


def split_words(text: str) -> list[Word]:
    """A command's words and operators as a shell sees them."""
    text = _lines(text)
    found, at = [], 0
    while at < len(text):
        match = _SHELL.match(text, at)
        if match is None:
            raise BadInput("the command cannot be read ({reason}); check its quotes", reason=text[at : at + 40])
        at = match.end()
        written = match[0]
        if match["operator"]:
            found.append(Word(written.strip() or "\n", written.strip(" ") or "\n", True))
        elif match["word"]:
            found.append(Word(_unquoted(written), written))
    return found


def _unquoted(written: str) -> str:
    """What a word says: without its quotes; what a shell would put in is left as it stands."""
    if "`" in written or "$(" in written:
        return written
    try:
        return "".join(shlex.split(written))
    except ValueError as error:
        raise BadInput("the command cannot be read ({reason}); check its quotes", reason=str(error)) from None

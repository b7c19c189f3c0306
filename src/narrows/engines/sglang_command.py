"""Reads a pasted command of SGLang: `python -m sglang.launch_server --model-path M --tp 2`, `sglang serve M`."""

from __future__ import annotations

import re
from typing import Any

from narrows.engines.command import MOST_CHARACTERS, EngineCommand, split_words
from narrows.engines.flags import flag_table, meant, spelling_of
from narrows.engines.sglang import NAME
from narrows.text import BadInput

_MODULE = re.compile(r"(?:^|.*/)sglang[./]launch_server(?:\.py)?$")
_PROGRAM = re.compile(r"(?:^|.*/)sglang$")
_IMAGE = re.compile(r"lmsysorg/sglang:v?(0\.\d+\.\d+)")
_FORMATS = {"half": "float16", "float": "float32", "bf16": "bfloat16"}
_ELSEWHERE = (
    *("--cpu-offload-gb", "--enable-hierarchical-cache", "--enable-hisparse", "--dcp-size"),
    *("--disaggregation-mode", "--enable-unified-memory", "--enable-symm-mem", "--prefill-only-disable-kv-cache"),
    *("--swa-full-tokens-ratio", "--mamba-full-memory-ratio", "--max-mamba-cache-size", "--disable-hybrid-swa-memory"),
    *("--mamba-ssm-dtype", "--mamba-scheduler-strategy", "--mamba-radix-cache-strategy"),
)
"""Flags with which the pools are others than narrows computes."""
_GRAPHS = ("--cuda-graph-max-bs", "--cuda-graph-bs", "--cuda-graph-config", "--disable-piecewise-cuda-graph")
"""Flags that change the share which SGLang chooses by itself."""


def is_sglang_command(text: str) -> bool:
    """Whether the text is a command of SGLang, rather than a model."""
    return len(text) <= MOST_CHARACTERS and _begin(text.split()) is not None


def _begin(words: list[str]) -> int | None:
    """Where the engine's own arguments begin."""
    for i, word in enumerate(words):
        if _MODULE.match(word):
            return i + 1
        if _PROGRAM.match(word) and words[i + 1 : i + 2] == ["serve"]:
            return i + 2
    return None


def read_sglang_command(text: str) -> EngineCommand:
    """The model and the options that `fit` has too. Raises BadInput for what cannot be planned for."""
    words = split_words(text)
    begin = _begin([word.text for word in words])
    if begin is None:
        raise BadInput("the command cannot be read ({reason}); check its quotes", reason=text.strip()[:40])
    end = next((i for i in range(begin, len(words)) if words[i].operator), len(words))
    found, ignored, unread = _options([word.text for word in words[begin:end]])
    model = found.pop("model", None)
    if model is None:
        raise BadInput("the command names no model; it stands after --model-path")
    if "$" in model:
        raise BadInput(
            "the command's model is {name}, which a shell would fill in; put the model's name there", name=model[:60]
        )
    graphs = sorted(set(unread) & set(_GRAPHS))
    if graphs and "gpu_memory_utilization" not in found:
        raise BadInput(
            "{flag} changes the share of the memory that SGLang chooses by itself, which narrows does not model; add "
            "--mem-fraction-static to the command with the value that its log prints",
            flag=graphs[0],
        )
    image = next((one[1] for word in words[:begin] if (one := _IMAGE.search(word.text))), None)
    parts = (tuple(words[:begin]), tuple(words[begin:end]), tuple(words[end:]))
    return EngineCommand(NAME, image, model, {"engine": NAME, **found}, tuple(ignored), *parts, tuple(unread))


def _options(words: list[str]) -> tuple[dict[str, Any], list[str], list[str]]:
    """(options that bear on memory, flags that do not, flags that may)."""
    flags = flag_table(NAME)
    found: dict[str, Any] = {}
    ignored: list[str] = []
    unread: list[str] = []
    index = 0
    while index < len(words):
        name, equals, value = words[index].partition("=")
        index += 1
        if not name.startswith("-"):
            if index == 1:
                found["model"] = words[0]
            continue
        spelling = spelling_of(name)
        if spelling not in _ELSEWHERE:
            spelling = meant(NAME, spelling)
        if spelling in _ELSEWHERE:
            raise BadInput(
                "{flag} changes what SGLang keeps in its pools or beside them, which narrows does not model; leave "
                "it out",
                flag=spelling,
            )
        flag = flags.get(spelling)
        if flag is None or not flag.option:
            (unread if flag is None or flag.memory else ignored).append(spelling[:60])
        elif flag.kind == "switch":
            found[flag.option] = True
        else:
            if not equals:
                value = words[index] if index < len(words) else ""
                index += 1
            found[flag.option] = _value(spelling, flag.kind, value)
    return found, ignored, unread


def _value(flag: str, kind: str, value: str) -> Any:
    if kind == "share":
        if not re.fullmatch(r"0?\.\d{1,12}|1(?:\.0{0,12})?", value):
            raise BadInput("{flag} is '{value}' in the command; it must be a number", flag=flag, value=value[:40])
        return float(value)
    if kind == "count":
        if not (value.isascii() and value.isdecimal() and len(value) < 11):
            raise BadInput("{flag} is {value}; it must be a whole number", flag=flag, value=value[:40] or "?")
        return int(value)
    if not value:
        raise BadInput("{flag} has no value in the command", flag=flag)
    return _FORMATS.get(value, value)

"""Reads a pasted command of SGLang: `python -m sglang.launch_server --model-path M --tp 2`, `sglang serve M`."""

from __future__ import annotations

import re
import shlex
from typing import Any

from narrows.engines.command import MOST_CHARACTERS, EngineCommand, Word
from narrows.text import BadInput

_MODULE = re.compile(r"(?:^|.*/)sglang[./]launch_server(?:\.py)?$")
_PROGRAM = re.compile(r"(?:^|.*/)sglang$")
_IMAGE = re.compile(r"lmsysorg/sglang:v?(0\.\d+\.\d+)")
_VALUES = {
    **dict.fromkeys(("--model-path", "--model"), "model"),
    **dict.fromkeys(("--context-length", "--max-model-len"), "max_len"),
    **dict.fromkeys(("--tp", "--tp-size", "--tensor-parallel-size"), "tp"),
    **dict.fromkeys(("--pp", "--pp-size", "--pipeline-parallel-size"), "pp"),
    **dict.fromkeys(("--dp", "--dp-size", "--data-parallel-size"), "data_parallel"),
    "--mem-fraction-static": "gpu_memory_utilization",
    "--max-running-requests": "max_num_seqs",
    "--chunked-prefill-size": "max_num_batched_tokens",
    "--page-size": "page_size",
    "--max-total-tokens": "max_total_tokens",
    "--kv-cache-dtype": "kv_cache_dtype",
    "--dtype": "dtype",
    "--quantization": "quantization",
    "-q": "quantization",
}
"""Flags that bear on memory, and the option of `fit` that each sets."""
_COUNTS = ("max_len", "tp", "pp", "data_parallel", "max_num_seqs", "max_num_batched_tokens", "page_size")
_FORMATS = {"half": "float16", "float": "float32", "bf16": "bfloat16"}
_SWITCHES = {"--disable-cuda-graph": "enforce_eager"}
_ELSEWHERE = (
    *("--cpu-offload-gb", "--enable-hierarchical-cache", "--enable-dp-attention", "--enable-hisparse"),
    *("--speculative-algorithm", "--speculative-algo", "--speculative-draft-model-path", "--dcp-size"),
    *("--disaggregation-mode", "--enable-unified-memory", "--enable-symm-mem", "--prefill-only-disable-kv-cache"),
    *("--swa-full-tokens-ratio", "--mamba-full-memory-ratio", "--max-mamba-cache-size", "--disable-hybrid-swa-memory"),
    *("--mamba-ssm-dtype", "--mamba-scheduler-strategy", "--mamba-radix-cache-strategy"),
)
"""Flags with which the pools are others than narrows computes."""
_GRAPHS = ("--cuda-graph-max-bs", "--cuda-graph-bs", "--cuda-graph-config", "--disable-piecewise-cuda-graph")
"""Flags that change the share which SGLang chooses by itself."""
_OPERATORS = ("&&", "||", ";", "|", "&", ">", "2>", ">>", "2>&1")


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
    try:
        words = shlex.split(text.replace("\\\n", " "))
    except ValueError:
        raise BadInput("the command has a quote that does not end; paste the whole command") from None
    begin = _begin(words)
    if begin is None:
        raise BadInput("the command has a quote that does not end; paste the whole command")
    end = next((i for i in range(begin, len(words)) if words[i] in _OPERATORS), len(words))
    found, ignored = _options(words[begin:end])
    if "model" not in found:
        raise BadInput("the command names no model; it stands after --model-path")
    model = found.pop("model")
    if "$" in model:
        raise BadInput(
            "the command's model is {name}, which a shell would fill in; put the model's name there", name=model[:60]
        )
    image = next((one[1] for word in words[:begin] if (one := _IMAGE.search(word))), None)
    graphs = sorted(set(ignored) & set(_GRAPHS))
    if graphs and "gpu_memory_utilization" not in found:
        raise BadInput(
            "{flag} changes the share of the memory that SGLang chooses by itself, which narrows does not model; add "
            "--mem-fraction-static to the command with the value that its log prints",
            flag=graphs[0],
        )
    found.setdefault("engine", "sglang")
    arguments = tuple(Word(word, shlex.quote(word)) for word in words[begin:end])
    before = tuple(Word(word, shlex.quote(word)) for word in words[:begin])
    return EngineCommand("sglang", image, model, found, tuple(ignored), before, arguments, ())


def _options(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """(options that bear on memory, flags that do not)."""
    found: dict[str, Any] = {}
    ignored: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if not word.startswith("-"):
            if not ignored and "model" not in found and index == 1:
                found["model"] = word
            continue
        name, equals, value = word.partition("=")
        flag = "--" + name[2:].replace("_", "-") if name.startswith("--") else name
        if flag in _ELSEWHERE:
            raise BadInput(
                "{flag} changes what SGLang keeps in its pools or beside them, which narrows does not model; leave "
                "it out",
                flag=flag,
            )
        if flag in _SWITCHES:
            found[_SWITCHES[flag]] = True
            continue
        option = _VALUES.get(flag)
        if option is None:
            ignored.append(flag[:60])
            continue
        if not equals:
            value = words[index] if index < len(words) else ""
            index += 1
        found[option] = _value(flag, option, value)
    return found, ignored


def _value(flag: str, option: str, value: str) -> Any:
    if option == "gpu_memory_utilization":
        if not re.fullmatch(r"(?:0?\.\d{1,12}|1(?:\.0*)?)", value):
            raise BadInput("{flag} is '{value}' in the command; it must be a number", flag=flag, value=value[:40])
        return float(value)
    if option in _COUNTS or option == "max_total_tokens":
        if not (value.isascii() and value.isdigit() and len(value) < 11):
            raise BadInput("{flag} is {value}; it must be a whole number", flag=flag, value=value[:40] or "?")
        return int(value)
    if not value:
        raise BadInput("{flag} has no value in the command", flag=flag)
    return _FORMATS.get(value, value)

"""Reads a pasted command of llama.cpp: `llama-server -m model.gguf -c 32768 -np 4`."""

from __future__ import annotations

import re
import shlex
from typing import Any

from narrows.engines.command import MOST_CHARACTERS, EngineCommand
from narrows.text import BadInput

_ENTRY = re.compile(r"(?:^|.*/)llama-(?:server|cli)(?:\.exe)?$")
_VALUES = {
    **dict.fromkeys(("-m", "--model"), "model"),
    **dict.fromkeys(("-c", "--ctx-size"), "context"),
    **dict.fromkeys(("-np", "--parallel"), "slots"),
    **dict.fromkeys(("-ub", "--ubatch-size"), "max_num_batched_tokens"),
    **dict.fromkeys(("-ctk", "--cache-type-k"), "kv_cache_dtype"),
    **dict.fromkeys(("-ctv", "--cache-type-v"), "cache_type_v"),
    **dict.fromkeys(("-ngl", "--gpu-layers", "--n-gpu-layers"), "gpu_layers"),
    **dict.fromkeys(("-fa", "--flash-attn"), "flash"),
    **dict.fromkeys(("-hf", "-hfr", "--hf-repo"), "hub"),
    **dict.fromkeys(("-md", "--model-draft"), "draft"),
    **dict.fromkeys(("--draft", "--draft-n", "--draft-max"), "drafted"),
}
"""Flags that bear on memory, and what they set."""
_COUNTS = ("context", "slots", "max_num_batched_tokens", "drafted")
_DRAFTED = 16
"""Tokens that a draft model makes at most by itself (--draft-max, llama.cpp tools/server, MIT)."""
_FLASH = {
    **dict.fromkeys(("on", "enabled", "true", "1"), "on"),
    **dict.fromkeys(("off", "disabled", "false", "0"), "off"),
    **dict.fromkeys(("auto", "-1"), "auto"),
}
"""What may follow -fa; older builds know it without a word, which means on."""
_ELSEWHERE = (
    *("-ot", "--override-tensor", "-cmoe", "--cpu-moe", "-ncmoe", "--n-cpu-moe", "-nkvo", "--no-kv-offload"),
    *("-ts", "--tensor-split", "-sm", "--split-mode", "-hfd", "-hfrd", "--hf-repo-draft", "-devd", "--device-draft"),
    *("-cd", "--ctx-size-draft", "-ctkd", "--cache-type-k-draft", "-ctvd", "--cache-type-v-draft"),
    *("-ngld", "--gpu-layers-draft", "--n-gpu-layers-draft"),
)
"""Flags that put weights or cache elsewhere, or add some: what narrows computes does not hold with them."""
_OPERATORS = ("&&", "||", ";", "|", "&", ">", "2>", ">>", "2>&1")


def is_llama_command(text: str) -> bool:
    """Whether the text is a command of llama.cpp, rather than a model."""
    return len(text) <= MOST_CHARACTERS and any(_ENTRY.match(word) for word in text.split())


def read_llama_command(text: str) -> EngineCommand:
    """The model and the options that `fit` has too. Raises BadInput for what cannot be planned for."""
    try:
        words = shlex.split(text.replace("\\\n", " "))
    except ValueError:
        raise BadInput("the command has a quote that does not end; paste the whole command") from None
    begin = next(i for i, word in enumerate(words) if _ENTRY.match(word)) + 1
    end = next((i for i in range(begin, len(words)) if words[i] in _OPERATORS), len(words))
    found, ignored = _values(words[begin:end])
    if "model" not in found:
        raise BadInput(
            "the command names no GGUF file (-m); give one, or the original model with --engine llama.cpp and "
            "--quantization"
        )
    options: dict[str, Any] = {"engine": "llama.cpp", "swa_full": "--swa-full" in words[begin:end] or None}
    slots = found.get("slots")
    if slots is not None:
        options["batch"] = slots
    if found.get("context"):
        # without a number of slots, all of them share one context, which one sequence may fill
        options["max_len"] = max(1, found["context"] // (slots or 1))
        options.setdefault("batch", 1)
    for name in ("max_num_batched_tokens", "kv_cache_dtype", "cache_type_v", "gpu_layers"):
        if name in found:
            options[name] = found[name]
    if "draft" in found:
        drafted = found.get("drafted", _DRAFTED)
        options["speculative_config"] = {
            "method": "draft_model",
            "model": found["draft"],
            "num_speculative_tokens": drafted,
        }
    if "kv_cache_dtype" in options:
        options.setdefault("cache_type_v", "f16")
    if found.get("flash") == "off":
        if _quantized(options.get("cache_type_v", "f16")):
            raise BadInput(
                "the values are kept in {value}, for which llama.cpp needs flash attention, and the command turns it "
                "off; leave out -fa off, or keep values in f16",
                value=options["cache_type_v"][:20],
            )
        ignored.append("-fa")
    kept = {name: value for name, value in options.items() if value is not None}
    return EngineCommand("llama.cpp", None, found["model"], kept, tuple(ignored), (), (), ())


def _values(words: list[str]) -> tuple[dict[str, Any], list[str]]:
    """(values of the flags that bear on memory, other flags)."""
    found: dict[str, Any] = {}
    ignored: list[str] = []
    taken = False
    for i, word in enumerate(words):
        if taken:
            taken = False
            continue
        flag, equals, value = word.partition("=")
        if flag in _ELSEWHERE:
            raise BadInput(
                "{flag} changes what stands on which device, which narrows does not model for llama.cpp; leave it out",
                flag=flag,
            )
        name = _VALUES.get(flag)
        if name is None:
            if flag.startswith("-") and not flag[1:2].isdecimal() and flag != "--swa-full":
                ignored.append(flag)
            continue
        if not equals:
            taken, value = True, words[i + 1] if i + 1 < len(words) else ""
        if name == "flash":
            taken = taken and value in _FLASH
            found[name] = _FLASH.get(value, "on")
        elif name in _COUNTS:
            if name == "slots" and value == "-1":
                # as many as it takes by itself
                continue
            found[name] = _count(flag, value, least=0 if name == "context" else 1)
        else:
            found[name] = value
    return found, ignored


def _count(flag: str, value: str, least: int) -> int:
    if not (value.isascii() and value.isdecimal() and len(value) < 10):
        raise BadInput("{flag} is {value}; it must be a whole number", flag=flag, value=value[:40] or "?")
    if int(value) < least:
        raise BadInput("{flag} is {value}; it must be at least {least}", flag=flag, value=value, least=least)
    return int(value)


def _quantized(kind: str) -> bool:
    """Whether a type of the cache keeps its values in fewer than 16 bits."""
    return kind.strip().lower() not in ("f32", "f16", "bf16", "float32", "float16", "bfloat16")


def shared_length(longest: int, slots: int | None) -> int:
    """Tokens of one slot where no context is given: all slots share the model's own length."""
    return max(1, longest // max(1, slots or 1))


def all_layers(given: str, layers: int) -> None:
    """Refuse a number of layers on the device (-ngl) that leaves some with the host, and what is no number."""
    if given in ("all", "auto", "-1", "-2"):
        return
    if not (given.isascii() and given.isdecimal()):
        raise BadInput("-ngl is {given}; it must be a whole number, all or auto", given=given[:40] or "?")
    if int(given[:9]) <= layers:
        raise BadInput(
            "-ngl {given} leaves layers of the model's {layers} with the host, which narrows does not model; use "
            "-ngl 99, and a device that holds them",
            given=given[:9],
            layers=layers,
        )

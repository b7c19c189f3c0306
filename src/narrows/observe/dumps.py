"""A dump of arguments in a log line, `(a=1, b='x')`, `{'a': 1}` or `a=1, b=X(c=2)` → names and values at its top."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from narrows.units import GIB

_QUOTED: Final = r"""'[^'\\]*(?:\\[\s\S][^'\\]*)*(?:'|\\?\Z)|"[^"\\]*(?:\\[\s\S][^"\\]*)*(?:"|\\?\Z)"""
"""A string as Python prints it; one that the line cuts goes to the end, so that no quote is tried twice."""
_TOKEN: Final = re.compile(r"[()\[\]{},]|" + _QUOTED)
_PAIR: Final = re.compile(r"\s*['\"]?([A-Za-z_]\w{0,80})['\"]?\s?[=:]\s?(.+)", re.DOTALL)
_SECRET: Final = (r"\w*api[_-]?key", r"\w+[_-]token", r"\w*passw(?:or)?d", r"\w*secret\w*", r"\w*access[_-]key")
"""Names whose values are not repeated, whatever the log shows of them."""
MASK: Final = "***"
"""What stands in place of a secret."""
_TOLD: Final = re.compile(
    r"(?P<name>(?<!\w)(?:" + "|".join(_SECRET or ("(?!)",)) + r")['\"]?\s?[=: ]\s?)"
    r"(?!None\b|True\b|False\b|'\*|\*)(?P<value>\[[^\]\n]*\]?|" + _QUOTED + r"|[^\s,(){}\[\]'\"]+)",
    re.IGNORECASE,
)
_LOGIN: Final = re.compile(r"(?<=://)[^\s/@'\"]{1,200}@")
_WHOLE: Final = frozenset(
    (
        *("tensor_parallel", "pipeline_parallel", "data_parallel", "context_parallel", "max_model_len"),
        *("max_num_seqs", "max_num_batched_tokens", "micro_batch", "block_size", "kv_cache_memory_bytes"),
    )
)
_SHARE: Final = frozenset(("gpu_memory_utilization", "mem_fraction_static"))
_HOST_GIB: Final = frozenset(("swap_space", "cpu_offload"))
_FLAG: Final = frozenset(("enforce_eager", "expert_parallel", "enable_prefix_caching", "enable_chunked_prefill"))
_NAMED: Final = frozenset(("quantization", "speculative"))
"""Where None is an answer: the model is not quantized, nothing speculates."""


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Names and written values. A last pair that the line may have cut is left out."""
    position = 1 if text[:1] in ("(", "{") else 0
    closed = position == 0
    depth, start = 0, position
    for token in _TOKEN.finditer(text, position):
        mark = token[0]
        if mark in ("(", "[", "{"):
            depth += 1
        elif mark in (")", "]", "}"):
            depth -= 1
            if depth < 0:
                yield from _pair(text[start : token.start()])
                return
        elif mark == "," and depth == 0:
            yield from _pair(text[start : token.start()])
            start = token.end()
    if closed and text.endswith("\n"):
        yield from _pair(text[start:])


def whole(text: str) -> bool:
    """Whether the dump is there to its closing bracket."""
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in ("(", "[", "{"):
            depth += 1
        elif token[0] in (")", "]", "}"):
            depth -= 1
            if depth <= 0:
                return True
    return False


def secret(name: str) -> bool:
    """Whether an argument of this name is a secret."""
    return any(re.fullmatch(one, name, re.IGNORECASE) for one in _SECRET)


def without_secrets(text: str) -> str:
    """The text with the values of secrets, and logins in addresses, taken out."""
    if _SECRET:
        text = _TOLD.sub(lambda found: f"{found['name']}'{MASK}'", text)
    return _LOGIN.sub(f"{MASK}@", text)


def _pair(text: str) -> Iterator[tuple[str, str]]:
    match = _PAIR.match(text)
    if match:
        yield match[1], match[2].strip()


def value(field: str, written: str) -> Any:
    """A setting's value from how Python printed it; None where the dump does not decide it."""
    plain = written.strip("'\"")
    if written == "None":
        return "none" if field in _NAMED else None
    if field in _FLAG:
        return {"True": True, "False": False}.get(plain)
    if field in _WHOLE:
        # what is not above 0 says nothing
        number = int(plain) if plain.isdecimal() and len(plain) < 16 else 0
        return number if number > 0 else None
    if field in _SHARE or field in _HOST_GIB:
        try:
            share = float(plain[:20])
        except ValueError:
            return None
        if field in _HOST_GIB:
            return round(share * GIB) if 0 <= share < 1e7 else None
        return share if 0 < share <= 1 else None
    return _name(field, plain)


def _name(field: str, plain: str) -> str | None:
    """`torch.bfloat16` → `bfloat16`, `LoadFormat.AUTO` → `auto`, `PosixPath('/m')` → `/m`."""
    if plain.startswith(("PosixPath(", "device(")):
        plain = plain.partition("(")[2].rstrip(")").strip("'\"")
    if field == "load_format":
        plain = plain.rpartition(".")[2].lower()
    return plain.removeprefix("torch.")[:300] or None

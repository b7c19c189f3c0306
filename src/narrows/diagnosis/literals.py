"""Values that Python printed, read back: strings, numbers, lists, dicts; nothing is run, whatever the log holds."""

from __future__ import annotations

import ast
import re
from typing import Any, Final

UNREAD: Final = object()
"""A value whose text does not give it back."""
_DEEPEST: Final = 40
_STRINGS: Final = re.compile(r"""'[^'\\]*(?:\\[\s\S][^'\\]*)*(?:'|\\?\Z)|"[^"\\]*(?:\\[\s\S][^"\\]*)*(?:"|\\?\Z)""")
_NUMBER: Final = r"-?\d[\d.]{0,30}(?:[eE][-+]?\d{1,4})?(?![\w.+-])"
_PLAIN: Final = re.compile(
    r"(?:[\[\]{}(),:\s]|" + _NUMBER + r"|\b(?:True|False|None)\b|(?:LoRAModulePath|PosixPath)(?=\()|\b\w{1,40}=)*"
)


def literal(text: str) -> Any:
    """The value; `UNREAD` where the text is an object's own form or too deep."""
    bare = _STRINGS.sub("", text)
    if not _PLAIN.fullmatch(bare) or sum(map(bare.count, "([{")) > 1000 or _depth(bare) > _DEEPEST:
        return UNREAD
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return UNREAD


def _depth(bare: str) -> int:
    deepest = depth = 0
    for mark in bare:
        depth += (mark in "([{") - (mark in ")]}")
        deepest = max(deepest, depth)
    return deepest


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "PosixPath" and len(node.args) == 1:
            return _value(node.args[0])
        named = {one.arg: _value(one.value) for one in node.keywords}
        if node.args or None in named:
            raise ValueError
        return {name: value for name, value in named.items() if value is not None}
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(one) for one in node.elts]
    if isinstance(node, ast.Dict):
        return {_key(key): _value(value) for key, value in zip(node.keys, node.values, strict=True)}
    return ast.literal_eval(node)


def _key(node: ast.expr | None) -> str | int:
    key = ast.literal_eval(node) if node is not None else None
    if not isinstance(key, str | int):
        raise ValueError
    return key

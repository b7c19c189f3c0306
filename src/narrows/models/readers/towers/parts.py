"""What towers are collected with, and what their configs share."""

from __future__ import annotations

from typing import Any

from narrows.models.fields import Fields
from narrows.models.spec import Tower
from narrows.models.tensors import Tensor
from narrows.text import BadInput


class Parts:
    """Collects the tensors of a tower; names get `prefix`."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.found: list[tuple[str, int, Tensor]] = []

    def add(self, name: str, *shape: int, repeats: int = 1, bias: bool = False, suffix: str = ".weight") -> None:
        """A weight [out, in …] or a vector, and its bias."""
        if not repeats:
            return
        use = "plain" if len(shape) > 1 else "vector"
        self.found.append((f"{self.prefix}{name}{suffix}", repeats, Tensor(f"vision.{name}", shape, use)))  # type: ignore[arg-type]
        if bias:
            self.found.append(
                (f"{self.prefix}{name}.bias", repeats, Tensor(f"vision.{name}.bias", shape[:1], "vector"))
            )

    def parameter(self, name: str, *shape: int, repeats: int = 1) -> None:
        """A tensor that is no module's weight."""
        self.add(name, *shape, repeats=repeats, suffix="")

    def mlp(self, prefix: str, *widths: int, names: tuple[str, ...] = ("fc1", "fc2"), bias: bool = True) -> None:
        """Linear layers from each width to the next."""
        for name, inner, out in zip(names, widths[:-1], widths[1:], strict=True):
            self.add(prefix + name, out, inner, bias=bias)

    def gated(
        self, prefix: str, hidden: int, inner: int, out: int = 0, *, repeats: int = 1, bias: bool = False
    ) -> None:
        """A gated feed-forward, to `out` (0: hidden)."""
        for name in ("gate_proj", "up_proj"):
            self.add(prefix + name, inner, hidden, repeats=repeats, bias=bias)
        self.add(prefix + "down_proj", out or hidden, inner, repeats=repeats, bias=bias)

    def renamed(self, prefix: str, *names: tuple[str, str]) -> Parts:
        """The same tensors under another prefix and with other names of modules."""
        made = Parts(prefix)
        for name, repeats, tensor in self.found:
            inside = name.removeprefix(self.prefix)
            module = next(pair for pair in names if inside.startswith(pair[0] + "."))
            made.found.append((prefix + module[1] + inside.removeprefix(module[0]), repeats, tensor))
        return made

    def tower(self, name: str = "vision tower", *, patches: int = 4, largest: int = 0, rotary: bool = False) -> Tower:
        """What was collected."""
        return Tower(name, tuple(self.found), patches=patches, largest=largest, rotary=rotary)


def pair(c: Fields, name: str, default: int, *, most: int = 2**20) -> tuple[int, int]:
    """A height and a width, which the file may say as one number."""
    value = c.raw(name, default=default)
    if not isinstance(value, list):
        size = c.size(name, default=default, most=most)
        return size, size
    return (sizes := whole_numbers(c, name, most=most, count=2))[0], sizes[1]


def whole_numbers(
    c: Fields, name: str, *, default: list[int] | None = None, most: int = 2**31 - 1, count: int = 0, least: int = 1
) -> list[int]:
    """A list of whole numbers, `count` of them (0: from one to a thousand)."""
    value: Any = c.raw(name, default=default)
    if value is None:
        value = default
    good = isinstance(value, list) and 0 < len(value) <= 1000 and (not count or len(value) == count)
    if not good or any(isinstance(one, bool) or not isinstance(one, int) or not least <= one <= most for one in value):
        raise BadInput("config field '{field}' must be a list of whole numbers", field=c.path + name)
    return list(value)


def levels(c: Fields, name: str, default: int = 1) -> int:
    """How many layers' outputs a projector takes side by side: the length of a list of layers, 1 for one layer."""
    value = c.raw(name)
    if value is None:
        return default
    if isinstance(value, list):
        return len(whole_numbers(c, name, least=-(2**31)))
    c.size(name, least=-(2**31))
    return 1

"""Stages of a start that move no weights: process, set-up after loading, compiling, graph capture, first request."""

from __future__ import annotations

import re

import msgspec

from narrows.loading.rates import Rates

FIRST_COMPILING = (0, 8, 0)
"""vLLM compiles by itself from 0.8 on (its V1 engine)."""

CAPTURE_FAST = (0, 10, 1)
"""From this vLLM on Python's garbage collector stands still while graphs are captured, which takes about a fifth of the
time (https://github.com/vllm-project/vllm/pull/21146; 39 → 6 s in pull/24128)."""


def capture_of(version: str) -> str:
    """The coefficient of capturing graphs with a version of vLLM; one that is not known is a new one."""
    return "capture" if _numbers(version) >= CAPTURE_FAST else "capture.before_0.10.1"


class Fixed(msgspec.Struct, frozen=True):
    """One stage: seconds, and 80 % of observations between low and high. n = 0: assumed."""

    name: str
    seconds: float
    low: float
    high: float
    n: int
    source: str


def fixed_stages(
    rates: Rates, engine: str, version: str, layers: int, *, ranks: int, graphs: bool, cached: bool
) -> tuple[Fixed, ...]:
    """What a start needs beside the weights. graphs: compiled and captured; cached: compiled code was kept."""
    if engine == "llama.cpp":
        return (_sum("process_start", rates, {"start.llama.cpp": 1.0}),)
    begin = {f"start.{engine}": 1.0} | ({"start.ranks": 1.0} if ranks > 1 else {})
    compiles = engine == "vllm" and graphs and _numbers(version) >= FIRST_COMPILING
    compile = {"profile": 1.0} | ({"compile.warm" if cached else "compile.cold": float(layers)} if compiles else {})
    found = [
        _sum("process_start", rates, begin),
        _sum("initialise", rates, {"initialise": 1.0}),
        _sum("compile", rates, compile),
    ]
    if graphs:
        name = capture_of(version if engine == "vllm" else "")
        found.append(_sum("graph_capture", rates, {name if name in rates else "capture": float(layers)}))
    found.append(_sum("first_request", rates, {"first_request": 1.0}))
    scored = [_as_scored(one, rates) if one.name in ("compile", "graph_capture") else one for one in found]
    # what other engines need was not observed: it is taken as vLLM's
    return tuple(one if engine == "vllm" else msgspec.structs.replace(one, n=0) for one in scored)


def _as_scored(one: Fixed, rates: Rates) -> Fixed:
    """With the interval that starts of other sources were found in, which is wider than that of the coefficients."""
    error = rates.get("engine")
    if error is None:
        return one
    return msgspec.structs.replace(one, low=one.seconds * error.low, high=one.seconds * error.high)


def _numbers(version: str) -> tuple[int, int, int]:
    """Major, minor and patch; a version that is not known is a new one."""
    parts = [int(found[0]) if (found := re.match(r"\d+", part)) else None for part in version.split(".")[:3]]
    if len(parts) < 2 or parts[0] is None or parts[1] is None:
        return (99, 0, 0)
    return parts[0], parts[1], (parts[2] if len(parts) > 2 else 0) or 0


def _sum(name: str, rates: Rates, parts: dict[str, float]) -> Fixed:
    known = [(rates[part], times) for part, times in parts.items()]
    value = sum(one.value * times for one, times in known)
    return Fixed(
        name,
        value,
        value - sum(((one.value - one.low) * times) ** 2 for one, times in known) ** 0.5,
        value + sum(((one.high - one.value) * times) ** 2 for one, times in known) ** 0.5,
        min(one.n for one, _ in known),
        "; ".join(dict.fromkeys(one.source for one, _ in known)),
    )

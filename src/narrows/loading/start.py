"""Stages of a start that move no weights: process, set-up after loading, compiling, graph capture, first request."""

from __future__ import annotations

import msgspec

from narrows.loading.rates import Rates

FIRST_COMPILING = (0, 8)
"""vLLM compiles by itself from 0.8 on (its V1 engine)."""


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
        found.append(_sum("graph_capture", rates, {"capture": float(layers)}))
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


def _numbers(version: str) -> tuple[int, int]:
    """Major and minor; a version that is not known is a new one."""
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return (99, 0)
    return int(parts[0]), int(parts[1])


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

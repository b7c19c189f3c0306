"""Bytes by rank (or device), as they are said in any order by any process, and the rank that binds."""

from __future__ import annotations

from typing import Any, Final

from narrows.observe.facts import Mode
from narrows.observe.lines import Line
from narrows.observe.observation import Terms

SHARED: Final = ""
"""What no worker said: the engine itself, or an engine that runs its only worker inside."""
MOST_RANKS: Final = 4096
_HOST: Final = ("CPU", "host")


class Ledger:
    """Terms by rank, and engine-wide numbers that every rank may state."""

    def __init__(self) -> None:
        self.ranks: dict[str, dict[str, int]] = {}
        self._wide: dict[str, dict[str, Any]] = {}
        self._names: dict[str, str] = {}
        self._sums: dict[tuple[str, str], int] = {}
        self._drafts: set[str] = set()

    def key(self, line: Line, device: str | None) -> str:
        """The rank a line speaks for. A worker is known by its process id until it gets its name."""
        if device:
            return _device(device)
        if line.worker is None:
            return line.rank or SHARED
        key = f"pid {line.worker}"
        if line.rank and len(self._names) < MOST_RANKS:
            self._names[key] = line.rank
        return key

    def name(self, key: str, name: str) -> None:
        """What a worker says of its place, unless its prefix says more."""
        if key != SHARED and len(self._names) < MOST_RANKS:
            self._names.setdefault(key, name)

    def next_context(self) -> None:
        """Sums begin anew: another context takes its own buffers."""
        self._sums.clear()

    def draft_follows(self, key: str) -> None:
        """The target's pools are complete: what this rank still allocates is the draft model's."""
        self._drafts.add(key)

    def put(self, rank: str, name: str, value: int, mode: Mode) -> bool:
        """One size of one rank; whether it counts."""
        if rank not in self.ranks and len(self.ranks) >= MOST_RANKS:
            return False
        if name == "kv_cache" and rank in self._drafts:
            name = "draft_kv_cache"
        terms = self.ranks.setdefault(rank, {})
        known = terms.get(name)
        if mode == "sum":
            value = self._sums[rank, name] = self._sums.get((rank, name), 0) + value
            mode = "max"
        if name == "weights" and mode == "max" and known is not None and value != known:
            terms["draft"] = min(value, known)
        terms[name] = _chosen(known, value, mode)
        return terms[name] != known

    def put_wide(self, rank: str, name: str, value: Any, mode: Mode) -> bool:
        """A number of the whole engine as one rank states it; over ranks the smallest counts."""
        if mode == "max" and rank in self._drafts:
            return False
        by_rank = self._wide.setdefault(name, {})
        if rank not in by_rank and len(by_rank) >= MOST_RANKS:
            return False
        known = by_rank.get(rank)
        by_rank[rank] = _chosen(known, value, "max" if mode == "sum" else mode)
        return bool(by_rank[rank] != known)

    def wide(self) -> dict[str, Any]:
        """The engine-wide numbers."""
        return {name: min(by_rank.values()) for name, by_rank in self._wide.items()}

    def settle(
        self, engine: str | None, pool: int | None, failed_on: str | None
    ) -> tuple[dict[str, Terms], str | None, Terms]:
        """Terms by rank, the binding rank, and its terms completed with what others said."""
        named: dict[str, dict[str, int]] = {}
        for key, terms in self.ranks.items():
            kept = named.setdefault(self._names.get(key, key), {})
            for name, value in terms.items():
                kept.setdefault(name, value)
        for terms in named.values():
            _complete(terms, pool)
        binding = _binding(named, engine, failed_on)
        chosen = dict(named.get(binding, {}))
        others = [] if engine == "llama.cpp" else [terms for key, terms in named.items() if key != binding]
        for terms in sorted(others, key=lambda terms: terms is not named.get(SHARED)):
            for name, value in terms.items():
                chosen.setdefault(name, value)
        if engine == "llama.cpp" and "kv_cache" not in chosen and "kv_cache" in named.get(SHARED, {}):
            chosen["kv_cache"] = named[SHARED]["kv_cache"]
        ranks = {key: Terms(**terms) for key, terms in named.items() if key != SHARED}
        return ranks, binding if binding != SHARED else None, Terms(**chosen)


def _chosen(known: Any, value: Any, mode: Mode) -> Any:
    if known is None or mode == "set":
        return value
    return {"min": min(known, value), "max": max(known, value)}.get(mode, known)


def _complete(terms: dict[str, int], pool: int | None) -> None:
    """What follows exactly from two lines: an activation peak from torch's peak, a pool given in bytes."""
    if "activations" not in terms and "peak_torch" in terms and "weights" in terms:
        terms["activations"] = terms["peak_torch"] - terms["weights"]
    if pool and "kv_cache" in terms and abs(terms["kv_cache"] - pool) < 2**24:
        terms["kv_cache"] = pool


def _binding(named: dict[str, dict[str, int]], engine: str | None, failed_on: str | None) -> str:
    """The rank with the least KV; for llama.cpp the device that failed, else the fullest accelerator."""
    if engine == "llama.cpp":
        devices = {key: terms for key, terms in named.items() if key != SHARED}
        for key in devices:
            if failed_on is not None and key.rstrip("0123456789") and key.endswith(failed_on) and key not in _HOST:
                return key
        accelerators = {key: terms for key, terms in devices.items() if key not in _HOST} or devices
        sized = ("weights", "kv_cache", "activations", "state")
        return max(accelerators, key=lambda key: sum(accelerators[key].get(n, 0) for n in sized), default=SHARED)
    pools = {key: terms["kv_cache"] for key, terms in named.items() if "kv_cache" in terms}
    if pools:
        return min(pools, key=lambda key: pools[key])
    return next((key for key in named if key != SHARED and "weights" in named[key]), SHARED)


def _device(written: str) -> str:
    """`CUDA0_Mapped` → `CUDA0`, `CPU_Mapped` → `CPU`, pinned memory (`CUDA_Host`) → `host`."""
    if written.endswith("_Host"):
        return "host"
    return written.removesuffix("_Mapped").removesuffix("_REPACK")

"""What one start of an engine has said so far: facts come in line by line, an Observation comes out."""

from __future__ import annotations

import re
from typing import Any, Final, cast

from narrows.observe import dumps
from narrows.observe.facts import Compiled, Fact, values
from narrows.observe.ledger import Ledger
from narrows.observe.lines import Line, printable
from narrows.observe.observation import (
    Evidence,
    FailureStage,
    Observation,
    Outcome,
    OutOfMemory,
    Serving,
    Settings,
    Stage,
    Terms,
)
from narrows.observe.timeline import Timeline
from narrows.text import printable as plain

MOST_EVIDENCE: Final = 400
_TERMS: Final = frozenset(Terms.__struct_fields__)
_SETTINGS: Final = frozenset(Settings.__struct_fields__)
_ENGINE_WIDE: Final = frozenset(
    ("kv_tokens", "gpu_blocks", "max_concurrency", "concurrency_length", "estimated_max_len", "needed_bytes")
)
_BELOW_ZERO: Final = frozenset(("kv_cache", "free_after", "graphs", "gpu_blocks"))
"""What an engine prints as its subtraction comes out; no other size can be negative."""
_PROCESSES: Final = re.compile(r"Process \d{1,9} has ([\d.]{1,12}) (GiB|MiB|KiB|bytes)")
_STAGES: Final = ("arguments", "load", "profiling", "kv allocation", "graph capture", "warm-up", "under load")


class Start:
    """Accumulates the facts of one start."""

    def __init__(self, first_line: int) -> None:
        self.first_line = first_line
        self.engine: str | None = None
        self.engine_sure = False
        self.said: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.weights: dict[str, int] = {}
        self.ledger = Ledger()
        self.timeline = Timeline()
        self.phase: str | None = None
        self.ready = False
        self.stopping = False
        self.failure: Fact | None = None
        self.failed_at: str | None = None
        self.error: str | None = None
        self.pending: str | None = None
        self.oom: dict[str, Any] = {}
        self.oom_line = 0
        self.serving: dict[str, Any] = {}
        self.evidence: dict[tuple[str, str | None], Evidence] = {}
        self.inits: set[str | None] = set()
        self.arguments: str | None = None

    @property
    def progressed(self) -> bool:
        """Whether the start has done anything that a second banner would end."""
        return bool(self.phase or self.failure or self.ledger.ranks)

    def begins_anew(self, fact: Fact, line: Line) -> bool:
        """Whether this banner belongs to another start."""
        if fact.begins == "server":
            return self.progressed or bool(self.inits)
        if fact.begins == "engine" and fact.dump:
            return line.rank in self.inits
        return fact.begins == "engine" and self.ready and "version" not in self.said

    def take(self, found: Compiled, match: re.Match[str], line: Line) -> None:
        """One fact of one line."""
        fact = found.fact
        self._recognise(found, line)
        read = {} if fact.dump is None else self._dump(fact, match["dump"] + "\n" * line.text.endswith("\n"))
        if fact.command and len(match["dump"]) > len(self.arguments or ""):
            self.arguments = match["dump"]
        read |= values(found, match)
        rank = self.ledger.key(line, match["rank"] if fact.device else None)
        kept = tuple(name for name, value in read.items() if self._keep(fact, name, value, rank, line))
        if not self.ready:
            self.timeline.stamp(line.stamp)
        self._advance(fact, line, rank)
        if fact.step and "seconds" in read:
            self.timeline.add(fact, rank, read["seconds"], read.get("weights"))
            kept += ("timeline",)
        if self.error is line.text or self.pending is line.text:
            kept += ("error",)
        if kept and len(self.evidence) < MOST_EVIDENCE:
            self.evidence[fact.name, rank] = Evidence(line.number, kept, line.text[:1200])

    def _recognise(self, found: Compiled, line: Line) -> None:
        if found.engine == "any":
            if line.vllm and self.engine is None:
                self.engine = "vllm"
            return
        if found.fact.begins in ("server", "engine"):
            if not self.engine_sure:
                self.engine, self.engine_sure = found.engine, True
        elif found.fact.marks and self.engine is None:
            self.engine = found.engine

    def _dump(self, fact: Fact, text: str) -> dict[str, Any]:
        assert fact.dump is not None
        read: dict[str, Any] = {}
        for name, written in dumps.pairs(text):
            field = fact.dump.get(name)
            if field and field not in read:
                value = dumps.value(field, written)
                if value is not None:
                    read[field] = value
        return read

    def _keep(self, fact: Fact, name: str, value: Any, rank: str, line: Line) -> bool:
        """Stores one value where it belongs; whether it was one to store."""
        if isinstance(value, str):
            value = plain(value)
        if name == "seconds":
            return False
        if name == "place":
            self.ledger.name(rank, f"rank {value}")
            return False
        if name.startswith("oom_"):
            return self._keep_oom(name[4:], value, line)
        if name.startswith("serving_"):
            self._keep_serving(name[8:], value)
        elif name in (_TERMS | _ENGINE_WIDE) - _BELOW_ZERO and value < 0:
            return False
        elif name in _TERMS:
            return self.ledger.put(rank, name, value, fact.mode)
        elif name in _SETTINGS:
            return self._keep_setting(fact, name, value)
        elif name in _ENGINE_WIDE:
            return self.ledger.put_wide(rank, name, value, fact.mode)
        elif name == "gpu":
            self.said.setdefault(name, str(value).replace("_", " "))
        elif fact.mode != "weak" or name not in self.said:
            self.said[name] = f"b{value}" if isinstance(value, int) else value
        return True

    def _keep_setting(self, fact: Fact, name: str, value: Any) -> bool:
        if isinstance(value, int) and not isinstance(value, bool) and value <= 0 and name != "cpu_offload":
            return False
        weight = -1 if fact.mode == "weak" else fact.weight
        if name in self.settings and (weight < self.weights[name] or weight < 0):
            return False
        plain = value.removeprefix("torch.") if isinstance(value, str) else value
        self.settings[name], self.weights[name] = plain, weight
        return True

    def _keep_oom(self, name: str, value: Any, line: Line) -> bool:
        if self.stopping or (self.oom_line and self.oom_line != line.number):
            return False
        if not self.oom_line:
            self.oom_line = line.number
            sizes = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "bytes": 1}
            found = _PROCESSES.findall(line.text)
            if found:
                total = sum(round(float(size) * sizes[unit]) for size, unit in found if size.count(".") < 2)
                apart = "this process has" in line.text
                self.oom["other_processes" if apart else "named_processes"] = total
        self.oom.setdefault(name, value)
        return True

    def _keep_serving(self, name: str, value: Any) -> None:
        self.serving[name] = value
        peak = {"kv_usage": "peak_kv_usage", "waiting": "peak_waiting"}.get(name)
        if peak:
            self.serving[peak] = max(value, self.serving.get(peak, value))

    def _advance(self, fact: Fact, line: Line, rank: str) -> None:
        """Where the start stands after this line."""
        if fact.begins == "context":
            self.ledger.next_context()
        elif fact.begins == "draft":
            self.ledger.draft_follows(rank)
        elif fact.begins == "engine":
            self.inits.add(line.rank)
        if fact.stops and self.ready:
            self.stopping = True
        if fact.fails:
            self._fail(fact, line)
        if fact.frame:
            if not (self.ready and self.phase == "under load"):
                self.phase = fact.phase
        elif fact.phase:
            self.phase, self.pending = fact.phase, None
            if fact.phase != "under load":
                self.ready = False
        if fact.ready:
            self.ready = True
            if self.failure and self.failed_at != "under load":
                self.failure = self.failed_at = self.error = None
                self.oom, self.oom_line = {}, 0
            self.pending = None

    def _fail(self, fact: Fact, line: Line) -> None:
        if self.stopping:
            return
        if fact.fails == "pending":
            self.pending = self.pending or line.text
            if self.failure and self.failure.cause < fact.cause:
                self.error = line.text
                self.failure = fact
            return
        at = self.phase if fact.fails == "phase" else fact.fails
        if self.failure is None or fact.cause > self.failure.cause:
            self.failure, self.failed_at = fact, at
            self.error = line.text if fact.cause or not self.pending else self.pending
        elif fact.fails != "phase" and self.failure.fails == "phase":
            self.failed_at = at

    def _outcome(self) -> Outcome:
        if self.engine is None and (self.failure is None or self.failure.cause < 2):
            return "unknown"  # any program's traceback
        if self.failure is None and self.pending and not self.ready:
            self.error, self.failed_at = self.pending, self.phase
            return "failed"
        if self.failure:
            return "failed"
        if self.serving:
            return "serving"
        return "started" if self.ready else "unknown"

    def observation(self, complete: bool) -> Observation:
        """The start as far as the log tells it."""
        outcome = self._outcome()
        stage = self.failed_at if outcome == "failed" and self.failed_at in _STAGES else None
        ranks, binding, terms = self.ledger.settle(
            self.engine, self.settings.get("kv_cache_memory_bytes"), self.oom.get("device")
        )
        steps: tuple[Stage, ...] = self.timeline.steps()
        return Observation(
            engine=self.engine,
            outcome=outcome,
            stage=cast("FailureStage | None", stage),
            settings=Settings(**self.settings),
            terms=terms,
            ranks=ranks,
            binding_rank=binding,
            oom=OutOfMemory(**self.oom) if self.oom else None,
            error=_shown(self.error) if outcome == "failed" and self.error else None,
            timeline=steps,
            seconds_to_ready=self.timeline.elapsed if self.ready or outcome == "serving" else None,
            serving=Serving(**self.serving) if self.serving else None,
            evidence=tuple(
                Evidence(one.line, one.fields, _shown(one.text))
                for one in sorted(self.evidence.values(), key=lambda e: e.line)
            ),
            first_line=self.first_line,
            complete=complete,
            arguments=dumps.without_secrets(self.arguments) if self.arguments else None,
            **self.ledger.wide(),
            **{name: value for name, value in self.said.items() if name in Observation.__struct_fields__},
        )


def _shown(text: str) -> str:
    """A line as evidence: printable, short, without secrets."""
    return printable(dumps.without_secrets(text))

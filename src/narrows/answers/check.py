"""`check`: what went wrong in a start, by its log; and does the prediction agree?"""

from __future__ import annotations

import datetime
import os
import sys
from typing import BinaryIO

import msgspec

from narrows.answers.base import Answer, command_line
from narrows.calibration.store import Correction, add, correction_for
from narrows.diagnosis import (
    Cause,
    Comparison,
    Mend,
    Note,
    Situation,
    TimeLedger,
    command_notes,
    comparisons,
    deployed,
    diagnose,
    notes_of,
    time_ledger,
)
from narrows.diagnosis.sglang import sglang_beside
from narrows.engines import find_engine
from narrows.models import ModelSpec
from narrows.observe import Evidence, Observation, observe, observe_path
from narrows.observe.observation import FailureStage, Outcome
from narrows.text import BadInput, Text
from narrows.units import binary

_PREDICTED = ("vllm", "sglang", "llama.cpp")
_MOST_EVIDENCE = 60


class Check(Answer, frozen=True, kw_only=True):
    """The answer of `check`. Sizes are bytes per device (the binding rank), times seconds.

    cause: None where the start is healthy. mend: the least costly change; other_mends: the further ones, dearer in
    turn. terms: predicted × reported. starts: how many starts the log holds; start: which one this is (from 1).
    missing: flags that would add a prediction.
    """

    schema: str = "narrows.check/1"
    engine: str | None
    version: str | None
    model: str | None
    gpu: str | None
    outcome: Outcome
    stage: FailureStage | None
    cause: Cause | None
    mend: Mend | None
    other_mends: tuple[Mend, ...]
    terms: tuple[Comparison, ...]
    timeline: TimeLedger
    notes: tuple[Note, ...]
    evidence: tuple[Evidence, ...]
    starts: int
    start: int
    missing: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 for a start that stands, 1 for one that failed, 2 where the log does not tell."""
        return {"started": 0, "serving": 0, "failed": 1}.get(self.outcome, 2)


def check(
    log: str | BinaryIO,
    *,
    model: str | ModelSpec | None = None,
    gpu: str | None = None,
    memory: int | None = None,
    engine: str | None = None,
    start: int | None = None,
    calibrate: bool = False,
) -> Check:
    """What the log of an engine's start says, why it failed, and what mends it.

    log: a path, `-` for standard input, or a binary file. model, gpu, memory (usable bytes per device), engine
    (`vllm==0.24`): in place of what the log says, or where it says nothing. start: which start of the log, from 1
    (None: the last). calibrate: keep what this start showed, so that later predictions of this machine use it. Raises
    BadInput where no engine is recognised, or where there is nothing to keep.
    """
    found = _read(log)
    dropped = found[-1].earlier_starts
    count = dropped + len(found)
    number = count if start is None else start
    if not 1 <= number <= count:
        raise BadInput("--start is {start}, and the log holds {count} starts", start=number, count=count)
    if number <= dropped:
        raise BadInput(
            "--start is {start}; of {count} starts the last {kept} are kept, from number {first} on",
            start=number,
            count=count,
            kept=len(found),
            first=dropped + 1,
        )
    at = number - dropped - 1
    seen = found[at]
    _recognised(seen, log, engine)
    if engine is not None and seen.engine is None:
        seen = msgspec.structs.replace(seen, engine=find_engine(engine).name)
    made = deployed(seen, model=model, gpu=gpu, memory=memory, engine=engine)
    situation = Situation(seen, made, tuple(found[:at]))
    cause, mends = diagnose(situation)
    deployment = made.deployment
    notes = [*notes_of(situation), *_about_the_log(seen, count, number)]
    if any(mend.change for mend in mends):
        notes += command_notes(situation)
    terms, missing, assumptions = comparisons(situation), made.lacks, made.assumptions
    if seen.engine == "sglang":
        beside = sglang_beside(seen, model=model, gpu=gpu, memory=memory, engine=engine)
        terms, missing = beside.terms, beside.lacks
        assumptions = (*assumptions, *beside.said)
        # without --gpu the device is a mere size
        deployment = beside.deployment if gpu is not None else None
        if missing:
            notes.append(Note("lacks", Text("add {flags} and the start is predicted too", flags=", ".join(missing))))
    if calibrate:
        notes.append(_kept(situation, log))
    return Check(
        command=command_line(
            "check",
            log if isinstance(log, str) else "-",
            model=model if isinstance(model, str) else None,
            gpu=gpu,
            memory=memory,
            engine=engine,
            start=start,
        ),
        engine=seen.engine,
        version=seen.version,
        model=seen.model or (made.model.name if made.model else None),
        gpu=seen.gpu or (deployment.accelerator.name if deployment else None),
        outcome=seen.outcome,
        stage=seen.stage,
        cause=cause,
        mend=mends[0] if mends else None,
        other_mends=mends[1:],
        terms=terms,
        timeline=time_ledger(seen),
        notes=tuple(notes),
        evidence=seen.evidence[-_MOST_EVIDENCE:],
        starts=count,
        start=number,
        missing=missing,
        assumptions=assumptions,
        sources=_sources(situation),
    )


def _kept(situation: Situation, log: str | BinaryIO) -> Note:
    """Put what the start showed into the store of corrections."""
    deployment, reported = situation.made.deployment, situation.reported_pool
    if deployment is None or reported is None:
        raise BadInput(
            "nothing to calibrate with: the log must state the KV cache, and model and accelerator must be known "
            "(--model, --gpu)"
        )
    key = (
        deployment.engine.name,
        deployment.engine.version,
        deployment.accelerator.id,
        deployment.model.name,
        deployment.tensor_parallel,
    )
    before = correction_for(*key)
    beyond = situation.shift + (before.kv_bytes if before else 0)
    name = os.path.basename(log) if isinstance(log, str) and log != "-" else "stdin"
    add(Correction(*key, beyond, name, datetime.date.today().isoformat()))
    return Note(
        "calibrated",
        Text(
            "kept: {size} of KV cache beyond the built-in prediction; later predictions use it ('narrows calibration')",
            size=binary(beyond),
        ),
    )


def _read(log: str | BinaryIO) -> list[Observation]:
    """Every start in the log."""
    if not isinstance(log, str):
        return observe(log)
    if log != "-":
        return observe_path(log)
    if sys.stdin is None:
        raise BadInput("standard input is closed; give the file of an engine's log")
    found = observe(sys.stdin.buffer)
    if len(found) == 1 and found[0] == Observation():
        raise BadInput(
            "standard input holds no line of an engine narrows reads; pipe its log in from the first line on"
        )
    return found


def _recognised(seen: Observation, log: str | BinaryIO, engine: str | None) -> None:
    """Refuses what no rule can speak of."""
    name = log if isinstance(log, str) and log != "-" else "standard input"
    if seen.engine is not None and seen.engine not in _PREDICTED:
        raise BadInput(
            "{path} is a log of {engine}, which narrows does not diagnose yet; it does vllm, sglang and llama.cpp",
            path=name,
            engine=seen.engine,
        )
    if seen.engine is None and seen.outcome == "unknown" and engine is None:
        raise BadInput(
            "{path} holds no line of an engine narrows reads (vllm, sglang, llama.cpp); give its log from the first "
            "line on, or say which engine it is with --engine",
            path=name,
        )


def _about_the_log(seen: Observation, starts: int, number: int) -> tuple[Note, ...]:
    notes = []
    if starts > 1:
        notes.append(
            Note(
                "several-starts",
                Text(
                    "the log holds {starts} starts; this is number {number}, from line {line} on "
                    "(--start picks another)",
                    starts=starts,
                    number=number,
                    line=seen.first_line,
                ),
            )
        )
    if not seen.complete:
        notes.append(Note("cut", Text("the log was read only in part: it is longer than the limit")))
    return tuple(notes)


def _sources(situation: Situation) -> tuple[str, ...]:
    found = []
    deployment = situation.made.deployment
    if deployment is not None:
        found += [deployment.model.source, deployment.accelerator.source]
    if situation.engine is not None:
        found.append(situation.engine.source)
    return tuple(dict.fromkeys(source for source in found if source))

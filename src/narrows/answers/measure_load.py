"""`measure load`: what does loading really take here, and which stage decides?"""

from __future__ import annotations

import datetime
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from narrows.answers.base import command_line
from narrows.answers.measure_load_parts import limits_of, measured_loader, varied_by
from narrows.answers.measure_load_types import LoaderFailed, LoadMeasured
from narrows.calibration.store import MeasuredStorage, add_storage
from narrows.deployment import whole
from narrows.measure import limits
from narrows.measure.load_run import Ran, Told, run
from narrows.measure.load_source import MOST_BYTES, Source, given, made
from narrows.measure.load_ways import ways
from narrows.measure.timing import median
from narrows.quantity import Quantity
from narrows.text import BadInput, Text

CLOSE = 0.30
"""An error up to this is agreement."""
STEADY = 1.5
"""Storage that varies by more than this factor decides nothing."""
BUSY, STOLEN = 0.15, 0.05
"""So do processors of which others take more than such a share."""
DEFAULTS = ("safetensors", "mmap", "http")
"""What engines use by themselves, the first that ran."""
MOST_RANKS, MOST_PAIRS = 64, 100
SHORTEST, LONGEST = 5, 7200


def measure_load(
    path: str | None = None,
    *,
    make: int | None = None,
    scratch: str | None = None,
    loader: Sequence[str] = (),
    pairs: int = 5,
    ranks: int = 1,
    device: str | None = None,
    seconds: float = 600.0,
    most: int = MOST_BYTES,
    calibrate: bool = False,
    progress: Told = lambda share, stage: None,
    running: Callable[..., Ran] = run,
) -> LoadMeasured:
    """Load a checkpoint for real with each loader, beside limits measured in the same minutes.

    path: a safetensors or GGUF file, a folder of them, or an http address; it is only read. make: bytes of a checkpoint
    to make in `scratch` instead (None: the system's temporary folder), gone afterwards. loader: which (none: all that
    are installed). pairs: rounds of every loader, in turn. ranks: processes that load at once. device: where tensors
    are copied to; None: the first accelerator that torch finds, if any; `cpu`: nowhere. seconds: no new round after
    that. most: of a checkpoint in many files, the first ones up to so many bytes. Raises BadInput.
    """
    whole("--pairs", pairs, MOST_PAIRS)
    whole("--ranks", ranks, MOST_RANKS)
    if not SHORTEST <= seconds <= LONGEST:
        raise BadInput(
            "--seconds is {seconds}; it must be from {least} to {most}",
            seconds=f"{seconds:g}",
            least=SHORTEST,
            most=LONGEST,
        )
    if (path is None) == (make is None):
        raise BadInput("give a checkpoint or --make SIZE, one of the two")
    chosen = _device(device)
    with _source(path, make, scratch, most, progress) as source:
        wanted = ways(tuple(loader), source.http, source.format)
        found = running(source, wanted, rounds=pairs, ranks=ranks, device=chosen, seconds=seconds, told=progress)
        said = {
            "make": make,
            "scratch": scratch,
            "loader": list(loader) or None,
            "pairs": pairs if pairs != 5 else None,
            "ranks": ranks if ranks != 1 else None,
            "device": device,
            "seconds": seconds if seconds != 600 else None,
            "most": most if most != MOST_BYTES else None,
            "calibrate": calibrate,
        }
        command = command_line("measure", "load", *([path] if path else []), **said)
        return answer_of(source, path, found, ranks, chosen, command, calibrate)


def _device(asked: str | None) -> str | None:
    if asked == "cpu":
        return None
    from narrows.measure.torch_library import accelerators, import_torch

    if asked is None and not os.path.exists("/dev/nvidiactl") and not os.path.exists("/dev/kfd"):
        return None  # torch takes seconds to load, only to say so
    torch = import_torch()
    there = accelerators(torch) if torch is not None else []
    if asked is None:
        return there[0] if there else None
    exact = next((one for one in there if one == asked or one.partition(":")[0] == asked), None)
    if exact is None:
        raise BadInput(
            "torch finds no device '{device}' here; there are: {known}",
            device=asked[:40],
            known=", ".join(["cpu", *there]),
        )
    return exact


def _source(
    path: str | None, make: int | None, scratch: str | None, most: int, told: Told
) -> AbstractContextManager[Source]:
    if path is not None:
        return given(path, most)
    folder = os.path.abspath(scratch or tempfile.gettempdir())
    if not os.path.isdir(folder):
        raise BadInput("--scratch names '{folder}', which is no directory", folder=folder)
    assert make is not None
    return made(folder, make, lambda share: told(0.0, Text("writing a checkpoint")))


def answer_of(
    source: Source, path: str | None, found: Ran, ranks: int, device: str | None, command: str, calibrate: bool
) -> LoadMeasured:
    """The answer of what was found. Raises BadInput where no loader had figures."""
    ids = list(dict.fromkeys(one.way for one in found.pairs))
    if not ids:
        why = next(iter(found.failed.values()), Text("none could be run"))
        raise BadInput("no loader could load it: {reason}", reason=why)
    varied = varied_by(found.tops)
    reasons = _reasons(found, varied)
    order = ways(tuple(ids), source.http, source.format)
    loaders = tuple(
        measured_loader(way, [one for one in found.pairs if one.way == way.id], ranks, limits.cores(), bool(reasons))
        for way in sorted(order, key=lambda way: _place(way.id))
    )
    main = next((one for id in DEFAULTS for one in loaders if one.loader == id), loaders[0])
    errors = [error for one in loaders if one.cold and not one.is_limit for error in [one.error] * one.pairs]
    error = median(errors) if errors else None
    ours = next((one for one in loaders if one.loader == "direct"), None)
    latencies = [one.beside.latency for one in found.pairs]
    kept = _keep(source, found) if calibrate else False
    return LoadMeasured(
        command=command,
        path=path,
        bytes=source.size,
        files=len(source.paths),
        format=source.format,
        filesystem=source.filesystem,
        ranks=ranks,
        device=device,
        limits=limits_of(found),
        latency=Quantity(median(latencies), "s", "measured", min(latencies), max(latencies)),
        loaders=loaders,
        failed=tuple(LoaderFailed(id, why) for id, why in found.failed.items()),
        loader=main.loader,
        stages=main.stages,
        narrow_stage=main.narrow_stage,
        narrow_reason=main.narrow_reason,
        fastest=min(loaders, key=lambda one: one.time.value / one.bytes).loader,
        pairs=found.rounds,
        error=error,
        varied=varied,
        verdict=verdict(error, bool(reasons)),
        reasons=reasons,
        reader_share=_share(found) if ours is not None else None,
        conditions=found.conditions,
        seconds=found.seconds,
        calibrated=kept,
        assumptions=(*source.notes, *found.notes, *_how(source, ranks, device)),
        sources=("narrows measure load",),
    )


def _place(id: str) -> int:
    from narrows.measure.load_ways import WAYS

    return [one.id for one in WAYS].index(id)


def verdict(error: float | None, unsteady: bool) -> str:
    """`agrees` up to an error of 30 %; else `inconclusive` where the machine was unsteady, else `differs`."""
    if error is None:
        return "warm"
    if error <= CLOSE:
        return "agrees"
    return "inconclusive" if unsteady else "differs"


def _share(found: Ran) -> float:
    return median([one.cold.bytes / one.cold.seconds / one.beside.top for one in found.pairs if one.way == "direct"])


def _reasons(found: Ran, varied: float) -> tuple[Text, ...]:
    """Why a difference between prediction and measurement would say nothing."""
    reasons = []
    if varied > STEADY:
        reasons.append(Text("the storage varied ×{times} during the run", times=f"{varied:.1f}"))
    seen = found.conditions
    others = seen.others or 0.0
    if others > BUSY:
        reasons.append(Text("other processes took {percent} % of the processors' time", percent=f"{100 * others:.0f}"))
    if (seen.stolen or 0.0) > STOLEN:
        reasons.append(
            Text(
                "the hypervisor gave {percent} % of the processors' time to others",
                percent=f"{100 * (seen.stolen or 0.0):.0f}",
            )
        )
    return tuple(reasons)


def _how(source: Source, ranks: int, device: str | None) -> list[Text]:
    notes = [
        Text("predicted from limits that were measured before and after each run, by the laws of 'narrows load'"),
        Text("cold: the checkpoint's own pages were asked to leave the page cache, counted, and the device gave bytes"),
    ]
    if source.http:
        notes = notes[:1]
    if ranks > 1:
        notes.append(Text("{ranks} processes load at once, each everything", ranks=ranks))
    if device is None:
        notes.append(Text("no accelerator is used: loading ends in host memory, with every page touched or read"))
    return notes


def _keep(source: Source, found: Ran) -> bool:
    """Keep the limits of the storage; of an address there is nothing to keep them for. Raises BadInput."""
    if source.http or not source.mount:
        return False
    beside = [one.beside for one in found.pairs]
    add_storage(
        MeasuredStorage(
            device=source.mount,
            filesystem=source.filesystem,
            top=median(list(found.tops)),
            stream=median([one.window for one in beside]),
            first_touch=median([one.host.first_touch for one in beside]),
            memcpy=median([one.host.memcpy for one in beside]),
            latency=median([one.latency for one in beside]),
            date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        )
    )
    return True

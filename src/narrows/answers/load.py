"""`load`: how long from storage to ready, and which stage decides?"""

from __future__ import annotations

import os
from collections.abc import Callable

from narrows.answers.base import command_line
from narrows.answers.load_first import load_warnings
from narrows.answers.load_parts import (
    host_memory_of,
    link_of,
    reason_of_narrow,
    remedies_of,
    smaller,
    stages_of,
    steps_of,
    taken_for_granted,
    total_time,
    weights_time,
)
from narrows.answers.load_types import Load
from narrows.answers.model import model_facts
from narrows.answers.options import as_planned, asked_of, deploy_options, named_devices, said_of
from narrows.answers.pasted import refuse_command
from narrows.deployment import deploy, whole
from narrows.hardware import find_accelerator
from narrows.hardware.storage import Storage, find_instance, find_storage
from narrows.loading.loaders import find_loader
from narrows.loading.measured_here import measured_here
from narrows.loading.path import Scenario
from narrows.loading.place import Place, look_up
from narrows.loading.plan import Settings, predict
from narrows.loading.rates import READAHEAD, shipped
from narrows.memory.shard import shards
from narrows.models import ModelSpec, load_model
from narrows.models.paths import looks_like_path
from narrows.precision.per_tensor import PerTensor
from narrows.quantity import Quantity
from narrows.text import BadInput, Text
from narrows.units import decimal


def load(
    model: str | ModelSpec,
    gpu: str = "",
    *,
    source: str | None = None,
    engine: str = "vllm",
    tp: int = 1,
    pp: int = 1,
    loader: str | None = None,
    concurrency: int | None = None,
    bandwidth: int | None = None,
    instance: str | None = None,
    readahead: int | None = None,
    target: str | None = None,
    warm: bool = False,
    compile_cache: bool = False,
    enforce_eager: bool = False,
    dtype: str = "auto",
    quantization: str | None = None,
    max_len: int | None = None,
    assume: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Load:
    """How long from process start to the first answer, and which stage decides?

    source: a storage (`gp3`, `s3`, `hub`, …) or a local path; None: where the model's path lies, or else the hub.
    loader: None takes the engine's own. concurrency: reads at once and rank. bandwidth: of the storage, bytes/s.
    readahead: bytes one fault brings. target: the disk of a download. warm: the files are in the page cache.
    compile_cache: compiled code of an earlier start is kept. Raises BadInput.

    >>> load("llama-2-7b", gpu="l40s", source="gp3").narrow_stage
    'read'
    """
    asked = asked_of(locals())
    named_devices(gpu)
    if isinstance(model, str):
        refuse_command(model, "load")
    spec = model if isinstance(model, ModelSpec) else load_model(model, assume=assume, progress=progress)
    wanted = dict(asked)
    spec = as_planned(spec, wanted)
    device = find_accelerator(gpu)
    wanted["max_len"] = max_len or (None if spec.max_length else 1)
    # what a host processor can keep is what was put into it, and loading does not depend on it
    wanted["memory"] = device.memory_bytes if device.is_cpu else None
    deployment = deploy(spec, device, **deploy_options(wanted))
    notes: list[Text] = []
    place, storage = _source(model if isinstance(model, str) else "", source, notes)
    storage, rates, measured = measured_here(place, storage, shipped())
    gguf = isinstance(spec.precision.scheme, PerTensor)
    by = (
        find_loader("gguf-mmap", "llama.cpp")
        if gguf and loader is None
        else find_loader(loader, deployment.engine.name)
    )
    scenario = Scenario(
        storage=storage,
        loader=by,
        bytes=spec.checkpoint_bytes() if place is None else place.bytes,
        resident=max(shard.weights for shard in shards(deployment)),
        ranks=deployment.count,
        bandwidth=float(bandwidth) if bandwidth is not None else None,
        instance=find_instance(instance) if instance else None,
        streams=whole("--concurrency", concurrency, 1024) if concurrency is not None else None,
        cached=1.0 if warm else (place.cached or 0.0) if place is not None else 0.0,
        link=link_of(device, notes),
        device=device.id,
        generation=None if device.links.c2c else device.links.pcie_generation,
        readahead=readahead or (place.readahead if place is not None and place.readahead else READAHEAD),
        target=_disk(target or "nvme") if storage.remote else None,
    )
    _of_no_use(scenario, warm=warm, target=target, readahead=readahead)
    notes += taken_for_granted(scenario, place, warm, bandwidth is not None)
    notes += [measured] if measured is not None else []
    if place is not None and not 0.9 < place.bytes / max(1, spec.checkpoint_bytes()) < 1.1:
        notes.append(
            Text(
                "'{path}' holds {held}, and {model} is stored in {size}: what is there is what is loaded",
                path=place.path,
                held=decimal(place.bytes),
                model=spec.name,
                size=decimal(spec.checkpoint_bytes()),
            )
        )
    settings = Settings(
        scenario=scenario,
        engine=deployment.engine.name,
        version=deployment.engine.version,
        layers=spec.layers,
        graphs=not enforce_eager,
        compiled=compile_cache,
    )
    start = predict(settings, rates)
    said = said_of(asked)
    first = {"quantization": said.pop("quantization", None), "from": said.pop("source", None), "gpu": gpu}
    return Load(
        command=command_line("load", model if isinstance(model, str) else spec.name, **first, **said),
        model=model_facts(spec, deployment.max_length, deployment.kv),
        gpu=device.id,
        gpu_name=device.name,
        ranks=deployment.count,
        engine=deployment.engine.label,
        storage=storage.id,
        storage_name=storage.name,
        loader=by.id,
        loader_name=by.name,
        pipelined=by.pipelined,
        bytes=scenario.bytes,
        resident_bytes=scenario.resident,
        cached=scenario.cached,
        filesystem=place.filesystem if place is not None else None,
        stages=stages_of(start, by),
        weights=weights_time(start, rates),
        total=Quantity(start.total, "s", "predicted", start.low, start.high),
        total_sequential=total_time(start, start.transfer.sequential),
        total_pipelined=total_time(start, start.transfer.pipelined),
        narrow_stage=start.narrow.name,
        narrow_reason=reason_of_narrow(start.narrow, scenario),
        narrow_transfer=start.narrow_transfer.name,
        narrow_transfer_reason=reason_of_narrow(start.narrow_transfer, scenario),
        remedies=remedies_of(settings, rates, start, smaller(spec) if settings.engine != "llama.cpp" else None),
        steps=steps_of(settings, rates, start),
        host_memory=host_memory_of(deployment, scenario, rates),
        peak_host_bytes=int(by.peak * scenario.bytes * by.share(scenario.ranks)) * (scenario.ranks if by.peak else 1),
        warnings=load_warnings(deployment, scenario, dtype),
        assumptions=tuple(dict.fromkeys((*spec.assumptions, *deployment.assumptions, *notes))),
        sources=tuple(dict.fromkeys(one for one in (spec.source, storage.source, by.source, device.source) if one)),
    )


_SCHEMES = {"s3": "s3", "gs": "gcs", "az": "azure-blob", "https": "hub", "hf": "hub"}
"""Beginning of an address → the storage it speaks of."""


def _disk(name: str) -> Storage:
    """A storage that files can be put on."""
    found = find_storage(name)
    if found.write is None:
        raise BadInput("--target is {storage}, which files are not downloaded to; use nvme, gp3, efs, …", storage=name)
    return found


def _source(model: str, source: str | None, notes: list[Text]) -> tuple[Place | None, Storage]:
    """(place, storage): of a local path, of a name, or the hub."""
    if source is None:
        path = os.path.expanduser(model)
        if model and looks_like_path(model) and os.path.exists(path):
            try:
                place = look_up(path)
            except BadInput:
                notes.append(Text("there are no weights in '{path}': they are taken to come from the hub", path=model))
                return None, find_storage("hub")
            return place, place.storage
        return None, find_storage("hub")
    scheme, address, _ = source.partition("://")
    if address and scheme.lower() in _SCHEMES:
        return None, find_storage(_SCHEMES[scheme.lower()])
    path = os.path.expanduser(source)
    if os.sep in source or os.path.exists(path):
        if not os.path.exists(path):
            raise BadInput("there is no file or directory '{path}'", path=source[-100:])
        place = look_up(path)
        return place, place.storage
    return None, find_storage(source)


def _of_no_use(scenario: Scenario, *, warm: bool, target: str | None, readahead: int | None) -> None:
    """Refuse options that this way of the weights has no use for: BadInput."""
    storage, loader = Text(scenario.storage.name), Text(scenario.loader.name)
    if warm and scenario.storage.remote:
        raise BadInput(
            "--warm is of files in the page cache, and {storage} is read over the network; leave it out, or name with "
            "--from the disk that the files were put on",
            storage=storage,
        )
    if target is not None and not scenario.downloads:
        raise BadInput(
            "--target is where a download is put, and {loader} reads from {storage} without one; leave it out",
            loader=loader,
            storage=storage,
        )
    if readahead is not None and scenario.loader.access != "mmap":
        raise BadInput("--readahead is of files that are mapped, and {loader} maps none; leave it out", loader=loader)

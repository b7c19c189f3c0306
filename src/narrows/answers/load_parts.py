"""Parts of the answer of `load`: stages in time, totals, what bounds the narrow one, remedies, host memory."""

from __future__ import annotations

from narrows.answers.load_types import FromHostMemory, LoadRemedy, LoadStage
from narrows.deployment import Deployment
from narrows.hardware import Accelerator
from narrows.loading.host_memory import from_host_memory
from narrows.loading.loaders import Loader
from narrows.loading.path import CHUNK, Moved, Scenario, downloader
from narrows.loading.place import Place
from narrows.loading.plan import Settings, Start
from narrows.loading.rates import READAHEAD, Rate, Rates
from narrows.loading.remedies import remedies, step_by_step
from narrows.loading.start import Fixed
from narrows.models import ModelSpec
from narrows.precision import UNQUANTIZED
from narrows.quantity import Kind, Quantity
from narrows.text import Text
from narrows.units import bandwidth as per_second
from narrows.units import binary


def link_of(device: Accelerator, notes: list[Text]) -> float | None:
    """Bytes/s from host to device on paper; None where both share the memory, or nothing is known."""
    if device.unified or device.is_cpu:
        notes.append(Text("{gpu} shares the host's memory: no link is crossed", gpu=device.name))
        return None
    links = device.links
    if links.c2c is not None:
        notes.append(Text("what copies reach over NVLink-C2C is assumed to be the share of PCIe's"))
        return links.c2c
    if links.pcie is None:
        notes.append(Text("the link to {gpu} is not known; loaders are taken as on other devices", gpu=device.name))
    return links.pcie


_SHARED = {
    "slices": Text("ranks map the same files: the storage is read once, and the page cache serves all of them"),
    "own": Text("each rank reads a file of its own"),
    "distributed": Text("each rank reads an even part, and devices exchange what they need"),
    "all": Text("every rank reads the whole checkpoint; only a page cache keeps that from the storage"),
}
"""What ranks read of a checkpoint, by the loader's `part`."""


def taken_for_granted(scenario: Scenario, place: Place | None, warm: bool, given: bool) -> list[Text]:
    """What was taken for granted."""
    storage, notes = scenario.storage, []
    if place is not None:
        notes.append(
            Text(
                "'{path}' is taken to lie on {storage} (assumed): {basis}",
                path=place.path,
                storage=Text(storage.name),
                basis=place.basis,
            )
        )
        if place.cached and not warm:
            notes.append(Text("{share} % of it is in the page cache", share=round(100 * place.cached)))
        if place.cached is None and not warm:
            notes.append(
                Text("what of it is in the page cache cannot be told and is taken as nothing; add --warm if it is")
            )
    if storage.unless and not given:
        notes.append(Text(storage.unless))
    if storage.basis == "assumed" and not given:
        notes.append(Text("the bandwidth of {storage} is assumed; give --bandwidth", storage=Text(storage.name)))
    if scenario.downloads and scenario.target is not None:
        notes.append(
            Text(
                "{loader} reads files: everything is downloaded to {target} first, and read back from the page cache",
                loader=Text(scenario.loader.name),
                target=Text(scenario.target.name),
            )
        )
    if storage.kind == "object" and scenario.instance is None and not given:
        notes.append(Text("the machine's network is taken to carry it; give --instance or --bandwidth"))
    if scenario.ranks > 1:
        notes.append(Text("all {ranks} ranks are taken to be on one machine", ranks=scenario.ranks))
        notes.append(_SHARED[scenario.loader.part])
    if place is None and not warm and not storage.remote and storage.kind != "memory":
        notes.append(Text("nothing is in the page cache; add --warm for a second start on the same machine"))
    return notes


def _kind(n: int) -> Kind:
    return "predicted" if n else "assumed"


def stages_of(start: Start, by: Loader) -> tuple[LoadStage, ...]:
    """The stages in order, each with when it begins and ends: of those that overlap, a chunk after the one before."""
    found, now, narrow = [], 0.0, start.narrow
    begun: float | None = None
    fill = last = 0.0
    for one in start.stages:
        if isinstance(one, Fixed):
            if begun is not None:
                now, begun = begun + _rest(start), None
            time = Quantity(one.seconds, "s", _kind(one.n), one.low, one.high)
            ends = now + one.seconds
            found.append(LoadStage(one.name, time, None, None, None, False, now, ends, one is narrow, one.source))
            now = ends
            continue
        overlaps = by.pipelined and one.name != "download"
        if overlaps and begun is None:
            begun, fill, last = now, 0.0, 0.0
        if begun is None:
            found.append(_moved(one, overlaps, now, now + one.seconds, one is narrow))
            now += one.seconds
        else:
            at, chunk = begun + fill, min(CHUNK, one.bytes) / one.rate.value
            last = max(at + one.seconds, last + chunk)
            found.append(_moved(one, overlaps, at, last, one is narrow))
            fill += chunk
    return tuple(found)


def _rest(start: Start) -> float:
    """Seconds of what overlaps: the way without its download."""
    return start.transfer.time - sum(one.seconds for one in start.transfer.moved if one.name == "download")


def _moved(one: Moved, overlaps: bool, begins: float, ends: float, narrow: bool) -> LoadStage:
    rate = one.rate
    return LoadStage(
        one.name,
        Quantity(one.seconds, "s", _kind(rate.n), one.bytes / rate.high, one.bytes / rate.low),
        one.bytes,
        _rate(rate),
        one.limit,
        overlaps,
        begins,
        ends,
        narrow,
        rate.source,
    )


def _rate(rate: Rate) -> Quantity:
    return Quantity(rate.value, "B/s", _kind(rate.n), rate.low, rate.high)


def weights_time(start: Start, rates: Rates) -> Quantity:
    """From storage to device, with the interval of the whole way."""
    path, seconds = rates["path"], start.transfer.time
    return Quantity(seconds, "s", "predicted", seconds * path.low, seconds * path.high)


def total_time(start: Start, moved: float) -> Quantity:
    """The start with the way of the weights in another reading; the interval moves along."""
    value = start.waiting + moved
    shift = value - start.total
    return Quantity(value, "s", "predicted", max(0.0, start.low + shift), start.high + shift)


_NEAR = 0.7
"""From this share of a storage's bandwidth on, more readers soon meet the next limit."""


def reason_of_narrow(one: Fixed | Moved, scenario: Scenario) -> Text:
    """What bounds a stage that is the narrow one."""
    if isinstance(one, Fixed):
        return {
            "process_start": Text("the process, its imports and the device take longest; loading is not what decides"),
            "initialise": Text("work on the weights after loading takes longest"),
            "compile": Text("profiling and compiling take longest; loading is not what decides"),
            "graph_capture": Text("capturing CUDA graphs takes longest; loading is not what decides"),
            "first_request": Text("the first request takes longest: kernels are compiled when it comes"),
        }[one.name]
    rate, top = per_second(one.rate.value), per_second(scenario.bandwidth or scenario.storage.bandwidth)
    if one.limit == "readers" and scenario.loader.access == "mmap" and scenario.readahead < READAHEAD:
        return Text(
            "faults that bring {window} each reach {rate} of {top}: the way of reading decides, not the storage; read "
            "ahead, or read with a loader that does not map files",
            window=binary(scenario.readahead, 0),
            rate=rate,
            top=top,
        )
    if one.limit == "readers" and one.rate.value > _NEAR * (scenario.bandwidth or scenario.storage.bandwidth):
        return Text(
            "what its readers reach together, {rate}, is near the {top} that the storage has: more reads at once help "
            "a little, and then it is full",
            rate=rate,
            top=top,
        )
    if one.limit == "readers" and scenario.readers == 1 and one.name == "read":
        return Text(
            "one reader that waits for every answer reaches {rate} of {top}: more reads at once would help, a faster "
            "disk would not",
            rate=rate,
            top=top,
        )
    if one.limit == "readers":
        return Text(
            "{readers} readers that wait for every answer reach {rate} of {top}: more reads at once would help, a "
            "faster disk would not",
            readers=scenario.readers if one.name == "read" else downloader(scenario.storage).streams,
            rate=rate,
            top=top,
        )
    return {
        "storage": Text("the storage gives {rate}: a faster one, or fewer bytes", rate=rate),
        "machine": Text("the machine lets {rate} through, less than the storage has", rate=rate),
        "processor": Text("one processor core handles {rate}: the loader's own work decides", rate=rate),
        "link": Text("the link to the device carries {rate}", rate=rate),
        "loader": Text("the loader hands {rate} to the devices, whatever the storage has", rate=rate),
        "memory": Text("new host memory is filled at {rate}: a loader that reuses its buffers needs none", rate=rate),
    }[one.limit]


def smaller(spec: ModelSpec) -> float | None:
    """Share of the bytes that the checkpoint would have in FP8; None where it is quantized already, or empty."""
    if spec.precision.scheme is not UNQUANTIZED or spec.precision.dtype.bits != 16 or not spec.checkpoint_bytes():
        return None
    linear = 0
    for layer, indices in spec.kinds:
        linear += sum(row.stored_bytes for row in spec.layer_rows(layer, indices) if row.tensor.use == "linear")
    return 1.0 - 0.5 * linear / spec.checkpoint_bytes()


def remedies_of(settings: Settings, rates: Rates, start: Start, smaller: float | None) -> tuple[LoadRemedy, ...]:
    """What would help, the most seconds saved first."""
    found = remedies(settings, rates, start, smaller)
    return tuple(LoadRemedy(one.change, one.text, one.saves, one.total) for one in found)


def steps_of(settings: Settings, rates: Rates, start: Start) -> tuple[LoadRemedy, ...]:
    """What to do first, and what then."""
    return tuple(LoadRemedy(one.change, one.text, one.saves, one.total) for one in step_by_step(settings, rates, start))


def host_memory_of(deployment: Deployment, scenario: Scenario, rates: Rates) -> FromHostMemory | None:
    """None where host and device share the memory, or the link is not known."""
    if scenario.link is None:
        return None
    device = deployment.accelerator
    layers = max(1, deployment.model.layers // deployment.pipeline_parallel)
    found = from_host_memory(
        scenario.resident, layers, scenario.link, device.memory_bandwidth, rates, scenario.generation
    )
    low, high = found.rate.low / found.rate.value, found.rate.high / found.rate.value
    return FromHostMemory(
        found.bytes,
        _rate(found.rate),
        Quantity(found.seconds, "s", "predicted", found.seconds / high, found.seconds / low),
        Quantity(found.per_layer, "s", "predicted", found.per_layer / high, found.per_layer / low),
        Quantity(found.device_pass, "s", "exact"),
        found.slowdown,
        Quantity(found.wake.value, "s", "predicted", found.wake.low, found.wake.high)
        if deployment.engine.name == "vllm"
        else None,
    )

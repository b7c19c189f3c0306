"""One loader in a process of its own: `python -m narrows.measure.load_worker`, so that memory and faults are its own.

Reads one JSON object from stdin ({"loader", "paths", "sizes", "most", "device", "threads"}), gets ready (imports, opens
nothing), says `ready`, waits for a line, loads, prints one JSON object of what it took, and is ready again. Only the
standard library and, for loaders that are installed, their own.
"""

from __future__ import annotations

import json
import mmap
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from narrows.measure.load_ring import ALIGNED, BLOCK, THREADS, EndsEarly, from_files, opened, pieces, stream, touch

Job = dict[str, Any]
Loaded = dict[str, Any]
RANDOM_MOST = 32 * 2**20
"""Bytes at most that are mapped without read-ahead: every page waits."""


def direct(job: Job) -> Loaded:
    """Our reader: past the page cache, into a ring of reused buffers."""
    handles, _ = opened(job["paths"])
    try:
        sink, settle = _sink(job)
        flow = stream(
            pieces(job["sizes"], BLOCK, job.get("most")), from_files(handles), sink, job.get("threads") or THREADS
        )
        begun = time.perf_counter()
        settle()
        flow.seconds += time.perf_counter() - begun
        flow.sinking += time.perf_counter() - begun
    finally:
        for handle in handles:
            os.close(handle)
    return {
        "bytes": flow.bytes,
        "seconds": flow.seconds,
        "starved": flow.starved,
        "sinking": flow.sinking,
        "blocked": flow.blocked,
    }


def _sink(job: Job) -> tuple[Callable[[memoryview], object], Callable[[], object]]:
    if not job.get("device"):
        return (lambda view: None), (lambda: None)
    import torch

    there = torch.empty(BLOCK, dtype=torch.uint8, device=job["device"])

    def copy(view: memoryview) -> None:
        there[: len(view)].copy_(torch.frombuffer(view, dtype=torch.uint8))

    return copy, lambda: _settle(torch, job["device"])


def _settle(torch: Any, device: str) -> None:
    module = getattr(torch, device.partition(":")[0], None)
    if module is not None and hasattr(module, "synchronize"):
        module.synchronize()


def buffered(job: Job) -> Loaded:
    """Through the page cache into one reused buffer."""
    done = 0
    with mmap.mmap(-1, BLOCK) as room, memoryview(room) as buffer:
        for path, size in zip(job["paths"], job["sizes"], strict=True):
            handle = os.open(path, os.O_RDONLY)
            try:
                for offset in range(0, size, BLOCK):
                    got = os.preadv(handle, [buffer], offset)
                    if got < min(BLOCK, size - offset):
                        raise EndsEarly("the file ends early")
                    done += got
            finally:
                os.close(handle)
    return {"bytes": done}


def mapped(job: Job) -> Loaded:
    """Every page of a mapping touched in order."""
    return _mapped(job, lambda room: None)


def mapped_random(job: Job) -> Loaded:
    """The same without read-ahead: each page waits by itself."""
    return _mapped(job, lambda room: room.madvise(mmap.MADV_RANDOM), RANDOM_MOST)


def _mapped(job: Job, advise: Callable[[mmap.mmap], object], most: int | None = None) -> Loaded:
    done = 0
    left = min(sum(job["sizes"]), most or sum(job["sizes"]))
    for path, size in zip(job["paths"], job["sizes"], strict=True):
        length = min(size, left)
        if not length:
            break
        with open(path, "rb") as file, mmap.mmap(file.fileno(), length, prot=mmap.PROT_READ) as room:
            advise(room)
            with memoryview(room) as view:
                for offset in range(0, length, BLOCK):
                    touch(view[offset : offset + BLOCK])
        done += length
        left -= length
    return {"bytes": done}


def populated(job: Job) -> Loaded:
    """Mapped, and filled by the kernel in large pieces, by two threads; then touched."""
    advice = getattr(mmap, "MADV_POPULATE_READ", 22)
    piece = 4 * BLOCK
    done = 0
    import ctypes

    libc: Any = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
    libc.mmap.restype = ctypes.c_void_p
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    for path, size in zip(job["paths"], job["sizes"], strict=True):
        handle = os.open(path, os.O_RDONLY)
        try:
            at = libc.mmap(None, size, 1, 2, handle, 0)  # PROT_READ, MAP_PRIVATE
            if at in (None, ctypes.c_void_p(-1).value):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            offsets = iter(range(0, size, piece))
            errors: list[int] = []

            def fill(at: int = at, offsets: Any = offsets, size: int = size, errors: list[int] = errors) -> None:
                for offset in offsets:
                    if libc.madvise(at + offset, min(piece, size - offset), advice):
                        errors.append(ctypes.get_errno())
                        return

            crew = [threading.Thread(target=fill) for _ in range(2)]
            for one in crew:
                one.start()
            for one in crew:
                one.join()
            if errors:
                raise OSError(errors[0], os.strerror(errors[0]))
            whole = (ctypes.c_ubyte * size).from_address(at)
            with memoryview(whole) as view:
                touch(view)
            del whole
            libc.munmap(at, size)
            done += size
        finally:
            os.close(handle)
    return {"bytes": done}


def whole(job: Job) -> Loaded:
    """Each file read whole into memory new for it, and kept until all are there."""
    kept = []
    for path, size in zip(job["paths"], job["sizes"], strict=True):
        with open(path, "rb", buffering=0) as file:
            data = bytearray(size)
            done, view = 0, memoryview(data)
            while done < size:
                got = file.readinto(view[done : done + 2**30])
                if not got:
                    raise EndsEarly("the file ends early")
                done += got
            kept.append(data)
    return {"bytes": sum(map(len, kept)), "kept": kept}


def _touched(tensor: Any, torch: Any) -> int:
    flat = tensor.reshape(-1).view(torch.uint8)
    int(flat[::ALIGNED].sum())
    return int(flat.numel())


def safetensors(job: Job) -> Loaded:
    """safetensors' own way for torch: mapped; every page of every tensor touched."""
    from safetensors.torch import load_file

    torch = sys.modules["torch"]
    done, kept, linking = 0, [], 0.0
    for path in job["paths"]:
        tensors = load_file(path)
        kept.append(tensors)
        for tensor in tensors.values():
            done += _touched(tensor, torch)
            if job.get("device"):
                begun = time.perf_counter()
                kept.append(tensor.to(job["device"]))
                _settle(torch, job["device"])
                linking += time.perf_counter() - begun
    return {"bytes": done, "linking": linking, "kept": kept}


def safetensors_numpy(job: Job) -> Loaded:
    """The same for numpy, which copies each tensor out of the mapping."""
    from safetensors import safe_open

    done = 0
    for path in job["paths"]:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 — it is no dictionary
                done += file.get_tensor(name).nbytes
    return {"bytes": done}


def fast(job: Job) -> Loaded:
    """fastsafetensors without GPUDirect."""
    import torch

    module: Any = sys.modules["fastsafetensors"]
    device = job.get("device") or "cpu"
    loader = module.SafeTensorsFileLoader(module.SingleGroup(), device, nogds=True)
    loader.add_filenames({0: list(job["paths"])})
    buffers = loader.copy_files_to_device()
    done = 0
    try:
        for key in list(loader.get_keys()):
            tensor = buffers.get_tensor(key)
            done += _touched(tensor, torch) if device == "cpu" else tensor.numel() * tensor.element_size()
        _settle(torch, device)
    finally:
        buffers.close()
        loader.close()
    return {"bytes": done}


def runai(job: Job) -> Loaded:
    """Run:ai Model Streamer; every page of every tensor touched."""
    import torch

    module: Any = sys.modules["runai_model_streamer"]
    done = 0
    with module.SafetensorsStreamer() as streamer:
        streamer.stream_files(list(job["paths"]))
        for _name, tensor in streamer.get_tensors():
            done += _touched(tensor, torch)
            if job.get("device"):
                tensor.to(job["device"])
        if job.get("device"):
            _settle(torch, job["device"])
    return {"bytes": done}


def served(job: Job) -> Loaded:
    """Range requests over HTTP by as many connections as threads, into the ring."""
    from narrows.measure.load_http import reading

    with reading(job["paths"], job.get("threads") or THREADS) as read:
        sink, settle = _sink(job)
        flow = stream(pieces(job["sizes"], BLOCK, job.get("most")), read, sink, job.get("threads") or THREADS)
        settle()
    return {
        "bytes": flow.bytes,
        "seconds": flow.seconds,
        "starved": flow.starved,
        "sinking": flow.sinking,
        "blocked": flow.blocked,
    }


LOADERS: dict[str, Callable[[Job], Loaded]] = {
    "direct": direct,
    "buffered": buffered,
    "mmap": mapped,
    "mmap-random": mapped_random,
    "populate": populated,
    "read": whole,
    "safetensors": safetensors,
    "safetensors-numpy": safetensors_numpy,
    "fastsafetensors": fast,
    "runai": runai,
    "http": served,
}
_IMPORTS = {
    "safetensors": ("torch", "safetensors.torch"),
    "safetensors-numpy": ("safetensors", "numpy"),
    "fastsafetensors": ("torch", "fastsafetensors"),
    "runai": ("torch", "runai_model_streamer"),
}


def _counters() -> dict[str, float]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "cpu": usage.ru_utime + usage.ru_stime,
        "major": float(usage.ru_majflt),
        "minor": float(usage.ru_minflt),
        "rss": usage.ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0),
    }
    # getrusage tells the memory of the process before this one too, where that was larger
    for path, wanted, name, unit in (
        ("/proc/self/io", "read_bytes", "stored", 1.0),
        ("/proc/self/status", "VmHWM", "rss", 1024.0),
    ):
        with suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                at, _, value = line.partition(":")
                if at == wanted:
                    found[name] = float(value.split()[0]) * unit
    return found


def run(job: Job, wait: Callable[[], object] = lambda: None) -> Loaded:
    """Get ready, wait, load; what it took. OSErrors and failures of a loader come back under `error`."""
    import importlib

    try:
        for module in _IMPORTS.get(job["loader"], ()):
            importlib.import_module(module)
        if job.get("device"):
            torch = importlib.import_module("torch")
            torch.empty(1, device=job["device"])
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300], "missing": True}
    wait()
    before, begun = _counters(), time.perf_counter()
    try:
        found = LOADERS[job["loader"]](job)
    except OSError as error:
        return {"error": error.strerror or str(error), "ends_early": isinstance(error, EndsEarly)}
    except MemoryError:
        return {"error": "out of memory"}
    except Exception as error:  # a loader's own failure must not end the run of the others
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    seconds = time.perf_counter() - begun
    after = _counters()
    found.pop("kept", None)  # giving it back is no part of loading
    taken = {name: after[name] - before[name] for name in before if name != "rss"}
    return {"seconds": seconds, **found, **taken, "rss": after["rss"], "rss_before": before["rss"]}


def _die_with_parent() -> None:
    """However the measuring process ends, this one does not outlive it."""
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def main() -> int:
    """Serve one job: once for each line that comes, until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the measuring process decides
    _die_with_parent()
    job = json.loads(sys.stdin.readline())

    def wait() -> None:
        print("ready", flush=True)
        if not sys.stdin.readline():
            os._exit(0)

    while True:
        found = run(job, wait)
        print(json.dumps(found), flush=True)
        if "error" in found:
            # what a loader leaves behind in its threads does not matter
            os._exit(0)


if __name__ == "__main__":
    sys.exit(main())

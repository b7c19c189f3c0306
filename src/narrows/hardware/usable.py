"""How much of a device's memory a process can get: as measured, or by a rule where nobody measured it.

Sources of the rule for unified memory: Metal's default working set as llama.cpp prints it (10922.67 of 16384 MiB:
abetlen/llama-cpp-python#687; 21845.34 of 32768: ollama/ollama#434; 73728 of 98304: ggml-org/llama.cpp#3213) and
HIP's default limit on MI300A, 96 of 128 GiB (ROCm/legacy-rocm-build#3587).
"""

from __future__ import annotations

from functools import cache

from narrows.hardware.accelerator import Accelerator, Usable
from narrows.hardware.catalogue import accelerators
from narrows.text import BadInput, Text
from narrows.units import GIB, binary


@cache
def measured_share(vendor: str | None, memory_kind: str) -> tuple[float, int] | None:
    """The median of usable ÷ memory over measured devices of a vendor (None: of all) and kind, and their number."""
    shares = sorted(
        device.usable_bytes / device.memory_bytes
        for device in accelerators()
        if device.usable_bytes
        and device.usable_kind == "measured"
        and device.memory_kind == memory_kind
        and vendor in (None, device.vendor)
    )
    if not shares:
        return None
    middle = len(shares) // 2
    return (shares[middle] + shares[-middle - 1]) / 2, len(shares)


def usable_memory(device: Accelerator) -> Usable:
    """Memory a process can get on the device. Raises BadInput for a host processor without a size from its user."""
    if device.usable_bytes is not None:
        return Usable(device.usable_bytes, device.usable_kind, _stated(device))
    if device.is_cpu:
        raise BadInput(
            "{device} has as much memory as was put into the machine: say with --memory how much of it may be used",
            device=device.name,
        )
    share = measured_share(device.vendor, device.memory_kind)
    if share is not None:
        basis = Text(
            "nobody measured it: {percent} % of {memory}, the median of the measured devices of {vendor} ({number})",
            number=share[1],
            vendor=device.vendor,
            **_part(device, share[0]),
        )
        return Usable(int(share[0] * device.memory_bytes), "assumed", basis)
    if device.unified:
        part = 2 / 3 if device.memory_bytes <= 32 * GIB else 3 / 4
        basis = Text(
            "nobody measured it: {percent} % of {memory}, the usual default limit where processor and accelerator "
            "share one memory",
            **_part(device, part),
        )
        return Usable(int(part * device.memory_bytes), "assumed", basis)
    share = measured_share(None, device.memory_kind)
    assert share is not None
    basis = Text(
        "nobody measured it: {percent} % of {memory}, the median of all measured devices ({number})",
        number=share[1],
        **_part(device, share[0]),
    )
    return Usable(int(share[0] * device.memory_bytes), "assumed", basis)


def _part(device: Accelerator, share: float) -> dict[str, str]:
    return {"percent": f"{100 * share:.1f}", "memory": binary(device.memory_bytes)}


def _stated(device: Accelerator) -> Text:
    if device.usable_kind == "measured":
        return Text("reported by the runtime: {source}", source=device.usable_source)
    return Text("taken over, not measured on this very device: {source}", source=device.usable_source)

"""Which devices share a law of speed: from the device itself to its class to any."""

from __future__ import annotations

from narrows.hardware import Accelerator


def memory_family(accelerator: Accelerator) -> str:
    """`HBM`, `GDDR` or `DDR` (LPDDR and DIMMs too): how a memory behaves depends more on it than on its generation."""
    kind = accelerator.memory_type.upper()
    return next((family for family in ("HBM", "GDDR") if family in kind), "DDR")


def architecture(accelerator: Accelerator) -> str:
    """The generation of the compute units: `Blackwell` for `Blackwell (GB202)` and for `Blackwell Ultra`."""
    return accelerator.architecture.split(" (")[0].removesuffix(" Ultra")


def device_keys(accelerator: Accelerator) -> tuple[str, ...]:
    """Names under which laws of a device are looked up, the most special first.

    Its id, `Hopper HBM`, `nvidia HBM`, `nvidia`, `any`; a host processor has its id, `cpu`, `any`, for what vendors
    print on it says little about how it multiplies matrices.
    """
    if accelerator.is_cpu:
        return (accelerator.id, "cpu", "any")
    family, vendor = memory_family(accelerator), accelerator.vendor
    return (accelerator.id, f"{architecture(accelerator)} {family}", f"{vendor} {family}", vendor, "any")

"""`tiers`: the way of the weights to the device, and why they must stay there."""

from __future__ import annotations

from narrows.answers.explain.subjects import NAMED, l40s, model
from narrows.answers.explain.types import CHAPTER, Topic, exact, number, of_kind, row, step, table, words
from narrows.text import Text
from narrows.units import GB, bandwidth, decimal, seconds

_TIERS = (
    ("disk", Text("disk (SSD)"), 0.5 * GB, 14 * GB),
    ("cpu", Text("CPU memory"), 50 * GB, 200 * GB),
    ("gpu", Text("GPU memory"), 300 * GB, 3000 * GB),
)
"""Table 5-5: (id, tier, lowest and highest bandwidth in bytes/s)."""

_PCIE_REACHED = 25 * GB
"""Bytes/s that copies from pinned memory reach over PCIe 4.0 x16: about 80 % of the figure on paper (assumed)."""


def tiers() -> Topic:
    """Bandwidths on the way from disk to GPU memory; time of one pass over the weights from either memory."""
    device = l40s()
    width = model().precision.dtype.bits // 8
    size = NAMED * width
    here, there = size / device.memory_bandwidth, size / _PCIE_REACHED
    on_paper = device.links.pcie or 0.0
    rows = [
        row(
            name,
            words(tier),
            number(f"{low / GB:g}–{high / GB:,g} GB/s", high, "B/s", "cited", low, high),
            number(
                f"{seconds(size / high)} – {seconds(size / low)}", size / low, "s", "cited", size / high, size / low
            ),
            known="cited",
        )
        for name, tier, low, high in _TIERS
    ]
    return Topic(
        "tiers",
        Text("Loading: the way to GPU memory, and why the weights stay there"),
        (
            step(
                "path",
                Text("Weights travel a chain, and each link of it can be the slowest:"),
                points=(
                    Text(
                        "model store → (download) local disk → (read) CPU memory → (PCIe) GPU memory → "
                        "(initialise, warm up) ready"
                    ),
                ),
            ),
            step(
                "bandwidths",
                Text("Each tier is faster than the one before it. The times are computed from the cited bandwidths:"),
                table=table((Text("tier"), Text("bandwidth"), Text("time for {size}", size=decimal(size, 0))), *rows),
            ),
            step(
                "weights",
                Text("The weights of a model of {n}B parameters at {width} bytes each:", n=NAMED // GB, width=width),
                f"{NAMED / GB:g} × 10⁹ × {width} B = {decimal(size, 0)}",
                exact(size, "B"),
            ),
            step(
                "hbm_pass",
                Text(
                    "Decoding reads all of them for every token. From the GPU's own memory ({gpu}) one pass takes:",
                    gpu=device.name,
                ),
                f"{decimal(size, 0)} ÷ {bandwidth(device.memory_bandwidth)} = {seconds(here)}",
                exact(here, "s"),
            ),
            step(
                "pcie_pass",
                Text(
                    "Kept in CPU memory they would cross PCIe {generation}.0 x{lanes} in every pass. The link "
                    "has {paper} on paper; copies reach about {reached} (assumed):",
                    generation=device.links.pcie_generation,
                    lanes=device.links.pcie_lanes,
                    paper=bandwidth(on_paper),
                    reached=bandwidth(_PCIE_REACHED),
                ),
                f"{decimal(size, 0)} ÷ {bandwidth(_PCIE_REACHED)} = {there:.2f} s",
                of_kind(there, "s", "assumed"),
            ),
            step(
                "slowdown",
                Text(
                    "So they are loaded once and stay in GPU memory for all requests. Moved each time, a pass "
                    "would take longer by:"
                ),
                f"{there:.2f} s ÷ {seconds(here)} = {there / here:.1f} ×",
                of_kind(there / here, "1", "assumed"),
            ),
        ),
        (f"{CHAPTER}, table 5-5", device.source),
    )

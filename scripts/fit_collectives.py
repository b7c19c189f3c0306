"""Fits the laws of links and writes src/narrows/calibration/data/collectives.jsonl.

    python scripts/fit_collectives.py          writes the file, from the tables beside it
    python scripts/fit_collectives.py --show   prints it

`narrows.accuracy.collectives` holds the procedure and scores it on devices left out. The intervals are those of the
devices left out; where one device or none was measured, an interval of a factor of two or three is assumed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from narrows.accuracy.collectives import fit, groups, interval, points, ratios_left_out, ratios_of_tables
from narrows.calibration.collectives import collective_tables
from narrows.calibration.laws import Law

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/calibration/data/collectives.jsonl"
SOURCE = "ai-dynamo/aiconfigurator (Apache-2.0), microsoft/vidur (MIT)"
KINDS = ("NVLink switch", "NVLink bridge", "NVLink pairs", "PCIe", "between nodes")
LIKE = {"mesh": "NVLink switch", "fabric": "NVLink switch"}
"""Links that nobody measured, and the one whose shape they are given; their speed on paper is their own."""
NETWORKS = {
    "gaudi2": (300e9, "24 × 100 GbE RoCE, Gaudi 2 data sheet"),
    "gaudi3": (600e9, "24 × 200 GbE RoCE, Gaudi 3 data sheet"),
    "tpu-v4": (270e9, "6 links of 45 GB/s, jax-ml/scaling-book"),
    "tpu-v5e": (180e9, "4 links of 45 GB/s, jax-ml/scaling-book"),
    "tpu-v5p": (540e9, "6 links of 90 GB/s, jax-ml/scaling-book"),
    "tpu-v6e": (360e9, "4 links of 90 GB/s, jax-ml/scaling-book"),
    "tpu-v7x": (600e9, "1.2 TB/s both directions, Google Cloud documentation"),
    "inferentia2": (96e9, "NeuronLink-v2, 192 GB/s both directions, AWS documentation"),
    "trainium1": (192e9, "NeuronLink-v2, 384 GB/s both directions, AWS documentation"),
    "trainium2": (640e9, "NeuronLink-v3, 1.28 TB/s both directions, aws-neuron/aws-neuron-sdk"),
    "trainium3": (1280e9, "NeuronLink-v4, 2.56 TB/s both directions, AWS documentation"),
    "gb10-dgx-spark": (25e9, "ConnectX-7, 200 Gb/s, DGX Spark data sheet"),
}


def rounded(values: dict[str, float]) -> dict[str, float]:
    """Four significant digits."""
    return {name: float(f"{value:.4g}") for name, value in values.items()}


def row(
    operator: str, device: str, values: dict[str, float], ratios: dict[str, list[float]], n: int, basis: str
) -> Law:
    """A law; its interval from measured ÷ predicted of devices left out, or assumed."""
    low, high = interval(ratios) if ratios else (0.5, 2.0)
    return Law(operator, device, rounded(values), round(low, 3), round(high, 3), n, basis, SOURCE)


def measured() -> list[Law]:
    """Laws of links that somebody measured."""
    found = []
    for (op, library, kind), rows in sorted(groups(points()).items()):
        ratios = ratios_left_out(rows)
        devices = sorted({one.device for one in rows})
        basis = f"least squares of log time over {', '.join(devices)}"
        basis += "; interval of devices left out" if ratios else "; one device only, interval assumed"
        found.append(row(f"{op} {library}", kind, fit(rows), ratios, len(rows), basis))
    return found


def supposed(known: list[Law]) -> list[Law]:
    """Laws of operations and links that nobody measured: those of the nearest one that was."""
    by = {(law.operator, law.device): law for law in known}
    found = []
    for kind in (*KINDS, *LIKE):
        for name in OPERATIONS:
            if (name, kind) in by:
                continue
            base = by.get((name, LIKE.get(kind, kind))) or by.get(("all_reduce nccl", LIKE.get(kind, kind)))
            if base is None or (name == "all_reduce custom" and kind not in ("mesh",)):
                continue
            basis = f"assumed: as {base.operator} over {base.device}"
            values = dict(base.values)
            if kind in LIKE:
                # more ranks are better off where a switch adds up for them (NVLink SHARP)
                values["g"] = 0.0
                basis += ", without what its switch gains with more ranks"
            found.append(
                msgspec.structs.replace(
                    base, operator=name, device=kind, values=values, low=0.4, high=2.5, n=0, basis=basis
                )
            )
    return found


OPERATIONS = (
    "all_reduce nccl",
    "all_reduce custom",
    "all_gather nccl",
    "reduce_scatter nccl",
    "all_to_all nccl",
    "send nccl",
)


def tables() -> list[Law]:
    """How far a table errs between its sizes, and on a device built like the one measured."""
    ratios = ratios_of_tables()
    basis = "every other size left out; interpolation in logarithms"
    found = [row("table", "any", {}, ratios, sum(map(len, ratios.values())), basis)]
    alike: dict[str, list[float]] = {}
    twin = {"h100-sxm": "h200-sxm", "b200-sxm": "b300-sxm", "gb200": "gb300"}
    by = {
        (t.device, t.op, t.library, t.ranks): dict(zip(t.bytes, t.microseconds, strict=True))
        for t in collective_tables()
    }
    for (device, *rest), times in by.items():
        other = by.get((twin.get(device, ""), *rest), {})  # type: ignore[arg-type]
        for size in times.keys() & other.keys():
            alike.setdefault(device, []).extend((times[size] / other[size], other[size] / times[size]))
    found.append(
        row(
            "table",
            "twin",
            {},
            alike,
            sum(map(len, alike.values())),
            "each of three pairs of devices taken for the other",
        )
    )
    return found


def networks() -> list[Law]:
    """Speeds of fabrics that the catalogue of devices has in words only."""
    return [
        Law("link", device, {"bandwidth": speed}, 0.5, 1.5, 0, f"per direction: {basis}", basis)
        for device, (speed, basis) in NETWORKS.items()
    ]


def main() -> None:
    """Fit and write."""
    known = measured()
    laws: list[Any] = [*known, *supposed(known), *tables(), *networks()]
    text = b"".join(msgspec.json.encode(law) + b"\n" for law in laws)
    if "--show" in sys.argv[1:]:
        print(text.decode())
        return
    TARGET.write_bytes(text)
    print(f"{len(laws)} laws, {sum(law.n for law in known)} times")


if __name__ == "__main__":
    main()

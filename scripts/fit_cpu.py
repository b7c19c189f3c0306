"""Fits the law of host processors and writes src/narrows/calibration/data/cpu.jsonl.

    python scripts/fit_cpu.py FOLDER           writes the file
    python scripts/fit_cpu.py FOLDER --show    prints it

FOLDER holds cpu-performance-vs-roofline-1t.csv and -2t.csv: whole steps of a Llama of 1.04 billion parameters under
vLLM on one machine (Zen 4, 1 and 2 threads), each beside the measured peaks of that machine. Prefill steps give the
share of the peak, decode steps up to a batch of 8 that of the bandwidth: products with few rows move weights more
slowly than a plain copy does.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from statistics import median

import msgspec

from narrows.calibration.laws import Law

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/calibration/data/cpu.jsonl"
FILES = ("cpu-performance-vs-roofline-1t.csv", "cpu-performance-vs-roofline-2t.csv")


def main() -> None:
    """Fit and write."""
    rows = [row for name in FILES for row in csv.DictReader((Path(sys.argv[1]) / name).open())]
    rows = [row for row in rows if row["engine"] == "vllm-eager" and row["dtype"] == "bfloat16"]
    prefill = [float(row["frac_peak"]) for row in rows if row["phase"] == "prefill"]
    decode = [float(row["frac_bw"]) for row in rows if row["phase"] == "decode" and int(row["batch"]) <= 8]
    values = {"peak": round(median(prefill), 3), "bandwidth": round(median(decode), 3)}
    ratios = sorted(
        [values["peak"] / one for one in prefill] + [values["bandwidth"] / one for one in decode],
    )
    n = len(ratios)
    law = Law(
        operator="cpu",
        device="cpu",
        values=values,
        low=round(ratios[int(0.1 * n)], 3),
        high=round(ratios[int(0.9 * n)], 3),
        n=n,
        basis="median shares of the machine's measured peaks, whole steps; two thread counts of one machine",
        source="measured: vLLM 0.32 for CPUs, Llama of 1.04 billion parameters in bfloat16, Zen 4",
    )
    text = msgspec.json.encode(law) + b"\n"
    if "--show" in sys.argv[2:]:
        print(text.decode())
        return
    TARGET.write_bytes(text)
    print(f"peak {values['peak']}, bandwidth {values['bandwidth']} from {n} steps")


if __name__ == "__main__":
    main()

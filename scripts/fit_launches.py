"""Fits what the host takes to launch a kernel and writes src/narrows/calibration/data/launches.jsonl.

    python scripts/fit_launches.py

From src/narrows/accuracy/data/eager-facts.jsonl, figures that are cited one by one, and the measurements of vLLM before
it had CUDA graphs among the bundled ones; how: see `narrows.accuracy.launches`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from narrows.accuracy.launches import launch_law, seconds_by_source

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/calibration/data/launches.jsonl"


def main() -> None:
    """Write the file."""
    law = launch_law()
    TARGET.write_bytes(msgspec.json.encode(law) + b"\n")
    for source, each in seconds_by_source().items():
        print(f"{1e6 * each:5.1f} µs  {source}")
    print(f"{1e6 * law.values['each']:.1f} µs a launch, {law.low} to {law.high} times")


if __name__ == "__main__":
    main()

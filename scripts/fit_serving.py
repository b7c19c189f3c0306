"""Fits the laws of whole steps and writes src/narrows/calibration/data/steps.jsonl.

    python scripts/fit_serving.py

On rows of the split `fit` of the bundled serving tables, prompts alone and engines for one user; how: see
`narrows.accuracy.serving_fit`. Run it when a law of an operator has changed: factors are relative to those.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from narrows.accuracy.serving_cases import shipped

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/calibration/data/steps.jsonl"


def main() -> None:
    """Write the file."""
    found = shipped()
    TARGET.write_bytes(b"".join(msgspec.json.encode(law) + b"\n" for law in found))
    print(f"{len(found)} laws of steps, from {max(law.n for law in found)} rows")


if __name__ == "__main__":
    main()

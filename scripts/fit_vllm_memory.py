"""Fits what first principles do not give of vLLM's memory and writes src/narrows/calibration/data/vllm.jsonl.

    python scripts/fit_vllm_memory.py          writes the file, fitted on the records of split `fit`
    python scripts/fit_vllm_memory.py --show   prints it

How a coefficient follows from a record is in narrows.accuracy.fitting; `narrows accuracy memory` scores the same
procedure on sources it has not seen.
"""

from __future__ import annotations

import sys
from pathlib import Path

from narrows.accuracy.fitting import rows
from narrows.accuracy.memory import calibrated
from narrows.accuracy.records import memory_cases

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/calibration/data/vllm.jsonl"


def main() -> None:
    """Fit and write."""
    taught = [case for case in memory_cases()[0] if case.record.split == "fit"]
    text = b"\n".join(rows(calibrated(taught))) + b"\n"
    if "--show" in sys.argv[1:]:
        print(text.decode())
        return
    TARGET.write_bytes(text)
    print(f"{len(text.splitlines())} coefficients from {len(taught)} records")


if __name__ == "__main__":
    main()

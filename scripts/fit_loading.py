"""Fits what first principles do not give of loading and writes src/narrows/calibration/data/loading.jsonl.

    python scripts/fit_loading.py          writes the file, fitted on the records of split `fit`
    python scripts/fit_loading.py --show   prints it

How a coefficient follows from a record is in narrows.accuracy.loading_fit; `narrows accuracy loading` scores the same
procedure on sources it has not seen.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from narrows.accuracy.loading import calibrated
from narrows.accuracy.loading_records import loading_cases, loading_records

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/calibration/data/loading.jsonl"


def coefficients_text() -> bytes:
    """The file: one coefficient a line, fitted on the records of split `fit`."""
    taught = [case for case in loading_cases()[0] if case.record.split == "fit"]
    starts = [record for record in loading_records() if record.split == "fit"]
    return b"\n".join(msgspec.json.encode(row) for row in calibrated(taught, starts).values()) + b"\n"


def main() -> None:
    """Fit and write."""
    text = coefficients_text()
    if "--show" in sys.argv[1:]:
        print(text.decode())
        return
    TARGET.write_bytes(text)
    print(f"{len(text.splitlines())} coefficients")


if __name__ == "__main__":
    main()

"""CPU-seconds and peak memory of reading all headers of a checkpoint of 163 shards and 91,991 tensors (688.6 GB).

    python benchmarks/headers.py [--runs 5] [--json]

The shards are sparse files made by scripts/make_shards.py; every run is a new process (on Linux: memory is read from
/proc). `whole` counts the interpreter and all imports. Exit 1 if the median is beyond 1 CPU-second or 150 MB.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
from scripts.make_shards import make

MOST_SECONDS, MOST_MEGABYTES = 1.0, 150.0

_RUN = """
import json, sys, time
from narrows.models.stored.directory import read_directory
begun = time.process_time()
found = read_directory(sys.argv[1])
read = time.process_time() - begun
# ru_maxrss begins at what the parent had, which made the shards
peak = [int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(json.dumps({"tensors": len(found.tensors), "header_bytes": found.header_bytes, "read": read,
                  "whole": time.process_time(), "rss": peak[0]}))
"""


def measured(runs: int) -> dict[str, float]:
    """Medians over new processes; the first is not counted."""
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        command = [sys.executable, "-c", _RUN, folder]
        found = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(runs + 1)]
    return {name: statistics.median(one[name] for one in found[1:]) for name in found[0]}


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = measured(options.runs)
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        print(f"{found['tensors']:,.0f} tensors, {found['header_bytes'] / 1e6:.1f} MB of headers")
        print(f"reading {found['read']:.2f} CPU-s, whole process {found['whole']:.2f} CPU-s")
        print(f"peak memory {found['rss'] / 1e6:.0f} MB")
    sys.exit(found["whole"] > MOST_SECONDS or found["rss"] > MOST_MEGABYTES * 1e6)


if __name__ == "__main__":
    main()

"""Memory bandwidth as narrows measures it beside tools that others wrote, in turn on the same machine.

    python benchmarks/bandwidth.py [--rounds 9] [--mib 512] [--json]

Tools, where they are installed (Debian's packages of these names): `mbw` copies, `likwid-bench` loads, copies and runs
STREAM's triad. A round runs ours and each tool's back to back, so that what disturbs the machine disturbs both; the
median over the rounds of ours ÷ theirs is judged. Like is held against like: as many threads, as many bytes, ordinary
stores, medians of repeats, bytes read and bytes written both counted. Exit 1 where reading, the triad or one thread's
copy differs by more than 15 %; 2 where no tool is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from narrows.measure import limits
from narrows.measure.library import Library
from narrows.measure.machine import libraries_of
from narrows.measure.memory import bandwidths, single_copy
from narrows.measure.timing import Pace
from narrows.units import MIB

NEAR = 0.15
Reading = Callable[[], float]


def mbw(size: int) -> float:
    """Bytes/s, read and written, of one thread that copies `size` ÷ 2 bytes: the median of its runs.

    Its memcpy (-t0) of a whole array, told not to copy past the caches: our pieces are never copied so, while for an
    array libc's choice hangs on the caches that the processor claims. Its copies in blocks (-t2) read the same block
    over and over, from a cache.
    """
    told = {"GLIBC_TUNABLES": f"glibc.cpu.x86_non_temporal_threshold={2**40:#x}"}
    out = ran(["mbw", "-q", "-a", "-n", "9", "-t0", str(size // 2 // MIB)], told)
    return 2 * MIB * statistics.median(map(float, re.findall(r"Copy: ([\d.]+) MiB/s", out)))


def likwid(test: str, size: int, threads: int) -> float:
    """Bytes/s of one of likwid's kernels over `size` bytes in all."""
    out = ran(["likwid-bench", "-t", test, "-i", "10", "-w", f"N:{size // 1000}kB:{threads}"])
    found = re.search(r"^MByte/s:\s*([\d.]+)", out, re.MULTILINE)
    if found is None:
        raise SystemExit(f"likwid-bench -t {test} told no rate:\n{out[-500:]}")
    return float(found[1]) * 1e6


def ran(command: Sequence[str], environment: dict[str, str] | None = None) -> str:
    """What a tool prints."""
    around = {**os.environ, **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=around)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr[-500:]}")
    return done.stdout


def ours(operation: str, libraries: Sequence[Library], size: int, threads: int) -> float:
    """Bytes/s as `narrows measure machine` has them."""
    pace = Pace(time.perf_counter, 3.0)
    if threads == 1:
        return single_copy(libraries[0], size, pace).bandwidth.value
    found = bandwidths(libraries, [size], threads, pace)
    return next(one.bandwidth.value for one in found if one.operation == operation)


def comparisons(size: int, libraries: Sequence[Library], cores: int) -> dict[str, tuple[Reading, Reading, bool]]:
    """What is compared: ours, theirs, and whether it is judged."""
    found: dict[str, tuple[Reading, Reading, bool]] = {}
    vector = "_avx" if "avx" in vectors() else ""
    one = min(size, 256 * MIB)
    if shutil.which("likwid-bench"):
        for operation, test, judged in (("read", "load", True), ("add", "stream", True), ("copy", "copy", False)):
            found[f"{operation}, {cores} threads, likwid-bench {test}{vector}"] = (
                partial(ours, operation, libraries, size, cores),
                partial(likwid, test + vector, size, cores),
                judged,
            )
    if shutil.which("mbw"):
        found["copy, 1 thread, mbw -t0"] = (
            partial(ours, "copy", libraries, one, 1),
            partial(mbw, one),
            True,
        )
    return found


def vectors() -> set[str]:
    """What the processor says it can do."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            return next((set(line.split()) for line in file if line.startswith("flags")), set())
    except OSError:
        return set()


def main() -> int:
    """Run the rounds, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--mib", type=int, default=512, help="bytes of all arrays together")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    cores = limits.cores()
    libraries = libraries_of("cpu", cores)
    wanted = comparisons(given.mib * MIB, libraries, cores)
    if not wanted:
        print("neither mbw nor likwid-bench is installed: apt-get install mbw likwid", file=sys.stderr)
        return 2
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in wanted}
    for number in range(given.rounds):
        for name, (mine, theirs, _judged) in wanted.items():
            # first one, then the other begins
            if number % 2:
                other, own = theirs(), mine()
            else:
                own, other = mine(), theirs()
            pairs[name].append((own, other))
    rows: list[dict[str, Any]] = []
    for name, found in pairs.items():
        ratios = sorted(own / other for own, other in found)
        rows.append(
            {
                "what": name,
                "ours": statistics.median(own for own, _ in found),
                "theirs": statistics.median(other for _, other in found),
                "ratio": statistics.median(ratios),
                "low": ratios[len(ratios) // 10],
                "high": ratios[-1 - len(ratios) // 10],
                "best": max(own for own, _ in found) / max(other for _, other in found),
                "judged": wanted[name][2],
            }
        )
    if given.json:
        print(json.dumps(rows, indent=1))
    else:
        print(f"{'':<44}{'ours GB/s':>10}{'theirs':>8}{'ratio':>7}{'from':>7}{'to':>6}{'best ÷ best':>13}")
        for row in rows:
            print(
                f"{row['what']:<44}{row['ours'] / 1e9:>10.1f}{row['theirs'] / 1e9:>8.1f}{row['ratio']:>7.2f}"
                f"{row['low']:>7.2f}{row['high']:>6.2f}{row['best']:>13.2f}{'' if row['judged'] else '  (not judged)'}"
            )
    return int(any(row["judged"] and abs(row["ratio"] - 1) > NEAR for row in rows))


if __name__ == "__main__":
    sys.exit(main())

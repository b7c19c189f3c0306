"""Holds narrows against the models that the installed transformers builds, and prints N of N by family.

    python -m conformance [FAMILY …] [--draws 2] [--seed N] [--sample N] [--jobs N] [--write FILE]

Draw 0 is the default configuration of a class, the others are hyper-parameters drawn anew (--seed repeats a run).
Exit code 1 if anything differs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from conformance.compare import Case, compare
from narrows.models.readers import FAMILIES
from narrows.models.readers.remote_families import REMOTE_FAMILIES

BATCH = 60


def main() -> int:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__.splitlines()[0])
    parser.add_argument("family", nargs="*", help="model_type; all that narrows reads if none is named")
    parser.add_argument("--draws", type=int, default=2, help="random configurations per class beside the default one")
    parser.add_argument("--seed", type=int, default=None, help="repeat the draws of an earlier run")
    parser.add_argument("--sample", type=int, default=None, help="only so many families, drawn at random")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", type=Path, default=None, help="write what transformers built, as JSON lines (.gz)")
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if asked.seed is None else asked.seed
    families = list(asked.family or (family for family in FAMILIES if family not in REMOTE_FAMILIES))
    if asked.sample is not None:
        families = sorted(random.Random(seed).sample(families, min(asked.sample, len(families))))
    cases = sorted(_cases(families, seed, asked.draws, asked.jobs), key=lambda one: (one.family, one.draw))
    report(cases, seed)
    if asked.write:
        lines = "".join(
            json.dumps({"family": one.family, "draw": one.draw, **one.row}) + "\n" for one in cases if one.row
        )
        asked.write.write_bytes(gzip.compress(lines.encode(), mtime=0))
    return 1 if any(one.differences for one in cases) or not any(one.row for one in cases) else 0


def _cases(families: list[str], seed: int, draws: int, jobs: int) -> Iterator[Case]:
    work = [(family, seed, draw) for family in families for draw in range(draws + 1)]
    done = 0
    # fresh processes for every batch: some builds leave gigabytes behind
    for begin in range(0, len(work), BATCH):
        with ProcessPoolExecutor(jobs) as pool:
            for future in as_completed([pool.submit(compare, *one) for one in work[begin : begin + BATCH]]):
                done += 1
                if sys.stderr.isatty():
                    print(f"\r{done} of {len(work)}", end="", file=sys.stderr)
                yield from future.result()
    if sys.stderr.isatty():
        print(file=sys.stderr)


def report(cases: list[Case], seed: int) -> None:
    """N of N by family, then what differs and what could not be built."""
    built = [one for one in cases if one.row]
    for family in dict.fromkeys(one.family for one in built):
        mine = [one for one in built if one.family == family]
        exact = sum(not one.differences for one in mine)
        caches = sum(len(one.lengths) for one in mine)
        print(f"{family:32} {exact} of {len(mine)} exact, caches compared at {caches} lengths")
    for one in built:
        for difference in one.differences:
            print(f"DIFFERS {one.family} {one.architecture} draw {one.draw}: {difference}")
    for reason in sorted({f"{one.family}: {one.exception}" for one in built if one.exception}):
        print(f"caches not compared: {reason}")
    for one in cases:
        if one.unbuilt:
            print(f"not built: {one.family} {one.architecture} draw {one.draw}: {one.unbuilt}")
    exact = sum(not one.differences for one in built)
    families = len({one.family for one in built})
    print(f"{exact} of {len(built)} models of {families} families exact (seed {seed})")


if __name__ == "__main__":
    sys.exit(main())

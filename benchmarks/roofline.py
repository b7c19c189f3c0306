"""What the compiled roofline costs, a step and a sweep of it, and how far it is from the full one.

    python benchmarks/roofline.py [--points 1000000] [--json]

A step is a mix of decodes and pieces of prompts drawn at random; a sweep is decode at random batch sizes and contexts.
`cold` is the whole process of `narrows roofline`, median of 5. Exit 1 beyond 200 µs for a step after its first, 5
CPU-seconds for a million points, 1 % of error or 0.6 CPU-seconds cold.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from narrows.deployment import deploy
from narrows.hardware import find_accelerator
from narrows.models import load_model
from narrows.roofline.estimate import estimate
from narrows.roofline.step_time import StepTime
from narrows.step import Batch, Chunk

MOST_STEP, MOST_SWEEP, MOST_ERROR, MOST_COLD = 200e-6, 5.0, 0.01, 0.6
DEPLOYMENTS = (
    ("llama-2-7b", "l40s", 1),
    ("llama-3.1-70b", "h100-sxm", 4),
    ("gemma-3-27b", "h100-sxm", 1),
    ("llama-4-scout", "b200-sxm", 4),
    ("deepseek-v3", "h200-sxm", 8),
    ("qwen3-next-80b-a3b", "h200-sxm", 2),
)
COMMAND = ("roofline", "llama-2-7b", "--gpu", "l40s", "--prompt", "4096", "--batch", "16", "--context", "4096")


def drawn(draw: random.Random) -> Batch:
    """Decodes at three contexts beside a piece of a prompt."""
    decodes = [Chunk(draw.randint(1, 80), 1, draw.randint(1, 8000)) for _ in range(3)]
    return Batch((*decodes, Chunk(1, draw.randint(1, 2048), draw.randint(0, 4000))))


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU-seconds, and what came of it."""
    begun = time.process_time()
    found = work()
    return time.process_time() - begun, found


def measured(name: str, device: str, tensor_parallel: int, points: int) -> dict[str, float]:
    """Of one deployment."""
    import numpy as np

    deployment = deploy(load_model(name), find_accelerator(device), tensor_parallel=tensor_parallel)
    draw = random.Random(1)
    batches = [drawn(draw) for _ in range(300)]
    compiling, found = seconds(lambda: StepTime.of(deployment))
    warming, _ = seconds(lambda: [found.step(batch) for batch in batches])
    stepping, times = seconds(lambda: [found.step(batch) for batch in batches])
    some = list(zip(batches, times, strict=True))[:30]
    errors = [abs(one / estimate(deployment, batch).time - 1) for batch, one in some]
    random_ints = np.random.default_rng(1).integers
    batch, context = random_ints(1, 513, points), random_ints(1, 16000, points)
    sweeping, swept = seconds(lambda: found.decode(batch, context))
    lining, line = seconds(lambda: found.line(64))
    for i in range(30):
        full = estimate(deployment, Batch.decode(int(batch[i]), int(context[i]))).time
        errors.append(abs(swept[i] / full - 1))
        errors.append(abs(line.at(context[i]) / found.decode(64, int(context[i])) - 1))
    return {
        "compile_seconds": compiling + warming,
        "step_seconds": stepping / len(batches),
        "sweep_seconds": sweeping,
        "line_seconds": lining,
        "largest_error": max(errors),
    }


def cold() -> float | None:
    """CPU-seconds of the command in a new process; None where it is not there."""
    found = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-m", "narrows", *COMMAND], capture_output=True)
        if done.returncode:
            return None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(found)


def main() -> None:
    """Print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=10**6)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = {name: measured(name, gpu, tp, options.points) for name, gpu, tp in DEPLOYMENTS}
    command = cold()
    if options.json:
        print(json.dumps({"deployments": rows, "cold_seconds": command}, indent=2))
    else:
        for name, row in rows.items():
            print(
                f"{name:20} step {row['step_seconds'] * 1e6:4.0f} µs, {options.points:,} points"
                f" {row['sweep_seconds']:.2f} CPU-s, line {row['line_seconds'] * 1e3:.1f} ms, compiling"
                f" {row['compile_seconds']:.2f} CPU-s, largest error {row['largest_error']:.2%}"
            )
        print("narrows roofline: " + ("not there" if command is None else f"{command:.2f} CPU-s cold"))
    slow = any(row["step_seconds"] > MOST_STEP or row["largest_error"] > MOST_ERROR for row in rows.values())
    sweep = max(row["sweep_seconds"] for row in rows.values()) * 10**6 / options.points
    sys.exit(slow or sweep > MOST_SWEEP or (command or 0) > MOST_COLD)


if __name__ == "__main__":
    main()

"""CPU-seconds (user + system) of whole commands in new processes, beside `python -c pass`.

    python benchmarks/startup.py [--runs 15] [--json]

Compiled bytecode is present (each command runs once before it is counted). The median of the runs is printed, and
its ratio to an empty interpreter, which says more than seconds on another machine.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 4096,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
}


def cpu_seconds(command: list[str]) -> float:
    """User and system time of one run of `command`."""
    # without bytecode every command would compile its sources, which an installed one never does
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**kept, "NARROWS_LANG": "en"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(runs: int) -> dict[str, float]:
    """Median CPU-seconds by command, measured in turn so that a drift of the machine meets all of them."""
    narrows = str(Path(sys.executable).with_name("narrows"))
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(CONFIG))
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "narrows --help": [narrows, "--help"],
            "narrows fit CONFIG --gpu l40s": [narrows, "fit", str(config), "--gpu", "l40s"],
            "narrows fit CONFIG --gpu l40s --json": [narrows, "fit", str(config), "--gpu", "l40s", "--json"],
            "narrows roofline CONFIG --gpu l40s": [narrows, "roofline", str(config), "--gpu", "l40s"],
            "narrows models": [narrows, "models"],
            "narrows explain": [narrows, "explain"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for run in range(runs + 1):
            for name, command in commands.items():
                seconds = cpu_seconds(command)
                if run:
                    times[name].append(seconds)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    medians = measured(options.runs)
    if options.json:
        print(json.dumps(medians, indent=2))
        return
    empty = medians["python -c pass"]
    print(f"{'command':42} {'CPU-s':>7} {'× empty':>8}")
    for name, seconds in medians.items():
        print(f"{name:42} {seconds:7.3f} {seconds / empty:8.1f}")


if __name__ == "__main__":
    main()

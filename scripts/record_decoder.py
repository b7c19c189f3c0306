"""Record a decoder as it ran on the machine that was measured: `python -m scripts.record_decoder CONFIG OUT`.

Makes `tests/data/decoder-run.json.gz` on a quiet machine: what `narrows measure machine` kept, and of every point of
`narrows measure model` the operators that were issued and the median of its seconds. A test can then hold predictions
and verdicts against them anywhere.
"""

from __future__ import annotations

import gzip
import json
import sys
from typing import Any

import msgspec

from narrows.answers.measure_model import measure_model
from narrows.hardware.this_machine import machine_path
from narrows.measure.decoder import Decoder, Point, Run
from narrows.measure.recorder import Call


def main(config: str, path: str) -> None:
    """Run all points and write them."""
    points: list[dict[str, Any]] = []

    class Recording(Decoder):
        def run(self, point: Point, budget: float = 3.0, least: int = 3, most: int = 30) -> Run:
            found = super().run(point, budget, least, most)
            points.append(
                {
                    "precision": self.precision,
                    **msgspec.to_builtins(point),
                    "weights": self.weight_bytes,
                    "seconds": found.time.median,
                    "calls": [[told(call), count] for call, count in found.calls.items()],
                }
            )
            return found

    answer = measure_model(config, building=Recording, seconds=600.0, device="cpu")
    with open(machine_path(), encoding="utf-8") as file:
        machine = json.load(file)
    whole = {"model": answer.model, "engine": answer.engine, "machine": machine, "points": points}
    with gzip.GzipFile(path, "wb", mtime=0) as out:
        out.write(json.dumps(whole, separators=(",", ":")).encode())
    print(answer)


def told(call: Call) -> dict[str, Any]:
    """A call without the fields that are at their defaults."""
    least = msgspec.to_builtins(Call(call.name, call.sort, call.precision))
    return {
        name: at
        for name, at in msgspec.to_builtins(call).items()
        if name in ("name", "sort", "precision") or at != least[name]
    }


if __name__ == "__main__":
    main(*sys.argv[1:3])

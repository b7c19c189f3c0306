"""Fits what llama.cpp reaches by class of devices: src/narrows/calibration/data/ggml.jsonl and ggml-steps.jsonl.

    python scripts/fit_ggml.py PERFORMANCE_DIR

ggml.jsonl: products of many rows (`narrows.roofline.ggml`). How many rows unpacking a tile of weights is worth, and
what experts reach, is told by the bundled prompts and batches of the DGX Spark; the share of the peak by class of
devices, by prompts of the scoreboards of llama.cpp. ggml-steps.jsonl: decode steps of one sequence on the same
devices, as laws of steps (`narrows.accuracy.serving_fit`), each drawn to the bundled law of today's builds.

PERFORMANCE_DIR holds decode-llamacpp-batch1.csv: the scoreboards (ggml-org/llama.cpp#4167, #10879, #15013 and #15021,
XiongjieDai/GPU-Benchmarks-on-LLM-Inference). They state no licence: their figures are cited, not carried. Of NVIDIA's
devices only builds of 2025 are taken: those of May 2024 had slower kernels for vectors. On one device each.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np

from narrows.accuracy.serving_fit import SPREAD, matrix, solve
from narrows.accuracy.serving_records import ServingRecord, add_model, device_of, serving_records
from narrows.accuracy.serving_work import Work, works
from narrows.calibration.laws import Law, laws
from narrows.roofline.devices import device_keys
from narrows.roofline.engine_overhead import NAMES
from scripts.serving_models import SCOREBOARD_DEVICES, SCOREBOARD_MODELS

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/calibration/data"
FREE = {"gap": 10e-6, "per_layer": 50e-6}
"""Spreads of what a launch costs: Metal and Vulkan capture no graphs."""
STRENGTH = 0.1
STEP = 2048
"""Tokens of a step (`-ub 2048`) that the DGX Spark's prompts were run in."""
FEW = 20
CLASSES = {
    "nvidia GDDR": "ggml-org/llama.cpp#15013",
    "nvidia HBM": "ggml-org/llama.cpp#15013",
    "apple": "ggml-org/llama.cpp#4167; XiongjieDai/GPU-Benchmarks-on-LLM-Inference@aa72e0e README.md",
    "amd": "ggml-org/llama.cpp#10879; ggml-org/llama.cpp#15021",
    "intel": "ggml-org/llama.cpp#10879",
}
CITED = "scoreboards that state no licence, cited and not carried; interval: devices left out"


def scoreboard(path: Path) -> list[ServingRecord]:
    """Decode and prompts of one device each."""
    found = []
    for index, row in enumerate(csv.DictReader(path.open())):
        device = SCOREBOARD_DEVICES.get(row["gpu"].replace("\u2011", "-"))
        older = row["engine"] == "llama.cpp" and device is not None and not device.startswith("apple")
        if device is None or row["gpu_count"] != "1" or older:
            continue
        decodes = row["metric"] == "decode_tput"
        base = SCOREBOARD_MODELS[row["model"]]
        label = f"gguf-{row['precision'].lower()}"
        name = add_model(f"{base} {label}", base, {"gguf": row["precision"]})
        tokens, speed = int(row["output_len" if decodes else "input_len"]), float(row["value"])
        found.append(
            ServingRecord(
                table="llama.cpp",
                id=f"cited-{index}",
                source=row["source"],
                license="",
                engine="llama.cpp",
                version="",
                model=name,
                precision=row["precision"].lower(),
                device=device,
                tensor_parallel=1,
                prompt=1 if decodes else tokens,
                output=tokens if decodes else 1,
                concurrency=1.0,
                servers=1.0,
                tpot=1 / speed if decodes else None,
                ttft=None if decodes else tokens / speed,
            )
        )
    return found


def spark() -> list[ServingRecord]:
    """The bundled prompts of the DGX Spark, a step of each; and its batches of 16 and 32."""
    own = [one for one in serving_records() if one.table == "llama.cpp"]
    prompts = [one for one in own if one.ttft is not None]
    steps = [
        msgspec.structs.replace(one, prompt=STEP, ttft=one.ttft * STEP / one.prompt) if one.prompt > STEP else one
        for one in prompts
        if one.ttft is not None
    ]
    return steps + [one for one in own if one.ttft is None and (one.concurrency or 0) >= 16]


# --- many rows --------------------------------------------------------------------------------------------------------


def law(kind: str, device: str, share: float, unpacked: float, **told: Any) -> Law:
    """Of ggml.jsonl."""
    given: dict[str, Any] = {"low": 1.0, "high": 1.0, "n": 1, "basis": "", "source": "", **told}
    return Law(operator=kind, device=device, values={"share": share, "unpacked": unpacked}, **given)


def ratios(records: Sequence[ServingRecord], trial: Sequence[Law]) -> tuple[list[Work], Any]:
    """Predicted ÷ measured under these laws of many rows and the laws of steps for today's builds."""
    rows, _ = works(records, trial)
    values = {one.kind: today(one.kind) for one in rows}
    return list(rows), np.array([np.dot(one.terms, values[one.kind]) / one.measured for one in rows])


def today(kind: str) -> Any:
    """The bundled law of today's builds."""
    found = next(row for row in laws("steps") if row.engine == "llama.cpp" and row.operator == kind and not row.version)
    return np.array([found.values[name] for name in NAMES])


def best(records: Sequence[ServingRecord], trial: Callable[[float, float], list[Law]]) -> tuple[float, float, Any]:
    """(share, unpacked, ratios) with the least mean error."""
    found = []
    for unpacked in (0.0, 8.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0):
        for share in np.geomspace(0.04, 0.3, 22):
            _, seen = ratios(records, trial(float(share), unpacked))
            found.append((float(np.mean(np.abs(np.log(seen)))), float(share), unpacked, seen))
    _, share, unpacked, seen = min(found, key=lambda one: one[0])
    return share, unpacked, seen


def ends(seen: Any) -> dict[str, float]:
    """Interval of measured ÷ predicted: 80 %, or all of few."""
    inverse = 1 / np.asarray(seen)
    low, high = (0.1, 0.9) if len(inverse) >= FEW else (0.0, 1.0)
    return {"low": round(float(np.quantile(inverse, low)), 3), "high": round(float(np.quantile(inverse, high)), 3)}


def many_rows(cited: Sequence[ServingRecord]) -> list[Law]:
    """The laws of ggml.jsonl."""
    rows = spark()
    mixed = {one.model for one in rows if "gpt-oss" in one.model or "A3B" in one.model}
    dense = [one for one in rows if one.model not in mixed]
    source = "ggml-org/llama.cpp@4c7e989 benches/dgx-spark.md (transcribed)"
    share, unpacked, seen = best(dense, lambda s, u: [law("products", "any", s, u)])
    told: dict[str, Any] = {"n": len(dense), "basis": "fitted on prompts and batches of one device", "source": source}
    found = [law("products", "nvidia", round(share, 3), unpacked, **told, **ends(seen))]
    prompts = [one for one in rows if one.model in mixed and one.ttft is not None]
    routed, each, seen = best(prompts, lambda s, u: [*found, law("experts", "any", s, u)])
    told |= {"n": len(prompts), "basis": "fitted on prompts of one device"}
    found.append(law("experts", "nvidia", round(routed, 3), each, **told, **ends(seen)))
    for device, of in CLASSES.items():
        own = [one for one in cited if one.ttft is not None and device in device_keys(device_of(one.device))]
        at, seen = _share(own, unpacked)
        found.append(
            law("products", device, at, unpacked, n=len(own), basis=f"fitted on {CITED}", source=of, **ends(seen))
        )
        if not device.startswith("nvidia"):
            basis = "assumed: experts reach as much less than other products as on one device of NVIDIA"
            assumed = {"n": 0, "basis": basis, "source": "", "low": 0.5, "high": 2.0}
            found.append(law("experts", device, round(at * routed / share, 3), each, **assumed))
    return found


def _share(records: Sequence[ServingRecord], unpacked: float) -> tuple[float, Any]:
    found = []
    for share in np.geomspace(0.02, 1.0, 60):
        _, seen = ratios(records, [law("products", "any", float(share), unpacked)])
        found.append((abs(median(np.log(seen))), round(float(share), 3), seen))
    return min(found, key=lambda one: one[0])[1:]


# --- decode -----------------------------------------------------------------------------------------------------------


def fitted(rows: Sequence[Work]) -> Any:
    """Values of a law of steps, drawn to today's."""
    prior = today("dense")
    spread = np.maximum(np.array([SPREAD[name] for name in NAMES]), 0.3 * prior)
    for name, value in FREE.items():
        spread[NAMES.index(name)] = value
    terms, measured = matrix(list(rows))
    return solve(terms, measured, prior, spread, STRENGTH)


def predicted(value: Any, one: Work) -> float:
    """Seconds."""
    return max(float(np.dot(np.array(one.terms), value)), one.limit)


def left_out(rows: Sequence[Work]) -> Any:
    """Predicted ÷ measured, each device by the others."""
    found = []
    for one in rows:
        value = fitted([other for other in rows if other.record.device != one.record.device])
        found.append(predicted(value, one) / one.measured)
    return np.array(found)


def steps(cited: Sequence[ServingRecord]) -> list[Law]:
    """The laws of ggml-steps.jsonl."""
    rows, _ = works([one for one in cited if one.tpot is not None and not one.device.startswith("gb10")])
    found = []
    for device, of in CLASSES.items():
        keys = "nvidia" if device.startswith("nvidia") else device
        own = [one for one in rows if keys in device_keys(device_of(one.record.device))]
        if len({one.record.device for one in own}) < 3:
            continue
        value, seen = fitted(own), left_out(own)
        kept = {name: float(f"{number:.4g}") for name, number in zip(NAMES, value, strict=True)}
        errors = np.abs(seen - 1)
        print(
            f"{device}: {len(own)} rows, devices left out: {np.median(errors):.1%}, p90 {np.quantile(errors, 0.9):.1%}"
        )
        told: dict[str, Any] = {"device": device, "engine": "llama.cpp", "source": of}
        told_of: dict[str, Any] = {"n": len(own), **ends(seen), **told}
        found.append(Law(operator="dense", values=kept, basis=f"fitted on {CITED}", **told_of))
        if device == "apple":
            mixed = dict(zip(NAMES, today("experts").tolist(), strict=True))
            basis = "assumed: as dense models there, and experts as on one device of NVIDIA"
            values = kept | {name: mixed[name] for name in ("experts", "scan", "exchange")}
            assumed: dict[str, Any] = {"n": 0, "low": 0.6, "high": 1.7}
            found.append(Law(operator="experts", values=values, basis=basis, **assumed, **told))
    return found


def main() -> None:
    """Write both files."""
    cited = scoreboard(Path(sys.argv[1]) / "decode-llamacpp-batch1.csv")
    for name, found in (("ggml.jsonl", many_rows(cited)), ("ggml-steps.jsonl", steps(cited))):
        (TARGET / name).write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in found))
        for row in found:
            print(row.operator, row.device, row.n, row.low, row.high, row.values if name == "ggml.jsonl" else "")


if __name__ == "__main__":
    main()

"""Makes the bundled records of loading times: src/narrows/accuracy/data/loading-records.jsonl.

    python scripts/import_loading_records.py LOADING_RECORDS.jsonl ENGINE_MEMORY_RECORDS.jsonl

Carries figures, settings and the address of each source, no prose. The first file names storage and loader in words;
`STORAGE` and `LOADERS` say which entries of the catalogues these are, with what a source states of its own. The second
file adds what start-up logs say of compiling, graph capture and work after loading.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import median
from typing import Any

from narrows.models import load_model
from narrows.text import BadInput

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src/narrows/accuracy/data/loading-records.jsonl"
STARTS = ROOT / "src/narrows/accuracy/data/memory-records.jsonl"
MIB = 2**20

STORAGE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("EBS gp3 (1000 MiB/s", {"storage": "gp3", "bandwidth": 1000 * MIB, "instance": "g5.12xlarge"}),
    ("EBS io2 (4000 MiB/s", {"storage": "io2", "bandwidth": 4000 * MIB, "instance": "g5.12xlarge"}),
    ("S3 same region", {"storage": "s3", "instance": "g5.12xlarge"}),
    ("50 GB/s networked storage", {"storage": "parallel", "bandwidth": 50e9}),
    ("tmpfs (16ch DDR5)", {"storage": "tmpfs"}),
    ("shared storage", {"storage": "shared"}),
    ("virtiofs", {"storage": "virtiofs"}),
    ("shared filesystem (weka", {"storage": "weka"}),
    ("NFS (read-only model share)", {"storage": "nfs"}),
    ("Azure Files NFS", {"storage": "azure-files"}),
    ("EFS elastic", {"storage": "efs"}),
    ("HF Hub -> EFS", {"storage": "hub", "target": "efs"}),
    ("CoreWeave object storage (LOTA", {"storage": "lota"}),
    ("CoreWeave object storage -> NVMe", {"storage": "lota", "target": "nvme-raid"}),
    ("local (page cache after download", {"storage": "page-cache"}),
    ("gcsfuse serving profile", {"storage": "gcsfuse"}),
)
"""Start of a record's words for its storage → entry of the storage catalogue, and what the source states of it."""

LOADERS: tuple[tuple[str, dict[str, Any]], ...] = (
    (r"runai c=(\d+)", {"loader": "runai"}),
    (r"tensorizer r=(\d+)", {"loader": "tensorizer"}),
    (r"runai 0.15.6 distributed|runai distributed", {"loader": "runai-distributed"}),
    (r"runai", {"loader": "runai"}),
    (r"instanttensor", {"loader": "instanttensor"}),
    (r"fastsafetensors mmap", {"loader": "safetensors"}),
    (r"fastsafetensors nogds t=(\d+)|fastsafetensors", {"loader": "fastsafetensors"}),
    (r"vLLM default \(auto-prefetch|prefetch|transformers HF_SHARD_PREFETCH", {"loader": "prefetch"}),
    (r"safetensors|vLLM default|lazy|transformers default", {"loader": "safetensors"}),
    (r"llama.cpp use_mmap=false|llama.cpp --no-mmap", {"loader": "gguf"}),
    (r"llama.cpp mmap", {"loader": "gguf-mmap"}),
    (r"huggingface_hub", {"loader": "hub"}),
    (r"tensorizer", {"loader": "tensorizer"}),
)
"""Words for a loader → entry of `loading/data/loaders.jsonl`; a number in them is the readers each rank has."""

MOVES = (
    ("weights", ("weights storage->GPU", "weights load", "checkpoint load", "sharded load", "file -> GPU")),
    ("weights", ("weights object store->GPU",)),
    ("download", ("download",)),
    ("compile cold", ("compile a graph (cold)", "torch.compile total (cold)", "torch.compile (cold)")),
    ("compile cold", ("torch.compile (first run)",)),
    (
        "compile warm",
        ("torch.compile total (cache hit)", "torch.compile (cache hit)", "load compiled graph from cache"),
    ),
    ("capture", ("cuda graph capture",)),
    ("engine", ("init engine",)),
    ("wake", ("wake up L1",)),
)
"""Stage by the start of the words a record has for it."""

RANKS = {"modelplane/issues/204": 8, "marin/issues/7136": 8, "1x H200": 1, "8x H200": 8, "4x gfx950": 4}
LAYERS = {
    "llama3.2-q8": 28,
    "qwen36-27b": 64,
    "granite-3.2-8b-instruct": 40,
    "qwen3-4b": 36,
    "Llama-3.2-1B": 16,
    "Qwen3-30B-A3B": 48,
}
"""Layers of models that are named in words (their config.json)."""
ASLEEP = {"Qwen3-8B": 16381470720, "Qwen3-0.6B": 1192099840}
"""Bytes of bf16 weights of models that were put to sleep and woken (their published parameter counts)."""
GB10 = "gb10-dgx-spark"
LARGEST_DEVICE = 288e9
"""Bytes: a checkpoint beyond it is spread over ranks, eight where the source does not say how many."""
PATHOLOGICAL = "issues/16961"
"""A record of adapters captured one by one: three hours, mended since."""


WHOLE = ("issues/20264", "runai-model-streamer/issues/67")
"""Logs that state the engine's start as a whole, and compiling and capture of it: what is left is the profile."""


def profiles(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The profile of each log of `WHOLE`."""
    found = []
    for part in WHOLE:
        own = [row for row in rows if row["source"].endswith(part)]
        seconds = {row["words"].split(" (")[0].split(" total")[0]: row["seconds"] for row in own if row.get("seconds")}
        left = seconds["init engine"] - seconds["torch.compile"] - seconds["cuda graph capture"]
        base = {name: own[0][name] for name in ("source", "split", "model")}
        found.append({"id": own[0]["id"] + ":profile", **base, "stage": "profile", "seconds": round(left, 3)})
    return found


def _kind(stage: str) -> str:
    for kind, starts in MOVES:
        if stage.startswith(starts):
            return kind
    return ""


def _ranks(raw: dict[str, Any]) -> int:
    if str(raw.get("tp") or "").isdigit():
        return int(raw["tp"])
    text = f"{raw['source']} {raw.get('gpu') or ''}"
    found = next((n for part, n in RANKS.items() if part in text), None)
    return found or (8 if (raw.get("bytes") or 0) > LARGEST_DEVICE else 1)


def record(number: int, raw: dict[str, Any]) -> dict[str, Any]:
    """One row as it is carried: seconds, bytes, and the entries of the catalogues it speaks of."""
    stage, bytes_ = raw["stage"], raw.get("bytes") if raw.get("bytes_kind") == "checkpoint" else None
    kept: dict[str, Any] = {
        "id": f"ld-{number:03d}",
        "source": raw["source"],
        "split": raw["split"],
        "stage": _kind(stage),
        "words": stage,
        "model": raw["model"],
    }
    seconds = raw.get("seconds")
    if "azure" in (raw.get("storage") or "").lower() and "per 1%" in stage:
        # the log's progress of 1 % of the 64,571.65 MiB that it names
        bytes_, kept["stage"] = round(645.7165 * MIB), "weights"
    if raw["source"].endswith("modelplane/issues/204") and kept["stage"] == "weights":
        bytes_ = raw["bytes"] // 2  # two pipeline stages, each on a node of its own, read their half
    if kept["stage"] == "wake":
        bytes_ = next((size for name, size in ASLEEP.items() if name in raw["model"]), None)
    if raw["source"].endswith("pull/14063") and kept["stage"] == "download":
        bytes_, kept["storage"] = 2489470418, "hub"  # the checkpoint that the same log loads
    kept |= {"bytes": bytes_, "seconds": seconds, "gbps": raw.get("gbps")}
    for start, facts in STORAGE:
        if (raw.get("storage") or "").startswith(start):
            kept |= facts
    for pattern, facts in LOADERS:
        found = re.search(pattern, raw.get("loader") or "")
        if found:
            kept |= facts
            if found.groups() and found.group(1):
                kept["streams"] = int(found.group(1))
            break
    if kept["stage"] in ("weights", "download"):
        kept["ranks"] = _ranks(raw)
        kept.setdefault("loader", "hub" if kept["stage"] == "download" else "safetensors")
    layers = next((n for name, n in LAYERS.items() if name in raw["model"]), None)
    if layers and kept["stage"].startswith(("compile", "capture")):
        kept["layers"] = layers
    if PATHOLOGICAL in raw["source"]:
        kept["stage"] = ""
    return {name: value for name, value in kept.items() if value not in (None, "")}


def starts(raws: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What start-up logs say of the stages after loading, by layer of the model where its structure is known."""
    structures = {row["id"]: row for row in map(json.loads, STARTS.read_text().splitlines())}
    rows = []
    for raw in raws:
        if raw.get("engine") != "vllm":
            continue
        layers = _layers(structures.get(raw["id"], {}).get("structure", ""))
        found: dict[str, float] = {}
        if raw.get("compile_s") and layers:
            # no log that says it compiled anew took less than 0.2 s a layer, and none that hit the cache more
            found["compile warm" if raw["compile_s"] / layers < 0.2 else "compile cold"] = raw["compile_s"]
        if raw.get("graph_capture_s") and layers:
            found["capture"] = raw["graph_capture_s"]
        if raw.get("weights_load_s") and raw.get("shards_read_s"):
            after = raw["weights_load_s"] - raw["shards_read_s"]
            if after < 0.5 * raw["weights_load_s"] + 5:  # beyond that the figure has a download in it
                found["initialise"] = round(after, 3)
        start, compiling, capturing = (raw.get(name) for name in ("init_s", "compile_s", "graph_capture_s"))
        if start and layers and (raw.get("enforce_eager") or (compiling and capturing)):
            found["engine start"] = start
        if start and compiling and capturing:
            found["profile"] = round(start - compiling - capturing, 3)
        elif start and raw.get("enforce_eager"):
            found["profile"] = start  # nothing else is in it
        if "GB10" in (raw.get("gpu") or "") and raw.get("shards_read_s") and raw.get("weights_gib"):
            found["shards"] = raw["shards_read_s"]
        base = {"source": raw["source"], "split": raw["split"], "model": raw.get("model") or ""}
        for stage, seconds in found.items():
            said = {"version": raw["engine_version"].removeprefix("v")} if raw.get("engine_version") else {}
            extra: dict[str, Any] = {"layers": layers, **said} if stage.startswith(("compile", "capture")) else {}
            if stage == "engine start":
                extra = {
                    "layers": layers,
                    **said,
                    "eager": bool(raw.get("enforce_eager")),
                    "warm": "compile warm" in found,
                }
            if stage == "shards":
                extra = {"bytes": round(raw["weights_gib"] * 2**30), "loader": "safetensors", "device": GB10}
            rows.append({"id": f"{raw['id']}:{stage}", **base, "stage": stage, "seconds": seconds, **extra})
    return rows


def _layers(structure: str) -> int | None:
    try:
        return load_model(structure, online=False).layers if structure else None
    except BadInput:
        return None


def main() -> None:
    """Write the file."""
    loading, memory = (
        [json.loads(line) for line in Path(name).read_text().splitlines()] for name in (sys.argv[1], sys.argv[2])
    )
    rows = [record(number, raw) for number, raw in enumerate(loading, 1)]
    rows += profiles(rows) + starts(memory)
    TARGET.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    known = [row for row in rows if row.get("bytes") and row.get("storage") and row.get("seconds")]
    print(f"{len(rows)} records, {len(known)} with bytes, storage and seconds; {median(r['seconds'] for r in known)} s")


if __name__ == "__main__":
    main()

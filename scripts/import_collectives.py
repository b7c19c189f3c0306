"""Makes src/narrows/calibration/data/collective-tables.jsonl from public measurements of collectives.

    python scripts/import_collectives.py FOLDER

FOLDER holds collectives-nccl.csv.gz and collectives-custom-allreduce.csv (ai-dynamo/aiconfigurator, Apache-2.0; sizes
in elements) and collectives-dgx.csv.gz (microsoft/vidur, MIT; sizes in bytes). Of several runs the median is kept, of
several versions of a library the newest. Dense tables are thinned to one size per octave.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

import msgspec

from narrows.calibration.collectives import CollectiveTable

TARGET = Path(__file__).resolve().parent.parent / "src/narrows/calibration/data/collective-tables.jsonl"
AIC = "ai-dynamo/aiconfigurator (Apache-2.0)"
VIDUR = "microsoft/vidur data/profiling/network (MIT)"
DEVICES = {
    "a100_sxm": "a100-sxm-80gb",
    "b200_sxm": "b200-sxm",
    "b300_sxm": "b300-sxm",
    "b60": "arc-pro-b60",
    "gb200": "gb200",
    "gb300": "gb300",
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "l40s": "l40s",
    "rtx_pro_6000_server": "rtx-pro-6000-blackwell-server",
    "a100_dgx": "a100-sxm-80gb",
    "h100_dgx": "h100-sxm",
    "a100_pairwise_nvlink": "a100-pcie-80gb",
    "h100_pairwise_nvlink": "h100-nvl",
    "a40_pairwise_nvlink": "a40",
}
OPERATIONS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "send_recv": "send",
}
LIBRARIES = {"vLLM_custom_graph": "custom", "TRTLLM": "trtllm"}
"""Not vLLM_custom_eager, whose time is that of the host which launches it."""
STRANGE = {
    ("h100_pairwise_nvlink", "send"): "the same figures as those of a100_pairwise_nvlink",
    ("a100_pairwise_nvlink", "send"): "faster than its link on paper: measured elsewhere",
    ("a40_pairwise_nvlink", "send"): "4 GB/s: these two were not on one bridge",
}
Key = tuple[str, str, str, int, int, str]
Runs = dict[Key, dict[int, list[float]]]


def rows(path: Path) -> list[dict[str, str]]:
    """A CSV file, compressed or not."""
    raw = path.read_bytes()
    return list(csv.DictReader(io.StringIO((gzip.decompress(raw) if path.suffix == ".gz" else raw).decode())))


def version(text: str) -> tuple[int, ...]:
    """`2.29.2` → (2, 29, 2)."""
    return tuple(int(part) for part in text.replace("-", ".").split(".") if part.isdigit())


def nccl(folder: Path, runs: Runs) -> None:
    """NCCL and oneCCL; message_size is that of the whole buffer, so that one rank of an all-gather holds its share."""
    data = [row for row in rows(folder / "collectives-nccl.csv.gz") if row["nccl_dtype"] == "half"]
    newest: dict[tuple[str, str], tuple[int, ...]] = defaultdict(tuple)
    for row in data:
        what = row["system"], row["op_name"]
        newest[what] = max(newest[what], version(row["version"]))
    for row in data:
        if version(row["version"]) != newest[row["system"], row["op_name"]]:
            continue
        ranks, size = int(row["num_gpus"]), 2 * int(row["message_size"])
        op = OPERATIONS[row["op_name"]]
        held = size // ranks if op == "all_gather" else size
        key = (DEVICES[row["system"]], op, "nccl", ranks, 1, f"{AIC}, {row['kernel_source']} {row['version']}")
        runs[key][held].append(1e3 * float(row["latency"]))


def custom(folder: Path, runs: Runs) -> None:
    """All-reduces of engines; message_size in elements of 16 bits."""
    for row in rows(folder / "collectives-custom-allreduce.csv"):
        library = LIBRARIES.get(row["kernel_source"])
        if library is None:
            continue
        key = (DEVICES[row["system"]], "all_reduce", library, int(row["num_gpus"]), 1, f"{AIC}, {row['src']}")
        runs[key][2 * int(row["message_size"])].append(1e3 * float(row["latency"]))


def dgx(folder: Path, runs: Runs, taken: set[tuple[str, str, int, int]]) -> None:
    """NCCL on whole machines and between them; thinned, and only where nothing newer is known."""
    for row in rows(folder / "collectives-dgx.csv.gz"):
        ranks, per_node = int(row["num_workers"]), int(row["devices_per_node"])
        device, op, nodes = DEVICES[row["cluster"]], OPERATIONS[row["collective"]], ranks // per_node
        if nodes > 1 and (row["cluster"].endswith("nvlink") or 1 < per_node < 8):
            continue
        if (row["cluster"], op) in STRANGE:
            continue
        if (device, op, ranks, nodes) in taken:
            continue
        size = int(row["size"])
        octave = round_to_octave(size)
        if abs(size / octave - 1) <= 0.04 or size == 2048:
            source = f"{VIDUR}, {row['cluster']}"
            runs[device, op, "nccl", ranks, nodes, source][octave].append(1e3 * float(row["median_ms"]))


def round_to_octave(size: int) -> int:
    """The nearest power of two."""
    return int(2 ** round(math.log2(size)))


def main() -> None:
    """Read, take medians, write."""
    folder = Path(sys.argv[1])
    runs: Runs = defaultdict(lambda: defaultdict(list))
    nccl(folder, runs)
    custom(folder, runs)
    dgx(folder, runs, {(device, op, ranks, nodes) for device, op, _, ranks, nodes, _ in runs})
    tables = [
        CollectiveTable(
            device=device,
            op=op,
            library=library,
            ranks=ranks,
            nodes=nodes,
            bytes=tuple(sorted(by_size)),
            microseconds=tuple(round(median(by_size[size]), 3) for size in sorted(by_size)),
            source=source,
        )
        for (device, op, library, ranks, nodes, source), by_size in sorted(runs.items())
    ]
    TARGET.write_bytes(b"".join(msgspec.json.encode(table) + b"\n" for table in tables))
    print(f"{len(tables)} tables, {sum(len(table.bytes) for table in tables)} times, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()

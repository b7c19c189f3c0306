"""Writes the bundled hardware tables from a directory that holds accelerators.csv and prices.csv.

    python scripts/import_hardware.py DIRECTORY

What it changes on the way is listed in src/narrows/hardware/data/README.md: units become bytes, bytes/s and
FLOP/s; sizes that follow from a table are added; rows that are no basis for a price are left out.
"""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path
from typing import Any

import msgspec

OUT = Path(__file__).resolve().parent.parent / "src/narrows/hardware/data"

COLUMNS = (
    "memory_cuda_usable_bytes", "memory_usable_source", "sram_bytes", "nvlink_gb_s_per_direction", "c2c_gb_s_total",
    "xgmi_gb_s_total", "pcie_gb_s_per_direction_theoretical", "scaleup", "fp4_flops",
)  # fmt: skip
"""What a row of the directory's table may leave empty."""

AS_OF = "2026-11-29"
"""When the device facts were gathered. Prices carry their own dates."""

ALIASES = {
    "a10g": ["A10G"],
    "b200-sxm": ["B200 192GB"],
    "b300-sxm": ["NVIDIA B300 SXM6 AC"],
    "gh200-96gb": ["GH200 480GB"],
    "gh200-144gb": ["GH200 144G HBM3e"],
    "gb10-dgx-spark": ["DGX Spark"],
    "rtx-pro-6000-blackwell-server": ["RTX PRO 6000 Server Edition"],
    "rtx-pro-6000-blackwell-ws": ["NVIDIA RTX PRO 6000 Blackwell Workstation Edition"],
    "jetson-orin-nano-super-8gb": ["Jetson Orin Nano"],
    "jetson-thor-t5000": ["NVIDIA Thor", "Jetson Thor"],
    "mi300x": ["AMD Instinct MI300X VF"],
    "strix-halo-395": ["Strix Halo", "Radeon 8060S"],
    "tpu-v5e": ["TPU v5 lite"],
    "tpu-v6e": ["Trillium"],
    "tpu-v7x": ["Ironwood"],
    "inferentia2": ["inf2"],
    "trainium1": ["trn1"],
    "trainium2": ["trn2"],
    "trainium3": ["trn3"],
    "xeon-8480plus": ["Xeon 8480+"],
    "epyc-9654": ["AMD EPYC 9654 96-Core Processor"],
    "epyc-9755": ["AMD EPYC 9755 128-Core Processor"],
    "grace-72": ["Grace"],
}
"""Names that drivers, tools and vendors use besides id and name. GH200's 480GB is the size of its host memory, and
B200's 192 GB is the decimal size of what the sheets call 180 GB."""

L1_PER_SM_KIB = {
    "7.0": 128,
    "7.5": 96,
    "8.0": 192,
    "8.6": 128,
    "8.7": 192,
    "8.9": 128,
    "9.0": 256,
    "10.0": 256,
    "10.3": 256,
    "12.0": 128,
}
"""Unified L1 cache and shared memory of one SM by compute capability. CUDA C++ Programming Guide, technical
specifications per compute capability; NVIDIA tuning guides and whitepapers."""


ADDED = Path(__file__).resolve().parent / "data/accelerators-added.csv"
"""Devices beside those of the directory, by the figures of vendors' sheets; peaks follow from them."""

USABLE = {
    "gb10-dgx-spark": {
        "usable_bytes": 128526897152,
        "usable_most_bytes": 130663642562,
        "usable_source": "119.7 GiB in start-up logs on earlier DGX OS (and leptonai/gpud#1170: 128501256192 B), "
        "121.69 on later (github:MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#47)",
    }
}
"""What several systems report differently: the least, which is taken, and the most."""


def rate(text: str, factor: float = 1, power: int = 12) -> msgspec.Raw | None:
    """A rate in base units, written so that it can be read: `362050000000000 -> 362.05e12`."""
    if not text:
        return None
    value = float(text) * factor
    short = f"{value / 10**power:.12g}e{power}"
    assert abs(float(short) - value) <= 1e-9 * value, (text, short)
    return msgspec.Raw(short.encode())


def integer(text: str, factor: float = 1) -> int | None:
    """A whole number, or None for an empty cell."""
    return round(float(text) * factor) if text else None


def decimal(text: str) -> msgspec.Raw | None:
    """A number as it is written, or None for an empty cell."""
    return msgspec.Raw(text.encode()) if text else None


def prose(text: str) -> str:
    """Free text without references that only the gatherer could follow."""
    text = re.sub(r"public text ids? [0-9, ]*[0-9]", "", text)
    text = text.replace("()", "(as printed in public logs)")
    text = re.sub(r"\(\s*[,;]\s*", "(", text)
    text = re.sub(r"\s*,\s*;", ";", text)
    text = re.sub(r"\bAIC\b", "aiconfigurator", text).replace("MEASURE on site", "measure your own")
    return re.sub(r"\s+", " ", text).strip(" ;")


def accelerator(row: dict[str, str]) -> dict[str, Any]:
    """One device in the columns of the bundled table, in their order."""
    label, notes = row["memory_label"].split(" / ")[0], prose(row["notes"])
    options = re.search(r"\.? ?memory options GiB: ([\d ]+)$", notes)
    sram = integer(row["sram_bytes"])
    if not sram and row["sm_count"] and row["compute_capability"] in L1_PER_SM_KIB:
        sram = int(row["sm_count"]) * L1_PER_SM_KIB[row["compute_capability"]] * 1024
    usable_source = prose(row["memory_usable_source"])
    inferred = re.search(r"(?i)\binferred\b|^as ", usable_source)
    return {
        "id": row["id"],
        "name": row["name"],
        "aliases": ALIASES.get(row["id"], []),
        "vendor": row["vendor"],
        "architecture": row["architecture"],
        "compute_capability": row["compute_capability"],
        "form_factor": row["form_factor"],
        "launch_year": integer(row["launch_year"]),
        "memory_label": label,
        "memory_bytes": integer(row["memory_bytes"]),
        "memory_kind": "host" if label.startswith("host") else "unified" if "unified" in label else "device",
        "memory_basis": row["memory_bytes_basis"],
        "memory_options": [int(size) for size in options.group(1).split()] if options else [],
        "usable_bytes": integer(row["memory_cuda_usable_bytes"]),
        "usable_kind": ("assumed" if inferred else "measured") if usable_source else "",
        "usable_source": usable_source.removeprefix("INFERRED: "),
        "memory_type": row["memory_type"],
        "memory_bandwidth": rate(row["memory_bandwidth_bytes_s"], power=9),
        **{name: rate(row[f"{name}_flops"]) for name in ("fp32", "tf32", "fp16", "bf16", "fp8", "fp4")},
        **{name: rate(row[f"{name}_ops"]) for name in ("int8", "int4")},
        "sm_count": integer(row["sm_count"]),
        "l2_bytes": integer(row["l2_bytes"]),
        "sram_bytes": sram,
        "links": filled(
            {
                "nvlink": rate(row["nvlink_gb_s_per_direction"], 1e9, 9),
                "c2c": rate(row["c2c_gb_s_total"], 0.5e9, 9),
                "infinity_fabric": rate(row["xgmi_gb_s_total"], 0.5e9, 9),
                "pcie": rate(row["pcie_gb_s_per_direction_theoretical"], 1e9, 9),
                "pcie_generation": integer(row["pcie_gen"]),
                "pcie_lanes": integer(row["pcie_lanes"]),
                "other": row["scaleup"],
            }
        ),
        "tdp_watts": decimal(row["tdp_w"]),
        "source": row["source"],
        "confidence": row["confidence"],
        "as_of": AS_OF,
        "notes": notes[: options.start()] if options else notes,
    }


def added(row: dict[str, str]) -> dict[str, Any]:
    """A device of `ADDED`: what a GeForce card's multiprocessors do in a clock gives its peaks.

    256 FMA in fp16 with accumulation in fp32, twice as many 8-bit floats from 8.9 on, 4 and 8 times as many integers
    of 8 and 4 bits (Turing's, Ampere's and Ada's whitepapers); 128 in fp32, and 64 on Turing.
    """
    clock = int(row["sm_count"]) * int(row["boost_mhz"]) * 1e6
    half, plain = clock * 512, clock * (128 if row["compute_capability"] == "7.5" else 256)
    later = row["compute_capability"] != "7.5"
    return accelerator(
        {
            **dict.fromkeys(COLUMNS, ""),
            **{name: row[name] for name in ("id", "name", "architecture", "compute_capability", "memory_type")},
            **{
                name: row[name]
                for name in ("sm_count", "pcie_gen", "pcie_lanes", "tdp_w", "form_factor", "launch_year")
            },
            "vendor": "nvidia",
            "memory_label": f"{row['memory_gib']} GB",
            "memory_bytes": str(int(row["memory_gib"]) * 2**30),
            "memory_bytes_basis": "label GB read as GiB (DRAM/HBM stacks are binary; inferred)",
            "memory_bandwidth_bytes_s": str(int(row["bandwidth_gb_s"]) * 10**9),
            "fp32_flops": short(plain),
            "tf32_flops": short(plain) if later else "",
            "fp16_flops": short(half),
            "bf16_flops": short(half) if later else "",
            "fp8_flops": short(2 * half) if row["compute_capability"] == "8.9" else "",
            "int8_ops": short(4 * half),
            "int4_ops": short(8 * half),
            "l2_bytes": str(int(float(row["l2_mib"]) * 2**20)),
            "source": row["source"] + " (recalled) ; computed SM x 256 FMA/clk x 2 x boost",
            "confidence": "medium",
            "notes": "fp16/bf16/fp8 here = FP32-accumulate (half rate on GeForce). "
            + ("clock and power are the highest that laptops have" if row["form_factor"] == "laptop" else ""),
        }
    )


def short(value: float) -> str:
    """A peak to a tenth of a TFLOP/s."""
    return str(round(value / 1e11) * 10**11)


def whole_device(row: dict[str, str]) -> bool:
    """Whether the row prices whole devices of the kind it names."""
    return float(row["accelerator_count"]) >= 1 and "Modified" not in row["notes"]


def licence_of_price(row: dict[str, str]) -> str:
    """The licence of the on-demand figure. Where only the spot price came from a table that may not be
    redistributed, the on-demand price keeps the licence of its own source; spot prices are not carried."""
    licence, source = row["source_licence"], row["source"]
    if licence.startswith("facts only") and source.startswith("aws/karpenter-provider-aws"):
        return "Apache-2.0 (facts from AWS Pricing API)"
    return licence.split("; spot")[0]


def price(row: dict[str, str]) -> dict[str, Any]:
    """One price in the columns of the bundled table, in their order."""
    instance = row["instance_type"]
    note = re.sub(r" ?spot: .*$", "", row["notes"])
    return {
        "accelerator_id": row["accelerator_id"],
        "accelerator_count": integer(row["accelerator_count"]),
        "usd_per_hour": decimal(row["usd_per_hour_on_demand"]),
        "cloud": row["cloud"],
        "region": row["region"],
        "instance": "" if instance.startswith("cheapest ") else instance,
        "vcpus": decimal(row["vcpu"]),
        "host_memory_bytes": integer(row["memory_gib"], 2**30),
        "local_storage_bytes": integer(row["local_nvme_gb"], 10**9),
        "network_bandwidth": rate(row["network_gbps"], 1e9 / 8, 9),
        "as_of": row["as_of"] if re.fullmatch(r"\d{4}-\d\d-\d\d", row["as_of"]) else "unknown",
        "source": row["source"].split("; spot")[0],
        "licence": licence_of_price(row),
        "notes": "" if note.startswith("spot = ") else note,
    }


def dollars(price: dict[str, Any]) -> float:
    """The price of an instance as a number."""
    return float(bytes(price["usd_per_hour"]))


def carried(prices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The prices that may be carried: those of tables that may be redistributed, and of the others one per device
    and count where nothing else covers the device."""
    free = [row for row in prices if not row["licence"].startswith("facts only")]
    covered = {row["accelerator_id"] for row in free}
    cited: dict[tuple[str, int], dict[str, Any]] = {}
    for row in prices:
        if row["accelerator_id"] not in covered:
            key = row["accelerator_id"], row["accelerator_count"]
            if key not in cited or dollars(row) < dollars(cited[key]):
                cited[key] = row
    return free + list(cited.values())


def filled(row: dict[str, Any]) -> dict[str, Any]:
    """The row without what is empty."""
    return {name: value for name, value in row.items() if value not in (None, "", [], {})}


def write(name: str, rows: list[dict[str, Any]]) -> None:
    """One table, one row per line."""
    (OUT / name).write_bytes(b"".join(msgspec.json.encode(filled(row)) + b"\n" for row in rows))


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main(directory: str) -> None:
    """Both tables. Devices keep the order of the input; prices go by device, count and price."""
    devices = [accelerator(row) | USABLE.get(row["id"], {}) for row in read(Path(directory) / "accelerators.csv")]
    devices += [added(row) for row in read(ADDED)]
    order = {row["id"]: position for position, row in enumerate(devices)}
    prices = carried([price(row) for row in read(Path(directory) / "prices.csv") if whole_device(row)])
    prices.sort(
        key=lambda row: (
            order[row["accelerator_id"]],
            row["accelerator_count"],
            dollars(row),
            row["cloud"],
            row["region"],
            row["instance"],
        )
    )
    write("accelerators.jsonl", devices)
    write("prices.jsonl", prices)
    print(f"{len(devices)} devices, {len(prices)} prices")


if __name__ == "__main__":
    main(sys.argv[1])

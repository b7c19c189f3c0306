"""Makes the bundled measurements of serving: src/narrows/accuracy/data/serving-records.jsonl.gz, serving-models.jsonl.

    python -m scripts.import_serving PERFORMANCE_DIR MODEL_CONFIGS_DIR

PERFORMANCE_DIR holds serving-silicon.csv.gz, serving-vllm-bench.csv, serving-trtllm-static.csv,
decode-batch1-engines.csv and decode-llamacpp-gb10.csv; MODEL_CONFIGS_DIR is the folder of that name in
aiconfigurator-core 0.12.0 (PyPI, Apache-2.0). Rows of sources without a licence (most llama.cpp scoreboards) are not
carried; how many is said in the file's first line. Figures and settings are carried, no prose.

One measurement that several files of the silicon table state is one record (`copies`), of the split `test` if any of
them is; where one of them tells how many servers decode, that one is taken.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from scripts.import_catalogue import KEPT
from scripts.packed import write_packed
from scripts.serving_models import (
    AWQ,
    BATCH1,
    BENCH,
    FP8,
    LLAMA_CPP,
    OWN,
    SILICON,
    TRTLLM,
    Config,
    gptq,
    mlx,
)  # fmt: skip

FOLDER = Path(__file__).resolve().parent.parent / "src/narrows/accuracy/data"
AICC = "the hub's config.json, carried by aiconfigurator-core 0.12.0 (PyPI, Apache-2.0)"
SILICON_SOURCE = "published InferenceMAX runs and runs of NVIDIA Dynamo, as ai-dynamo/aiconfigurator collects them"
Row = dict[str, str]
Record = dict[str, Any]


class Models:
    """The models that records name: added as they are met, written at the end."""

    def __init__(self, configs: Path) -> None:
        """`configs`: the folder of aiconfigurator-core."""
        self.configs, self.rows = configs, dict[str, Config]()

    def name(self, structure: str, quantization: Config | None, label: str) -> str:
        """The name under which a structure with this quantization is carried."""
        kind, _, rest = structure.partition(" ")
        bare = rest if kind in ("AICC", "OWN") else structure
        name = f"{bare} {label}"
        if name in self.rows:
            return name
        row: Config = {"name": name, "quantization": quantization or {}}
        if kind == "AICC":
            row |= {"config": self._carried(rest), "source": AICC}
        elif kind == "OWN":
            row |= {"config": OWN[rest][0], "source": OWN[rest][1]}
        else:
            row |= {"catalogue": structure, "source": ""}
        self.rows[name] = {key: value for key, value in row.items() if value}
        return name

    def _carried(self, model: str) -> Config:
        stem = self.configs / model.replace("/", "--")
        config = json.loads(Path(f"{stem}_config.json").read_text())
        beside = Path(f"{stem}_hf_quant_config.json")
        if beside.exists() and "quantization_config" not in config:
            config["quantization_config"] = {
                "quant_method": "modelopt",
                **json.loads(beside.read_text())["quantization"],
            }
        return _kept(config)


def _kept(config: Config) -> Config:
    nested = ("text_config", "vision_config")
    return {
        key: _kept(value) if key in nested and isinstance(value, dict) else value
        for key, value in config.items()
        if key in KEPT
    }


def number(text: str | None) -> float | None:
    """A number, or None where the table has none."""
    return float(text) if text not in (None, "", "nan") else None


# --- the silicon table ------------------------------------------------------------------------------------------------

DEVICES = {"b200_sxm": "b200-sxm", "h200_sxm": "h200-sxm", "h100_sxm": "h100-sxm", "b300_sxm": "b300-sxm"}
ENGINES = {"trtllm": "tensorrt-llm", "vllm": "vllm", "sglang": "sglang"}
LABELS = {"fp8": "fp8", "fp4": "nvfp4", "int4": "int4", "bf16": "bf16", "": "bf16"}


def split_of(row: Row, prefix: str) -> tuple[int, int, int]:
    """(tensor parallel ranks of attention, replicas of attention, ranks that experts are shared out over).

    Where the source shares experts over every rank, it states the product of the two splits (64 for 8 devices that
    are 8-way both): the devices are then the expert-parallel ranks.
    """
    tp = int(number(row[prefix + "tp_size"]) or 1)
    dp = int(number(row[prefix + "attention_dp_size"]) or 1)
    width = int(number(row[prefix + "moe_tp_size"]) or 1)
    ep = int(number(row[prefix + "moe_ep_size"]) or 1)
    attention, experts = tp * dp, width * ep
    if ep > 1 and width == ep and attention == experts and (tp == 1 or attention > 8):
        return (ep, 1, ep) if dp == 1 else (1, ep, ep)
    if dp > 1 and tp == dp and experts == tp * tp:
        return 1, tp, tp
    if experts > attention and experts % tp == 0:
        return tp, experts // tp, ep
    return tp, dp, min(ep, attention)


def silicon(row: Row, models: Models) -> Record:
    """One row; `servers`: how many decode (None: not stated)."""
    together = row["mode"] == "agg"
    tp, dp, ep = split_of(row, "" if together else "decode_")
    said = re.search(r"silicon_concurrency=([\d.]+)", row["silicon_data_source"])
    servers = 1.0 if together else number(row["decode_num_workers"])
    batch = number(row["batch_size" if together else "decode_batch_size"])
    concurrency = float(said.group(1)) if said else batch * dp * (servers or 1) if batch else None
    structure, quantization = SILICON[row["model_path"], row["precision"]]
    label = "mxfp4" if "gpt-oss" in structure else LABELS[row["precision"]]
    day = re.search(r"measured=([\d-]{10})", row["silicon_data_source"])
    prefill = row["prefill_num_workers"]
    return {
        "table": "silicon", "id": row["id"], "source": SILICON_SOURCE, "license": "Apache-2.0",
        "engine": ENGINES[row["backend"]], "version": row["backend_version"],
        "model": models.name(structure, quantization, label), "precision": label,
        "device": DEVICES.get(row["system"], row["system"]), "tensor_parallel": tp, "attention_data_parallel": dp,
        "expert_parallel": ep, "servers": servers, "concurrency": concurrency,
        "prompt": int(row["isl"]), "output": int(row["osl"]), "disaggregated": not together,
        "prefill_servers": number(prefill) if not together else None,
        "prefill_devices": prefill_devices(row) if not together and prefill else None,
        "tpot": seconds(row["silicon_tpot_ms"]), "ttft": seconds(row["silicon_ttft_ms"]),
        "run": day.group(1) if day else "", "split": row["split"],
    }  # fmt: skip


def prefill_devices(row: Row) -> int:
    """Devices of one prefill server."""
    tp, dp, _ = split_of(row, "prefill_")
    return tp * dp


def seconds(milliseconds: str) -> float | None:
    """Seconds, to seven digits."""
    value = number(milliseconds)
    return float(f"{value / 1e3:.7g}") if value else None


def once(found: list[Record]) -> list[Record]:
    """Each measurement once: equal lengths, device and engine, and times equal as far as any of its copies states them.

    Some are rounded to 10 µs.
    """
    same: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for one in found:
        where = tuple(one[key] for key in ("device", "engine", "prompt", "output", "disaggregated"))
        same[*where, *(round(one[key] or 0.0, 5) for key in ("tpot", "ttft"))].append(one)
    kept = []
    for group in same.values():
        best = min(group, key=lambda one: (one["servers"] is None, one["run"] == "", one["id"]))
        best["split"] = "test" if any(one["split"] == "test" for one in group) else "fit"
        best["copies"] = len(group)
        kept.append(best)
    return kept


# --- the other tables -------------------------------------------------------------------------------------------------


def vllm_bench(rows: list[Row], models: Models) -> list[Record]:
    """Blocks with a stated engine, a serve command and a small fixed concurrency; mean lengths stand for all."""
    found = []
    for number_, row in enumerate(rows):
        command = row["serve_cmd"]
        named = next((name for name in sorted(BENCH, key=len, reverse=True) if name + " " in command + " "), None)
        concurrency, requests = number(row["max_concurrency"]), number(row["n_requests"])
        if not (row["engine"] and named and concurrency and requests and concurrency <= 8 and row["gpu"] != "910b"):
            continue
        structure, quantization, label = BENCH[named]
        split = re.search(r"(?:-tp|--tp-size|--tp_size|--tensor-parallel-size)[ =](\d+)", command)
        speculates = "speculative" in command or "speculative" in row["note"]  # `BS=` rows keep its flags
        found.append({
            "table": "vllm-bench", "id": f"vllm-bench-{number_}", "source": row["source"], "license": row["license"],
            "engine": row["engine"], "version": row["engine_version"].removeprefix("v"),
            "model": models.name(structure, quantization, label), "precision": label,
            "device": {"a100": "a100-sxm-80gb", "h100": "h100-sxm", "h200": "h200-sxm"}[row["gpu"].split("-")[0]],
            "tensor_parallel": int(split.group(1)) if split else 1, "concurrency": concurrency, "servers": 1.0,
            "prompt": round(float(row["total_input_tokens"]) / requests),
            "output": round(float(row["total_output_tokens"]) / requests),
            "tpot": seconds(row["mean_tpot_ms"]), "ttft": seconds(row["mean_ttft_ms"]),
            "speculates": speculates,
        })  # fmt: skip
    return found


def static(rows: list[Row], models: Models) -> list[Record]:
    """TensorRT-LLM's published tables: batch 1, the prompt and one token."""
    devices = {"A100": "a100-sxm-80gb", "H100": "h100-sxm", "H200": "h200-sxm", "L40S": "l40s"}
    found: dict[tuple[Any, ...], Record] = {}
    for index, row in enumerate(rows):
        if row["metric"] != "ttft":
            continue
        label = {"FP8": "fp8", "FP16": "fp16"}[row["precision"]]
        name = models.name(TRTLLM[row["model"]], FP8 if label == "fp8" else None, label)
        record = {
            "table": "trtllm-static", "id": f"trtllm-static-{index}", "source": row["source"],
            "license": row["license"], "engine": "tensorrt-llm", "version": row["engine_version"].removeprefix("v"),
            "model": name, "precision": label, "device": devices[row["gpu"]],
            "tensor_parallel": int(row["gpu_count"]), "concurrency": 1.0, "servers": 1.0,
            "prompt": int(row["input_len"]), "output": 1, "ttft": seconds(row["value"]),
        }  # fmt: skip
        key = (row["engine_version"], name, row["gpu"], row["gpu_count"], row["input_len"], row["value"])
        if key in found:
            found[key]["copies"] = found[key].get("copies", 1) + 1
        else:
            found[key] = record
    return list(found.values())


def batch1(rows: list[Row], models: Models) -> list[Record]:
    """Decode speed of one sequence (a few up to 8) by engines for one user."""
    devices = {
        "A100-80GB 330W": "a100-sxm-80gb", "A100": "a100-pcie-80gb", "RTX 4090": "rtx-4090", "A10G": "a10g",
        "RTX 3090 Ti": "rtx-3090-ti", "7900 XTX": "rx-7900-xtx", "Apple M4 Max 64GB": "apple-m4-max-40",
    }  # fmt: skip
    names = {"Llama.cpp": "llama.cpp", "MLC LLM": "mlc-llm", "MLC-LLM": "mlc-llm", "Exllama V2": "exllamav2"}
    found = []
    for index, row in enumerate(rows):
        how = stored_as(row)
        if row["metric"] != "decode_tput" or row["model"] not in BATCH1 or row["gpu"] not in devices or how is None:
            continue
        label, quantization = how
        engine = names.get(row["engine"], row["engine"].split(" ")[0].lower())
        count = int(row["gpu_count"])
        output, prompt = int(row["output_len"] or 128), int(row["input_len"] or 128)
        batch = float(row["batch_or_concurrency"])
        found.append({
            "table": "batch-1", "id": f"batch-1-{index}", "source": row["source"], "license": row["license"],
            "engine": engine, "version": row["engine_version"],
            "model": models.name(BATCH1[row["model"]], quantization, label), "precision": label.split("-")[0],
            "device": devices[row["gpu"]], "tensor_parallel": count, "pcie": "PCIe" in row["parallelism"],
            "concurrency": batch, "servers": 1.0, "prompt": prompt, "output": output,
            "tpot": float(f"{batch / float(row['value']):.7g}"),
        })  # fmt: skip
    return found


def stored_as(row: Row) -> tuple[str, Config | None] | None:
    """(label, quantization) of a row of the batch-1 table; None where narrows knows no rule (EXL2's mixes)."""
    precision, engine = row["precision"], row["engine"]
    whole = {"bf16": "bf16", "fp16": "fp16"}
    if precision in whole:
        return whole[precision], None
    if precision == "int8":
        return "int8", gptq(8, -1)
    if precision == "int4-g32":
        return "int4-g32", gptq(4, 32)
    if precision == "int4-awq" or (precision == "4-bit" and engine == "vLLM"):
        return "int4-awq", AWQ
    if precision == "GPTQ g128" or (precision == "4-bit" and engine in ("exllama", "Exllama V2")):
        return "int4-g128", gptq(4, 128)
    if precision == "4-bit":
        return ("gguf-q4_0", {"gguf": "Q4_0"}) if engine == "Llama.cpp" else ("int4-g32", gptq(4, 32))
    apple = re.fullmatch(r"q(\d)(?: g(\d+))?", precision)
    if apple:
        group = int(apple.group(2) or 64)
        return f"q{apple.group(1)}-g{group}", mlx(int(apple.group(1)), group)
    return None


def gb10(rows: list[Row], models: Models) -> list[Record]:
    """llama.cpp's own table of the DGX Spark: decode by batch and depth, prompts by length and batch."""
    found = []
    for index, row in enumerate(rows):
        batch, prompt, value = float(row["batch_or_concurrency"]), int(row["input_len"]), float(row["value"])
        label = row["precision"].lower()
        stored: Config = {"gguf": "MXFP4_MOE" if label == "mxfp4" else row["precision"]}
        name = models.name(LLAMA_CPP[row["model"]], stored, f"gguf-{label}")
        record: Record = {
            "table": "llama.cpp", "id": f"llama.cpp-gb10-{index}", "source": row["source"], "license": row["license"],
            "engine": "llama.cpp", "version": row["engine_version"], "model": name, "precision": label,
            "device": "gb10-dgx-spark", "tensor_parallel": 1, "concurrency": batch, "servers": 1.0,
            "prompt": prompt, "output": int(row["output_len"]),
        }  # fmt: skip
        if row["metric"] == "decode_tput":
            found.append(record | {"tpot": float(f"{batch / value:.7g}")})
        elif row["metric"] == "prefill_time" and batch == 1:
            found.append(record | {"ttft": value})
    return found


def read(path: Path) -> list[Row]:
    """The rows of a table, packed or not."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Write both files."""
    folder, models = Path(sys.argv[1]), Models(Path(sys.argv[2]))
    table = read(folder / "serving-silicon.csv.gz")
    found = once([silicon(row, models) for row in table])
    bench, launched = read(folder / "serving-vllm-bench.csv"), read(folder / "serving-trtllm-static.csv")
    single, spark = read(folder / "decode-batch1-engines.csv"), read(folder / "decode-llamacpp-gb10.csv")
    parts = [vllm_bench(bench, models), static(launched, models), batch1(single, models), gb10(spark, models)]
    kept = [{key: value for key, value in one.items() if value is not None} for part in (found, *parts) for one in part]
    write_packed(FOLDER / "serving-records.jsonl.gz", kept)
    lines = [json.dumps(row, sort_keys=True, separators=(",", ":")) for row in models.rows.values()]
    (FOLDER / "serving-models.jsonl").write_text("\n".join(lines) + "\n")
    print(
        {
            name: len(part)
            for name, part in zip(("silicon", "bench", "static", "batch1", "gb10"), (found, *parts), strict=True)
        }
    )


if __name__ == "__main__":
    main()

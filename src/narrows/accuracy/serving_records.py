"""Measurements of serving: what was run, and what a token or a prompt took; made by scripts/import_serving.py."""

from __future__ import annotations

import gzip
import os
import re
from functools import cache
from typing import Any, Literal

import msgspec

from narrows.deployment import Deployment, deploy
from narrows.hardware import Accelerator, find_accelerator
from narrows.models import ModelSpec, load_model, read_config
from narrows.models.catalogue import catalogue_entry
from narrows.text import BadInput

Table = Literal["silicon", "vllm-bench", "trtllm-static", "batch-1", "llama.cpp"]

OLD = "Oct-Nov 2023"
"""Version of what mlc-ai/llm-perf-bench measured: vLLM without CUDA graphs, llama.cpp before its vector kernels."""

BY_LAYERS = ("llama.cpp", "exllama", "exllamav2", "autoawq")
"""Engines that give each of several devices whole layers, one after another (AutoAWQ by `device_map`)."""


class ServingRecord(msgspec.Struct, frozen=True):
    """One measurement of a table of servers or of an engine for one user.

    model: a name of serving-models.jsonl. tensor_parallel: ranks that share one replica of attention.
    concurrency: requests under way in all; servers: how many servers decode them (None: not stated); prefill_servers,
    prefill_devices: servers of prompts alone, and the devices of one (disaggregated). tpot, ttft: seconds. run: the day
    it was measured. copies: how often the table states it. speculates: it is said to guess tokens ahead. pcie: ranks
    talk over PCIe.
    """

    table: Table
    id: str
    source: str
    license: str
    engine: str
    version: str
    model: str
    precision: str
    device: str
    tensor_parallel: int
    prompt: int
    output: int
    concurrency: float | None = None
    servers: float | None = None
    attention_data_parallel: int = 1
    expert_parallel: int = 1
    prefill_servers: float | None = None
    prefill_devices: int | None = None
    disaggregated: bool = False
    tpot: float | None = None
    ttft: float | None = None
    run: str = ""
    split: str = ""
    copies: int = 1
    speculates: bool = False
    pcie: bool = False

    @property
    def devices(self) -> int:
        """Devices of one server that decodes."""
        return self.tensor_parallel * self.attention_data_parallel

    @property
    def sequences(self) -> float:
        """Requests under way on one server; what is not stated counts as one."""
        return (self.concurrency or 1.0) / (self.servers or 1.0)

    @property
    def structure(self) -> str:
        """The model without how its weights are stored: DeepSeek's of three names are one."""
        name = self.model.rsplit(" ", 1)[0].split("/")[-1].lower()
        for word in ("-nvfp4", "-fp8", "-instruct"):
            name = name.replace(word, "")
        return "deepseek-v3" if name.startswith("deepseek-") else name


@cache
def serving_records() -> tuple[ServingRecord, ...]:
    """All bundled measurements."""
    with gzip.open(_path("serving-records.jsonl.gz")) as file:
        return tuple(msgspec.json.Decoder(ServingRecord).decode_lines(file.read()))


def _path(name: str) -> str:
    return os.path.join(os.path.dirname(__file__), "data", name)


@cache
def _served() -> dict[str, dict[str, Any]]:
    with open(_path("serving-models.jsonl"), "rb") as file:
        rows: list[dict[str, Any]] = [msgspec.json.decode(line) for line in file]
    return {row["name"]: row for row in rows}


def add_model(name: str, catalogue: str, quantization: dict[str, Any]) -> str:
    """A model of the catalogue under a name that records may use: for scripts that read what is not bundled."""
    return str(_served().setdefault(name, {"name": name, "catalogue": catalogue, "quantization": quantization})["name"])


@cache
def served_model(name: str) -> ModelSpec:
    """A model of serving-models.jsonl, as it was stored when it was measured."""
    row = _served()[name]
    quantization = dict(row.get("quantization", {}))
    if "gguf" in quantization:  # a file type of llama.cpp goes on top of the model when it is deployed
        quantization = {}
    if not quantization and "catalogue" in row:
        return load_model(row["catalogue"], online=False)
    config = dict(row["config"] if "config" in row else catalogue_entry(row["catalogue"]).config)
    if "mlx" in quantization:
        config["quantization"] = quantization["mlx"]
    elif quantization:
        config["quantization_config"] = quantization
    return read_config(config, name=name, source=row.get("source", ""), as_usual=False)


@cache
def device_of(record_device: str) -> Accelerator:
    """The accelerator of a record."""
    return find_accelerator(record_device)


_KV_FP8 = ("fp8", "nvfp4")


def kv_of(record: ServingRecord, model: ModelSpec) -> str:
    """The KV cache's format: as the checkpoint says; FP8 where TensorRT-LLM and vLLM serve FP8 or NVFP4 weights.

    TensorRT-LLM's published tables say so (its note: FP8 implies an FP8 KV cache); the others are assumed alike.
    """
    if model.precision.kv_cache is not None:
        return "auto"
    return "fp8" if record.precision in _KV_FP8 and record.engine == "tensorrt-llm" else "auto"


def deployed(record: ServingRecord) -> Deployment:
    """The deployment that a record ran, as far as narrows can say it. Raises BadInput where it cannot.

    Engines whose memory narrows does not know are taken as vLLM: what a step does on the device is the same, and what
    an engine adds is another law.
    """
    return _deployed(
        record.model,
        record.device,
        record.engine,
        record.version if record.engine == "vllm" and re.fullmatch(r"0(\.\d+){1,2}", record.version) else "",
        record.tensor_parallel,
        record.attention_data_parallel,
        record.expert_parallel,
        kv_of(record, served_model(record.model)),
    )


def _vllm(version: str) -> str:
    return f"vllm=={version}" if version else "vllm"


@cache
def _deployed(model: str, device: str, engine: str, version: str, tp: int, dp: int, ep: int, kv: str) -> Deployment:
    # llama.cpp's whole files are GGUF too
    gguf = _served()[model].get("quantization", {}).get("gguf", "F16" if engine == "llama.cpp" else None)
    if gguf is not None and engine != "llama.cpp":
        raise BadInput("{engine} runs no GGUF files", engine=engine)
    layers_only = engine in BY_LAYERS and tp > 1
    return deploy(
        served_model(model),
        device_of(device),
        engine="llama.cpp" if gguf is not None else engine if engine == "sglang" else _vllm(version),
        tensor_parallel=1 if layers_only else tp,
        pipeline_parallel=tp if layers_only else 1,
        kv_cache_dtype=kv,
        quantization=gguf,
        max_length=2048 if gguf is not None else 4096,
        expert_parallel=ep,
        attention_data_parallel=dp,
    )

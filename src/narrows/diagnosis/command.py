"""The engine's start command as the log tells it, so that it can be given back with one flag changed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from narrows.engines import Engine
from narrows.engines.command import flag_table
from narrows.engines.version import parse_version
from narrows.observe import Observation
from narrows.observe.dumps import pairs

Changes = Mapping[str, str | None]
"""Flag → its value; "" for a switch; None takes the flag out."""

_SHOWN: Final = ("non-default args: ", "args: Namespace")
_PASSED: Final = (
    *("host", "port", "served_model_name", "trust_remote_code", "tokenizer", "chat_template", "api_key", "revision"),
    *("enable_expert_parallel", "data_parallel_size", "block_size", "cpu_offload_gb", "swap_space", "load_format"),
    *("enable_prefix_caching", "enable_chunked_prefill", "quantization", "dtype", "limit_mm_per_prompt", "seed"),
    *("kv_cache_dtype", "max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization"),
    *("tensor_parallel_size", "pipeline_parallel_size", "enforce_eager", "kv_cache_memory_bytes", "max_logprobs"),
    *("decode_context_parallel_size", "tool_call_parser", "enable_auto_tool_choice", "reasoning_parser"),
)
"""Arguments whose flag has their name; of others the command keeps what the user knows."""
_SECRET: Final = frozenset(("api_key",))
_DEFAULTS: Final = {"port": "8000", "swap_space": "4", "cpu_offload_gb": "0", "seed": "0", "max_logprobs": "20"}
_ONES: Final = frozenset(("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"))
_SERVE_SINCE: Final = (0, 6, 0)
"""`vllm serve` is in every version from here on; before, the module is started."""


class Command:
    """Words that start the engine, and flags by name in their order."""

    def __init__(self, head: list[str], flags: dict[str, str]) -> None:
        self.head = head
        self.flags = flags

    def changed(self, changes: Changes) -> str:
        """The command with these flags set, where they stand or at the end."""
        flags: dict[str, str] = dict(self.flags)
        table = flag_table("vllm")
        for flag, value in changes.items():
            same = [f for f in flags if f == flag or (flag in table and f in table[flag].flags)]
            if value is None:
                for one in same:
                    del flags[one]
            else:
                flags[same[0] if same else flag] = value
        words = list(self.head)
        for flag, value in flags.items():
            words += [flag, value] if value else [flag]
        return shlex.join(words)

    def __str__(self) -> str:
        return self.changed({})


def command_of(seen: Observation, facts: Engine | None) -> Command:
    """The start command of a vLLM log: settings that it printed and that are not the defaults."""
    model = seen.model or "MODEL"
    known = parse_version(facts.version) if facts else None
    if known is not None and known < _SERVE_SINCE:
        head = ["python", "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    else:
        head = ["vllm", "serve", model]
    flags = _printed(seen)
    flags |= {flag: value for flag, value in _settled(seen).items() if flag not in flags}
    usual = f"{facts.gpu_memory_utilization:g}" if facts else ""
    if flags.get("--gpu-memory-utilization") == usual:
        del flags["--gpu-memory-utilization"]
    return Command(head, flags)


def _printed(seen: Observation) -> dict[str, str]:
    """Flags of the dump of arguments, as far as the kept line goes."""
    flags: dict[str, str] = {}
    for line in seen.evidence:
        for mark in _SHOWN:
            _, found, dump = line.text.partition(mark)
            if not found:
                continue
            for name, written in pairs(dump.rstrip("…")):
                value = _value(name, written)
                if name in _PASSED and value is not None:
                    flags["--" + name.replace("_", "-")] = value
    return flags


def _value(name: str, written: str) -> str | None:
    plain = written.strip("'\"")
    if written in ("None", "False") or plain in ("auto", "", _DEFAULTS.get(name)) or (name in _ONES and plain == "1"):
        return None
    if written == "True":
        return ""
    if name in _SECRET:
        return "…"
    if written.startswith("["):
        return plain.strip("[]").split(",")[0].strip("'\" ") or None
    return None if written.startswith(("<", "{", "(")) or "(" in plain else plain


def _settled(seen: Observation) -> dict[str, str]:
    """Flags that the resolved settings imply, where no dump of arguments says more."""
    settings = seen.settings
    flags: dict[str, str] = {}
    for flag, whole in (
        ("--tensor-parallel-size", settings.tensor_parallel),
        ("--pipeline-parallel-size", settings.pipeline_parallel),
        ("--data-parallel-size", settings.data_parallel),
    ):
        if whole is not None and whole > 1:
            flags[flag] = str(whole)
    dumped = any(mark in one.text and not one.text.endswith("…") for one in seen.evidence for mark in _SHOWN)
    for flag, value in (
        ("--max-model-len", settings.max_model_len if not dumped else None),
        ("--gpu-memory-utilization", settings.gpu_memory_utilization if not dumped else None),
        ("--max-num-seqs", settings.max_num_seqs if not dumped else None),
        ("--kv-cache-memory-bytes", settings.kv_cache_memory_bytes),
    ):
        if value is not None:
            flags[flag] = f"{value:g}" if isinstance(value, float) else str(value)
    if settings.kv_cache_dtype not in (None, "auto"):
        flags["--kv-cache-dtype"] = str(settings.kv_cache_dtype)
    if settings.enforce_eager:
        flags["--enforce-eager"] = ""
    return flags

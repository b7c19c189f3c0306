"""The engine's start command as the log tells it, so that it can be given back with one flag changed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

from narrows.diagnosis.literals import UNREAD, literal
from narrows.engines import Engine
from narrows.engines.flags import flag_table
from narrows.engines.version import parse_version
from narrows.observe import Observation
from narrows.observe.dumps import MASK, pairs, secret, whole
from narrows.text import flag_of, printable

Changes = Mapping[str, str | None]
"""Flag → its value; "" for a switch; None takes the flag out."""

_NO_FLAGS: Final = frozenset(("model", "model_tag", "subparser", "dispatch_function", "command"))
_DEFAULTS: Final[dict[str, tuple[Any, ...]]] = {
    **dict.fromkeys(("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"), (1,)),
    **dict.fromkeys(("data_parallel_size_local", "num_scheduler_steps", "max_loras", "api_server_count"), (1,)),
    **dict.fromkeys(("max_num_partial_prefills", "max_long_partial_prefills", "num_redundant_experts"), (0, 1)),
    **dict.fromkeys(("allowed_origins", "allowed_methods", "allowed_headers"), (["*"],)),
    **dict.fromkeys(("cpu_offload_gb", "seed", "tokenizer_pool_size", "num_lookahead_slots", "ssl_cert_reqs"), (0,)),
    **dict.fromkeys(("long_prefill_token_threshold", "scheduler_delay_factor", "data_parallel_start_rank"), (0,)),
    **dict.fromkeys(("guided_decoding_backend",), ("outlines", "xgrammar", "auto")),
    **dict.fromkeys(("speculative_disable_by_batch_size", "max_logprobs"), (5, 20)),
    "port": (8000,),
    "swap_space": (4,),
    "uvicorn_log_level": ("info",),
    "response_role": ("assistant",),
    "tokenizer_pool_type": ("ray",),
    "max_lora_rank": (16,),
    "max_prompt_adapters": (1,),
    "max_prompt_adapter_token": (0,),
    "lora_extra_vocab_size": (256,),
    "max_seq_len_to_capture": (8192,),
    "max_context_len_to_capture": (8192,),
    "spec_decoding_acceptance_method": ("rejection_sampler",),
    "scheduling_policy": ("fcfs",),
    "prefix_caching_hash_algo": ("builtin",),
    "multi_step_stream_outputs": (True,),
    "worker_extension_cls": ("",),
    "scheduler_cls": ("vllm.core.scheduler.Scheduler",),
}
"""What `Namespace(…)` shows of arguments that nobody gave, beside None, False, "auto" and nothing."""
_JSON_LISTS: Final = frozenset(("allowed_origins", "allowed_methods", "allowed_headers"))
_VARIABLES: Final = {"api_key": "VLLM_API_KEY", "hf_token": "HF_TOKEN"}
_SERVE_SINCE: Final = (0, 6, 0)
"""`vllm serve` is in every version from here on; before, the module is started."""
_JSON_LIMITS_SINCE: Final = (0, 9, 0)
"""Before, `--limit-mm-per-prompt` was written image=1,video=0."""


class Command:
    """Words that start the engine, and flags by name in their order; values as a shell reads them.

    lost: flags whose values the log does not give back. hidden: flags whose secret is a variable of the shell here.
    cut: whether the log shows only a part of the arguments.
    """

    def __init__(self, head: list[str], flags: dict[str, str]) -> None:
        self.head = head
        self.flags = flags
        self.lost: tuple[str, ...] = ()
        self.hidden: tuple[str, ...] = ()
        self.cut = False

    def changed(self, changes: Changes) -> str:
        """The command with these flags set, where they stand or at the end."""
        flags: dict[str, str] = dict(self.flags)
        table = flag_table("vllm")
        for flag, value in changes.items():
            names = (flag, "--no-" + flag.removeprefix("--"), *(table[flag].flags if flag in table else ()))
            same = [one for one in flags if one in names]
            if value is None or same[:1] == [names[1]]:
                for one in same:
                    del flags[one]
                same = []
            if value is not None:
                flags[same[0] if same else flag] = quoted(value) if value else ""
        return " ".join([shlex.join(self.head), *(written(flag, value) for flag, value in flags.items())])

    def __str__(self) -> str:
        return self.changed({})


def quoted(value: str) -> str:
    """One word of a shell, and one line of a terminal."""
    return shlex.quote(printable(value))


def written(flag: str, value: str) -> str:
    """A flag with its quoted value; what begins with a dash is joined to it, or it would be read as a flag."""
    if not value:
        return flag
    return f"{flag}={value}" if value.lstrip("'").startswith("-") else f"{flag} {value}"


def command_of(seen: Observation, facts: Engine | None) -> Command:
    """The start command of a vLLM log: all arguments that it printed and that are not the defaults."""
    model = printable(seen.model or "MODEL")
    if model.startswith("-"):
        model = "./" + model
    known = parse_version(facts.version) if facts else None
    if known is not None and known < _SERVE_SINCE:
        head = ["python", "-m", "vllm.entrypoints.openai.api_server", "--model", model]
    else:
        head = ["vllm", "serve", model]
    command = Command(head, {})
    _printed(command, seen, known is not None and known < _JSON_LIMITS_SINCE)
    for flag, value in _settled(seen, command).items():
        command.flags.setdefault(flag, value)
    usual = f"{facts.gpu_memory_utilization:g}" if facts else ""
    if command.flags.get("--gpu-memory-utilization") == usual:
        del command.flags["--gpu-memory-utilization"]
    return command


def _printed(command: Command, seen: Observation, plain_limits: bool) -> None:
    """Puts the flags of the dump of arguments into the command."""
    dump = seen.arguments
    if dump is None:
        return
    everything = dump.startswith("(")
    command.cut = not whole(dump)
    lost, hidden = [], []
    for name, text in pairs(dump):
        flag = flag_of(name)
        value = literal(text)
        if name in _NO_FLAGS or value is None or (everything and _usual(name, value, text)):
            continue
        if secret(name) and value is not True:
            hidden.append(flag)
            command.flags[flag] = f'"${_VARIABLES.get(name, name.upper())}"'
        elif value is False:
            command.flags["--no-" + flag.removeprefix("--")] = ""
        elif name == "limit_mm_per_prompt" and plain_limits and isinstance(value, dict):
            command.flags[flag] = quoted(",".join(f"{kind}={most}" for kind, most in value.items()))
        else:
            words = _words(name, value)
            if words is None:
                lost.append(flag)
            else:
                command.flags[flag] = words
    command.lost, command.hidden = tuple(lost), tuple(hidden)


def _usual(name: str, value: Any, text: str) -> bool:
    """Whether this is what a dump of all arguments shows of one that nobody gave."""
    if value is UNREAD:
        return text.startswith("<") or "auto" in text.lower()
    return value is False or value in ("", "auto", [], {}) or value in _DEFAULTS.get(name, ())


def _words(name: str, value: Any) -> str | None:
    """A value as a shell takes it; "" for a switch, None where it cannot be given back as it was."""
    if value is UNREAD or MASK in repr(value):
        return None
    if value is True:
        return ""
    if isinstance(value, dict) or (isinstance(value, list) and name in _JSON_LISTS):
        return shlex.quote(json.dumps(value, ensure_ascii=not str(value).isprintable()))
    if not isinstance(value, list):
        text = str(value)
        return shlex.quote(text) if text.isprintable() and text else None
    words = [json.dumps(one) if isinstance(one, dict | list) else str(one) for one in value]
    if not words or not all(word.isprintable() for word in words):
        return None
    if len(words) > 1 and any(word.startswith("-") for word in words):
        return None
    if name == "middleware":
        return " --middleware ".join(map(shlex.quote, words))
    return shlex.join(words)


def _settled(seen: Observation, command: Command) -> dict[str, str]:
    """Flags that the resolved settings imply, where no dump of arguments says more."""
    settings = seen.settings
    flags: dict[str, str] = {}
    for flag, count in (
        ("--tensor-parallel-size", settings.tensor_parallel),
        ("--pipeline-parallel-size", settings.pipeline_parallel),
        ("--data-parallel-size", settings.data_parallel),
    ):
        if count is not None and count > 1:
            flags[flag] = str(count)
    dumped = seen.arguments is not None and not command.cut
    for flag, value in (
        ("--max-model-len", settings.max_model_len if not dumped else None),
        ("--gpu-memory-utilization", settings.gpu_memory_utilization if not dumped else None),
        ("--max-num-seqs", settings.max_num_seqs if not dumped else None),
        ("--kv-cache-memory-bytes", settings.kv_cache_memory_bytes),
    ):
        if value is not None:
            flags[flag] = f"{value:g}" if isinstance(value, float) else str(value)
    if settings.kv_cache_dtype not in (None, "auto"):
        flags["--kv-cache-dtype"] = quoted(str(settings.kv_cache_dtype))
    if settings.enforce_eager:
        flags["--enforce-eager"] = ""
    return flags

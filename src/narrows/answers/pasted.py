"""A start command in place of a model: read, and its options as those of `fit`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from narrows.models.experts import has_experts
from narrows.text import BadInput, Text, flag_of

if TYPE_CHECKING:
    from narrows.engines.command import EngineCommand
    from narrows.models import ModelSpec


def read_pasted(text: str) -> EngineCommand | None:
    """The start command in `text`, if it is one: what lies there as a file is none, unless it ends in .yaml."""
    stripped = text.strip()
    if not stripped.endswith((".yml", ".yaml")) and (_is_one_long_word(stripped) or os.path.exists(text)):
        return None
    from narrows.engines.llamacpp_command import is_llama_command, read_llama_command

    if is_llama_command(text):
        return read_llama_command(text)
    from narrows.engines.sglang_command import is_sglang_command, read_sglang_command

    if is_sglang_command(text):
        return read_sglang_command(text)
    from narrows.engines.beginnings import looks_like_command
    from narrows.engines.command import read_command

    if not looks_like_command(text):
        return None
    command = read_command(text)
    if "$" in command.model:
        raise BadInput(
            "the command's model is {name}, which a shell would fill in; put the model's name there",
            name=command.model[:60],
        )
    return command


_LONGEST_PROGRAM = 40


def _is_one_long_word(text: str) -> bool:
    """Whether this is longer than the name of any program, and names nothing behind it."""
    return len(text) > _LONGEST_PROGRAM and " " not in text and "\n" not in text


def refuse_command(text: str, command: str) -> None:
    """Refuse a start command where only a model is read. command: the question, such as `load`."""
    if not os.path.exists(text) and " " in text.strip():
        from narrows.engines.beginnings import looks_like_command

        if looks_like_command(text):
            raise BadInput(
                "'narrows {command}' takes a model, not a start command (those are read by 'narrows fit' and 'narrows "
                "roofline'); give the model by itself",
                command=command,
            )


def pasted_options(
    command: EngineCommand, engine: str | None, notes: list[Text], warnings: list[Text]
) -> dict[str, Any]:
    """The options of a pasted command that `fit` has too; what it leaves out is said, in warnings where it changes
    memory. engine: as asked for beside the command. Raises BadInput where that is another one.
    """
    if engine is not None and engine.partition("=")[0].strip().lower() != command.engine:
        raise BadInput(
            "the command starts {engine}, and --engine is {other}, which does not read its flags; leave --engine out, "
            "or give the model by itself",
            engine=command.engine,
            other=engine[:40],
        )
    options = dict(command.options)
    if command.unread:
        warnings.append(
            Text(
                "flags of the command that narrows does not read and that may change memory: {flags}; the figures are "
                "without them",
                flags=", ".join(command.unread),
            )
        )
    if command.version:
        options["engine"] = f"{command.engine}=={command.version}"
    if options.get("max_len") == "auto":
        del options["max_len"]
    if command.ignored:
        notes.append(Text("flags of the command that were not read: {flags}", flags=", ".join(command.ignored)))
    options.pop("gpu_layers", None)
    without = [name for name in ("max_loras", "max_lora_rank") if name in options]
    slots, rank = options.pop("max_loras", 1), options.pop("max_lora_rank", 16)
    if not options.get("lora", False):
        warnings += [Text("{flag} does nothing without --enable-lora", flag=flag_of(name)) for name in without]
    if options.pop("lora", False):
        # vLLM's own: one adapter at once, of rank 16
        options["adapters"] = (slots, rank)
        notes.append(
            Text("LoRA adapters: 'narrows fit' counts their room in memory; what they compute is in no figure")
        )
    if options.pop("block_size", None):
        warnings.append(Text("{flag} is not modelled yet; the figures are without it", flag="block size"))
    return options


def with_experts_shared(options: dict[str, Any], model: ModelSpec, notes: list[Text]) -> dict[str, Any]:
    """The options with replicas and expert parallelism as `deploy` takes them, from the flags of a pasted command.

    vLLM: experts are shared by all tensor-parallel ranks of all replicas, cut by width, or given out whole with
    --enable-expert-parallel (its documentation of data parallel deployment). SGLang: --tp counts the ranks of all
    replicas of attention, and --ep-size says over how many of them experts are given out.
    """
    found = dict(options)
    replicas, whole = found.pop("data_parallel", 1), found.pop("expert_parallel", False)
    within = found.pop("dp_attention", False)
    mixed = has_experts(model)
    tp = found.get("tp", 1)
    sglang = found.get("engine", "").startswith("sglang")
    if within and replicas > 1:
        if tp % replicas:
            raise BadInput("--tp {tp} is not a multiple of --dp {dp}, which is how many share it", tp=tp, dp=replicas)
        found["tp"], found["dp"] = tp // replicas, replicas
    elif replicas > 1 and mixed and not sglang:
        found["dp"] = replicas
    elif replicas > 1:
        notes.append(Text("data parallel: every replica is alike; the figures are of one"))
    if whole and mixed:
        found["ep"] = tp * found.get("dp", 1)
    elif whole:
        notes.append(Text("{model} has no experts: expert parallelism changes nothing", model=model.name))
    if found.get("ep", 1) > 1 and not mixed:
        del found["ep"]
    return found

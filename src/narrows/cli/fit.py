"""`narrows fit`."""

from __future__ import annotations

from typing import Any

import click

from narrows.cli.options import Command, as_json, draw, emit, example, lang, option, plot, sizes, waiting
from narrows.cli.shared import shared
from narrows.report.i18n import _
from narrows.text import BadInput, flag_of


def _run(model: str, as_json: bool, plot: str | None, **options: Any) -> int:
    from narrows.answers.fit import fit

    none_in_use = (options["memory_in_use"] or "").strip() == "0"
    sizes(options, "memory", *([] if none_in_use else ["memory_in_use"]), "kv_cache_memory_bytes")
    if none_in_use:
        options["memory_in_use"] = 0
    _llama_options(options)
    _sglang_options(options)
    answer = fit(model, progress=waiting(), **options)
    draw(answer, plot)
    emit(answer, as_json)
    return 0 if answer.fits else 1


def _llama_options(options: dict[str, Any]) -> None:
    """llama.cpp's own flags, under the names that every engine has for the same."""
    same = {"parallel": "max_num_seqs", "ubatch_size": "max_num_batched_tokens", "cache_type_k": "kv_cache_dtype"}
    given = {name: options.pop(name) for name in (*same, "ctx_size")}
    used = [name for name, value in given.items() if value is not None]
    if used and options["engine"].partition("=")[0].strip() != "llama.cpp":
        raise BadInput("--{flag} is an option of llama.cpp; add --engine llama.cpp", flag=used[0].replace("_", "-"))
    for name in ("ctx_size", "parallel", "ubatch_size"):
        if given[name] is not None and given[name] < 1:
            raise BadInput(
                "{flag} is {value}; it must be at least {least}", flag=flag_of(name), value=given[name], least=1
            )
    _under_one_name(same, given, options)
    if given["ctx_size"] is not None and options["max_len"] is not None:
        raise BadInput(
            "--ctx-size and --max-len are both given: the first is tokens of all slots together, the second of one; "
            "give one of them"
        )
    if given["ctx_size"] is not None and given["ctx_size"] < (options["batch"] or given["parallel"] or 1):
        raise BadInput(
            "--ctx-size is {value}, less than one token for each of {slots} sequences; raise it or lower them",
            value=given["ctx_size"],
            slots=options["batch"] or given["parallel"],
        )
    if given["cache_type_k"] is not None and options["cache_type_v"] is None:
        options["cache_type_v"] = "f16"
    if given["parallel"] is not None and options["batch"] is None:
        # every slot is allocated, used or not
        options["batch"] = given["parallel"]
    if given["ctx_size"] is not None:
        options["batch"] = options["batch"] or 1
        options["max_len"] = max(1, given["ctx_size"] // max(1, options["batch"]))


def _sglang_options(options: dict[str, Any]) -> None:
    """SGLang's own flags, under the names that every engine has for the same."""
    same = {
        "mem_fraction_static": "gpu_memory_utilization",
        "context_length": "max_len",
        "max_running_requests": "max_num_seqs",
        "chunked_prefill_size": "max_num_batched_tokens",
    }
    given = {name: options.pop(name) for name in same}
    used = [name for name, value in given.items() if value is not None]
    if options.pop("disable_cuda_graph"):
        used.append("disable_cuda_graph")
        options["enforce_eager"] = True
    if used and options["engine"].partition("=")[0].strip() != "sglang":
        raise BadInput("--{flag} is an option of SGLang; add --engine sglang", flag=used[0].replace("_", "-"))
    _under_one_name(same, given, options)


def _under_one_name(same: dict[str, str], given: dict[str, Any], options: dict[str, Any]) -> None:
    """Put what stands under an engine's own names where the general ones are. Raises BadInput for two answers."""
    for name, general in same.items():
        value, other = given[name], options[general]
        if value is None:
            continue
        if other not in (None, "auto", value):
            raise BadInput(
                "--{flag} is {value} and --{general} is {other}, and they are one option; give one of them",
                flag=name.replace("_", "-"),
                value=str(value)[:40],
                general=general.replace("_", "-"),
                other=str(other)[:40],
            )
        options[general] = value


command = Command(
    "fit",
    callback=_run,
    help=_(
        "Does MODEL fit on --gpu, and how much work fits beside it? MODEL is a config.json, a GGUF file, a directory "
        "as downloaded from the hub, '-' for stdin, a name from 'narrows models', or a hub id (org/name, "
        "org/name@revision), whose config.json is then downloaded - or the whole start command in quotes, such as "
        "'vllm serve MODEL --max-model-len 32768', or a Compose file or Kubernetes manifest that holds it. "
        "Exit 0: fits, 1: does not, 2: bad input."
    ),
    epilog=example("narrows fit llama-2-7b --gpu a10g --gpu l40s --max-len 4096"),
    params=[
        click.Argument(["model"]),
        shared("--gpu"),
        option(
            "--max-len",
            metavar="TOKENS",
            type=int,
            help=_("Tokens per sequence, prompt and answer. Default: the model's limit."),
        ),
        option("--batch", metavar="N", type=int, help=_("Sequences at once. Default: as many as fit.")),
        option(
            "--prompt",
            metavar="TOKENS",
            type=int,
            help=_("Of these, tokens of prompt, for idle → peak. Default: half."),
        ),
        shared("--tp"),
        shared("--pp"),
        shared("--ep"),
        shared("--dp"),
        shared("--dtype"),
        shared("--kv-cache-dtype"),
        shared("--engine"),
        shared("--gpu-memory-utilization"),
        shared("--max-num-seqs"),
        shared("--max-num-batched-tokens"),
        shared("--enforce-eager"),
        option("--kv-cache-memory-bytes", metavar="SIZE", help=_("KV cache of this size per device, such as 8GiB.")),
        shared("--quantization"),
        shared("--memory"),
        option(
            "--memory-in-use",
            metavar="SIZE",
            help=_("Memory of each device that others hold when the engine starts, such as 5GiB (see nvidia-smi)."),
        ),
        option(
            "--ctx-size",
            metavar="TOKENS",
            type=int,
            help=_("llama.cpp: tokens of all slots together, in place of --max-len."),
        ),
        option("--parallel", metavar="N", type=int, help=_("llama.cpp: slots, sequences at once.")),
        option("--ubatch-size", metavar="TOKENS", type=int, help=_("llama.cpp: tokens of one step.")),
        option("--cache-type-k", metavar="TYPE", help=_("llama.cpp: type of keys in the KV cache, such as q8_0.")),
        option("--cache-type-v", metavar="TYPE", help=_("llama.cpp: type of values in the KV cache.")),
        option("--swa-full", is_flag=True, help=_("llama.cpp: keep whole sequences in layers with windows too.")),
        option(
            "--mem-fraction-static",
            metavar="SHARE",
            type=float,
            help=_("SGLang: share of free memory for weights and pools."),
        ),
        option("--context-length", metavar="TOKENS", type=int, help=_("SGLang: the same as --max-len.")),
        option("--max-running-requests", metavar="N", type=int, help=_("SGLang: the same as --max-num-seqs.")),
        option(
            "--chunked-prefill-size",
            metavar="TOKENS",
            type=int,
            help=_("SGLang: the same as --max-num-batched-tokens."),
        ),
        option("--page-size", metavar="TOKENS", type=int, help=_("SGLang: tokens of a page of its pool.")),
        option("--max-total-tokens", metavar="TOKENS", type=int, help=_("SGLang: tokens of its pool at most.")),
        option("--disable-cuda-graph", is_flag=True, help=_("SGLang: the same as --enforce-eager.")),
        shared("--cpu-offload-gb"),
        shared("--speculative-config"),
        shared("--cloud"),
        shared("--assume"),
        as_json(),
        plot(),
        lang(),
    ],
)

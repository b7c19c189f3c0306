"""The engine's own command for a deployment, from its options or from the command that was pasted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from narrows.deployment import Deployment
from narrows.deployment.cache import cache_flag
from narrows.engines.speculative import SGLANG_ALGORITHMS
from narrows.models import ModelSpec
from narrows.precision.per_tensor import PerTensor

if TYPE_CHECKING:
    from narrows.engines.command import EngineCommand

_FLAGS = {
    "--max-len": "--max-model-len",
    "--batch": "--max-num-seqs",
    "--tp": "--tensor-parallel-size",
    "--pp": "--pipeline-parallel-size",
    "--dp": "--data-parallel-size",
    "--kv-cache-dtype": "--kv-cache-dtype",
    "--gpu-memory-utilization": "--gpu-memory-utilization",
    "--kv-cache-memory-bytes": "--kv-cache-memory-bytes",
    "--max-num-seqs": "--max-num-seqs",
    "--max-num-batched-tokens": "--max-num-batched-tokens",
    "--enforce-eager": "--enforce-eager",
}
"""Flags of a mend → flags of the engine; what is not here (`--gpu`) is not in the engine's hands."""


def served_name(model: ModelSpec) -> str:
    """What a server is told to load: the model by its name, or the GGUF file of it."""
    scheme = model.precision.scheme
    if not isinstance(scheme, PerTensor):
        return model.name
    planned = f"{model.name.rpartition('/')[2]}-{scheme.kind}.gguf"
    return model.source if model.source.lower().endswith(".gguf") else planned


def serve_command(
    deployment: Deployment, options: dict[str, Any], pasted: EngineCommand | None, change: str = "", load: int = 1
) -> str:
    """`vllm serve …` for a deployment, with the change of a mend made in it; `load` sequences at once for llama.cpp.

    options: as `deploy` takes them; what the engine would choose by itself is left out.
    """
    if deployment.engine.name == "llama.cpp":
        return _llama_server(deployment, change, load)
    if deployment.engine.name == "sglang":
        return _sglang_server(deployment, options, pasted, change)
    changes = _changes(change, _FLAGS)
    if pasted is not None:
        return _corrected(pasted, changes, "--max-num-seqs", options["max_num_seqs"])
    values: dict[str, Any] = {
        "--tensor-parallel-size": _several(deployment.tensor_parallel),
        "--pipeline-parallel-size": _several(deployment.pipeline_parallel),
        "--data-parallel-size": _several(deployment.attention_data_parallel),
        "--enable-expert-parallel": "" if deployment.expert_parallel > 1 else None,
        "--max-model-len": options["max_length"],
        "--max-num-seqs": options["max_num_seqs"],
        "--max-num-batched-tokens": options["max_num_batched_tokens"],
        "--gpu-memory-utilization": options["utilization"],
        "--kv-cache-memory-bytes": options["kv_cache_memory_bytes"],
        "--dtype": options["dtype"] if options["dtype"] != "auto" else None,
        "--kv-cache-dtype": cache_flag(deployment, options["kv_cache_dtype"]),
        "--quantization": options["quantization"],
        "--enforce-eager": "" if options["enforce_eager"] else None,
        "--speculative-config": deployment.draft.asked if deployment.draft is not None else None,
        "--cpu-offload-gb": f"{deployment.offload / 2**30:.5g}" if deployment.offload else None,
    }
    return _joined([deployment.engine.name, "serve", served_name(deployment.model)], values | changes)


def _several(count: int) -> int | None:
    """A size that is said where it is more than one."""
    return count if count > 1 else None


def _changes(change: str, flags: dict[str, str]) -> dict[str, str | None]:
    """The flags of a mend as the engine's, with their values; "" where a flag has none."""
    found: dict[str, str | None] = {}
    flag: str | None = None
    for word in change.split():
        if word.startswith("--"):
            flag = flags.get(word)
            if flag is not None:
                found[flag] = ""
        elif flag is not None:
            found[flag] = word
    return found


def _corrected(pasted: EngineCommand, changes: dict[str, str | None], flag: str, sequences: int | None) -> str:
    """The pasted command with changes, and with the sequences at once that it was asked for, by the engine's flag."""
    if sequences != pasted.options.get("max_num_seqs"):
        changes.setdefault(flag, str(sequences))
    return pasted.corrected(changes)


def _joined(words: list[str], values: dict[str, Any]) -> str:
    """A command line; values: flag → value, "" where it has none, None where it is left out."""
    from shlex import join

    for flag, value in values.items():
        if value is not None:
            words += [flag, str(value)] if value != "" else [flag]
    return join(words)


_SGLANG_FLAGS = {
    "--max-len": "--context-length",
    "--batch": "--max-running-requests",
    "--max-num-seqs": "--max-running-requests",
    "--max-num-batched-tokens": "--chunked-prefill-size",
    "--tp": "--tp",
    "--pp": "--pp",
    "--dp": "--dp-size",
    "--ep": "--ep-size",
    "--kv-cache-dtype": "--kv-cache-dtype",
    "--mem-fraction-static": "--mem-fraction-static",
    "--max-total-tokens": "--max-total-tokens",
    "--enforce-eager": "--disable-cuda-graph",
}
"""Flags of a mend → flags of SGLang."""


def _sglang_draft(deployment: Deployment) -> dict[str, str | None]:
    """What drafts, in SGLang's flags."""
    draft = deployment.draft
    if draft is None:
        return {}
    named = {method: algorithm for algorithm, method in SGLANG_ALGORITHMS.items()}
    return {
        "--speculative-algorithm": named.get(draft.method, draft.method),
        "--speculative-draft-model-path": draft.model.name if draft.model is not None else None,
        "--speculative-num-steps": str(draft.tokens),
    }


def _sglang_server(deployment: Deployment, options: dict[str, Any], pasted: EngineCommand | None, change: str) -> str:
    """`python -m sglang.launch_server …`, or the pasted command, with the change of a mend."""
    changes = _changes(change, _SGLANG_FLAGS)
    cache = changes.get("--kv-cache-dtype")
    if cache in _SGLANG_CACHES:
        changes["--kv-cache-dtype"] = _SGLANG_CACHES[cache]
    if changes.pop("--dp-size", None) == "1":
        # --tp counts the ranks of all replicas
        alone = changes.get("--tp") or str(deployment.tensor_parallel)
        changes |= {"--dp": None, "--enable-dp-attention": None, "--tp": alone if alone != "1" else None}
    if pasted is not None:
        return _corrected(pasted, changes, "--max-running-requests", options["max_num_seqs"])
    replicas = deployment.attention_data_parallel
    values: dict[str, Any] = {
        "--model-path": served_name(deployment.model),
        "--tp": _several(deployment.ranks_per_stage),
        "--dp": _several(replicas),
        "--enable-dp-attention": "" if replicas > 1 else None,
        "--ep-size": _several(deployment.expert_parallel),
        "--pp": _several(deployment.pipeline_parallel),
        "--context-length": options["max_length"],
        "--mem-fraction-static": options["utilization"],
        "--max-running-requests": options["max_num_seqs"],
        "--chunked-prefill-size": options["max_num_batched_tokens"],
        "--page-size": options["page_size"],
        "--max-total-tokens": options["max_total_tokens"],
        "--dtype": options["dtype"] if options["dtype"] != "auto" else None,
        "--kv-cache-dtype": cache_flag(deployment, options["kv_cache_dtype"]),
        "--quantization": options["quantization"],
        "--disable-cuda-graph": "" if options["enforce_eager"] else None,
        **_sglang_draft(deployment),
    }
    return _joined(["python", "-m", "sglang.launch_server"], values | changes)


_SGLANG_CACHES = {"fp8": "fp8_e4m3"}
"""Formats of a mend as SGLang spells them."""


def _llama_server(deployment: Deployment, change: str, load: int) -> str:
    """`llama-server …`: the context of all slots together, the slots, all layers on the device."""
    from shlex import join

    changed = dict(zip(change.split()[::2], change.split()[1::2], strict=False))
    length = int(changed.get("--max-len", deployment.max_length))
    slots = int(changed.get("--max-num-seqs", changed.get("--batch", load)))
    each = -(-length // 256) * 256
    keys = changed.get("--cache-type-k", changed.get("--kv-cache-dtype", _cache_name(deployment.kv.name)))
    values = changed.get("--kv-cache-dtype", _cache_name((deployment.kv_v or deployment.kv).name))
    found = [
        "llama-server",
        "-m",
        served_name(deployment.model),
        "-ngl",
        "99",
        "-c",
        str(each * slots),
        "-np",
        str(slots),
    ]
    step = changed.get("--max-num-batched-tokens", str(deployment.max_num_batched_tokens))
    if step != "512":
        found += ["-ub", step]
    if keys != "f16":
        found += ["-ctk", keys]
    if values != "f16":
        found += ["-ctv", values, "-fa", "on"]
    if deployment.draft_model is not None:
        found += ["-md", served_name(deployment.draft_model)]
    return join([*found, "--swa-full"] if deployment.swa_full else found)


def _cache_name(name: str) -> str:
    """A format as llama.cpp's flags spell it."""
    return {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}.get(name, name.lower())

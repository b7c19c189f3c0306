"""The options of a deployment that `fit`, `roofline` and `load` share: what each is by itself, and what it sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from narrows.answers.pasted import pasted_options, read_pasted, with_experts_shared
from narrows.models import ModelSpec, load_model
from narrows.models.named import stored_as_named
from narrows.precision.named import named_scheme
from narrows.text import BadInput, Text

if TYPE_CHECKING:
    from narrows.engines.command import EngineCommand


class Option(NamedTuple):
    """sets: the parameter of `deploy`. usual: what the option is where it is not given."""

    sets: str
    usual: Any = None


OPTIONS = {
    "engine": Option("engine", "vllm"),
    "tp": Option("tensor_parallel", 1),
    "pp": Option("pipeline_parallel", 1),
    "ep": Option("expert_parallel", 1),
    "dp": Option("attention_data_parallel", 1),
    "dtype": Option("dtype", "auto"),
    "kv_cache_dtype": Option("kv_cache_dtype", "auto"),
    "max_len": Option("max_length"),
    "max_num_seqs": Option("max_num_seqs"),
    "max_num_batched_tokens": Option("max_num_batched_tokens"),
    "gpu_memory_utilization": Option("utilization"),
    "enforce_eager": Option("enforce_eager", False),
    "kv_cache_memory_bytes": Option("kv_cache_memory_bytes"),
    "quantization": Option("quantization"),
    "memory": Option("device_memory"),
    "memory_in_use": Option("memory_in_use"),
    "cache_type_v": Option("cache_type_v"),
    "swa_full": Option("swa_full", False),
    "page_size": Option("page_size"),
    "max_total_tokens": Option("max_total_tokens"),
    "cpu_offload_gb": Option("cpu_offload_gb"),
    "draft": Option("draft"),
    "adapters": Option("adapters"),
    "engine_core": Option("engine_core"),
}
"""Those of a deployment. The last three are no flags of ours: a start command says them, or what drafts its config."""


def asked_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options among the arguments of a question, in its order: all but the model, the accelerators, the progress.

    given: `locals()` of a function that has done nothing yet, so that no option can be forgotten.
    """
    return {name: value for name, value in given.items() if name not in ("model", "gpu", "progress")}


def said_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The options that are not what they are by themselves: what a command has to say, and what a pasted one yields to.

    An option that is none of a deployment is by itself None, False or empty.
    """
    usual = {name: option.usual for name, option in OPTIONS.items()}
    return {
        name: value
        for name, value in asked.items()
        if value is not None and value is not False and value != [] and value != usual.get(name)
    }


def deploy_options(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of `deploy` from options; of those that a question does not have, what they are by themselves."""
    return {option.sets: wanted.get(name, option.usual) for name, option in OPTIONS.items()}


def named_devices(gpu: str | Sequence[str]) -> list[str]:
    """The names that were given. Raises BadInput where there is none."""
    names = [gpu] if isinstance(gpu, str) else list(gpu)
    if not any(names):
        raise BadInput("no accelerator given; add --gpu, such as --gpu l40s ('narrows gpus' lists them)")
    return names


def read_model(
    model: str | ModelSpec,
    asked: Mapping[str, Any],
    notes: list[Text],
    warnings: list[Text],
    progress: Callable[[int, int], None] | None,
) -> tuple[ModelSpec, dict[str, Any], EngineCommand | None]:
    """(the model, its options, the command that was pasted in its place): options that were given beat the command's.

    What of the command is left out is said in notes, or in warnings where it changes memory. Raises BadInput.
    """
    said = said_of(asked)
    pasted = read_pasted(model) if isinstance(model, str) else None
    if pasted is not None:
        model, said = pasted.model, {**pasted_options(pasted, said.get("engine"), notes, warnings), **said}
    spec = model if isinstance(model, ModelSpec) else load_model(model, assume=asked["assume"], progress=progress)
    if pasted is not None:
        said = with_experts_shared(said, spec, notes)
    return spec, {**asked, **said}, pasted


def as_planned(spec: ModelSpec, wanted: dict[str, Any]) -> ModelSpec:
    """The model as the type of file that `quantization` names; the option is then used up. Raises BadInput.

    A file that is planned for is the model itself, and nothing that the engine makes of it.
    """
    name = wanted["quantization"]
    if name is None or named_scheme(name) is None:
        return spec
    wanted["quantization"] = None
    return stored_as_named(spec, name)

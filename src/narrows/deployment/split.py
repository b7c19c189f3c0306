"""How a model is cut over devices: what tensor parallelism can share out evenly, and the stages of a pipeline."""

from __future__ import annotations

from narrows.deployment.counts import MOST_RANKS, whole
from narrows.engines import Engine
from narrows.models import ModelSpec
from narrows.models.experts import expert_tensors
from narrows.models.tensors import Tensor
from narrows.text import BadInput, Text

_UNIT = {
    "mla": Text("attention heads"),
    "attention.k": Text("KV heads"),
    "attention.v": Text("KV heads"),
    "attention": Text("attention heads"),
    "csa.o": Text("groups of attention heads"),
    "csa": Text("attention heads"),
    "mlp": Text("units of feed-forward width"),
    "experts": Text("units of expert width"),
    "shared": Text("units of shared-expert width"),
    "mamba": Text("state-space channels"),
    "delta": Text("linear-attention key heads"),
    "lightning": Text("linear-attention heads"),
    "conv": Text("convolution channels"),
    "hybrid_mamba": Text("state-space channels"),
    "cross.k": Text("KV heads"),
    "cross.v": Text("KV heads"),
    "cross": Text("attention heads"),
    "lru": Text("blocks of the recurrence"),
    "rwkv": Text("time-mixing channels"),
    "mlstm": Text("mLSTM heads"),
}
_PIECES = Text("pieces of a tensor")


def _uneven(tensor: Tensor, tp: int) -> bool:
    """Whether `tp` ranks cannot share this tensor: KV heads may also be replicated evenly, vocabularies are padded."""
    if tensor.shards == 1 or tensor.role in ("embedding", "head", "per_layer.embedding") or tensor.shards % tp == 0:
        return False
    kv = ("attention.k", "attention.v", "cross.k", "cross.v")
    return not (tensor.role.startswith(kv) and tp % tensor.shards == 0)


def check_split(model: ModelSpec, tp: int, pp: int) -> None:
    """Refuse a tensor- or pipeline-parallel split that an engine cannot make."""
    if pp > model.layers:
        raise BadInput(
            "--pp is {pp}, and the model has {layers} layers; use at most one stage per layer",
            pp=pp,
            layers=model.layers,
        )
    if tp == 1:
        return
    tensors = [tensor for layer, _ in model.kinds for tensor in layer.applied()]
    for tensor in tensors:
        if _uneven(tensor, tp):
            works = [n for n in range(2, 65) if not any(_uneven(t, n) for t in tensors)]
            unit = next((name for prefix, name in _UNIT.items() if tensor.role.startswith(prefix)), _PIECES)
            if works:
                raise BadInput(
                    "--tp {tp} does not divide {count} {unit} evenly; use one of: 1, {works}",
                    tp=tp,
                    count=tensor.shards,
                    unit=unit,
                    works=", ".join(map(str, works)),
                )
            raise BadInput(
                "--tp {tp} does not divide {count} {unit} evenly; use --pp instead",
                tp=tp,
                count=tensor.shards,
                unit=unit,
            )


def stages(layers: int, pipeline_parallel: int) -> list[range]:
    """Layers of each pipeline stage, as vLLM cuts them: evenly, leftovers one each to the stages before the last.

    Source: vLLM `get_pp_indices` (vllm/distributed/utils.py, Apache-2.0).
    """
    base, left = divmod(layers, pipeline_parallel)
    sizes = [base] * pipeline_parallel
    for i in range(2, left + 2):
        sizes[-i] += 1
    found, first = [], 0
    for size in sizes:
        found.append(range(first, first + size))
        first += size
    return found


def replicated(engine: Engine, tp: int, replicas: int, expert_parallel: int) -> list[Text]:
    """What is said of replicas of attention, and of experts given out. Raises BadInput where an engine has none."""
    found = []
    if engine.name == "vllm" and expert_parallel not in (1, tp * replicas):
        found.append(
            Text(
                "vLLM gives experts out over all {ranks} ranks (--enable-expert-parallel) or over none: no flag of it "
                "says {parallel}",
                ranks=tp * replicas,
                parallel=expert_parallel,
            )
        )
    if replicas == 1:
        return found
    if engine.name == "llama.cpp":
        raise BadInput("--dp is {dp}, and llama.cpp has no replicas; leave it out", dp=replicas)
    return [
        *found,
        Text(
            "{dp} replicas of attention of {tp} devices each share the experts: batch, KV tokens and capacity are of "
            "one replica",
            dp=replicas,
            tp=tp,
        ),
    ]


def check_experts(model: ModelSpec, tp: int, expert_parallel: int, replicas: int, engine: str = "") -> None:
    """Refuse to share out experts that are not there, or over ranks that are not there.

    vLLM gives the first ranks one more where experts do not come out even (`determine_expert_map`, Apache-2.0).
    """
    for flag, value in (("--ep", expert_parallel), ("--dp", replicas)):
        whole(flag, value, MOST_RANKS)
    if expert_parallel == 1 and replicas == 1:
        return
    experts = expert_tensors(model)
    if not experts:
        raise BadInput(
            "{model} has no experts, so there is nothing that replicas or ranks could share; use --tp", model=model.name
        )
    ranks = tp * replicas
    if ranks % expert_parallel:
        raise BadInput(
            "experts cannot be shared out over {parallel} of {ranks} ranks; use a divisor of {ranks}",
            parallel=expert_parallel,
            ranks=ranks,
        )
    width = ranks // expert_parallel
    for tensor in experts:
        uneven = tensor.copies < expert_parallel if engine == "vllm" else tensor.copies % expert_parallel
        if uneven or (tensor.shards > 1 and tensor.shards % width):
            raise BadInput(
                "{experts} experts of {shards} units of width cannot be shared out over {parallel} ranks with each "
                "expert cut in {width}",
                experts=tensor.copies,
                shards=tensor.shards,
                parallel=expert_parallel,
                width=width,
            )

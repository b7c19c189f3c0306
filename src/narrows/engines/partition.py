"""Quantized weights cut over tensor-parallel ranks: groups and blocks must stay whole, or engines do not start.

Sources: vLLM's `validate_fp8_block_shape` (the same in SGLang), its GPTQ and AWQ linear layers,
`verify_marlin_supports_shape` and bitsandbytes loader (Apache-2.0). Qwen3-235B-A22B-FP8 on 8 ranks: 1536 / 8 = 192,
"not divisible by weight quantization block_n = 128". Experts in packed integers have kernels that halve a group, so
they are not refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from narrows.models import ModelSpec
from narrows.models.dialects import DIALECTS
from narrows.models.tensors import Tensor
from narrows.precision import Scheme
from narrows.precision.floats import Fp8Block
from narrows.precision.integers import Awq, CompressedInt, Gptq, GroupedInt
from narrows.text import BadInput, Text

_BY_ROW = (".o", ".down", ".out")
"""Roles whose input is cut; of all others it is the output."""


def check_partition(model: ModelSpec, tp: int, engine: str, width: int) -> tuple[Text, ...]:
    """Refuse a split that cuts through a group or a block of a quantized weight; of experts it is said only.

    width: in how many pieces an expert is cut; given out whole (expert parallelism, 1), nothing is.
    """
    if tp > 1 and engine == "vllm" and model.precision.method == "bitsandbytes":
        raise BadInput(
            "--tp is {tp}, and vLLM does not split a checkpoint that bitsandbytes has quantized; use --pp, or the "
            "unquantized model with --quantization bitsandbytes",
            tp=tp,
        )
    cuts = list(_cuts(model))
    experts = [cut for cut in cuts if cut[0].role.startswith("experts.")]
    found = _misfit([cut for cut in cuts if cut not in experts], tp)
    if found is not None:
        tensor, size, unit = found
        works = next((n for n in range(tp - 1, 1, -1) if _misfit(cuts, n) is None and _even(cuts, n)), 1)
        raise BadInput(
            "--tp {tp} leaves {size} values of '{role}' to a rank, which the {unit} that share a scale do not divide, "
            "so the engine does not start; use --tp {works}, or --pp",
            tp=tp,
            size=size,
            role=tensor.role,
            unit=unit,
            works=works,
        )
    cut = _misfit(experts, width)
    if cut is None:
        return ()
    return (
        Text(
            "experts cut into {width} pieces leave {size} values of an expert to a rank, which the {unit} that share "
            "a scale do not divide: vLLM and SGLang start with whole experts on each rank only "
            "(--enable-expert-parallel)",
            width=width,
            size=cut[1],
            unit=cut[2],
        ),
    )


def _cuts(model: ModelSpec) -> Iterator[tuple[Tensor, Scheme]]:
    """Tensors that ranks share, with each scheme they are stored in."""
    names = DIALECTS[model.dialect]
    for layer, indices in model.kinds:
        for tensor in layer.tensors():
            if tensor.use == "linear" and tensor.shards > 1:
                schemes: list[Scheme] = []
                for share in (one for i in indices for one in model.shares(names[tensor.role], tensor, i)):
                    # a scheme by tensor (a GGUF file type) has a table, and no hash
                    if share.scheme not in schemes:
                        schemes.append(share.scheme)
                yield from ((tensor, scheme) for scheme in schemes)


def _misfit(cuts: list[tuple[Tensor, Scheme]], tp: int) -> tuple[Tensor, int, int] | None:
    """The first tensor whose part on one rank is not whole units: (tensor, its size there, the unit)."""
    for tensor, scheme in cuts:
        by_row = tensor.role.endswith(_BY_ROW)
        unit = _unit(scheme, by_row, tensor.role.startswith("experts."))
        whole = tensor.shape[1] if by_row else tensor.shape[0]
        part = -(-whole * max(1, -(-tensor.shards // tp)) // tensor.shards)
        if unit > 1 and part < whole and part % unit:
            return tensor, part, unit
    return None


def _even(cuts: list[tuple[Tensor, Scheme]], tp: int) -> bool:
    return all(tensor.shards % tp == 0 or tp % tensor.shards == 0 for tensor, _ in cuts)


def _unit(scheme: Scheme, by_row: bool, experts: bool) -> int:
    """Values along the cut that must stay together; 1 where any cut will do."""
    if isinstance(scheme, Fp8Block):
        return scheme.columns if by_row else scheme.rows
    if isinstance(scheme, Gptq | Awq | CompressedInt | GroupedInt) and by_row and not experts:
        return max(scheme.group, 1)
    return 1

"""What an engine makes of a model's weights: as the checkpoint has them, or quantized while they load.

The facts are in `quantization.py` and `partition.py`, which unquantized models do not need.
"""

from __future__ import annotations

import msgspec

from narrows.models import ModelSpec
from narrows.models.experts import has_experts
from narrows.precision import UNQUANTIZED
from narrows.text import BadInput, Text


def as_kept(model: ModelSpec, wanted: str | None, engine: str, assumptions: list[Text]) -> ModelSpec:
    """The model as the engine keeps it: quantized while loading where that is asked for, else as it is stored."""
    precision = model.precision
    if precision.scheme is UNQUANTIZED and wanted is None:
        return model
    from narrows.engines.quantization import kept, loads, names_of

    if precision.scheme is UNQUANTIZED:
        return _made_on_load(model, str(wanted), engine, assumptions)
    if wanted is not None and precision.method and wanted.lower() not in names_of(precision.method):
        raise BadInput(
            "--quantization is {value}, and the checkpoint is stored as {own}, which engines refuse; leave it out, or "
            "give the unquantized model",
            value=wanted[:40],
            own=precision.method[:40],
        )
    if precision.method and not loads(engine, precision.method):
        assumptions.append(
            Text(
                "{engine} does not load checkpoints quantized by {method}; the figures are what they would take",
                engine=engine,
                method=precision.method[:40],
            )
        )
    scheme = kept(precision.scheme) if engine == "vllm" else precision.scheme
    if scheme == precision.scheme:
        return model
    assumptions.append(Text("double quantization is undone while the weights load, as vLLM does"))
    return msgspec.structs.replace(model, precision=msgspec.structs.replace(precision, scheme=scheme), measured=None)


def refuses(model: ModelSpec, engine: str) -> bool:
    """Whether the engine does not load a checkpoint that is quantized so, whatever memory there is."""
    precision = model.precision
    if precision.scheme is UNQUANTIZED or not precision.method:
        return False
    from narrows.engines.quantization import loads

    return not loads(engine, precision.method)


def _made_on_load(model: ModelSpec, wanted: str, engine: str, assumptions: list[Text]) -> ModelSpec:
    """An unquantized checkpoint whose weights the engine quantizes while it loads them."""
    from narrows.engines.quantization import methods_on_load, on_load

    known = methods_on_load(engine)
    made = on_load(engine if known else "vllm", wanted.lower())
    if made is None:
        raise BadInput(
            "--quantization is {value}, and the checkpoint is not quantized; while loading, {engine} can make: "
            "{known}. For any other method give a checkpoint that is stored so",
            value=wanted[:40],
            engine=engine if known else "vllm",
            known=", ".join(known or methods_on_load("vllm")),
        )
    if made.of == "experts" and not has_experts(model):
        raise BadInput(
            "--quantization is {value}, which quantizes experts alone, and the model has none; leave it out",
            value=wanted[:40],
        )
    if not known:
        assumptions.append(
            Text(
                "what if the weights were stored as {scheme}: what {engine} itself makes of --quantization {value} is "
                "not known",
                scheme=made.rule.label,
                engine=engine,
                value=wanted[:40],
            )
        )
    elif wanted.lower() == "fp8":
        assumptions.append(Text("weights are quantized to FP8 while they load: the checkpoint itself is not"))
    else:
        assumptions.append(
            Text(
                "weights are quantized to {scheme} while they load: the checkpoint itself is not",
                scheme=made.rule.label,
            )
        )
    if made.whole_first:
        assumptions.append(
            Text("the engine may hold the weights unquantized before it converts them, so loading can need more memory")
        )
    precision = msgspec.structs.replace(model.precision, scheme=made.rule, quantized_roles=made.roles)
    # what the files hold is not what the engine keeps of them
    return msgspec.structs.replace(model, precision=precision, measured=None)


def partitioned(model: ModelSpec, tp: int, engine: str, width: int) -> tuple[Text, ...]:
    """What to say of quantized weights cut over `tp` ranks, and of experts each cut in `width`.

    Raises BadInput where the engine does not start.
    """
    if max(tp, width) == 1 or model.precision.scheme is UNQUANTIZED:
        return ()
    from narrows.engines.partition import check_partition

    return check_partition(model, tp, engine, width)

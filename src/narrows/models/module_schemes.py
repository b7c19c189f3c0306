"""In which scheme each tensor is stored: the checkpoint's rule, its exceptions, and experts treated singly."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from narrows.models.tensors import Tensor
from narrows.precision import UNQUANTIZED, Scheme
from narrows.precision.selection import bare
from narrows.text import BadInput, Text

if TYPE_CHECKING:
    from narrows.models.spec import ModelSpec, Precision

HEAD_AGAIN = "head again"
"""A habit of tools: a tied head is stored a second time; most of their files have it, and no config says so."""
NO_PREDICTION = "no prediction layers"
"""A habit of tools: layers for multi-token prediction are left out."""
MOST_MODULES = 200_000
"""Modules of one kind that narrows looks up one by one (experts × layers); the largest model known has 25,000."""
_OF_LAYERS = ("router", "shared_gate", "mtp.", "mla.", "per_layer.", "embedding", "head")
"""Roles of plain tensors of the decoder, which stand in a tower too where it is a prediction layer."""
_GATHERED = ("pos_embed", "position", "class_embedding", "patch_embed")
"""Tables and convolutions of towers, which are no linear layers; nor is what is not called a weight."""


_QUANTIZED_NAME = re.compile(
    r"(?<![a-z0-9])(gptq|awq|fp8|nvfp4|mxfp4|int[48]|w[48]a(?:4|8|16)|bnb|[2-8]bit|exl[23]|hqq|aqlm)(?![a-z0-9])", re.I
)
"""How publishers tell quantized files by their names."""


class Share(msgspec.Struct, frozen=True):
    """Copies of a tensor that are stored alike; `active` of them are used by one token."""

    scheme: Scheme
    copies: int
    active: int | None

    def of(self, tensor: Tensor) -> Tensor:
        """The tensor with these copies only."""
        if self.copies == tensor.copies:
            return tensor
        return msgspec.structs.replace(tensor, copies=self.copies, active=self.active)


def reached(precision: Precision, tensor: Tensor, *, tower: str = "") -> bool:
    """Whether the rule applies to tensors of this kind at all, exceptions aside; tower: the name of one in a tower."""
    if precision.scheme is UNQUANTIZED:
        return False
    if tensor.use == "linear":
        return not precision.quantized_roles or tensor.role.startswith(precision.quantized_roles)
    if len(tensor.shape) != 2 or not precision.reach:
        return False
    if tensor.role in ("head", "embedding"):
        return tensor.role in precision.reach
    if tensor.use != "plain":
        return False
    if not tower:
        return "router" in precision.reach
    other = tensor.role.startswith(_OF_LAYERS) or any(word in tensor.role for word in _GATHERED)
    return "tower" in precision.reach and tower.endswith(".weight") and not other


def scheme_of(precision: Precision, module: str) -> Scheme:
    """The scheme of one module that the rule reaches."""
    if precision.exclusions.cover(module):
        return UNQUANTIZED
    found = precision.overrides.of(module)
    return precision.scheme if found is None else found


def shares(precision: Precision, tensor: Tensor, pattern: str, index: int) -> tuple[Share, ...]:
    """How the copies of a tensor of layer `index` are stored: all alike, unless the config names single experts.

    pattern: its name in the file, with `{}` for the layer and, where experts have tensors of their own, for the expert.
    """
    module = pattern.replace("{}", str(index), 1).removesuffix(".weight")
    single = precision.exclusions.single_expert or precision.overrides.patterns.single_expert
    if single is None or tensor.copies == 1:
        return (Share(scheme_of(precision, module.replace("{}", "0")), tensor.copies, tensor.active),)
    if "{}" not in module:
        raise BadInput(
            "'quantization_config' leaves out single experts ('{entry}'), and this model's file keeps all experts of a "
            "layer in one tensor; give the original model's config.json",
            entry=single[:80],
        )
    counts: dict[Scheme, int] = {}
    for expert in range(tensor.copies):
        scheme = scheme_of(precision, module.replace("{}", str(expert)))
        counts[scheme] = counts.get(scheme, 0) + 1
    found, left = [], tensor.active
    for number, (scheme, copies) in enumerate(counts.items(), 1):
        # a token's experts are as likely of one kind as of another
        active = left if left is None or number == len(counts) else (tensor.active or 0) * copies // tensor.copies
        found.append(Share(scheme, copies, active))
        left = None if left is None else left - (active or 0)
    return tuple(found)


def tower_schemes(precision: Precision, tensor: Tensor, pattern: str, repeats: int) -> list[tuple[Scheme, int]]:
    """How `repeats` tensors of a tower are stored, by scheme: a config may leave out some of its layers."""
    if not reached(precision, tensor, tower=pattern):
        return [(UNQUANTIZED, repeats)]
    module = pattern.removesuffix(".weight")
    if "{}" not in pattern or tensor.copies > 1:
        return [(scheme_of(precision, module.replace("{}", "0")), repeats)]
    return list(Counter(scheme_of(precision, module.replace("{}", str(i))) for i in range(repeats)).items())


def check_count(precision: Precision, tensor: Tensor, layers: int) -> None:
    """Refuse to look up more modules one by one than any model has."""
    single = precision.exclusions.single_expert or precision.overrides.patterns.single_expert
    if single is not None and tensor.copies * layers > MOST_MODULES:
        raise BadInput(
            "'quantization_config' names single experts ('{entry}'), and the model has too many of them to look up",
            entry=single[:80],
        )


def unmet(model: ModelSpec) -> tuple[Text, ...]:
    """What to say where a config lists, module by module, what is quantized, by names that the model does not have.

    What such a list does not meet counts as unquantized, which is far more bytes than the file holds.
    """
    entries = model.precision.overrides.patterns.entries
    schemes = model.precision.overrides.schemes
    if not entries or entries[-1] != "*" or schemes[-1] is not UNQUANTIZED:
        return ()
    kinds = {
        _NUMBER.sub(".{}", ".".join(bare(entry.split(".")))): entry for entry in reversed(entries) if _plain(entry)
    }
    for row in model.tensor_table():
        pieces = _NUMBER.sub(".{}", ".".join(bare(row.name.removesuffix(".weight").split(".")))).split(".")
        for end in range(1, len(pieces) + 1):
            kinds.pop(".".join(pieces[:end]), None)
    missed = [entry for kind, entry in kinds.items() if not kind.startswith(_PREDICTION)]
    if not missed:
        return ()
    return (
        Text(
            "quantization_config lists modules that this model has not by that name ({names}); what they are counts as "
            "unquantized",
            names=", ".join(name[:80] for name in sorted(missed)[:3]),
        ),
    )


_NUMBER = re.compile(r"\.(\d+|\{\})(?=\.|$)")
_PREDICTION = ("mtp",)


def _plain(entry: str) -> bool:
    """Whether an entry is the name of a module, not an expression or a single word."""
    return "." in entry and "*" not in entry and not entry.startswith("re:")


def as_written(model: ModelSpec) -> tuple[ModelSpec, tuple[Text, ...]]:
    """The model with what the tool that wrote the file stores besides or leaves out, and what to say of it.

    No server loads a second copy of a tied head.
    """
    habits, towers, notes = model.precision.habits, model.towers, []
    if NO_PREDICTION in habits and any(tower.name == "MTP layer" for tower in towers):
        towers = tuple(tower for tower in towers if tower.name != "MTP layer")
        notes.append(Text("the tool that wrote the file leaves out prediction layers, so they are not counted"))
    if HEAD_AGAIN in habits and model.head_tied:
        from narrows.models.spec import Tower

        elements, name = model.vocab * (model.embedding_width or model.hidden), "output head again"
        again = Tensor("beside", (elements,), "buffer")
        towers += (Tower(name, ((name, 1, again),), served=False, unique=False),)
        notes.append(
            Text(
                "most files of this kind hold the tied output head twice, so it is counted twice; servers load it once"
            )
        )
    return (msgspec.structs.replace(model, towers=towers), tuple(notes)) if notes else (model, ())


def called_quantized(model: ModelSpec, name: str) -> tuple[Text, ...]:
    """What to say where a name tells of a quantization that the config does not know of."""
    found = _QUANTIZED_NAME.search(name)
    if model.precision.method or found is None or "unquantized" in name.lower():
        return ()
    return (
        Text(
            "the name says {word}, and the config names no quantization, so weights are taken as unquantized; a "
            "quantize_config.json or hf_quant_config.json beside it would tell",
            word=found[0],
        ),
    )
